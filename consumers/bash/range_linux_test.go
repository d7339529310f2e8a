package bash_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/corral-world/corral/seam"
)

// A mark is in the environment of everything that a script starts, so that its
// range can be seen without asking Corral.
type mark struct {
	value string
	fifo  string // see ready
}

func newMark(t testing.TB) mark {
	t.Helper()
	m := mark{value: rand.Text(), fifo: filepath.Join(t.TempDir(), "ready")}
	if err := syscall.Mkfifo(m.fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// env goes into a request.
func (m mark) env() seam.Env {
	return seam.Env{seam.Set("RANGE_MARK", m.value), seam.Set("READY", m.fifo)}
}

// ready waits until the script has written to "$READY", and returns what.
func (m mark) ready(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(m.fifo)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// living returns the processes that carry the mark, by what they run.
func (m mark) living(t testing.TB) map[int]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[int]string)
	for _, file := range files {
		// One that ended meanwhile, and a zombie, has no environment.
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, []byte("RANGE_MARK="+m.value)) {
			continue
		}
		dir := filepath.Dir(file)
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		pid, _ := strconv.Atoi(filepath.Base(dir))
		found[pid] = string(bytes.ReplaceAll(argv, []byte{0}, []byte{' '}))
	}
	return found
}

// assertEmpty fails where anything lives that carries the mark.
func (m mark) assertEmpty(t testing.TB) {
	t.Helper()
	if living := m.living(t); len(living) > 0 {
		t.Errorf("still alive: %v", living)
	}
}

// kill sends a signal that Corral knows nothing of.
func kill(t testing.TB, pid string, sig syscall.Signal) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("not a pid: %v", err)
	}
	if err := syscall.Kill(n, sig); err != nil {
		t.Fatal(fmt.Errorf("kill %d: %w", n, err))
	}
}
