// Package app is where the parts meet: it chooses the providers of a world,
// composes them and whatever is given to it with fx, and owns what fx does not,
// the end.
//
// # The end
//
// fx skips the OnStop hooks that remain when its context ends, gives up on a
// hook that blocks, and runs no OnStop for an OnStart that failed. An [App]
// therefore runs the hooks that fx did not, and closes the world's subprocess
// half itself, after fx and whatever fx returned. An ended context makes that
// harder on commands, by leaving out the rest of their grace, and not shorter
// than the proof that none is left.
//
// The order is: plugins, the last loaded first; what New was given; jobs; the
// world.
//
// # Concurrency
//
// Start, Stop and Run are called from one goroutine; the rest from any.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// DefaultWorldID names this host's world where [Options] name none.
const DefaultWorldID = "local"

// Budgets of [App.Run].
const (
	DefaultStartTimeout = 15 * time.Second
	DefaultStopTimeout  = 15 * time.Second
)

// Options say what an [App] is made of.
type Options struct {
	// Local configures this host's subprocess half. WorldID "" is
	// DefaultWorldID, Logger nil is Options.Logger. Both halves of this host
	// get its WorldID.
	Local local.Config

	// FS and Subprocess replace this host's halves. Nil: this host's.
	//
	// Ownership: a Subprocess that has a method Close(context.Context) error is
	// closed by the App. KillAll is its method of that name or, without one, a
	// Close whose context has ended.
	FS         seam.FS
	Subprocess seam.Subprocess

	// Logger gets fx's events, at debug level, and is what Local.Logger
	// defaults to. Nil: nobody does.
	Logger *slog.Logger

	// StartTimeout and StopTimeout are the budgets of Run. StopTimeout should
	// exceed the longest grace of a command: at its end what is left is killed.
	// 0: DefaultStartTimeout, DefaultStopTimeout.
	StartTimeout, StopTimeout time.Duration

	// Jobs configures the registry of background work.
	Jobs jobs.Config
}

// App is a composed world and what was built on it.
type App struct {
	options   Options
	fx        *fx.App
	lifecycle *lifecycle
	events    *events

	// Of the graph; nil where that failed before it had them.
	world       *seam.World
	owner       owner
	jobs        *jobs.Registry
	environment *bash.Environment

	// mu guards what follows, and is not held while anything of a plugin runs.
	mu      sync.Mutex
	stopped bool
	plugins []*plugin // in the order in which they were loaded, or began to be
}

// owner owns what a world's commands have started.
type owner interface {
	Close(context.Context) error
	KillAll()
}

// New composes a world with more, and acquires nothing. The graph provides
// *[seam.World], [seam.FS] and [seam.Subprocess], and on them *[jobs.Registry]
// and *[bash.Environment]; more is built on these. A second provider of a half
// is a *[DuplicateError].
//
// Functions that more invokes run now. If one of them starts a command and a
// later one fails, the command is killed before New returns.
func New(options Options, more ...fx.Option) (*App, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	options.StartTimeout = cmp.Or(options.StartTimeout, DefaultStartTimeout)
	options.StopTimeout = cmp.Or(options.StopTimeout, DefaultStopTimeout)
	a := &App{options: options, lifecycle: new(lifecycle), events: newEvents(options.Logger)}
	a.fx = fx.New(
		fx.WithLogger(func() fxevent.Logger { return a.events }),
		a.lifecycle.decorate(),
		// First: hooks stop in reverse, and invocations run in this order.
		fx.Module("corral",
			chooseHalves(options),
			fx.Provide(seam.NewWorld, bash.NewEnvironment),
			fx.Supply(options.Jobs),
			jobs.Module(),
			fx.Invoke(a.adopt),
		),
		fx.Options(more...),
	)
	if err := a.fx.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("compose: %w", root(asDuplicate(err))), a.close(ended()))
	}
	return a, nil
}

// World is the composed world.
func (a *App) World() *seam.World { return a.world }

// Timeouts are the budgets of Run, for who calls Start and Stop in its place.
func (a *App) Timeouts() (start, stop time.Duration) {
	return a.options.StartTimeout, a.options.StopTimeout
}

// Start runs the OnStart hooks. When it fails the app is stopped, as by Stop
// with ctx, and nothing is left alive; plugins that were loaded before are
// unloaded first. Where ctx has ended the error matches its cause.
func (a *App) Start(ctx context.Context) error {
	err := a.lifecycle.start(ctx, a.fx)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("start: %w", withCause(ctx, a.events.startError(err)))
	return errors.Join(err, a.unloadAll(ctx), a.lifecycle.finish(ctx), a.close(ctx))
}

// withCause has err match the cause of a context that has ended: fx returns
// only that it has.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// Stop unloads the plugins, runs the OnStop hooks, and then ends what is left of
// the world's commands and waits until it is proven gone. It may be called at
// any time and again.
//
// ctx bounds the hooks, the commands' grace, and the waiting for a plugin that is
// being loaded, which is told to give up. When it ends, or had ended
// before, hooks that remain are run with it as it is, commands are killed, and
// the proof is waited for all the same. Where there is none the error matches
// [seam.ErrUnproven].
func (a *App) Stop(ctx context.Context) error {
	err := a.unloadAll(ctx)
	if stopErr := a.lifecycle.stop(ctx, a.fx); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("stop: %w", stopErr))
	}
	return errors.Join(err, a.close(ctx))
}

// Run starts the app, calls f, and stops the app when f returns or panics. f's
// context is ctx: f returns when it has ended.
func (a *App) Run(ctx context.Context, f func(context.Context) error) (err error) {
	start, cancel := context.WithTimeout(ctx, a.options.StartTimeout)
	defer cancel()
	if err := a.Start(start); err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.options.StopTimeout)
		defer cancel()
		err = errors.Join(err, a.Stop(stop))
	}()
	return f(ctx)
}

// KillAll sends KILL to every command of the world. On this host it waits for
// nothing: Stop is the proof.
func (a *App) KillAll() { a.owner.KillAll() }

// close ends the commands. It returns with the proof, whatever ctx says.
func (a *App) close(ctx context.Context) error {
	if a.owner == nil {
		return nil
	}
	return a.owner.Close(ctx)
}

func (a *App) adopt(world *seam.World, owner owner, registry *jobs.Registry, environment *bash.Environment) {
	a.world, a.owner, a.jobs, a.environment = world, owner, registry, environment
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
