package seamtest

import (
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/corral-world/corral/seam"
)

// memKey makes the path of a target's key, or the reverse.
const memKey = "mem:"

// at returns the canonical path of t.
func (m *MemFS) at(op string, t seam.Target) (string, error) {
	name, ok := strings.CutPrefix(t.Key, memKey)
	if t.WorldID != m.worldID || !ok {
		return "", &seam.OpError{Op: op, Path: t.Display, Code: seam.CodeForeignPath}
	}
	return name, nil
}

// memCall runs one operation between two looks at ctx.
func memCall[T any](ctx context.Context, op, path string, fn func() (T, error)) (T, error) {
	var v T
	var err error
	if ctx.Err() == nil {
		v, err = fn()
	}
	if ctx.Err() != nil {
		err = &seam.OpError{Code: seam.CodeAborted, Err: context.Cause(ctx)}
	}
	if err == nil {
		return v, nil
	}
	var zero T
	if e, ok := errors.AsType[*seam.OpError](err); ok {
		return zero, &seam.OpError{Op: op, Path: path, Code: e.Code, Err: e.Err}
	}
	code := seam.CodeIO
	if errors.Is(err, iofs.ErrNotExist) {
		code = seam.CodeNotFound
	}
	return zero, &seam.OpError{Op: op, Path: path, Code: code, Err: err}
}

// WorldID implements [seam.FS].
func (m *MemFS) WorldID() string { return m.worldID }

// Resolve implements [seam.Paths].
func (m *MemFS) Resolve(ctx context.Context, name, dir string) (seam.Target, error) {
	return memCall(ctx, "resolve", name, func() (seam.Target, error) {
		abs, err := memAbs(name, dir)
		if err != nil {
			return seam.Target{}, err
		}
		m.mu.RLock()
		defer m.mu.RUnlock()
		place, err := m.walk(abs, true)
		if err != nil {
			return seam.Target{}, err
		}
		display := path.Clean(abs)
		if clean, err := m.walk(display, true); err != nil || clean.path() != place.path() {
			display = abs // it has ".." after a link
		}
		return seam.Target{WorldID: m.worldID, Key: memKey + place.path(), Display: display}, nil
	})
}

func memAbs(name, dir string) (string, error) {
	field, problem := "path", ""
	switch {
	case name == "":
		problem = "is empty"
	case strings.Contains(name, "\x00"):
		problem = "contains a NUL byte"
	case path.IsAbs(name):
		return name, nil
	case !path.IsAbs(dir):
		field, problem = "dir", "is not absolute"
	default:
		return dir + "/" + name, nil
	}
	return "", &seam.OpError{Code: seam.CodeInvalid, Err: &seam.FieldError{Field: field, Problem: problem}}
}

// ProcessPath implements [seam.Paths].
func (m *MemFS) ProcessPath(t seam.Target) (string, error) { return m.at("process path", t) }

// FileURI implements [seam.Paths].
func (m *MemFS) FileURI(t seam.Target) (string, error) {
	name, err := m.at("file uri", t)
	if err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "file", Path: name}).String(), nil
}

// Contains implements [seam.Paths].
func (m *MemFS) Contains(parent, child seam.Target) (bool, error) {
	parentPath, err := m.at("contains", parent)
	if err != nil {
		return false, err
	}
	childPath, err := m.at("contains", child)
	if err != nil {
		return false, err
	}
	return strings.HasPrefix(strings.TrimSuffix(childPath, "/")+"/", strings.TrimSuffix(parentPath, "/")+"/"), nil
}

// find returns the file that t names; it must exist. m.mu is held.
func (m *MemFS) find(t seam.Target) (memPlace, error) {
	name, err := m.at("", t)
	if err != nil {
		return memPlace{}, err
	}
	place, err := m.walk(name, true)
	if err == nil && place.node == nil {
		err = iofs.ErrNotExist
	}
	return place, err
}

// Stat implements [seam.Reader].
func (m *MemFS) Stat(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
	return memCall(ctx, "stat", t.Display, func() (seam.FileInfo, error) {
		m.mu.RLock()
		defer m.mu.RUnlock()
		place, err := m.find(t)
		if err != nil {
			return seam.FileInfo{}, err
		}
		return place.node.info(), nil
	})
}

