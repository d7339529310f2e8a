package app

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.uber.org/fx"
)

// lifecycle is fx's, with the stop hooks made up for that fx does not run. fx
// skips what remains when a context has ended, which is when stopping matters
// most.
type lifecycle struct {
	fx.Lifecycle

	mu    sync.Mutex
	hooks []*hook // in the order in which they start
}

// hook is one that was appended. Its state is guarded by the lifecycle's mu.
type hook struct {
	where    string // it was appended
	onStop   func(context.Context) error
	started  bool          // there is something to stop
	stopping bool          // someone has taken it
	stopped  chan struct{} // closed when onStop has returned
	err      error         // of onStop; valid then
}

// hookLinger is what a stop hook gets when its context has ended.
const hookLinger = 5 * time.Second

// decorate has every hook of an fx app go through l.
func (l *lifecycle) decorate() fx.Option {
	return fx.Decorate(func(inner fx.Lifecycle) fx.Lifecycle {
		l.Lifecycle = inner
		return l
	})
}

// Append implements [fx.Lifecycle].
func (l *lifecycle) Append(h fx.Hook) {
	k := &hook{onStop: h.OnStop, stopped: make(chan struct{})}
	if _, file, line, ok := runtime.Caller(1); ok {
		k.where = fmt.Sprintf("%s:%d", path.Base(file), line)
	}
	l.mu.Lock()
	l.hooks = append(l.hooks, k)
	l.mu.Unlock()
	l.Lifecycle.Append(fx.Hook{
		OnStart: func(ctx context.Context) error {
			if h.OnStart != nil {
				if err := h.OnStart(ctx); err != nil {
					return err
				}
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			k.started = true
			return nil
		},
		OnStop: func(ctx context.Context) error {
			if l.take(k) {
				k.stop(ctx)
			}
			return k.err
		},
	})
}

// take reports whether the caller is to stop k: there is something to stop, and
// nobody else does.
func (l *lifecycle) take(k *hook) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !k.started || k.stopping {
		return false
	}
	k.stopping = true
	return true
}

func (k *hook) stop(ctx context.Context) {
	defer close(k.stopped)
	if k.onStop != nil {
		k.err = k.onStop(ctx)
	}
}

// finish runs the stop hooks that fx did not run, last started first, and waits
// for the one that fx gave up on. It returns the errors of all stop hooks. One
// that does not return in time is left behind, and named.
func (l *lifecycle) finish(ctx context.Context) error {
	l.mu.Lock()
	hooks := slices.Clone(l.hooks)
	l.mu.Unlock()
	var errs []error
	for _, k := range slices.Backward(hooks) {
		if l.take(k) {
			// Not joined when it lingers: what it waits for may never come, and
			// the hooks before it have to run.
			go k.stop(ctx)
		} else if !l.begun(k) {
			continue
		}
		timer := time.NewTimer(hookLinger)
		select {
		case <-k.stopped:
			errs = append(errs, k.err)
		case <-timer.C:
			errs = append(errs, fmt.Errorf("stop hook of %s does not return: %w", k.where, context.DeadlineExceeded))
		}
		timer.Stop()
	}
	return errors.Join(errs...)
}

func (l *lifecycle) begun(k *hook) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return k.stopping
}

// stop stops app, whose hooks go through l, and all of them.
func (l *lifecycle) stop(ctx context.Context, app *fx.App) error {
	fxErr := app.Stop(ctx)
	if err := l.finish(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil // every hook has run: fx merely gave up before
	}
	return fxErr
}
