package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/fx"
)

// startedHooks is the [fx.Lifecycle] below a lifecycle: it has what fx would call.
type startedHooks []fx.Hook

func (s *startedHooks) Append(h fx.Hook) { *s = append(*s, h) }

// A hook that finish has taken is waited for by fx's call of it, which has its
// error then, or its context's cause.
func TestStopHookThatFinishHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner startedHooks
		l := &lifecycle{Lifecycle: &inner, running: true}
		release := make(chan struct{})
		errHook, errTired := errors.New("hook"), errors.New("tired")
		l.Append(fx.StopHook(func() error {
			<-release
			return errHook
		}))
		if err := inner[0].OnStart(t.Context()); err != nil {
			t.Fatal(err)
		}
		calls := make(chan error, 2)
		go func() { calls <- l.finish(t.Context()) }() // joined by the receives below
		synctest.Wait()
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errTired)
		if err := inner[0].OnStop(ended); !errors.Is(err, errTired) {
			t.Errorf("with an ended context: %v", err)
		}
		go func() { calls <- inner[0].OnStop(t.Context()) }()
		synctest.Wait()
		if len(calls) > 0 {
			t.Error("it was not waited for")
		}
		close(release)
		for range 2 {
			if err := <-calls; !errors.Is(err, errHook) {
				t.Errorf("got %v, want the hook's error", err)
			}
		}
	})
}