// Lstat implements [seam.Reader].
func (m *MemFS) Lstat(ctx context.Context, name, dir string) (seam.FileInfo, error) {
	return memCall(ctx, "lstat", name, func() (seam.FileInfo, error) {
		abs, err := memAbs(name, dir)
		if err != nil {
			return seam.FileInfo{}, err
		}
		m.mu.RLock()
		defer m.mu.RUnlock()
		place, err := m.walk(abs, false)
		switch {
		case err != nil:
			return seam.FileInfo{}, err
		case place.node == nil:
			return seam.FileInfo{}, iofs.ErrNotExist
		}
		return place.node.info(), nil
	})
}

// data returns the content of a regular file.
func (m *MemFS) data(t seam.Target) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	place, err := m.find(t)
	switch {
	case err != nil:
		return nil, err
	case !place.node.mode.IsRegular():
		return nil, &seam.OpError{Code: seam.CodeNotRegular}
	}
	return place.node.data, nil
}

// ReadBytes implements [seam.Reader].
func (m *MemFS) ReadBytes(ctx context.Context, t seam.Target, maxBytes int64) ([]byte, error) {
	return memCall(ctx, "read bytes", t.Display, func() ([]byte, error) {
		if maxBytes < 0 {
			return nil, &seam.OpError{Code: seam.CodeInvalid, Err: &seam.FieldError{Field: "maxBytes", Problem: "is negative"}}
		}
		data, err := m.data(t)
		switch {
		case err != nil:
			return nil, err
		case int64(len(data)) > maxBytes:
			return nil, &seam.OpError{Code: seam.CodeTooLarge}
		}
		return slices.Clone(data), nil
	})
}

// OpenText implements [seam.Reader]. What it reads is the content at the time
// of opening.
func (m *MemFS) OpenText(ctx context.Context, t seam.Target) (io.ReadCloser, error) {
	return memCall(ctx, "open text", t.Display, func() (io.ReadCloser, error) {
		data, err := m.data(t)
		if err != nil {
			return nil, err
		}
		text := &memText{ctx: ctx, path: t.Display, rest: data, end: io.EOF}
		for i := 0; i < len(data); {
			r, size := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && size == 1 || r == 0 && i < nulSample {
				text.rest, text.end = data[:i], &seam.OpError{Code: seam.CodeNotText}
				break
			}
			i += size
		}
		return text, nil
	})
}

// A memText is an open text.
type memText struct {
	ctx  context.Context // Read takes none; this one bounds the reads
	path string

	mu   sync.Mutex
	rest []byte // guarded by mu
	end  error  // what follows rest; guarded by mu
}

func (r *memText) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() == nil && len(r.rest) == 0 && errors.Is(r.end, io.EOF) {
		return 0, io.EOF
	}
	return memCall(r.ctx, "read text", r.path, func() (int, error) {
		if len(r.rest) == 0 {
			return 0, r.end
		}
		n := copy(p, r.rest)
		r.rest = r.rest[n:]
		return n, nil
	})
}

func (r *memText) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest, r.end = nil, iofs.ErrClosed
	return nil
}

// List implements [seam.Reader].
func (m *MemFS) List(ctx context.Context, t seam.Target) ([]seam.Entry, error) {
	return memCall(ctx, "list", t.Display, func() ([]seam.Entry, error) {
		m.mu.RLock()
		defer m.mu.RUnlock()
		dir, err := m.find(t)
		switch {
		case err != nil:
			return nil, err
		case !dir.node.mode.IsDir():
			return nil, &seam.OpError{Code: seam.CodeNotDir}
		}
		var entries []seam.Entry
		for _, name := range slices.Sorted(maps.Keys(dir.node.children)) {
			entries = append(entries, m.entry(path.Join(dir.path(), name), path.Join(t.Display, name)))
		}
		return entries, nil
	})
}

// entry describes the existing child at a canonical path. m.mu is held.
func (m *MemFS) entry(name, display string) seam.Entry {
	child, _ := m.walk(name, false)
	entry := seam.Entry{
		Name:   path.Base(name),
		Target: seam.Target{WorldID: m.worldID, Key: memKey + name, Display: display},
		Info:   child.node.info(),
	}
	target, err := m.walk(name, true)
	if err == nil {
		entry.Target.Key = memKey + target.path()
	}
	if target.node == nil { // it dangles
		entry.Info = seam.FileInfo{Type: seam.TypeOther}
	}
	return entry
}
