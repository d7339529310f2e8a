package fsworld

import "go.uber.org/fx"

// Module provides an [FS] of the world whose id is supplied under the name
// "world_id". It has nothing to start or to stop. It does not provide the FS as
// a half of a world: who composes worlds does.
func Module() fx.Option {
	return fx.Module("fsworld", fx.Provide(provide))
}

// Params are what the module needs.
type Params struct {
	fx.In

	WorldID string `name:"world_id"`
}

// Result is what the module provides.
type Result struct {
	fx.Out

	FS *FS
}

func provide(p Params) (Result, error) {
	fs, err := New(p.WorldID)
	return Result{FS: fs}, err
}
