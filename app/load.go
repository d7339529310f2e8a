package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
)

// Errors of composing that callers branch on.
var (
	// ErrLoaded is matched when a plugin of that name is loaded already.
	ErrLoaded = errors.New("plugin is loaded")

	// ErrStopped is matched by Load on an app that was stopped.
	ErrStopped = errors.New("app was stopped")
)

// A DuplicateError is a second provider of a half of the world, or of the world
// itself. Replacing one is [Options]' matter.
type DuplicateError struct {
	Half string // "seam.FS", "seam.Subprocess" or "*seam.World"
	Err  error
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("second provider of %s: %v", e.Half, e.Err)
}

// Unwrap returns Err.
func (e *DuplicateError) Unwrap() error { return e.Err }

// asDuplicate types an error of composing. fx and dig have no type for it.
func asDuplicate(err error) error {
	if text := err.Error(); strings.Contains(text, "already provided") {
		for _, half := range []string{"*seam.World", "seam.FS", "seam.Subprocess"} {
			if strings.Contains(text, "cannot provide "+half+" ") {
				return &DuplicateError{Half: half, Err: err}
			}
		}
	}
	return err
}

// plugin is one that is being loaded, is loaded, or is being unloaded. Its name
// is taken all that time.
type plugin struct {
	name      string
	cancel    context.CancelCauseFunc // ends its loading
	lifecycle *lifecycle
	gone      chan struct{} // closed when nothing of it is left

	fx      *fx.App // set when loaded
	loaded  bool    // guarded by the App's mu
	leaving bool    // someone unloads it; guarded by the App's mu
}

// Load composes a plugin over the app's world and starts it. A plugin is an
// fx option with whatever it consists of; it gets *[seam.World], [seam.FS],
// [seam.Subprocess], *[jobs.Registry] and *[bash.Environment] from the app, and
// can't replace them (*[DuplicateError]). Load may be called before Start, and by
// the hooks of a plugin. Stop, and a Start that fails, end ctx for the plugin,
// with ErrStopped as the cause.
//
// unload stops the plugin, which disposes of what the plugin owns, in reverse
// of the order in which it was made: ranges, which are the runtime's, and jobs,
// which are the registry's, live on. It may be called again, and then waits for
// the first call. ctx bounds it, and hooks are run all the same when it has
// ended. A plugin that is still loaded when the app stops is unloaded first, the
// last loaded first.
//
// Errors: ErrLoaded, also of one that is being loaded or unloaded, ErrStopped,
// *DuplicateError, and whatever the plugin's constructors and hooks return;
// nothing of it is left then.
func (a *App) Load(ctx context.Context, name string, option fx.Option) (unload func(context.Context) error, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &plugin{name: name, cancel: cancel, lifecycle: new(lifecycle), gone: make(chan struct{})}
	err = a.reserve(p)
	if err == nil {
		err = a.load(ctx, p, option)
	}
	if err != nil {
		return nil, fmt.Errorf("load %q: %w", name, err)
	}
	return func(ctx context.Context) error { return a.unload(ctx, p) }, nil
}

// reserve takes a plugin's name.
func (a *App) reserve(p *plugin) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.stopped:
		return ErrStopped
	case slices.ContainsFunc(a.plugins, func(other *plugin) bool { return other.name == p.name }):
		return ErrLoaded
	}
	a.plugins = append(a.plugins, p)
	return nil
}

// load starts a plugin whose name is taken. Nothing is left of one that fails.
func (a *App) load(ctx context.Context, p *plugin, option fx.Option) error {
	p.fx = fx.New(
		fx.WithLogger(func() fxevent.Logger { return a.events }),
		fx.Provide(
			func() *seam.World { return a.world },
			func() seam.FS { return a.world.FS() },
			func() seam.Subprocess { return a.world.Subprocess() },
			func() *jobs.Registry { return a.jobs },
			func() *bash.Environment { return a.environment },
		),
		p.lifecycle.decorate(),
		fx.Module(p.name, option),
	)
	if err := p.fx.Err(); err != nil {
		a.remove(p)
		return root(asDuplicate(err))
	}
	err := p.lifecycle.start(ctx, p.fx)
	if err != nil {
		err = errors.Join(withCause(ctx, err), p.lifecycle.finish(ctx))
	} else if !a.publish(p) {
		err = errors.Join(ErrStopped, p.lifecycle.stop(ctx, p.fx))
	}
	if err != nil {
		a.remove(p)
	}
	return err
}

// publish makes a plugin the last loaded one, unless the app was stopped.
func (a *App) publish(p *plugin) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return false
	}
	p.loaded = true
	a.plugins = append(slices.DeleteFunc(a.plugins, func(other *plugin) bool { return other == p }), p)
	return true
}

// remove forgets a plugin of which nothing is left.
func (a *App) remove(p *plugin) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plugins = slices.DeleteFunc(a.plugins, func(other *plugin) bool { return other == p })
	close(p.gone)
}

// unload stops a plugin that is loaded. Where another does that, or it is still
// being loaded, it waits until nothing is left of it, as long as ctx allows.
func (a *App) unload(ctx context.Context, p *plugin) error {
	a.mu.Lock()
	mine := p.loaded && !p.leaving
	if mine {
		p.leaving = true
	}
	a.mu.Unlock()
	var err error
	if mine {
		err = p.lifecycle.stop(ctx, p.fx)
		a.remove(p)
	} else {
		err = await(ctx, p.gone)
	}
	if err != nil {
		return fmt.Errorf("unload %q: %w", p.name, err)
	}
	return nil
}

// unloadAll stops every plugin and lets no more in: first those that are being
// loaded, which their Load ends, and then the last loaded first.
func (a *App) unloadAll(ctx context.Context) error {
	a.mu.Lock()
	a.stopped = true
	var loading, loaded []*plugin
	for _, p := range slices.Backward(a.plugins) {
		if p.loaded {
			loaded = append(loaded, p)
		} else {
			loading = append(loading, p)
			p.cancel(ErrStopped)
		}
	}
	a.mu.Unlock()
	var errs []error
	for _, p := range append(loading, loaded...) {
		errs = append(errs, a.unload(ctx, p))
	}
	return errors.Join(errs...)
}

// await returns ctx's cause where it ends before done is closed.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
