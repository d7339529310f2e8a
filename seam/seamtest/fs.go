// Package seamtest is the definition of a conforming world: the suites that a
// provider of package seam passes, each case naming the rule that it checks,
// and worlds in memory for tests of consumers.
package seamtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-world/corral/seam"
)

// An FSConfig is a filesystem to be held to the contract of [seam.FS], and the
// means to put files into it behind its back.
type FSConfig struct {
	FS seam.FS

	// Dir is an existing, empty and writable directory, absolute in the syntax
	// of FS's world. Each case works in a new directory below it.
	Dir string

	// Separator stands between the elements of a path. Empty is a slash.
	Separator string

	// Lexical says that the platform takes ".." one component back in the
	// spelling, as Windows does, and not to the parent of what a link names.
	Lexical bool

	// Patience bounds each case, so that a call that blocks is a violation and
	// not a hang; what it started is abandoned then. Zero is a minute.
	Patience time.Duration

	// WriteFile creates or rewrites a file, Mkdir a directory in an existing
	// one. Both are required.
	WriteFile func(path string, data []byte) error
	Mkdir     func(path string) error

	// What follows may be nil where the world has no such thing; the cases that
	// need it are skipped, and say so.
	Symlink    func(target, path string) error
	Mkfifo     func(path string) error
	Remove     func(path string) error
	SetModTime func(path string, t time.Time) error
}

// A Violation is a case of the contract that a provider failed.
type Violation struct {
	Case string
	Rule string // the sentence of the contract that was broken
	Err  error  // how, joined where it is more than one thing
}

func (v Violation) Error() string {
	return fmt.Sprintf("%s: %v\nrule: %s", v.Case, v.Err, v.Rule)
}

// TestFS is the contract of [seam.FS]: each case is a subtest that names the
// rule it checks. A world passes all of them.
func TestFS(t *testing.T, cfg FSConfig) {
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range fsCases() {
		t.Run(c.name, func(t *testing.T) {
			if reason := c.skip(cfg); reason != "" {
				t.Skip(reason)
			}
			if err := c.check(cfg); err != nil {
				t.Errorf("%v\nrule: %s", err, c.rule)
			}
		})
	}
}

// CheckFS runs the cases of [TestFS] outside a test, those that cfg can't
// support left out, and returns the violations.
func CheckFS(cfg FSConfig) []Violation {
	if err := cfg.check(); err != nil {
		return []Violation{{Case: "config", Rule: "the suite is configured", Err: err}}
	}
	var violations []Violation
	for _, c := range fsCases() {
		if c.skip(cfg) != "" {
			continue
		}
		if err := c.check(cfg); err != nil {
			violations = append(violations, Violation{Case: c.name, Rule: c.rule, Err: err})
		}
	}
	return violations
}

// FSCases returns the names of the cases in the order in which they run.
func FSCases() []string {
	var names []string
	for _, c := range fsCases() {
		names = append(names, c.name)
	}
	return names
}

func (cfg FSConfig) check() error {
	if cfg.FS == nil || cfg.Dir == "" || cfg.WriteFile == nil || cfg.Mkdir == nil {
		return errors.New("FSConfig lacks FS, Dir, WriteFile or Mkdir")
	}
	return nil
}

func fsCases() []fsCase {
	return slices.Concat(fsNameCases, fsPathCases, fsInfoCases, fsReadCases, fsListCases, fsCallCases)
}

// An fsCase checks one rule.
type fsCase struct {
	name  string
	rule  string
	needs fsNeeds
	run   func(e *fsEnv)
}

// fsNeeds is a set of optional things that a case plants.
type fsNeeds int

const (
	needSymlink fsNeeds = 1 << iota
	needFIFO
	needRemove
)

// skip returns why c can't run against cfg, or "".
func (c fsCase) skip(cfg FSConfig) string {
	switch {
	case c.needs&needSymlink != 0 && cfg.Symlink == nil:
		return "FSConfig.Symlink is nil: no symbolic links can be planted in this world"
	case c.needs&needFIFO != 0 && cfg.Mkfifo == nil:
		return "FSConfig.Mkfifo is nil: no FIFO can be planted in this world"
	case c.needs&needRemove != 0 && cfg.Remove == nil:
		return "FSConfig.Remove is nil: nothing can be removed in this world"
	}
	return ""
}

