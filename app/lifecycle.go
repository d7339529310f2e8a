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

	mu      sync.Mutex
	running bool    // start has succeeded
	over    bool    // finish has begun
	hooks   []*hook // in the order in which they start
}

// hook is one that was appended. Its state is guarded by the lifecycle's mu.
type hook struct {
	where    string // it was appended
	onStop   func(context.Context) error
	started  bool          // there is something to stop
	stopping bool          // someone has taken it
	stopped  chan struct{} // closed when onStop has returned
	err      error         // of onStop; valid once stopped is closed
}

// hookLinger is what a stop hook gets beyond the end of its context.
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
			if l.begin(k) || !l.take(k) {
				return nil
			}
			k.stop(ctx) // fx gave up on it, and nobody else stops it any more
			return k.err
		},
		OnStop: func(ctx context.Context) error { return l.stopHook(ctx, k) },
	})
}

// start starts app, whose hooks go through l. When it fails, what was started
// still runs, and finish stops it: fx would stop it before anything else could
// be stopped.
func (l *lifecycle) start(ctx context.Context, app *fx.App) error {
	if err := app.Start(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = true
	return nil
}

// stopHook is what fx calls to stop k. Where finish has taken k, it waits.
func (l *lifecycle) stopHook(ctx context.Context, k *hook) error {
	switch {
	case !l.isRunning():
		return nil
	case l.take(k):
		k.stop(ctx)
	case !l.begun(k):
		return nil
	}
	if err := await(ctx, k.stopped); err != nil {
		return err
	}
	return k.err
}

func (l *lifecycle) isRunning() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// begin notes that k was started, and reports whether that was in time to be
// stopped by finish.
func (l *lifecycle) begin(k *hook) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.started = true
	return !l.over
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
	l.over = true
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
		if await(ctx, k.stopped) != nil {
			linger(k.stopped)
		}
		select {
		case <-k.stopped:
			errs = append(errs, k.err)
		default:
			errs = append(errs, fmt.Errorf("stop hook of %s does not return: %w", k.where, context.DeadlineExceeded))
		}
	}
	return errors.Join(errs...)
}

// linger waits for done at most hookLinger.
func linger(done <-chan struct{}) {
	timer := time.NewTimer(hookLinger)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
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
