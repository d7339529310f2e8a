package jobs_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

const grace = 3 * time.Second

// A bench is a registry and a world in memory, on the fake clock.
type bench struct {
	*jobs.Registry
	world *seamtest.MemWorld

	mu      sync.Mutex
	notices []jobs.Info // guarded by mu
}

// onFakeClock runs f in a bubble with a bench, which ends with nothing left.
func onFakeClock(t *testing.T, config jobs.Config, f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{world: newWorld()}
		config.Notify = func(info jobs.Info) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.notices = append(b.notices, info)
		}
		b.Registry = jobs.New(config)
		f(t, b)
		if err := errors.Join(b.Close(t.Context()), b.world.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func newWorld() *seamtest.MemWorld {
	return seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{"/bin/run": program, "/bin/deaf": deaf}})
}

// told returns what Notify was told, once everything is idle.
func (b *bench) told() []jobs.Info {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.notices)
}

// program does what its arguments say, one after the other:
//
//	out TEXT, err TEXT   prints
//	sleep DURATION
//	child DURATION       leaves a child that lives that long
//	kill SIGNAL          ends itself by it
//	fail                 exits with 7
func program(p *seamtest.MemProc) int {
	for args := p.Argv[1:]; len(args) > 0; args = args[1:] {
		verb, arg, _ := strings.Cut(args[0], " ")
		switch verb {
		case "out":
			_, _ = io.WriteString(p.Stdout, arg)
		case "err":
			_, _ = io.WriteString(p.Stderr, arg)
		case "sleep":
			p.Sleep(duration(arg))
		case "child":
			p.Go(seamtest.MemChild{Argv: []string{"child"}}, func(c *seamtest.MemProc) int {
				c.Sleep(duration(arg))
				return 0
			})
		case "kill":
			p.Kill(arg)
		case "fail":
			return 7
		}
	}
	return 0
}

// deaf ignores TERM for an hour.
func deaf(p *seamtest.MemProc) int {
	p.IgnoreTerm()
	p.Sleep(time.Hour)
	return 0
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// launch is what Start is given: it starts argv with both streams collected.
func (b *bench) launch(argv ...string) func(context.Context) (seam.Process, error) {
	output := seam.Output{Mode: seam.Collect, MaxBytes: 10, SpillMaxBytes: 100}
	return func(ctx context.Context) (seam.Process, error) {
		return b.world.Spawn(ctx, seam.Spec{Argv: argv, Dir: "/", Grace: grace, Drain: time.Second, Stdout: output, Stderr: output})
	}
}

// start starts a job of owner.
func (b *bench) start(t *testing.T, owner string, argv ...string) jobs.Info {
	t.Helper()
	info, err := b.Start(t.Context(), jobs.Spec{Owner: owner, Kind: "run", Label: strings.Join(argv, " ")}, b.launch(argv...))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // until the program has done what takes no time
	return info
}

// wait waits for the end of a job of "me".
func (b *bench) wait(t *testing.T, id string) jobs.Info {
	t.Helper()
	info, err := b.Wait(t.Context(), "me", id)
	if err != nil {
		t.Fatal(err)
	}
	if info.Status.Live() {
		t.Fatalf("job %s is %s", id, info.Status)
	}
	return info
}

func (b *bench) status(t *testing.T, owner, id string, want jobs.Status) {
	t.Helper()
	info, err := b.Get(owner, id)
	if err != nil {
		t.Fatal(err)
	}
	if info.Status != want {
		t.Errorf("job %s is %s, want %s", id, info.Status, want)
	}
}

func expectIs(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}