// check runs c in a directory of its own.
func (c fsCase) check(cfg FSConfig) error {
	cfg.Separator = cmp.Or(cfg.Separator, "/")
	e := &fsEnv{FSConfig: cfg, dir: cfg.Dir + cfg.Separator + c.name, ctx: context.Background()}
	if err := cfg.Mkdir(e.dir); err != nil {
		return fmt.Errorf("planting: %w", err)
	}
	// The case has a goroutine to itself, which fatalf ends. It is joined here
	// unless the provider blocks; then there is nothing to end it by.
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(e)
	}()
	patience := time.NewTimer(cmp.Or(cfg.Patience, time.Minute))
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		e.errorf("no end after %v", cmp.Or(cfg.Patience, time.Minute))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.errs...)
}

// An fsEnv is what a case works with. Its helpers take names below the case's
// directory, elements separated by slashes.
type fsEnv struct {
	FSConfig
	dir string // the case's own
	ctx context.Context

	mu   sync.Mutex
	errs []error
}

func (e *fsEnv) errorf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.errs = append(e.errs, fmt.Errorf(format, args...))
}

// fatalf ends the case.
func (e *fsEnv) fatalf(format string, args ...any) {
	e.errorf(format, args...)
	runtime.Goexit()
}

// rel is name as a relative path in the world's syntax.
func (e *fsEnv) rel(name string) string { return strings.ReplaceAll(name, "/", e.Separator) }

// path is the absolute path of name, which is not cleaned.
func (e *fsEnv) path(name string) string { return e.dir + e.Separator + e.rel(name) }

func (e *fsEnv) planted(err error) {
	if err != nil {
		e.fatalf("planting: %w", err)
	}
}

func (e *fsEnv) write(name, data string)     { e.planted(e.WriteFile(e.path(name), []byte(data))) }
func (e *fsEnv) mkdir(name string)           { e.planted(e.Mkdir(e.path(name))) }
func (e *fsEnv) symlink(target, name string) { e.planted(e.Symlink(target, e.path(name))) }
func (e *fsEnv) mkfifo(name string)          { e.planted(e.Mkfifo(e.path(name))) }
func (e *fsEnv) remove(name string)          { e.planted(e.Remove(e.path(name))) }

// resolve resolves a name that can be.
func (e *fsEnv) resolve(name string) seam.Target { return e.resolvePath(e.path(name)) }

func (e *fsEnv) resolvePath(path string) seam.Target {
	t, err := e.FS.Resolve(e.ctx, path, "")
	if err != nil {
		e.fatalf("Resolve(%q): %w", path, err)
	}
	return t
}

// processPath, stat and list are the calls of their names, which must succeed.
func (e *fsEnv) processPath(t seam.Target) string {
	p, err := e.FS.ProcessPath(t)
	if err != nil {
		e.fatalf("ProcessPath(%q): %w", t.Display, err)
	}
	return p
}

func (e *fsEnv) stat(t seam.Target) seam.FileInfo {
	info, err := e.FS.Stat(e.ctx, t)
	if err != nil {
		e.fatalf("Stat(%q): %w", t.Display, err)
	}
	return info
}

func (e *fsEnv) list(t seam.Target) []seam.Entry {
	entries, err := e.FS.List(e.ctx, t)
	if err != nil {
		e.fatalf("List(%q): %w", t.Display, err)
	}
	return entries
}

// wantCode checks an error of a call described by what: its code, its shape,
// and the sentinel that the code implies.
func (e *fsEnv) wantCode(what string, err error, want seam.Code) {
	op, ok := errors.AsType[*seam.OpError](err)
	switch {
	case err == nil:
		e.errorf("%s: no error, want code %q", what, want)
	case !ok:
		e.errorf("%s: %T is not a *seam.OpError: %w", what, err, err)
	case op.Code != want:
		e.errorf("%s: code %q, want %q: %w", what, op.Code, want, err)
	case op.Op == "":
		e.errorf("%s: the error names no operation: %w", what, err)
	}
}
