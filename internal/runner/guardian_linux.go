package runner

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corral-world/corral/internal/cgroup"
)

const (
	// Guardian waits for the end of its standard input, and ends: the unit that
	// it is the main process of ends with it.
	Guardian = "guardian"

	// verbSubtree waits for the same, and then ends ranges itself.
	verbSubtree = "guardian-of-subtree"
)

// guard lives as long as the harness does, whose end, of whatever, closes the
// other end of the pipe.
func guard() {
	waitForHarness()
	leave(0)
}

func waitForHarness() { _, _ = io.Copy(io.Discard, os.Stdin) } // nothing is ever written

// guardSubtree ends the ranges of a harness that has ended: the cgroups in the
// directory of its first argument whose names begin with its second.
func guardSubtree() {
	waitForHarness()
	if len(os.Args) == 3 {
		EndSubtree(os.Args[1], os.Args[2])
	}
	leave(0)
}

// EndSubtree kills and removes the cgroups in the directory base whose names
// begin with prefix, as far as it can: it is for a harness that is no more, of
// which nobody waits for an answer.
func EndSubtree(base, prefix string) {
	// Those that began while we looked are found by looking again.
	for range 3 {
		entries, _ := os.ReadDir(base) // gone with everything in it
		entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) })
		if len(entries) == 0 {
			return
		}
		for _, e := range entries {
			_ = cgroup.Kill(filepath.Join(base, e.Name()))
		}
		for _, e := range entries {
			_ = cgroup.Remove(filepath.Join(base, e.Name()))
		}
	}
}

// StartSubtreeGuardian starts a guardian for the cgroups in the directory base
// whose names begin with prefix. It ends when the other end of harness, a pipe,
// is closed.
func StartSubtreeGuardian(harness *os.File, base, prefix string) (*Direct, error) {
	if !Linked() {
		return nil, ErrNotLinked
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	return start(launch{
		path:   "/proc/self/exe",
		argv:   []string{"corral-runner", base, prefix},
		env:    []string{Select(verbSubtree)},
		dir:    "/",
		files:  []*os.File{harness, null, null},
		cgroup: -1,
	})
}
