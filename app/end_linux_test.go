package app_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

func TestMain(m *testing.M) {
	if err := local.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// stubborn is a command with a child, both of which ignore TERM, and their
// numbers. fx abandons a hook that is late, so the test and a hook may meet.
type stubborn struct {
	mu   sync.Mutex
	pids []string
}

// start starts one with a grace that no test can wait for.
func (s *stubborn) start(ctx context.Context, world *seam.World) error {
	p, err := world.Subprocess().Spawn(ctx, seam.Spec{
		Argv:   []string{"sh", "-c", `trap "" TERM; sleep 600 & echo $$ $!; wait`},
		Dir:    "/",
		Stdout: seam.Output{Mode: seam.Pipe},
		Grace:  time.Hour,
	})
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pids = append(s.pids, strings.Fields(line)...)
	return err
}

// check fails t unless all of it is gone, as the kernel has it.
func (s *stubborn) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pids) != 2 {
		t.Fatalf("pids = %q, want those of a command and its child", s.pids)
	}
	for _, pid := range s.pids {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue
		}
		// A child may still wait for its new parent to reap it.
		if state := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[0][0]; state != 'Z' && state != 'X' {
			t.Errorf("process %s is alive: %s", pid, stat)
		}
	}
}

// promptly fails t when f takes so long that it waited for a grace.
func promptly(t *testing.T, f func()) {
	t.Helper()
	const d = 10 * time.Second
	started := time.Now()
	f()
	if took := time.Since(started); took > d {
		t.Errorf("took %v, want at most %v", took, d)
	}
}

func TestStopWithEndedContextLeavesNothing(t *testing.T) {
	a, err := app.New(app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var s stubborn
	if err := s.start(t.Context(), a.World()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	promptly(t, func() {
		if err := a.Stop(ended); err != nil {
			t.Errorf("stop: %v, though every hook has run", err)
		}
	})
	s.check(t)
	if err := s.start(t.Context(), a.World()); !errors.Is(err, seam.ErrClosed) {
		t.Errorf("start after stop: %v, want %v", err, seam.ErrClosed)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

func TestStalledStopHookLeavesNothing(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	a, err := app.New(app.Options{StopTimeout: 200 * time.Millisecond}, fx.Invoke(func(lc fx.Lifecycle) {
		lc.Append(fx.StopHook(func() { <-release }))
	}))
	if err != nil {
		t.Fatal(err)
	}
	var s stubborn
	promptly(t, func() {
		err := a.Run(t.Context(), func(ctx context.Context) error { return s.start(ctx, a.World()) })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run: %v, want %v", err, context.DeadlineExceeded)
		}
	})
	s.check(t)
}

func TestFailedStartLeavesNothing(t *testing.T) {
	errHook := errors.New("port in use")
	for _, test := range []struct {
		name string
		hook func(context.Context) error
		want error
	}{
		{"a later hook fails", func(context.Context) error { return errHook }, errHook},
		{"a later hook times out", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s stubborn
			a, err := app.New(app.Options{}, fx.Invoke(func(lc fx.Lifecycle, world *seam.World) {
				lc.Append(fx.StartHook(func(ctx context.Context) error { return s.start(ctx, world) }))
				lc.Append(fx.StartHook(test.hook))
			}))
			if err != nil {
				t.Fatal(err)
			}
			promptly(t, func() {
				// The bound is also the grace of what has to be ended.
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := a.Start(ctx); !errors.Is(err, test.want) {
					t.Errorf("start: %v, want %v", err, test.want)
				}
			})
			s.check(t)
		})
	}
}

func TestFailedInvocationLeavesNothing(t *testing.T) {
	var s stubborn
	errLater := errors.New("later")
	promptly(t, func() {
		_, err := app.New(app.Options{}, fx.Module("greedy",
			fx.Invoke(func(world *seam.World) error { return s.start(t.Context(), world) }),
			fx.Invoke(func() error { return errLater }),
		))
		if !errors.Is(err, errLater) {
			t.Errorf("new: %v, want %v", err, errLater)
		}
	})
	s.check(t)
}

func TestPanicInRunLeavesNothing(t *testing.T) {
	a, err := app.New(app.Options{StopTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var s stubborn
	func() {
		defer func() {
			if got := recover(); got != "oops" {
				t.Errorf("recovered %v, want the panic to go on", got)
			}
		}()
		_ = a.Run(t.Context(), func(ctx context.Context) error {
			if err := s.start(ctx, a.World()); err != nil {
				t.Error(err)
			}
			panic("oops")
		})
	}()
	s.check(t)
}

// TestStopOrder: what was built on the world stops before it.
func TestStopOrder(t *testing.T) {
	var alive bool
	a, err := app.New(app.Options{}, fx.Invoke(func(lc fx.Lifecycle, world *seam.World) {
		lc.Append(fx.StopHook(func(ctx context.Context) error {
			p, err := world.Subprocess().Spawn(ctx, seam.Spec{Argv: []string{"true"}, Dir: "/", Grace: time.Second})
			if err != nil {
				return err
			}
			alive = true
			return p.WaitEmpty(ctx)
		}))
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if !alive {
		t.Error("the world was closed before what uses it")
	}
}
