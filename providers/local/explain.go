package local

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/providers/fallback"
	"github.com/corral-world/corral/seam"
)

// explain says which part of a request the system refused. It looks after the
// fact, and only at what the failed start had already been told.
func explain(err error, r owner.Request) error {
	op := &seam.OpError{Op: "spawn", Argv0: r.Argv[0], Code: seam.CodeIO, Err: err}
	if field, ok := errors.AsType[*seam.FieldError](err); ok {
		op.Code, op.Err = seam.CodeUnsupported, field // a limit that the launcher has refused
		return op
	}
	var failed *ownerError
	var fallen *fallback.OwnerError
	if errors.As(err, &failed) || errors.As(err, &fallen) {
		op.Code = seam.CodeContainment
		return op
	}
	if errors.Is(err, syscall.E2BIG) {
		op.Code, op.Err = seam.CodeTooLong, fmt.Errorf("arguments and environment: %w", err)
		return op
	}
	if errors.Is(err, errors.ErrUnsupported) {
		op.Code = seam.CodeUnsupported
		return op
	}
	isPathError := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
		errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENOEXEC) || errors.Is(err, syscall.ELOOP) ||
		errors.Is(err, syscall.ENAMETOOLONG)
	if !isPathError {
		return op // of the system's means: memory, processes, descriptors
	}
	if dirErr := explainDir(r.Dir, r.Argv[0]); dirErr != nil {
		return dirErr
	}
	file := r.Path
	if !filepath.IsAbs(file) {
		file = filepath.Join(r.Dir, file)
	}
	info, statErr := os.Stat(file)
	switch {
	case errors.Is(statErr, fs.ErrNotExist), errors.Is(statErr, syscall.ENOTDIR):
		op.Code, op.Err = seam.CodeExecutableNotFound, errors.New("no such file")
	case statErr != nil:
		op.Code, op.Err = seam.CodeNotExecutable, statErr
	case !info.Mode().IsRegular():
		op.Code, op.Err = seam.CodeNotExecutable, fmt.Errorf("%w: not a regular file", errNotExecutable)
	case errors.Is(err, fs.ErrNotExist):
		op.Code, op.Err = seam.CodeInterpreterNotFound, fmt.Errorf("interpreter %s: no such file", interpreter(file))
	case errors.Is(err, syscall.ENOEXEC):
		op.Code, op.Err = seam.CodeNotExecutable, fmt.Errorf("%w: unknown format", errNotExecutable)
	default:
		op.Code, op.Err = seam.CodeNotExecutable, fmt.Errorf("%w: %w", errNotExecutable, err)
	}
	return op
}

// ownerError is a launch that failed for what owns it, not for its target.
type ownerError struct{ err error }

func (e *ownerError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *ownerError) Unwrap() error { return e.err }

// explainDir says what is wrong with a working directory; nil if nothing is.
func explainDir(dir, argv0 string) error {
	info, err := os.Stat(dir)
	op := &seam.OpError{Op: "spawn", Argv0: argv0, Err: fmt.Errorf("directory %s: %w", dir, err)}
	switch {
	case err == nil && !info.IsDir():
		op.Code, op.Err = seam.CodeNotDir, fmt.Errorf("directory %s: not a directory", dir)
	case err == nil && !mayEnter(dir):
		op.Code, op.Err = seam.CodePermission, fmt.Errorf("directory %s: %w", dir, fs.ErrPermission)
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		op.Code, op.Err = seam.CodeDirNotFound, fmt.Errorf("directory %s: no such directory", dir)
	case errors.Is(err, syscall.ENOTDIR):
		op.Code = seam.CodeNotDir
	case errors.Is(err, fs.ErrPermission):
		op.Code = seam.CodePermission
	default:
		op.Code = seam.CodeIO
	}
	return op
}

// interpreter names what the system runs file with, as far as it can be read.
func interpreter(file string) string {
	head, err := readHead(file)
	if err != nil {
		return "of " + file
	}
	if line, isScript := bytes.CutPrefix(head, []byte("#!")); isScript {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		if fields := strings.Fields(string(line)); len(fields) > 0 {
			return fields[0]
		}
	}
	program, err := elf.Open(file)
	if err != nil {
		return "of " + file
	}
	defer program.Close()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP && segment.Filesz < 4096 {
			path, _ := io.ReadAll(segment.Open())
			return string(bytes.TrimRight(path, "\x00"))
		}
	}
	return "of " + file
}
