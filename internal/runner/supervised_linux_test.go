package runner_test

import (
	"context"
	"testing"

	"github.com/corral-world/corral/internal/runner"
)

// A context that ends when a start has just succeeded leaves the connection to
// what was started alone.
func TestInterruptedInTime(t *testing.T) {
	ours, theirs, err := runner.ControlPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	for range 1000 {
		ctx, cancel := context.WithCancel(t.Context())
		release := runner.Interrupt(ctx, ours)
		cancel()
		if !release() {
			t.Fatal("it did not see the end of the context")
		}
		if _, err := theirs.Write([]byte{'x'}); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}
