package local

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/cgroup"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/runner"
)

// BenchmarkScopeSteps is where the time of a launch in a scope goes.
func BenchmarkScopeSteps(b *testing.B) {
	selection, err := newSelection("scope", &privateDir{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = selection.Close(b.Context()) }()
	launcher, err := selection.choose(b.Context())
	if err != nil {
		b.Skip(err)
	}
	l := launcher.(*scopeLauncher)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	request := owner.Request{Path: "/bin/true", Argv: []string{"true"}, Dir: "/", Stdio: [3]*os.File{null, null, null}}
	steps := []string{"fork", "scope", "become", "run", "release"}
	took := make([][]time.Duration, len(steps))
	for b.Loop() {
		last := time.Now()
		step := func(i int, err error) {
			b.Helper()
			if err != nil {
				b.Fatalf("%s: %v", steps[i], err)
			}
			took[i] = append(took[i], time.Since(last))
			last = time.Now()
		}
		manager, err := l.bus.manager(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		held, err := runner.Hold(request)
		step(0, err)
		var scope *cgroup.Range
		scope, err = l.enter(b.Context(), manager, newUnitName()+".scope", held, owner.Request{Argv: []string{"true"}})
		step(1, err)
		step(2, held.Become(b.Context(), request))
		held.Wait()
		step(3, scope.WaitEmpty(b.Context()))
		if err := scope.Close(); err != nil {
			b.Fatal(err)
		}
		step(4, held.Release())
	}
	for i, step := range steps {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds())/1000, step+"-p50-ms")
	}
}
