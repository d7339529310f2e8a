package local

import "go.uber.org/fx"

// Module provides a [Runtime] made from a supplied [Config], and has the app
// start and close it. It does not provide the runtime as a half of a world:
// who composes worlds does.
//
// fx gives up on stopping when its context ends, so who runs the app closes the
// runtime once more after that, as package app does.
func Module() fx.Option {
	return fx.Module("local", fx.Provide(provide))
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

	Runtime *Runtime
}

func provide(p Params) (Result, error) {
	runtime, err := New(p.Config)
	if err != nil {
		return Result{}, err
	}
	p.Lifecycle.Append(fx.Hook{OnStart: runtime.Start, OnStop: runtime.Close})
	return Result{Runtime: runtime}, nil
}
