package seamtest

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/corral-world/corral/seam"
)

const ruleAborted = "an ended context gives CodeAborted, which matches its cause"

var errAbort = errors.New("the caller lost interest")

// fsCallCases check what holds for every call.
var fsCallCases = []fsCase{
	{
		name: "abort-before", rule: ruleAborted,
		run: func(e *fsEnv) {
			for _, call := range e.calls() {
				ctx, cancel := context.WithCancelCause(e.ctx)
				cancel(errAbort)
				e.wantAborted(call.name, call.run(ctx))
			}
		},
	},
	{
		name: "abort-during", rule: ruleAborted + ", also when it ended during the call, so that an abort is never read as absence",
		run: func(e *fsEnv) {
			for _, call := range e.calls() {
				ctx := newTripContext(e.ctx)
				err := call.run(ctx)
				if ctx.Context.Err() != nil { // it was looked at, and ended then
					e.wantAborted(call.name, err)
				}
				ctx.cancel(nil)
			}
		},
	},
	{
		name: "abort-reading", rule: "the context of OpenText bounds the reads: one that finds it ended fails with CodeAborted",
		run: func(e *fsEnv) {
			e.write("file", "some text")
			ctx, cancel := context.WithCancelCause(e.ctx)
			defer cancel(nil)
			text, err := e.FS.OpenText(ctx, e.resolve("file"))
			if err != nil {
				e.fatalf("OpenText: %w", err)
			}
			defer text.Close()
			if n, err := text.Read(make([]byte, 4)); n == 0 || err != nil {
				e.errorf("first Read: %d, %v", n, err)
			}
			cancel(errAbort)
			_, err = text.Read(make([]byte, 4))
			e.wantAborted("Read", err)
		},
	},
	{
		name: "concurrent", rule: "all methods may be called concurrently",
		run: func(e *fsEnv) {
			const callers, rounds = 8, 5
			e.mkdir("dir")
			e.write("dir/file", "some text")
			e.write("dir/busy", "0")
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range rounds {
						e.useAll("dir", "dir/file", "some text")
					}
				})
			}
			for range rounds {
				e.write("dir/busy", "1")
			}
			wg.Wait()
		},
	},
}

// An fsCall is one method that takes a context, with its arguments.
type fsCall struct {
	name string
	run  func(ctx context.Context) error
}

// calls returns calls that would succeed, and such that would find nothing.
func (e *fsEnv) calls() []fsCall {
	e.mkdir("dir")
	e.write("file", "some text")
	var calls []fsCall
	for _, name := range []string{"file", "missing"} {
		t := e.resolve(name)
		calls = append(calls,
			fsCall{"Resolve " + name, func(ctx context.Context) error { _, err := e.FS.Resolve(ctx, e.path(name), ""); return err }},
			fsCall{"Stat " + name, func(ctx context.Context) error { _, err := e.FS.Stat(ctx, t); return err }},
			fsCall{"Lstat " + name, func(ctx context.Context) error { _, err := e.FS.Lstat(ctx, e.path(name), ""); return err }},
			fsCall{"OpenText " + name, func(ctx context.Context) error { return e.openAndClose(ctx, t) }},
			fsCall{"ReadBytes " + name, func(ctx context.Context) error { _, err := e.FS.ReadBytes(ctx, t, 100); return err }},
		)
	}
	for _, name := range []string{"dir", "missing"} {
		t := e.resolve(name)
		calls = append(calls, fsCall{"List " + name, func(ctx context.Context) error { _, err := e.FS.List(ctx, t); return err }})
	}
	return calls
}

func (e *fsEnv) wantAborted(what string, err error) {
	e.wantCode(what, err, seam.CodeAborted)
	if err != nil && !errors.Is(err, errAbort) {
		e.errorf("%s: the error does not match the context's cause: %w", what, err)
	}
}

// useAll makes every call once, on files of which only the siblings change. It
// must not end the goroutine.
func (e *fsEnv) useAll(dir, file, data string) {
	t, err := e.FS.Resolve(e.ctx, e.path(file), "")
	parent, err2 := e.FS.Resolve(e.ctx, e.path(dir), "")
	path, err3 := e.FS.ProcessPath(t)
	_, err4 := e.FS.FileURI(t)
	contained, err5 := e.FS.Contains(parent, t)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil || path == "" || !contained {
		e.errorf("path %q, contained %v, %v", path, contained, err)
		return
	}
	info, err := e.FS.Stat(e.ctx, t)
	linkInfo, err2 := e.FS.Lstat(e.ctx, e.path(file), "")
	entries, err3 := e.FS.List(e.ctx, parent)
	raw, err4 := e.FS.ReadBytes(e.ctx, t, 100)
	if err := errors.Join(err, err2, err3, err4); err != nil || info != linkInfo || len(entries) != 2 || string(raw) != data {
		e.errorf("stat %+v, lstat %+v, %d entries, data %q, %v", info, linkInfo, len(entries), raw, err)
	}
	text, err := e.FS.OpenText(e.ctx, t)
	if err != nil {
		e.errorf("OpenText: %w", err)
		return
	}
	got, err := io.ReadAll(text)
	if err := errors.Join(err, text.Close()); err != nil || string(got) != data {
		e.errorf("text %q, %v", got, err)
	}
}

// A tripContext ends as soon as it has once been found not to have ended.
type tripContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

func newTripContext(parent context.Context) *tripContext {
	ctx, cancel := context.WithCancelCause(parent)
	return &tripContext{ctx, cancel}
}

func (c *tripContext) Err() error {
	err := c.Context.Err()
	c.cancel(errAbort)
	return err
}
