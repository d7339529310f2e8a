package local

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/seam"
)

// TestLimitsMakeGuardianMove: a guardian makes room for controllers, and goes on
// to be one: ranges are started beside it, and end with it.
func TestLimitsMakeGuardianMove(t *testing.T) {
	r, err := New(Config{WorldID: "test", Containment: seam.KindCgroup, Spill: SpillConfig{Dir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	launcher, err := r.selection.choose(t.Context())
	if err != nil {
		t.Skip(err)
	}
	l := launcher.(*cgroupLauncher)
	if l.vacate == nil {
		t.Skip("not in a delegated unit: its cgroup is this process's own")
	}
	spawn := func() seam.Process {
		p, err := r.Spawn(t.Context(), seam.Spec{Argv: []string{"sleep", "600"}, Dir: "/", Grace: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before := spawn()
	for range 2 {
		if err := l.vacate(); err != nil {
			t.Fatal(err)
		}
	}
	after := spawn()
	lives := func(dir string) []string {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(data))
	}
	moved := lives(filepath.Join(l.base, "guardian"))
	if left := lives(l.base); len(left) > 0 || len(moved) != 1 {
		t.Fatalf("in the unit's own cgroup live %s, in the leaf %s", left, moved)
	}
	guardian, err := strconv.Atoi(moved[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(guardian, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, p := range []seam.Process{before, after} {
		if outcome, err := p.Wait(t.Context()); err != nil || outcome.End != seam.EndSignaled {
			t.Errorf("got %+v, %v", outcome, err)
		}
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
