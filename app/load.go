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

// plugin is a loaded one.
type plugin struct {
	name      string
	fx        *fx.App
	lifecycle *lifecycle
}

// Load composes a plugin over the app's world and starts it. A plugin is an
// fx option with whatever it consists of; it gets *[seam.World], [seam.FS],
// [seam.Subprocess], *[jobs.Registry] and *[bash.Environment] from the app, and
// can't replace them (*[DuplicateError]). Load may be called before Start.
//
// unload stops the plugin, which disposes of what the plugin owns, in reverse
// of the order in which it was made: ranges, which are the runtime's, and jobs,
// which are the registry's, live on. It may be called again. ctx bounds it, and
// hooks are run all the same when it has ended. A plugin that is still loaded
// when the app stops is unloaded first, the last loaded first.
//
// Errors: ErrLoaded, ErrStopped, *DuplicateError, and whatever the plugin's
// constructors and hooks return; nothing of it is left then.
func (a *App) Load(ctx context.Context, name string, option fx.Option) (unload func(context.Context) error, err error) {
	fail := func(err error) (func(context.Context) error, error) {
		return nil, fmt.Errorf("load %q: %w", name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return fail(ErrStopped)
	}
	if slices.ContainsFunc(a.plugins, func(p *plugin) bool { return p.name == name }) {
		return fail(ErrLoaded)
	}
	p := &plugin{name: name, lifecycle: new(lifecycle)}
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
		fx.Module(name, option),
	)
	if err := p.fx.Err(); err != nil {
		return fail(root(asDuplicate(err)))
	}
	if err := p.fx.Start(ctx); err != nil {
		return fail(errors.Join(err, p.lifecycle.finish(ctx)))
	}
	a.plugins = append(a.plugins, p)
	return func(ctx context.Context) error { return a.unload(ctx, p) }, nil
}

// unload stops a plugin that is loaded.
func (a *App) unload(ctx context.Context, p *plugin) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(a.plugins, p)
	if at < 0 {
		return nil
	}
	a.plugins = slices.Delete(a.plugins, at, at+1)
	if err := p.stop(ctx); err != nil {
		return fmt.Errorf("unload %q: %w", p.name, err)
	}
	return nil
}

func (p *plugin) stop(ctx context.Context) error { return p.lifecycle.stop(ctx, p.fx) }

// unloadAll stops every plugin, the last loaded first, and lets no more in.
func (a *App) unloadAll(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	var errs []error
	for _, p := range slices.Backward(a.plugins) {
		if err := p.stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("unload %q: %w", p.name, err))
		}
	}
	a.plugins = nil
	return errors.Join(errs...)
}
