//go:build unix

package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Registry is a directory in which runtimes of this user listen.
type Registry struct{ dir string }

// candidates are where registries may be, the best first: the user's runtime
// directory, which the system empties when the user has gone, and directories
// for temporary files.
func candidates() []string {
	var dirs []string
	add := func(dir string) {
		if filepath.IsAbs(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	uid := strconv.Itoa(os.Getuid())
	for _, runtimeDir := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/run/user/" + uid} {
		if info, err := os.Stat(runtimeDir); err == nil && info.IsDir() && ownedByUs(info) {
			add(filepath.Join(runtimeDir, "corral"))
		}
	}
	add(filepath.Join(os.TempDir(), "corral-"+uid))
	add(filepath.Join("/tmp", "corral-"+uid))
	return dirs
}

// Registries are those of this user that are there.
func Registries() []Registry {
	var found []Registry
	for _, dir := range candidates() {
		if f, err := open(dir); err == nil {
			_ = f.Close()
			found = append(found, Registry{dir})
		}
	}
	return found
}

// Default is the registry in which runtimes of this process listen.
func Default() Registry { return Registry{candidates()[0]} }

// At is the registry in a directory, as another process knows it.
func At(dir string) Registry { return Registry{dir} }

// Dir is where the registry is.
func (r Registry) Dir() string { return r.dir }

// enter opens the registry's directory, and makes it first where it is not there:
// it goes with its last user, also at this moment.
func (r Registry) enter() (*os.File, error) {
	const attempts = 100
	for attempt := 0; ; attempt++ {
		f, err := open(r.dir)
		if !errors.Is(err, fs.ErrNotExist) || attempt == attempts {
			return f, err
		}
		if err := os.Mkdir(r.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
}

// open opens a directory that is ours alone.
func open(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!ownedByUs(info) || info.Mode().Perm()&0o077 != 0) {
		err = fmt.Errorf("%s is not this user's alone", dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// File names of the registry: sockets, and for detached ranges locks.
const (
	socketSuffix   = ".sock"
	lockSuffix     = ".lock"
	detachedPrefix = "detached-"
)

// sockets lists the registry's sockets.
func (r Registry) sockets() ([]string, error) {
	dir, err := open(r.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, socketSuffix) }), nil
}

// ErrNameInUse is matched where another detached range has a name.
var ErrNameInUse = errors.New("name in use")

// A Name is the name of a detached range, which this process holds until it
// ends: nobody else of this user can have it meanwhile.
type Name struct {
	registry Registry
	name     string
	lock     *os.File
}

// Reserve takes a name for a detached range.
func (r Registry) Reserve(name string) (*Name, error) {
	path := filepath.Join(r.dir, detachedPrefix+name+lockSuffix)
	for {
		dir, err := r.enter()
		if err != nil {
			return nil, err
		}
		_ = dir.Close()
		lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the directory goes with its last user
		}
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = lock.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				err = ErrNameInUse
			}
			return nil, err
		}
		ours, err := lock.Stat()
		if err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		// Who had it may have removed it between our opening and our locking.
		if there, err := os.Lstat(path); err == nil && os.SameFile(ours, there) {
			return &Name{registry: r, name: name, lock: lock}, nil
		}
		_ = lock.Close()
	}
}

// Release gives the name back.
func (n *Name) Release() error {
	err := errors.Join(os.Remove(n.lock.Name()), n.lock.Close())
	_ = os.Remove(n.registry.dir) // where nobody else is in it
	return err
}
