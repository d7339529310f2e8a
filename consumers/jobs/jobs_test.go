package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
)

var errTired = errors.New("tired of waiting")

func TestLives(t *testing.T) {
	for _, c := range []struct {
		name   string
		argv   []string
		kill   time.Duration // when; 0: never
		end    time.Duration // when it has ended
		status jobs.Status
		kind   seam.EndKind
		code   int
	}{
		{name: "success", argv: []string{"run", "sleep 2s"}, end: 2 * time.Second, status: jobs.Completed, kind: seam.EndExited},
		{name: "a code", argv: []string{"run", "fail"}, status: jobs.Completed, kind: seam.EndExited, code: 7},
		{name: "a signal", argv: []string{"run", "kill SIGSEGV"}, status: jobs.Killed, kind: seam.EndSignaled, code: -1},
		{name: "killed", argv: []string{"run", "sleep 1h"}, kill: time.Second, end: time.Second, status: jobs.Killed, kind: seam.EndTerminated, code: -1},
		{
			name: "killed, and deaf to TERM", argv: []string{"deaf"},
			kill: time.Second, end: time.Second + grace, status: jobs.Killed, kind: seam.EndTerminated, code: -1,
		},
		{
			name: "a child outlives the command", argv: []string{"run", "child 5s", "fail"},
			end: 5 * time.Second, status: jobs.Completed, kind: seam.EndExited, code: 7,
		},
		{
			name: "killed when only a child lives", argv: []string{"run", "child 1h", "fail"},
			kill: time.Minute, end: time.Minute, status: jobs.Killed, kind: seam.EndExited, code: 7,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
				began := time.Now()
				info := b.start(t, "me", c.argv...)
				if info.Status != jobs.Running || info.ID != "run-1" || info.Owner != "me" || info.Name == "" || !info.Started.Equal(began) || info.Outcome != nil {
					t.Errorf("got %+v", info)
				}
				if c.kill > 0 {
					time.Sleep(c.kill)
					b.status(t, "me", info.ID, jobs.Running)
					got, err := b.Kill("me", info.ID, "a reason")
					if err != nil || got.Status != jobs.Stopping {
						t.Errorf("got %+v, %v", got, err)
					}
				}
				got := b.wait(t, info.ID)
				if got.Status != c.status || got.Outcome.End != c.kind || got.Outcome.ExitCode != c.code || got.Err != nil {
					t.Errorf("got %+v, outcome %+v", got, got.Outcome)
				}
				if took := got.Ended.Sub(began); took != c.end {
					t.Errorf("ended after %v, want %v", took, c.end)
				}
				if c.kill > 0 {
					expectIs(t, "cause", got.Cause, jobs.ErrKilled)
					if got.Cause.Error() != "job killed: a reason" {
						t.Errorf("got cause %q", got.Cause)
					}
				}
				if c.kind == seam.EndTerminated {
					expectIs(t, "outcome's cause", got.Outcome.Cause, got.Cause)
				}
			})
		})
	}
}

