//go:build unix

package local_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/testproc"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// What escapes a group, as it says, and holds a collected stream open, keeps
// neither the range nor its name: the stream is cut off after the drain.
func TestEscapeeHoldsStream(t *testing.T) {
	r := openRuntime(t, local.Config{Containment: seam.KindGroup})
	const drain = 300 * time.Millisecond
	spec := seam.Spec{
		Argv: testproc.Command("setsid", "silently"), Dir: "/", Name: "held",
		Grace: time.Second, Drain: drain,
		Stdout: seam.Output{Mode: seam.Collect, MaxBytes: 1000},
	}
	p, err := r.Spawn(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	spec.Argv = testproc.Command("exit", "0")
	second, err := r.Spawn(t.Context(), spec)
	if err != nil {
		t.Errorf("the name of an empty range: %v", err)
	} else if _, err := second.Wait(t.Context()); err != nil {
		t.Error(err)
	}

	outcome, err := p.Wait(t.Context())
	if err != nil || !outcome.Success() {
		t.Errorf("outcome %+v, %v", outcome, err)
	}
	if err := p.Output(seam.Stdout).WaitEnd(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := p.Output(seam.Stdout).ReadFrom(0)
	if !w.Ended || !w.Cut {
		t.Errorf("after the drain: %+v, want it cut", w)
	}
	var escapee int
	if _, err := fmt.Sscanf(string(w.Data), "ready %d", &escapee); err != nil {
		t.Fatalf("the program said %q: %v", w.Data, err)
	}
	if err := syscall.Kill(escapee, syscall.SIGKILL); err != nil {
		t.Errorf("the escapee: %v", err)
	}
}
