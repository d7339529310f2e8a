package local_test

import (
	"errors"
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// rawTerminal runs argv on a terminal as the pty package has it, and returns how
// much it printed.
func rawTerminal(b *testing.B, argv ...string) (n int) {
	b.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	master, err := pty.Start(cmd)
	if err != nil {
		b.Fatal(err)
	}
	defer master.Close()
	n = readAll(b, master)
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return n
}

func readAll(b *testing.B, r io.Reader) (n int) {
	b.Helper()
	buf := make([]byte, 64<<10)
	for {
		got, err := r.Read(buf)
		n += got
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO):
			return n
		case err != nil:
			b.Fatal(err)
		}
	}
}

// ourTerminal is rawTerminal with Corral's.
func ourTerminal(b *testing.B, r *local.Runtime, argv ...string) (n int) {
	b.Helper()
	t, err := r.SpawnTerminal(b.Context(), seam.TerminalSpec{Argv: argv, Dir: "/", Cols: 80, Rows: 24, Grace: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	n = readAll(b, t)
	if err := t.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkTerminalSpawn is true(1) on a terminal, to its end and the terminal's.
func BenchmarkTerminalSpawn(b *testing.B) {
	truePath, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	forEachKind(b, func(b *testing.B, r *local.Runtime, _ seam.Kind) {
		alternate(b, func() { ourTerminal(b, r, truePath) }, func() { rawTerminal(b, truePath) })
	})
}

// BenchmarkTerminalThroughput is output read as fast as it comes, beside a loop
// that reads the same from a terminal of the pty package.
func BenchmarkTerminalThroughput(b *testing.B) {
	const length = 16 << 20
	argv := []string{"head", "-c", strconv.Itoa(length), "/dev/zero"}
	r := openRuntime(b, local.Config{Containment: seam.KindGroup})
	b.SetBytes(length)
	check := func(n int) {
		if n != length {
			b.Fatalf("read %d bytes", n)
		}
	}
	alternate(b, func() { check(ourTerminal(b, r, argv...)) }, func() { check(rawTerminal(b, argv...)) })
}

// BenchmarkTerminalForeground is one inspection of an idle shell, which waits
// for input, and of a job that does not.
func BenchmarkTerminalForeground(b *testing.B) {
	r := openRuntime(b, local.Config{Containment: seam.KindGroup})
	for name, argv := range map[string][]string{"waits": {"cat"}, "does-not": {"sleep", "600"}} {
		b.Run(name, func(b *testing.B) {
			s := openScreen(b, r, argv...)
			s.until("a start", func(f seam.Foreground) bool { return f.InputKnown && f.WaitsForInput == (name == "waits") })
			for b.Loop() {
				if _, err := s.Foreground(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
