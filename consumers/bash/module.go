package bash

import (
	"go.uber.org/fx"

	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
)

// Module provides a [Bash] on the app's world, made from a supplied [Config].
// Config.Jobs and Config.Managed are the app's, where it has them and the
// config has none. It has nothing to start or to stop: what runs is the
// runtime's, and jobs are the registry's.
func Module() fx.Option {
	return fx.Module("bash", fx.Provide(provide))
}

// Params are what the module needs.
type Params struct {
	fx.In

	World   *seam.World
	Config  Config
	Jobs    *jobs.Registry `optional:"true"`
	Managed *Environment   `optional:"true"`
}

// Provided is what the module provides.
type Provided struct {
	fx.Out

	Bash *Bash
}

func provide(p Params) (Provided, error) {
	if p.Config.Jobs == nil {
		p.Config.Jobs = p.Jobs
	}
	if p.Config.Managed == nil {
		p.Config.Managed = p.Managed
	}
	b, err := New(p.World, p.Config)
	return Provided{Bash: b}, err
}