// The command's result is known before the job ends.
func TestOutcomeBeforeTheEnd(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		info := b.start(t, "me", "run", "child 1h", "fail")
		time.Sleep(time.Minute)
		got, err := b.Get("me", info.ID)
		if err != nil || got.Status != jobs.Running || got.Outcome == nil || got.Outcome.ExitCode != 7 || !got.Ended.IsZero() {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestKill(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		info := b.start(t, "me", "deaf")
		for _, reason := range []string{"first", "second", ""} {
			if got, err := b.Kill("me", info.ID, reason); err != nil || got.Status != jobs.Stopping || got.Cause.Error() != "job killed: first" {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		got := b.wait(t, info.ID)
		if !errors.Is(got.Outcome.Cause, got.Cause) {
			t.Errorf("got cause %v and %v", got.Cause, got.Outcome.Cause)
		}
		if again, err := b.Kill("me", info.ID, "late"); err != nil || again != got {
			t.Errorf("a job that has ended was changed: %+v, %v", again, err)
		}
		ended := b.start(t, "me", "run", "fail")
		if got, err := b.Kill("me", ended.ID, "late"); err != nil || got.Status != jobs.Completed || got.Cause != nil {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestIDsAndList(t *testing.T) {
	onFakeClock(t, jobs.Config{MaxLive: 20}, func(t *testing.T, b *bench) {
		var want []string
		for i := range 12 {
			kind := []string{"a", "b"}[i%2]
			info, err := b.Start(t.Context(), jobs.Spec{Owner: "me", Kind: kind}, b.launch("run"))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%s-%d", kind, i/2+1))
			if info.ID != want[i] {
				t.Errorf("got %s, want %s", info.ID, want[i])
			}
			time.Sleep(time.Second)
		}
		b.start(t, "other", "run")
		var got []string
		for _, info := range b.List("me") {
			got = append(got, info.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if err := b.Release("me", "b-6"); err != nil {
			t.Error(err)
		}
		info, err := b.Start(t.Context(), jobs.Spec{Owner: "me", Kind: "b"}, b.launch("run"))
		if err != nil || info.ID != "b-7" {
			t.Errorf("an id was given again: %+v, %v", info, err)
		}
		if list := b.List("nobody"); len(list) > 0 {
			t.Errorf("got %+v", list)
		}
	})
}

func TestAdmission(t *testing.T) {
	onFakeClock(t, jobs.Config{MaxLive: 2}, func(t *testing.T, b *bench) {
		full := func(owner string) {
			t.Helper()
			called := false
			_, err := b.Start(t.Context(), jobs.Spec{Owner: owner, Kind: "run"}, func(context.Context) (seam.Process, error) {
				called = true
				return nil, errors.New("not reached")
			})
			expectIs(t, "start", err, jobs.ErrTooMany)
			p, spawnErr := b.launch("run", "sleep 1h")(t.Context())
			if spawnErr != nil {
				t.Fatal(spawnErr)
			}
			_, err = b.Adopt(jobs.Spec{Owner: owner, Kind: "run"}, p)
			expectIs(t, "adopt", err, jobs.ErrTooMany)
			synctest.Wait()
			if members, err := p.Survivors(t.Context()); err != nil || len(members) > 0 {
				t.Errorf("got %v, %v", members, err)
			}
			// A range that was not adopted is the caller's, and was left alone.
			p.Terminate(errTired)
			if outcome, err := p.Wait(t.Context()); err != nil || !errors.Is(outcome.Cause, errTired) {
				t.Errorf("got %+v, %v", outcome, err)
			}
			if called {
				t.Error("launched without admission")
			}
		}
		one := b.start(t, "me", "deaf")
		two := b.start(t, "me", "run", "child 1h")
		full("me")
		b.start(t, "", "run", "sleep 1h") // those without an owner share one
		b.start(t, "", "run", "sleep 1h")
		full("")
		b.start(t, "other", "run", "sleep 1h")
		if _, err := b.Kill("me", one.ID, ""); err != nil {
			t.Fatal(err)
		}
		full("me") // one that is being stopped counts
		b.wait(t, one.ID)
		b.start(t, "me", "run") // one that has ended does not
		if _, err := b.Kill("me", two.ID, ""); err != nil {
			t.Fatal(err)
		}
		b.wait(t, two.ID)
		b.start(t, "me", "run", "sleep 1h")
	})
}

func TestLaunchesCountForAdmission(t *testing.T) {
	onFakeClock(t, jobs.Config{MaxLive: 2}, func(t *testing.T, b *bench) {
		results := make(chan error, 5)
		for range cap(results) {
			go func() { // ends with its launch
				_, err := b.Start(t.Context(), jobs.Spec{Kind: "run"}, func(ctx context.Context) (seam.Process, error) {
					time.Sleep(time.Second)
					return b.launch("run", "sleep 1h")(ctx)
				})
				results <- err
			}()
		}
		refused := 0
		for range cap(results) {
			if err := <-results; errors.Is(err, jobs.ErrTooMany) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if live := len(b.List("")); refused != 3 || live != 2 {
			t.Errorf("%d refused, %d live", refused, live)
		}
	})
}

func TestFailedStartLeavesNothing(t *testing.T) {
	onFakeClock(t, jobs.Config{MaxLive: 1}, func(t *testing.T, b *bench) {
		for range 3 {
			_, err := b.Start(t.Context(), jobs.Spec{Kind: "run"}, b.launch("no-such-program"))
			if seam.CodeOf(err) != seam.CodeExecutableNotFound {
				t.Errorf("got %v", err)
			}
		}
		_, err := b.Start(t.Context(), jobs.Spec{}, b.launch("run"))
		if seam.CodeOf(err) != seam.CodeInvalid || !strings.Contains(err.Error(), "Kind is empty") {
			t.Errorf("got %v", err)
		}
		if list := b.List(""); len(list) > 0 {
			t.Errorf("got %+v", list)
		}
		if info := b.start(t, "", "run"); info.ID != "run-1" {
			t.Errorf("got %+v", info)
		}
	})
}

// The owner is the boundary: a job of another owner does not exist.
func TestOwnerFence(t *testing.T) {
	for _, owner := range []string{"me", ""} {
		t.Run(fmt.Sprintf("owned by %q", owner), func(t *testing.T) {
			onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
				info := b.start(t, owner, "run", "out secret", "sleep 1h")
				for _, stranger := range []string{"", "me", "me ", "you"} {
					if stranger == owner {
						continue
					}
					_, getErr := b.Get(stranger, info.ID)
					_, readErr := b.Read(stranger, info.ID, jobs.Cursor{})
					_, waitErr := b.Wait(t.Context(), stranger, info.ID)
					_, killErr := b.Kill(stranger, info.ID, "")
					releaseErr := b.Release(stranger, info.ID)
					_, absent := b.Get(stranger, "run-9")
					for call, err := range map[string]error{"get": getErr, "read": readErr, "wait": waitErr, "kill": killErr, "release": releaseErr} {
						expectIs(t, call, err, jobs.ErrNotFound)
						if strings.ReplaceAll(err.Error(), info.ID, "run-9") != absent.Error() {
							t.Errorf("%s: %q tells more than %q", call, err, absent)
						}
					}
					if list := b.List(stranger); len(list) > 0 {
						t.Errorf("%q sees %+v", stranger, list)
					}
					if err := b.CloseOwner(t.Context(), stranger); err != nil {
						t.Error(err)
					}
				}
				b.status(t, owner, info.ID, jobs.Running)
			})
		})
	}
}

func TestWait(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		info := b.start(t, "me", "run", "sleep 1h")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := b.Wait(ended, "me", info.ID); err != nil || got.Status != jobs.Running {
			t.Errorf("with an ended context: got %+v, %v", got, err)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if got, err := b.Wait(soon, "me", info.ID); err != nil || got.Status != jobs.Running || time.Since(began) != time.Minute {
			t.Errorf("got %+v, %v after %v", got, err, time.Since(began))
		}
		if got := b.wait(t, info.ID); got.Status != jobs.Completed || time.Since(began) != time.Hour {
			t.Errorf("got %+v after %v", got, time.Since(began))
		}
		if got, err := b.Wait(ended, "me", info.ID); err != nil || got.Status != jobs.Completed {
			t.Errorf("an ended job, with an ended context: got %+v, %v", got, err)
		}
	})
}

func TestNotices(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		told := func(want ...string) {
			t.Helper()
			var got []string
			for _, info := range b.told() {
				got = append(got, info.ID)
				if info.Status.Live() || info.Ended.IsZero() || info.Outcome == nil {
					t.Errorf("told of %+v", info)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("told of %v, want %v", got, want)
			}
		}
		quiet := b.start(t, "me", "run", "sleep 1s")
		told()
		time.Sleep(time.Minute)
		told(quiet.ID)
		b.wait(t, quiet.ID)
		told(quiet.ID) // once

		waited := b.start(t, "me", "run", "sleep 1s")
		b.wait(t, waited.ID)
		told(quiet.ID) // its waiter knows

		left := b.start(t, "me", "run", "sleep 1m")
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Wait(soon, "me", left.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		told(quiet.ID, left.ID) // whoever waited had gone

		killed := b.start(t, "me", "run", "sleep 1h")
		if _, err := b.Kill("me", killed.ID, ""); err != nil {
			t.Fatal(err)
		}
		told(quiet.ID, left.ID, killed.ID)

		b.start(t, "me", "run", "sleep 1h")
		if err := b.CloseOwner(t.Context(), "me"); err != nil {
			t.Fatal(err)
		}
		told(quiet.ID, left.ID, killed.ID) // who closes knows
	})
}

// A notice may use the registry.
func TestNoticeMayCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry *jobs.Registry
		released := make(chan error, 1)
		registry = jobs.New(jobs.Config{Notify: func(info jobs.Info) { released <- registry.Release(info.Owner, info.ID) }})
		b := &bench{Registry: registry, world: newWorld()}
		b.start(t, "me", "run")
		if err := <-released; err != nil {
			t.Error(err)
		}
		if err := errors.Join(registry.Close(t.Context()), b.world.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// TestYield: a yielded job is forgotten, and its output is not.
func TestYield(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		p, err := b.launch("run", "out text", "sleep 1s")(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		info, err := b.Adopt(jobs.Spec{Owner: "me", Kind: "run"}, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Yield("me", info.ID); err == nil || errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("a live job: %v", err)
		}
		expectIs(t, "stranger", b.Yield("other", info.ID), jobs.ErrNotFound)
		b.wait(t, info.ID)
		if err := b.Yield("me", info.ID); err != nil {
			t.Error(err)
		}
		expectIs(t, "again", b.Yield("me", info.ID), jobs.ErrNotFound)
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := string(p.Output(seam.Stdout).ReadFrom(0).Data); got != "text" {
			t.Errorf("output %q, want text", got)
		}
	})
}

func TestRelease(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		info := b.start(t, "me", "deaf")
		for _, status := range []jobs.Status{jobs.Running, jobs.Stopping} {
			b.status(t, "me", info.ID, status)
			if err := b.Release("me", info.ID); err == nil || errors.Is(err, jobs.ErrNotFound) || !strings.Contains(err.Error(), string(status)) {
				t.Errorf("a job that is %s: %v", status, err)
			}
			if _, err := b.Kill("me", info.ID, ""); err != nil {
				t.Fatal(err)
			}
		}
		b.wait(t, info.ID)
		if err := b.Release("me", info.ID); err != nil {
			t.Error(err)
		}
		expectIs(t, "again", b.Release("me", info.ID), jobs.ErrNotFound)
		if _, err := b.Read("me", info.ID, jobs.Cursor{}); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}
