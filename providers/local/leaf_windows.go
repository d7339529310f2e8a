package local

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"

	"github.com/corral-world/corral/internal/managed"
)

const (
	defaultPath = ""
	foldEnv     = true
	noFollow    = 0
	nonBlock    = 0
)

func hasSeparator(name string) bool { return strings.ContainsAny(name, `/\:`) }

// candidates adds PATHEXT's extensions to a name without one, and those that
// Windows has by default where PATHEXT is unset.
func candidates(name string, environ []string) []string {
	if filepath.Ext(name) != "" {
		return []string{name}
	}
	extensions, ok := lookupEnv(environ, "PATHEXT")
	if !ok || extensions == "" {
		extensions = ".COM;.EXE;.BAT;.CMD"
	}
	var names []string
	for _, extension := range filepath.SplitList(extensions) {
		names = append(names, name+extension)
	}
	return names
}

// mayExecute: on Windows what can be found can be tried.
func mayExecute(string, fs.FileInfo) bool { return true }

func mayEnter(string) bool { return true }

// cleanInheritable: Windows targets get an explicit list of handles.
func cleanInheritable() error { return nil }

func ignores(os.Signal) bool { return false }

func openPipe(targetReads bool) (target, ours *os.File, err error) {
	r, w, err := os.Pipe()
	if targetReads {
		return r, w, err
	}
	return w, r, err
}

func collectFrom(f *os.File) managed.Source { return &managed.ReaderSource{Reader: f} }

// tryLock takes f's lock, which is released when f is closed.
func tryLock(f *os.File) error {
	const all = ^uint32(0)
	return windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, all, all, new(windows.Overlapped))
}

// ownedByUs: the temporary directory is the user's own.
func ownedByUs(fs.FileInfo) bool { return true }

func (r *Runtime) listen() {}

func (r *Runtime) stopListening() error { return nil }
