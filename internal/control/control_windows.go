package control

import (
	"context"
	"errors"
)

// Server answers for a runtime. Windows has none: it has no launches.
type Server struct{}

// A Runtime is a runtime of this user. Windows has none yet.
type Runtime struct {
	Owner  int
	Ranges []Range
	Err    error
}

// Runtimes fails with errors.ErrUnsupported.
func Runtimes(context.Context) ([]Runtime, error) { return nil, errors.ErrUnsupported }

// Stop fails with errors.ErrUnsupported.
func (*Runtime) Stop(context.Context, string, bool) error { return errors.ErrUnsupported }
