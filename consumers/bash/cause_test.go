package bash_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// A script ends by its timeout or by its caller, never by both, and the result
// says which was first. On the fake clock the right answer is known.
func TestFirstCauseOnFakeClock(t *testing.T) {
	const timeout = time.Minute
	for _, c := range []struct {
		name    string
		aborted time.Duration // when; 0: never
		exits   time.Duration // when, by itself; 0: never
		traps   bool          // TERM, and exits with 0
		timed   bool
		abort   bool
	}{
		{name: "the timeout alone", timed: true},
		{name: "an abort alone", aborted: time.Second, abort: true},
		{name: "an abort a nanosecond before", aborted: timeout - 1, abort: true},
		{name: "an abort a nanosecond after", aborted: timeout + 1, timed: true},
		{name: "an abort in the grace", aborted: timeout + time.Second, timed: true},
		{name: "an exit a nanosecond before", exits: timeout - 1},
		{name: "an exit a nanosecond before the abort", exits: time.Second, aborted: time.Second + 1},
		{name: "the timeout, trapped", traps: true, timed: true},
		{name: "the timeout, trapped, and an abort a nanosecond after", traps: true, aborted: timeout + 1, timed: true},
		{name: "an abort, trapped", traps: true, aborted: time.Second, abort: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{
					"/bin/bash": func(p *seamtest.MemProc) int {
						var term <-chan struct{}
						if c.traps {
							term = p.TrapTerm()
						}
						var exit <-chan time.Time
						if c.exits > 0 {
							exit = time.After(c.exits)
						}
						select {
						case <-term:
						case <-exit:
						case <-p.Context().Done():
						}
						return 0
					},
				}})
				config := bash.DefaultConfig()
				config.Dir = "/"
				sh, err := bash.New(m.World(), config)
				if err != nil {
					t.Fatal(err)
				}
				ctx, abort := context.WithCancelCause(t.Context())
				defer abort(nil)
				if c.aborted > 0 {
					time.AfterFunc(c.aborted, func() { abort(errEnough) })
				}
				r, err := sh.Run(ctx, bash.Request{Script: "x", Timeout: timeout})
				if err != nil {
					t.Fatal(err)
				}
				if r.TimedOut != c.timed || r.Aborted != c.abort {
					t.Errorf("got timed out %v, aborted %v: %+v", r.TimedOut, r.Aborted, r.Outcome)
				}
				checkCause(t, r)
				if err := m.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// errEnough is the cause with which tests abort.
var errEnough = errors.New("enough")

// checkCause checks that a result agrees with its outcome.
func checkCause(t testing.TB, r bash.Result) {
	t.Helper()
	timed, aborted := errors.Is(r.Outcome.Cause, bash.ErrTimeout), errors.Is(r.Outcome.Cause, errEnough)
	if r.TimedOut != timed || r.Aborted != aborted || (timed || aborted) != (r.Outcome.End == seam.EndTerminated) {
		t.Errorf("timed out %v, aborted %v, and the outcome is %+v", r.TimedOut, r.Aborted, r.Outcome)
	}
}

// The same on the real world, where the two race.
func TestFirstCauseRace(t *testing.T) {
	b := newBench(t)
	b.config.MaxOutputBytes, b.config.SpillMaxBytes = 1024, 0
	sh := b.bash(t)
	const runs = 1000
	var wins [2]int
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for range runs {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			timeout := time.Duration(5+rand.IntN(10)) * time.Millisecond
			ctx, abort := context.WithCancelCause(t.Context())
			defer abort(nil)
			// Run's clock starts a little later, with the script.
			timer := time.AfterFunc(timeout+time.Duration(rand.IntN(20000))*time.Microsecond, func() { abort(errEnough) })
			defer timer.Stop()
			r, err := sh.Run(ctx, bash.Request{Script: "sleep 60", Timeout: timeout})
			if seam.CodeOf(err) == seam.CodeAborted {
				return // before the start
			}
			if err != nil || r.TimedOut == r.Aborted {
				t.Errorf("got %+v, %v", r, err)
				return
			}
			checkCause(t, r)
			mu.Lock()
			defer mu.Unlock()
			if r.TimedOut {
				wins[0]++
			} else {
				wins[1]++
			}
		})
	}
	all.Wait()
	t.Logf("%d timed out, %d aborted", wins[0], wins[1])
}
