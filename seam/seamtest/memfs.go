package seamtest

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/corral-world/corral/seam"
)

// A MemFS is a [seam.FS] in memory for tests of consumers, in POSIX syntax. It
// passes [TestFS]. Files are put into it by its own methods, at absolute paths
// whose missing directories are made; these fail as a system would, with an
// error of io/fs.
//
// Keys of its targets are no paths, so that a consumer that takes one for a
// path fails.
//
// All methods may be called concurrently.
type MemFS struct {
	worldID string

	mu    sync.RWMutex
	root  *memNode // guarded by mu, and all below it
	clock int      // counts changes; guarded by mu
}

var _ seam.FS = (*MemFS)(nil)

// NewMemFS returns a filesystem of one empty directory, as a half of the named
// world.
func NewMemFS(worldID string) *MemFS {
	m := &MemFS{worldID: worldID}
	m.root = m.newNode(iofs.ModeDir | 0o755)
	return m
}

// A memNode is a file of any kind.
type memNode struct {
	mode     iofs.FileMode
	version  int                 // the clock when it last changed
	data     []byte              // of a regular file; replaced, never written to
	link     string              // of a symbolic link
	children map[string]*memNode // of a directory
}

func (m *MemFS) newNode(mode iofs.FileMode) *memNode {
	m.clock++
	n := &memNode{mode: mode, version: m.clock}
	if mode.IsDir() {
		n.children = make(map[string]*memNode)
	}
	return n
}

func (n *memNode) info() seam.FileInfo {
	info := seam.FileInfo{Type: seam.TypeOther, Mode: n.mode, Version: fmt.Sprint(n.version)}
	switch n.mode.Type() {
	case 0:
		info.Type, info.SizeBytes = seam.TypeFile, int64(len(n.data))
	case iofs.ModeDir:
		info.Type = seam.TypeDir
	case iofs.ModeSymlink:
		info.Type = seam.TypeSymlink
	}
	return info
}

// WriteFile creates or rewrites a file, through symbolic links.
func (m *MemFS) WriteFile(path string, data []byte) error {
	return m.plant("write", path, true, func(dir *memNode, name string) error {
		node := dir.children[name]
		if node == nil {
			node = m.newNode(0o644)
			dir.children[name] = node
		}
		if !node.mode.IsRegular() {
			return errors.New("not a regular file")
		}
		m.clock++
		node.data, node.version = slices.Clone(data), m.clock
		return nil
	})
}

// Mkdir makes a directory where there is nothing.
func (m *MemFS) Mkdir(path string) error { return m.plantNew("mkdir", path, iofs.ModeDir|0o755, "") }

// Symlink makes a symbolic link to target where there is nothing.
func (m *MemFS) Symlink(target, path string) error {
	return m.plantNew("symlink", path, iofs.ModeSymlink|0o777, target)
}

// Mkfifo makes a file of another kind where there is nothing.
func (m *MemFS) Mkfifo(path string) error {
	return m.plantNew("mkfifo", path, iofs.ModeNamedPipe|0o644, "")
}

// Remove removes what is at path, a directory with all that is in it. It does
// not follow a link.
func (m *MemFS) Remove(path string) error {
	return m.plant("remove", path, false, func(dir *memNode, name string) error {
		if dir.children[name] == nil {
			return iofs.ErrNotExist
		}
		delete(dir.children, name)
		return nil
	})
}

func (m *MemFS) plantNew(op, path string, mode iofs.FileMode, link string) error {
	return m.plant(op, path, false, func(dir *memNode, name string) error {
		if dir.children[name] != nil {
			return iofs.ErrExist
		}
		node := m.newNode(mode)
		node.link = link
		dir.children[name] = node
		return nil
	})
}

// plant calls change with the directory that the name at path belongs in.
func (m *MemFS) plant(op, name string, follow bool, change func(dir *memNode, name string) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.walk(name, follow)
	switch {
	case !path.IsAbs(name):
		err = iofs.ErrInvalid
	case err == nil && len(at.names) == 0:
		err = iofs.ErrExist // the root
	case err == nil:
		dir := m.root
		for _, name := range at.names[:len(at.names)-1] {
			child := dir.children[name]
			if child == nil {
				child = m.newNode(iofs.ModeDir | 0o755)
				dir.children[name] = child
			}
			dir = child
		}
		m.clock++
		dir.version = m.clock
		err = change(dir, at.names[len(at.names)-1])
	}
	if err != nil {
		return &iofs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// A memPlace is a canonical name, and the file there, nil where it is missing.
type memPlace struct {
	names []string
	node  *memNode
}

func (p memPlace) path() string { return "/" + strings.Join(p.names, "/") }

var (
	errNotDir = fmt.Errorf("not a directory: %w", iofs.ErrNotExist)
	errLoop   = errors.New("too many levels of symbolic links")
)

// walk follows an absolute path as unix does; missing components are taken for
// directories. m.mu is held.
func (m *MemFS) walk(abs string, follow bool) (memPlace, error) {
	var names []string          // canonical
	chain := []*memNode{m.root} // the root and the files at names, shorter where they are missing
	pending := strings.FieldsFunc(abs, isSlash)
	for links := 0; len(pending) > 0; {
		name := pending[0]
		pending = pending[1:]
		exists := len(chain) == len(names)+1
		dir := chain[len(chain)-1]
		if exists && !dir.mode.IsDir() {
			return memPlace{}, errNotDir
		}
		switch name {
		case ".":
			continue
		case "..":
			if len(names) > 0 {
				names = names[:len(names)-1]
				chain = chain[:min(len(chain), len(names)+1)]
			}
			continue
		}
		child := dir.children[name]
		if !exists || child == nil {
			names = append(names, name)
			continue
		}
		if child.mode.Type() != iofs.ModeSymlink || !follow && len(pending) == 0 {
			names, chain = append(names, name), append(chain, child)
			continue
		}
		if links++; links > 40 {
			return memPlace{}, errLoop
		}
		if path.IsAbs(child.link) {
			names, chain = nil, chain[:1]
		}
		pending = append(strings.FieldsFunc(child.link, isSlash), pending...)
	}
	if len(chain) == len(names)+1 {
		return memPlace{names, chain[len(names)]}, nil
	}
	return memPlace{names, nil}, nil
}

func isSlash(r rune) bool { return r == '/' }
