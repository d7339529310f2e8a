package jobs

import "go.uber.org/fx"

// Module provides a [Registry] made from a supplied [Config], and has the app
// close it: jobs that live are ended then.
func Module() fx.Option {
	return fx.Module("jobs", fx.Provide(provide))
}

// Params are what the module needs.
type Params struct {
	fx.In

	Lifecycle fx.Lifecycle
	Config    Config
}

// Result is what the module provides.
type Result struct {
	fx.Out

	Registry *Registry
}

func provide(p Params) Result {
	registry := New(p.Config)
	p.Lifecycle.Append(fx.Hook{OnStop: registry.Close})
	return Result{Registry: registry}
}
