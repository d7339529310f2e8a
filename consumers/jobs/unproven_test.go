package jobs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// unclearProcess can't be proven empty before it is clear.
type unclearProcess struct {
	seam.Process
	clear time.Time
	asks  *asks
}

// asks are when someone wanted to know.
type asks struct {
	mu    sync.Mutex
	times []time.Time // guarded by mu
}

func (a *asks) add() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = append(a.times, time.Now())
}

func (a *asks) all() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.times)
}

var errUnclear = &seam.UnprovenError{Reason: errors.New("no answer")}

func (p unclearProcess) WaitEmpty(ctx context.Context) error {
	p.asks.add()
	if time.Now().Before(p.clear) {
		return errUnclear
	}
	return p.Process.WaitEmpty(ctx)
}

// A job lives until the proof that it does not. That this is not to be had for a
// while is told, and it is asked for again, less and less often.
func TestUnprovenGoesOn(t *testing.T) {
	for _, kill := range []bool{false, true} {
		onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
			var asks asks
			began := time.Now()
			info, err := b.Start(t.Context(), jobs.Spec{Owner: "me", Kind: "run"}, func(ctx context.Context) (seam.Process, error) {
				p, err := b.launch("run", "child 10m")(ctx)
				return unclearProcess{p, began.Add(5 * time.Minute), &asks}, err
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(4*time.Minute - time.Second)
			want, end := jobs.Running, jobs.Completed
			if kill {
				before := len(asks.all())
				if _, err := b.Kill("me", info.ID, ""); err != nil {
					t.Fatal(err)
				}
				b.told() // idle
				if n := len(asks.all()) - before; n != 1 {
					t.Errorf("asked %d times when it was asked to end, want once", n)
				}
				want, end = jobs.Stopping, jobs.Killed
			}
			got, err := b.Get("me", info.ID)
			if err != nil || got.Status != want || !errors.Is(got.Err, seam.ErrUnproven) || got.Outcome == nil {
				t.Errorf("got %+v, %v", got, err)
			}
			if list := b.told(); len(list) > 0 {
				t.Errorf("told of %+v", list)
			}
			got = b.wait(t, info.ID)
			if got.Status != end || got.Err != nil {
				t.Errorf("got %+v", got)
			}
			if took := time.Since(began); !kill && took != 10*time.Minute || took < 5*time.Minute {
				t.Errorf("ended after %v", took)
			}
			// 1+2+4+8+16 s, then every 30 s.
			all := asks.all()
			if len(all) > 25 {
				t.Errorf("asked %d times", len(all))
			}
			for i := range all[1:] {
				if d := all[i+1].Sub(all[i]); !kill && (d < time.Second || d > 30*time.Second) {
					t.Errorf("ask %d came after %v", i+1, d)
				}
			}
		})
	}
}

// Whoever closes is not kept by what KILL does not end.
func TestCloseUnkillable(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		wake := make(chan struct{})
		b.world = seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{
			"/bin/stuck": func(*seamtest.MemProc) int {
				<-wake
				return 0
			},
			"/bin/leaves": func(p *seamtest.MemProc) int {
				p.Go(seamtest.MemChild{Argv: []string{"stuck"}}, func(*seamtest.MemProc) int {
					<-wake
					return 0
				})
				return 0
			},
		}})
		command, child := b.start(t, "me", "stuck"), b.start(t, "me", "leaves")
		for _, end := range []func(context.Context) error{
			func(ctx context.Context) error { return b.CloseOwner(ctx, "me") },
			b.Close,
		} {
			began := time.Now()
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errTired)
			err := end(ctx)
			cancel()
			expectIs(t, "close", err, errTired)
			expectIs(t, "close", err, seam.ErrUnproven)
			for _, info := range []jobs.Info{command, child} {
				if err == nil || !strings.Contains(err.Error(), "job "+info.ID+": ") {
					t.Errorf("got %v, want %s in it", err, info.ID)
				}
				b.status(t, "me", info.ID, jobs.Stopping)
			}
			if took := time.Since(began); took != time.Minute {
				t.Errorf("took %v", took)
			}
		}
		got, err := b.Get("me", child.ID)
		expectIs(t, "while it lives", errors.Join(got.Err, err), seam.ErrUnproven)
		close(wake)
		for _, info := range []jobs.Info{command, child} {
			if got := b.wait(t, info.ID); got.Status != jobs.Killed || got.Err != nil {
				t.Errorf("got %+v", got)
			}
		}
	})
}
