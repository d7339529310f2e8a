package local_test

import (
	"context"
	"testing"
	"time"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// openRuntime makes a runtime that the test's end closes.
func openRuntime(tb testing.TB, config local.Config) *local.Runtime {
	tb.Helper()
	if config.WorldID == "" {
		config.WorldID = "test"
	}
	if config.Spill.Dir == "" {
		config.Spill.Dir = tb.TempDir()
	}
	r, err := local.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return r
}

// run runs argv to its end, with both streams collected.
func run(tb testing.TB, r *local.Runtime, argv ...string) (seam.Ending, string) {
	tb.Helper()
	const drain = 500 * time.Millisecond
	output := seam.Output{Mode: seam.Collect, MaxBytes: 1 << 20}
	p, err := r.Spawn(tb.Context(), seam.Spec{
		Argv: argv, Dir: "/", Grace: time.Second, Drain: drain, Stdout: output, Stderr: output,
	})
	if err != nil {
		tb.Fatal(err)
	}
	end, err := seam.Settle(tb.Context(), p, drain, seam.KillSurvivors)
	if err != nil {
		tb.Fatal(err)
	}
	return end, string(p.Output(seam.Stdout).ReadFrom(0).Data) + string(p.Output(seam.Stderr).ReadFrom(0).Data)
}
