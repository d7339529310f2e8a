package local_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// A start that fails says which part of the request is at fault, whatever owns
// it.
func TestStartErrorsAreToldApart(t *testing.T) {
	for _, kind := range kindsHere(t, seam.KindScope, seam.KindCgroup, seam.KindReaper, seam.KindGroup) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			testStartErrors(t, openRuntime(t, local.Config{Containment: kind}))
		})
	}
}

func testStartErrors(t *testing.T, r *local.Runtime) {
	dir := t.TempDir()
	file := func(name, content string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o600)
	missingInterpreter := file("script", "#!/no/such/interpreter -x\n", 0o700)
	unknownFormat := file("data", "\x01\x00\x03\xff", 0o700)
	bareScript := file("bare", "exit $1\n", 0o700)
	onPath := file("onpath", "#!/bin/sh\nexit 7\n", 0o700)
	missing := filepath.Join(dir, "missing")

	for _, c := range []struct {
		name  string
		argv  []string
		dir   string
		env   seam.Env
		code  seam.Code
		is    error
		words string
	}{
		{name: "missing directory", argv: []string{"true"}, dir: missing, code: seam.CodeDirNotFound, is: fs.ErrNotExist, words: missing},
		{name: "missing directory and executable", argv: []string{"no-such"}, dir: missing, code: seam.CodeDirNotFound, is: fs.ErrNotExist, words: missing},
		{name: "directory is a file", argv: []string{"true"}, dir: plain, code: seam.CodeNotDir, words: "not a directory"},
		{name: "directory below a file", argv: []string{"true"}, dir: filepath.Join(plain, "x"), code: seam.CodeNotDir, words: "not a directory"},
		{name: "missing on PATH", argv: []string{"no-such-program"}, code: seam.CodeExecutableNotFound, is: fs.ErrNotExist, words: "PATH"},
		{name: "missing with a path", argv: []string{missing}, code: seam.CodeExecutableNotFound, is: fs.ErrNotExist, words: "no such file"},
		{name: "missing with a relative path", argv: []string{"./missing"}, code: seam.CodeExecutableNotFound, is: fs.ErrNotExist},
		{name: "missing interpreter", argv: []string{missingInterpreter}, code: seam.CodeInterpreterNotFound, is: fs.ErrNotExist, words: "/no/such/interpreter"},
		{name: "no execute permission", argv: []string{plain}, code: seam.CodeNotExecutable, is: fs.ErrPermission},
		{name: "no execute permission on PATH", argv: []string{"plain"}, env: seam.Env{seam.Set("PATH", dir)}, code: seam.CodeNotExecutable, words: plain},
		{name: "a directory", argv: []string{dir}, code: seam.CodeNotExecutable, words: "not a regular file"},
		{name: "unknown format", argv: []string{unknownFormat}, code: seam.CodeNotExecutable, words: "unknown format"},
		{name: "an argument too long", argv: []string{"true", strings.Repeat("x", 200_000)}, code: seam.CodeTooLong},
		{name: "arguments too long together", argv: append([]string{"true"}, slices.Repeat([]string{strings.Repeat("x", 100_000)}, 200)...), code: seam.CodeTooLong},
		{name: "a limit that can't be enforced", argv: []string{"true"}, code: seam.CodeUnsupported, is: errors.ErrUnsupported, words: "Limits.Pids"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := seam.Spec{Argv: c.argv, Dir: c.dir, Env: c.env, Grace: time.Second}
			if spec.Dir == "" {
				spec.Dir = dir
			}
			if c.code == seam.CodeUnsupported {
				spec.Limits.Pids = 10
			}
			_, err := r.Spawn(t.Context(), spec)
			if got := seam.CodeOf(err); got != c.code {
				t.Fatalf("got %q: %v, want %q", got, err, c.code)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v does not match %v", err, c.is)
			}
			if !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %q, want it to name %q", err, c.words)
			}
		})
	}

	t.Run("a script without an interpreter line runs as execvp has it", func(t *testing.T) {
		end, _ := run(t, r, bareScript, "9")
		if end.Outcome.ExitCode != 9 {
			t.Errorf("got %+v", end.Outcome)
		}
	})
	t.Run("PATH relative to the directory", func(t *testing.T) {
		p, err := r.Spawn(t.Context(), seam.Spec{
			Argv: []string{filepath.Base(onPath)}, Dir: dir, Env: seam.Env{seam.Set("PATH", ".")}, Grace: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if outcome, err := p.Wait(t.Context()); err != nil || outcome.ExitCode != 7 {
			t.Errorf("got %+v, %v", outcome, err)
		}
	})
}
