package app

import (
	"context"
	"errors"

	"go.uber.org/dig"
	"go.uber.org/fx"

	"github.com/corral-world/corral/fsworld"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// chooseHalves is where providers are chosen. What is not replaced is this
// host's; halves of different worlds are refused by [seam.NewWorld].
func chooseHalves(options Options) fx.Option {
	config := options.Local
	if config.WorldID == "" {
		config.WorldID = DefaultWorldID
	}
	if config.Logger == nil {
		config.Logger = options.Logger
	}
	halves := []fx.Option{
		fx.Supply(fx.Private, config, fx.Annotate(config.WorldID, fx.ResultTags(`name:"world_id"`))),
	}
	if options.FS != nil {
		halves = append(halves, fx.Provide(func() seam.FS { return options.FS }))
	} else {
		halves = append(halves, fsworld.Module(), fx.Provide(
			fx.Annotate(itself[*fsworld.FS], fx.As(new(seam.FS)))))
	}
	if options.Subprocess != nil {
		halves = append(halves, fx.Provide(
			func() seam.Subprocess { return options.Subprocess },
			func() owner { return replacement{options.Subprocess} }))
	} else {
		halves = append(halves, local.Module(), fx.Provide(
			fx.Annotate(itself[*local.Runtime], fx.As(new(seam.Subprocess)), fx.As(new(owner)))))
	}
	return fx.Options(halves...)
}

func itself[T any](half T) T { return half }

// replacement owns a subprocess half that is not this host's, as far as it can
// be owned.
type replacement struct{ half seam.Subprocess }

func (r replacement) Close(ctx context.Context) error {
	if half, ok := r.half.(interface{ Close(context.Context) error }); ok {
		return half.Close(ctx)
	}
	return nil
}

// KillAll of a half that knows no better closes it without any calm.
func (r replacement) KillAll() {
	if half, ok := r.half.(interface{ KillAll() }); ok {
		half.KillAll()
		return
	}
	_ = r.Close(ended()) // who wants the proof calls Close, and gets its error
}

// root strips dig's account of who asked for what from a constructor's own
// error, which says what is wrong and is what callers look for.
func root(err error) error {
	if cause := dig.RootCause(err); isOurs(cause) {
		return cause
	}
	return err
}

func isOurs(err error) bool {
	var op *seam.OpError
	return errors.As(err, &op)
}
