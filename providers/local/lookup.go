package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// LookPath implements [seam.Subprocess].
func (r *Runtime) LookPath(ctx context.Context, name string, env seam.Env) (string, error) {
	fail := func(code seam.Code, err error) (string, error) {
		return "", &seam.OpError{Op: "look up", Argv0: name, Code: code, Err: err}
	}
	switch {
	case name == "":
		return fail(seam.CodeInvalid, &seam.FieldError{Field: "name", Problem: "is empty"})
	case strings.IndexByte(name, 0) >= 0:
		return fail(seam.CodeInvalid, &seam.FieldError{Field: "name", Problem: "contains a NUL byte"})
	case !filepath.IsAbs(name) && hasSeparator(name):
		return fail(seam.CodeInvalid, &seam.FieldError{Field: "name", Problem: "is a relative path"})
	}
	path, err := findExecutable(ctx, name, env.Apply(r.base, foldEnv), "")
	if ctx.Err() != nil {
		return "", seam.Aborted(ctx, "look up", name)
	}
	if err != nil {
		return fail(codeOfSearch(err), err)
	}
	return path, nil
}

// resolve turns a spec into what is to be started.
func (r *Runtime) resolve(ctx context.Context, spec *seam.Spec) (owner.Request, error) {
	base := append(append([]string(nil), r.base...), "PWD="+spec.Dir)
	request := owner.Request{
		Path: spec.Argv[0],
		Argv: spec.Argv,
		Dir:  spec.Dir,
		Env:  spec.Env.Apply(base, foldEnv),
	}
	if hasSeparator(request.Path) {
		return request, nil
	}
	path, err := findExecutable(ctx, request.Path, request.Env, spec.Dir)
	if ctx.Err() != nil {
		return request, seam.Aborted(ctx, "spawn", spec.Argv[0])
	}
	if err != nil {
		if dirErr := explainDir(spec.Dir, spec.Argv[0]); dirErr != nil {
			return request, dirErr
		}
		return request, &seam.OpError{Op: "spawn", Argv0: spec.Argv[0], Code: codeOfSearch(err), Err: err}
	}
	request.Path = path
	return request, nil
}

var (
	errNotOnPath     = errors.New("not found on PATH")
	errNotExecutable = errors.New("may not be executed")
)

func codeOfSearch(err error) seam.Code {
	if errors.Is(err, errNotExecutable) {
		return seam.CodeNotExecutable
	}
	return seam.CodeExecutableNotFound
}

// findExecutable searches environ's PATH for name. A relative or empty entry
// means dir, as it does to execvp; where no dir is given such entries are
// skipped.
func findExecutable(ctx context.Context, name string, environ []string, dir string) (string, error) {
	if filepath.IsAbs(name) {
		return name, checkExecutable(name)
	}
	refused := ""
	files := candidates(name, environ)
	for _, entry := range searchPath(environ) {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if !filepath.IsAbs(entry) {
			if dir == "" {
				continue
			}
			entry = filepath.Join(dir, entry)
		}
		for _, candidate := range files {
			// By concatenation: a ".." after a symbolic link keeps its meaning.
			file := entry + string(filepath.Separator) + candidate
			err := checkExecutable(file)
			if err == nil {
				return file, nil
			}
			if errors.Is(err, errNotExecutable) && refused == "" {
				refused = file
			}
		}
	}
	if refused != "" {
		return "", fmt.Errorf("%s %w", refused, errNotExecutable)
	}
	return "", errNotOnPath
}

// searchPath is the PATH of a complete environment.
func searchPath(environ []string) []string {
	if path, ok := lookupEnv(environ, "PATH"); ok {
		return filepath.SplitList(path)
	}
	return filepath.SplitList(defaultPath)
}

func lookupEnv(environ []string, name string) (string, bool) {
	for _, entry := range environ {
		got, value, ok := strings.Cut(entry, "=")
		if ok && (got == name || foldEnv && strings.EqualFold(got, name)) {
			return value, true
		}
	}
	return "", false
}

// checkExecutable returns nil, an error that matches errNotExecutable, or one
// that says why the file can't be seen. Directories are no candidates.
func checkExecutable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s: is a directory", file)
	case !info.Mode().IsRegular() || !mayExecute(file, info):
		return errNotExecutable
	}
	return nil
}

// asScript is the request that a shell and execvp(3) make of one whose file the
// system can't execute and that looks like text: a script without an interpreter line.
// Nothing of the target had run.
func asScript(r owner.Request, err error) (owner.Request, bool) {
	if !errors.Is(err, syscall.ENOEXEC) {
		return r, false
	}
	file := r.Path
	if !filepath.IsAbs(file) {
		file = filepath.Join(r.Dir, file)
	}
	head, err := readHead(file)
	if err != nil || bytes.IndexByte(head, 0) >= 0 {
		return r, false
	}
	r.Argv = append([]string{scriptShell, r.Path}, r.Argv[1:]...)
	r.Path = scriptShell
	return r, true
}

// scriptShell runs scripts that name no interpreter.
const scriptShell = "/bin/sh"

// readHead reads the first bytes of a file: enough to tell what it is.
func readHead(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], err
}
