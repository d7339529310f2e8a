package local_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// TestTopology: a host gives the kinds that it is known to give, chooses the
// strongest, and says why nothing stronger.
func TestTopology(t *testing.T) {
	want, ok := here(t)
	if !ok {
		t.Skip("only a test host says what it has to give")
	}
	r := openRuntime(t, local.Config{})
	got, err := r.Containment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %s: %s", os.Getenv("TESTHOST_SESSION"), got.Kind, got.Reason)
	if got.Kind != want.auto {
		t.Errorf("got %s (%s), want %s", got.Kind, got.Reason, want.auto)
	}
	for _, a := range r.Attempts() {
		if a.Err != nil && len(a.Err.Error()) > 200 {
			t.Errorf("%s (%s): not a reason that people read: %v", a.Kind, a.Where, a.Err)
		}
	}
	for _, kind := range nativeKinds {
		r := openRuntime(t, local.Config{Containment: kind})
		c, err := r.Containment(t.Context())
		given := slices.Contains(want.gives, kind)
		switch {
		case given && err != nil:
			t.Errorf("%s: %v", kind, err)
		case given && (c.Kind != kind || !c.Complete):
			t.Errorf("%s: got %+v", kind, c)
		case !given && seam.CodeOf(err) != seam.CodeContainment:
			t.Errorf("%s: got %+v, %v, want it refused", kind, c, err)
		}
	}
	spec := seam.Spec{Argv: []string{"true"}, Dir: "/", Grace: time.Second, Require: seam.CompleteContainment}
	p, err := r.Spawn(t.Context(), spec)
	switch complete := len(want.gives) > 0; {
	case complete && err != nil:
		t.Error(err)
	case complete:
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
	case seam.CodeOf(err) != seam.CodeContainment:
		t.Errorf("complete containment was required, and the error is %v", err)
	}
}

// forEachNative runs a test with each native kind that this host gives.
func forEachNative(t *testing.T, test func(t *testing.T, kind seam.Kind)) {
	for _, kind := range kindsHere(t, nativeKinds...) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			test(t, kind)
		})
	}
}

// An adversary is a running program of testdata/adversary.py.
type adversary struct {
	seam.Process
	marker string // among the arguments of all that it starts
	cgroup string // the leader's, as the leader has it from the kernel
}

func adversarySpec(verb string) (spec seam.Spec, marker string) {
	marker = "marker-" + strings.ToLower(rand.Text())
	script, err := filepath.Abs(filepath.Join("testdata", "adversary.py"))
	if err != nil {
		panic(err)
	}
	return seam.Spec{
		Argv: []string{"python3", "-S", "-E", script, verb, marker}, Dir: "/",
		Stdin:  seam.Stdin{Mode: seam.Pipe},
		Stdout: seam.Output{Mode: seam.Pipe},
		Stderr: seam.Output{Mode: seam.Collect, MaxBytes: 4096},
		Grace:  300 * time.Millisecond,
		Drain:  50 * time.Millisecond,
	}, marker
}

// startAdversary returns once everything of the program is as it says.
func startAdversary(t testing.TB, r *local.Runtime, verb string) *adversary {
	t.Helper()
	spec, marker := adversarySpec(verb)
	p, err := r.Spawn(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	path, ready := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "ready ")
	if err != nil || !ready {
		t.Fatalf("%s: said %q and %q: %v", verb, line, p.Output(seam.Stderr).ReadFrom(0).Data, err)
	}
	return &adversary{Process: p, marker: marker, cgroup: path}
}

// alive lists the processes that have marker among their arguments, from the
// system and not from Corral. What has ended has no arguments.
func alive(t testing.TB, marker string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if bytes.Contains(cmdline, []byte(marker)) {
			found = append(found, fmt.Sprintf("%d %q", pid, cmdline))
		}
	}
	return found
}

// cgroupDir is where a cgroup is seen here.
func cgroupDir(t testing.TB, path string) string {
	t.Helper()
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && fields[2] == "cgroup2" {
			return filepath.Join(fields[1], path)
		}
	}
	t.Fatal("no cgroup2 is mounted")
	return ""
}

// checkEmpty: nothing of an adversary lives, as the kernel has it. It is called
// right after the proof, and waits for nothing.
func (a *adversary) checkEmpty(t testing.TB, native bool) {
	t.Helper()
	if left := alive(t, a.marker); len(left) > 0 {
		t.Errorf("proven empty, and alive are %s", left)
	}
	if !native {
		return
	}
	if !strings.Contains(a.cgroup, "/corral-") {
		t.Errorf("the leader ran in %s", a.cgroup)
	}
	events, err := os.ReadFile(filepath.Join(cgroupDir(t, a.cgroup), "cgroup.events"))
	if err == nil && !bytes.Contains(events, []byte("populated 0")) {
		t.Errorf("proven empty, and its cgroup says %q", events)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
		t.Error(err)
	}
}

// checkClosed: a runtime that was closed has left nothing.
func (a *adversary) checkClosed(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(cgroupDir(t, a.cgroup)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("closed, and its cgroup %s is there: %v", a.cgroup, err)
	}
}

func closeRuntime(t testing.TB, r *local.Runtime) {
	t.Helper()
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
