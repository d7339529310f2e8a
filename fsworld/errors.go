package fsworld

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/corral-world/corral/seam"
)

// do runs one operation on path between two looks at ctx: one that ended
// meanwhile wins over any result, so that an abort is never read as absence.
// Errors of fn become an [seam.OpError] of op.
func do[T any](ctx context.Context, op, path string, fn func() (T, error)) (T, error) {
	var zero T
	if ctx.Err() != nil {
		return zero, aborted(ctx, op, path)
	}
	v, err := fn()
	if ctx.Err() != nil {
		return v, aborted(ctx, op, path)
	}
	if err != nil {
		return zero, opError(op, path, err)
	}
	return v, nil
}

func aborted(ctx context.Context, op, path string) error {
	return &seam.OpError{Op: op, Path: path, Code: seam.CodeAborted, Err: context.Cause(ctx)}
}

// invalid is the refusal of a request, to be completed by [opError].
func invalid(field, problem string) error {
	return &seam.OpError{Code: seam.CodeInvalid, Err: &seam.FieldError{Field: field, Problem: problem}}
}

// opError completes an [seam.OpError] that was made without op, or classifies
// an error of the system.
func opError(op, path string, err error) error {
	if e, ok := errors.AsType[*seam.OpError](err); ok {
		e.Op = op
		if e.Path == "" {
			e.Path = path
		}
		return e
	}
	e := &seam.OpError{Op: op, Path: path, Code: codeOf(err), Err: err}
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		e.Err = pathErr.Err // its path is ours, and its op says less
	}
	return e
}

func codeOf(err error) seam.Code {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return seam.CodeNotFound
	case errors.Is(err, fs.ErrPermission):
		return seam.CodePermission
	case errors.Is(err, errors.ErrUnsupported):
		return seam.CodeUnsupported
	default:
		return seam.CodeIO
	}
}
