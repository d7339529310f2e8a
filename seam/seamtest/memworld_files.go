package seamtest

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"strings"
	"sync"

	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/seam"
)

// stat describes what is at an absolute path, "" where nothing is.
func (m *MemWorld) stat(file string) (info seam.FileInfo, canonical string) {
	ctx := context.Background()
	t, err := m.config.FS.Resolve(ctx, file, "")
	if err != nil {
		return seam.FileInfo{}, ""
	}
	canonical, _ = m.config.FS.ProcessPath(t) // a target of its own
	info, _ = m.config.FS.Stat(ctx, t)        // zero where it is absent
	return info, canonical
}

// enter checks a working directory.
func (m *MemWorld) enter(dir string) error {
	switch info, _ := m.stat(dir); info.Type {
	case seam.TypeDir:
		return nil
	case "":
		return &seam.OpError{Op: "enter", Path: dir, Code: seam.CodeDirNotFound}
	default:
		return &seam.OpError{Op: "enter", Path: dir, Code: seam.CodeNotDir}
	}
}

// resolve returns the program that argv0 names.
func (m *MemWorld) resolve(argv0, dir string, env []string) (MemProgram, error) {
	file := argv0
	if strings.Contains(argv0, "/") {
		if !path.IsAbs(file) {
			file = path.Join(dir, file)
		}
		if err := m.executable(file); err != nil {
			return nil, err
		}
	} else {
		found, err := m.search(argv0, dir, env)
		if err != nil {
			return nil, err
		}
		file = found
	}
	_, canonical := m.stat(file)
	return m.config.Programs[canonical], nil
}

// executable checks a file that is to be run.
func (m *MemWorld) executable(file string) error {
	info, canonical := m.stat(file)
	switch {
	case info.Type == "":
		return &seam.OpError{Op: "find", Path: file, Code: seam.CodeExecutableNotFound}
	case m.config.Programs[canonical] == nil:
		return &seam.OpError{Op: "find", Path: file, Code: seam.CodeNotExecutable}
	}
	return nil
}

// search finds a bare name on the PATH of env. Relative entries are taken from
// dir, and skipped where it is empty.
func (m *MemWorld) search(name, dir string, env []string) (string, error) {
	if path.IsAbs(name) {
		return name, m.executable(name)
	}
	var notFound error = &seam.OpError{Op: "find", Path: name, Code: seam.CodeExecutableNotFound}
	for _, entry := range env {
		list, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, place := range strings.Split(list, ":") {
			if !path.IsAbs(place) {
				if dir == "" {
					continue
				}
				place = path.Join(dir, place)
			}
			file := path.Join(place, name)
			err := m.executable(file)
			if err == nil {
				return file, nil
			}
			if info, _ := m.stat(file); info.Type == seam.TypeFile {
				notFound = err
			}
		}
	}
	return "", notFound
}

// memStore keeps spill files in the world's filesystem.
type memStore struct {
	fs *MemFS

	mu    sync.Mutex
	dir   string // this world's; "" until it is needed
	files int
}

// Create implements [managed.Store].
func (s *memStore) Create(name string) (managed.SpillFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := 1; s.dir == ""; n++ {
		dir := fmt.Sprintf("/tmp/spill-%d", n)
		err := s.fs.Mkdir(dir)
		switch {
		case err == nil:
			s.dir = dir
		case !errors.Is(err, iofs.ErrExist):
			return nil, err
		}
	}
	s.files++
	f := &memSpill{fs: s.fs, path: fmt.Sprintf("%s/%d-%s.log", s.dir, s.files, name)}
	return f, f.fs.WriteFile(f.path, nil)
}

// Close removes the files. It may be called again.
func (s *memStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return nil
	}
	dir := s.dir
	s.dir = ""
	return s.fs.Remove(dir)
}

// A memSpill is a file being written, by one goroutine.
type memSpill struct {
	fs   *MemFS
	path string
	data []byte
}

func (f *memSpill) Write(p []byte) (int, error) {
	f.data = append(f.data, p...)
	return len(p), f.fs.WriteFile(f.path, f.data)
}

func (f *memSpill) Path() string    { return f.path }
func (f *memSpill) Close() error    { return nil }
func (f *memSpill) Withdraw() error { return f.fs.Remove(f.path) }
