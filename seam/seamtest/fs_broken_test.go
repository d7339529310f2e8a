package seamtest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"

	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// broken is a MemFS with some methods replaced by worse ones.
type broken struct {
	*seamtest.MemFS
	resolve   func(ctx context.Context, path, dir string) (seam.Target, error)
	process   func(seam.Target) (string, error)
	uri       func(seam.Target) (string, error)
	contains  func(parent, child seam.Target) (bool, error)
	stat      func(context.Context, seam.Target) (seam.FileInfo, error)
	lstat     func(ctx context.Context, path, dir string) (seam.FileInfo, error)
	openText  func(context.Context, seam.Target) (io.ReadCloser, error)
	readBytes func(context.Context, seam.Target, int64) ([]byte, error)
	list      func(context.Context, seam.Target) ([]seam.Entry, error)
}

func newBroken(m *seamtest.MemFS) *broken {
	return &broken{m, m.Resolve, m.ProcessPath, m.FileURI, m.Contains, m.Stat, m.Lstat, m.OpenText, m.ReadBytes, m.List}
}

func (b *broken) Resolve(ctx context.Context, path, dir string) (seam.Target, error) {
	return b.resolve(ctx, path, dir)
}
func (b *broken) ProcessPath(t seam.Target) (string, error) { return b.process(t) }
func (b *broken) FileURI(t seam.Target) (string, error)     { return b.uri(t) }
func (b *broken) Contains(p, c seam.Target) (bool, error)   { return b.contains(p, c) }
func (b *broken) Stat(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
	return b.stat(ctx, t)
}
func (b *broken) Lstat(ctx context.Context, path, dir string) (seam.FileInfo, error) {
	return b.lstat(ctx, path, dir)
}
func (b *broken) OpenText(ctx context.Context, t seam.Target) (io.ReadCloser, error) {
	return b.openText(ctx, t)
}
func (b *broken) ReadBytes(ctx context.Context, t seam.Target, n int64) ([]byte, error) {
	return b.readBytes(ctx, t, n)
}
func (b *broken) List(ctx context.Context, t seam.Target) ([]seam.Entry, error) {
	return b.list(ctx, t)
}

// key makes targets by a rule of its own that are still MemFS's to read.
func (b *broken) key(rule func(abs string, t seam.Target) seam.Target) {
	resolve := b.resolve
	b.resolve = func(ctx context.Context, name, dir string) (seam.Target, error) {
		t, err := resolve(ctx, name, dir)
		if err != nil {
			return t, err
		}
		if !path.IsAbs(name) {
			name = dir + "/" + name
		}
		return rule(name, t), nil
	}
}

// text replaces what OpenText reads.
func (b *broken) text(read func(data []byte) io.Reader) {
	b.openText = func(ctx context.Context, t seam.Target) (io.ReadCloser, error) {
		data, err := b.MemFS.ReadBytes(ctx, t, 1<<30)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(read(data)), nil
	}
}

// entries changes what List returns.
func (b *broken) entries(change func(ctx context.Context, entries []seam.Entry) []seam.Entry) {
	list := b.list
	b.list = func(ctx context.Context, t seam.Target) ([]seam.Entry, error) {
		entries, err := list(ctx, t)
		return change(ctx, entries), err
	}
}

// errorsAs gives every failing call another error.
func (b *broken) errorsAs(change func(error) error) {
	m := b.MemFS
	b.resolve = func(ctx context.Context, path, dir string) (seam.Target, error) {
		t, err := m.Resolve(ctx, path, dir)
		return t, change(err)
	}
	b.stat = func(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
		info, err := m.Stat(ctx, t)
		return info, change(err)
	}
	b.lstat = func(ctx context.Context, path, dir string) (seam.FileInfo, error) {
		info, err := m.Lstat(ctx, path, dir)
		return info, change(err)
	}
	b.openText = func(ctx context.Context, t seam.Target) (io.ReadCloser, error) {
		text, err := m.OpenText(ctx, t)
		return text, change(err)
	}
	b.readBytes = func(ctx context.Context, t seam.Target, n int64) ([]byte, error) {
		data, err := m.ReadBytes(ctx, t, n)
		return data, change(err)
	}
	b.list = func(ctx context.Context, t seam.Target) ([]seam.Entry, error) {
		entries, err := m.List(ctx, t)
		return entries, change(err)
	}
}

// recode gives errors of one code another one.
func recode(from, to seam.Code) func(error) error {
	return func(err error) error {
		if op, ok := errors.AsType[*seam.OpError](err); ok && op.Code == from {
			return &seam.OpError{Op: op.Op, Path: op.Path, Code: to, Err: op.Err}
		}
		return err
	}
}

// silent hides that a text broke off.
type silent struct{ io.ReadCloser }

func (s *silent) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// chunky decodes each read by itself.
type chunky struct{ rest []byte }

func (c *chunky) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return copy(p, bytes.ToValidUTF8(p[:n], []byte("?"))), nil
}
