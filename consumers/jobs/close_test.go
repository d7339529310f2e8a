package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
)

func TestCloseOwner(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		mine := []jobs.Info{b.start(t, "me", "run", "sleep 1h"), b.start(t, "me", "deaf"), b.start(t, "me", "run", "child 1h"), b.start(t, "me", "run")}
		others := []jobs.Info{b.start(t, "you", "run", "sleep 1h"), b.start(t, "", "run", "sleep 1h")}
		began := time.Now()
		if err := b.CloseOwner(t.Context(), "me"); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != grace {
			t.Errorf("took %v, want one grace for all", took)
		}
		if list := b.List("me"); len(list) > 0 {
			t.Errorf("left %+v", list)
		}
		for _, info := range mine {
			_, err := b.Get("me", info.ID)
			expectIs(t, info.ID, err, jobs.ErrNotFound)
		}
		for _, info := range others {
			b.status(t, info.Owner, info.ID, jobs.Running)
		}
		b.status(t, "me", b.start(t, "me", "run", "sleep 1h").ID, jobs.Running) // anew
		if err := errors.Join(b.CloseOwner(t.Context(), "me"), b.CloseOwner(t.Context(), "me")); err != nil {
			t.Error(err)
		}
	})
}

// What is asked for while an owner is closed is refused.
func TestStartWhileClosing(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		info := b.start(t, "me", "deaf")
		closed := make(chan error, 1)
		go func() { closed <- b.CloseOwner(t.Context(), "me") }() // joined by the receive below
		synctest.Wait()
		b.status(t, "me", info.ID, jobs.Stopping)
		got, err := b.Get("me", info.ID)
		expectIs(t, "cause", errors.Join(got.Cause, err), jobs.ErrOwnerClosed)
		_, err = b.Start(t.Context(), jobs.Spec{Owner: "me", Kind: "run"}, b.launch("run"))
		expectIs(t, "start", err, jobs.ErrOwnerClosed)
		b.start(t, "you", "run")
		if err := <-closed; err != nil {
			t.Error(err)
		}
		b.start(t, "me", "run")
	})
}

// A launch that is under way when its owner is closed is ended too, before the
// closing returns.
func TestCloseWhileLaunching(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(ctx context.Context, b *bench) error
		is   error
	}{
		{"the owner", func(ctx context.Context, b *bench) error { return b.CloseOwner(ctx, "me") }, jobs.ErrOwnerClosed},
		{"the registry", func(ctx context.Context, b *bench) error { return b.Close(ctx) }, jobs.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
				var p seam.Process
				started := make(chan error, 1)
				go func() { // joined by the receive below
					_, err := b.Start(t.Context(), jobs.Spec{Owner: "me", Kind: "run"}, func(ctx context.Context) (seam.Process, error) {
						time.Sleep(time.Minute)
						var err error
						p, err = b.launch("deaf")(ctx)
						synctest.Wait() // until it is deaf
						return p, err
					})
					started <- err
				}()
				synctest.Wait()
				began := time.Now()

				soon, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTired)
				defer cancel()
				if err := c.end(soon, b); !errors.Is(err, errTired) || !strings.Contains(err.Error(), "being started, 1") {
					t.Errorf("got %v", err)
				}
				if err := c.end(t.Context(), b); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != time.Minute+grace {
					t.Errorf("took %v", took)
				}
				expectIs(t, "start", <-started, c.is)
				empty, done := context.WithCancelCause(t.Context())
				done(errTired)
				if err := p.WaitEmpty(empty); err != nil {
					t.Errorf("the range: %v", err)
				}
				outcome, err := p.Wait(t.Context())
				expectIs(t, "cause", errors.Join(outcome.Cause, err), c.is)
				if list := b.List("me"); len(list) > 0 || len(b.told()) > 0 {
					t.Errorf("left %+v, told of %+v", list, b.told())
				}
			})
		})
	}
}

// A launch that ends after a Close that could not wait for it is ended, and its
// starter is the one who is told.
func TestCloseBeforeALaunchEnds(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		_, err := b.Start(t.Context(), jobs.Spec{Owner: "me", Kind: "run"}, func(ctx context.Context) (seam.Process, error) {
			ended, cancel := context.WithCancelCause(ctx)
			cancel(errTired)
			expectIs(t, "close", b.Close(ended), errTired)
			return b.launch("run", "sleep 1h")(ctx)
		})
		expectIs(t, "start", err, jobs.ErrClosed)
		if told := b.told(); len(told) > 0 {
			t.Errorf("told of %+v", told)
		}
		for _, info := range b.List("me") {
			if info.Status != jobs.Killed {
				t.Errorf("got %+v", info)
			}
		}
	})
}

func TestClose(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		b.start(t, "me", "run", "sleep 1h")
		b.start(t, "", "deaf")
		b.start(t, "you", "run", "child 1h")
		began := time.Now()
		if err := errors.Join(b.Close(t.Context()), b.Close(t.Context())); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != grace {
			t.Errorf("took %v", took)
		}
		_, err := b.Start(t.Context(), jobs.Spec{Kind: "run"}, b.launch("run"))
		expectIs(t, "start", err, jobs.ErrClosed)
		for _, owner := range []string{"me", "", "you"} {
			if list := b.List(owner); len(list) > 0 {
				t.Errorf("left %+v", list)
			}
		}
	})
}

// Close joins: nothing of the registry runs when it has returned.
func TestCloseJoinsNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		b := &bench{world: newWorld(), Registry: jobs.New(jobs.Config{Notify: func(jobs.Info) {
			time.Sleep(time.Minute)
			ended = true
		}})}
		b.start(t, "me", "run")
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if !ended {
			t.Error("Close did not wait for a notice")
		}
		if err := b.world.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The context bounds the waiting, never the ending.
func TestCloseWithoutTime(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		info := b.start(t, "me", "deaf")
		quick := b.start(t, "me", "run")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errTired)
		err := b.CloseOwner(ctx, "me")
		expectIs(t, "close owner", err, errTired)
		if err == nil || !strings.Contains(err.Error(), "job "+info.ID) {
			t.Errorf("got %v", err)
		}
		b.status(t, "me", info.ID, jobs.Stopping)
		_, err = b.Get("me", quick.ID)
		expectIs(t, "one that had ended", err, jobs.ErrNotFound)
		expectIs(t, "close", b.Close(ctx), errTired)
		if got := b.wait(t, info.ID); got.Status != jobs.Killed || !errors.Is(got.Cause, jobs.ErrOwnerClosed) {
			t.Errorf("got %+v", got)
		}
	})
}

// A world that ends under a registry ends its jobs.
func TestWorldEnds(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		info := b.start(t, "me", "run", "sleep 1h")
		if err := b.world.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := b.wait(t, info.ID)
		expectIs(t, "cause", got.Outcome.Cause, seam.ErrClosed)
		if got.Status != jobs.Killed || got.Cause != nil {
			t.Errorf("got %+v", got)
		}
	})
}
