package ptyshell

import (
	"go.uber.org/fx"

	"github.com/corral-world/corral/seam"
)

// Module provides [Shells] on the app's world, made from a supplied [Config],
// and has the app close them.
func Module() fx.Option {
	return fx.Module("ptyshell", fx.Provide(provide))
}

// Params are what the module needs.
type Params struct {
	fx.In

	Lifecycle fx.Lifecycle
	World     *seam.World
	Config    Config
}

// Provided is what the module provides.
type Provided struct {
	fx.Out

	Shells *Shells
}

func provide(p Params) (Provided, error) {
	shells, err := New(p.World, p.Config)
	if err != nil {
		return Provided{}, err
	}
	p.Lifecycle.Append(fx.Hook{OnStop: shells.Close})
	return Provided{Shells: shells}, nil
}
