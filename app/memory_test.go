package app_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/fx"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// TestInMemory runs a whole app on a world in memory and a fake clock.
func TestInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{
			"/bin/deaf": func(p *seamtest.MemProc) int {
				p.IgnoreTerm()
				p.Sleep(time.Hour)
				return 0
			},
		}})
		var p seam.Process
		a, err := app.New(app.Options{FS: memory.FS(), Subprocess: memory, StopTimeout: time.Minute},
			fx.Invoke(func(lc fx.Lifecycle, subprocess seam.Subprocess) {
				lc.Append(fx.StartHook(func(ctx context.Context) (err error) {
					p, err = subprocess.Spawn(ctx, seam.Spec{Argv: []string{"deaf"}, Dir: "/", Grace: 2 * time.Second})
					return err
				}))
			}))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.World().ID(); got != "memory" {
			t.Errorf("world = %q", got)
		}
		started := time.Now()
		if err := a.Run(t.Context(), func(context.Context) error {
			synctest.Wait() // until the program is deaf
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(started), 2*time.Second; got != want {
			t.Errorf("the end took %v, want the grace, %v", got, want)
		}
		outcome, err := p.Wait(t.Context())
		if err != nil || outcome.End != seam.EndTerminated || !errors.Is(outcome.Cause, seam.ErrClosed) {
			t.Errorf("outcome = %+v, %v", outcome, err)
		}
	})
}

// TestKillAllWithoutOne: a half that has only Close is closed without calm.
func TestKillAllWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{
			"/bin/deaf": func(p *seamtest.MemProc) int {
				p.IgnoreTerm()
				p.Sleep(time.Hour)
				return 0
			},
		}})
		a, err := app.New(app.Options{FS: memory.FS(), Subprocess: memory})
		if err != nil {
			t.Fatal(err)
		}
		p, err := memory.Spawn(t.Context(), seam.Spec{Argv: []string{"deaf"}, Dir: "/", Grace: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the program is deaf
		started := time.Now()
		a.KillAll()
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took != 0 {
			t.Errorf("took %v, want no grace", took)
		}
		stop(t, a)
	})
}
