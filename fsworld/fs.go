// Package fsworld is the filesystem half of this host's execution world.
//
// # Identity
//
// A target's key is its canonical path: every symbolic link followed, also one
// that dangles, so that the key of a missing file is the one that it has when
// it is created. Where the platform folds letter case or has short names
// (Windows, macOS), the existing part of the key is spelt as it is stored.
// Names joined by hard links or bind mounts are different files here.
//
// A ".." goes where the platform takes it: on unix to the parent of what
// precedes it, links followed; on Windows one component back in the spelling.
// Components that are missing count as directories. Trailing separators mean
// nothing.
//
// # Versions
//
// On unix a version is made of device, inode, size, and the times of
// modification and of status change. The system's clock for the last one
// ticks: before Linux 6.13 two changes of one size within a tick (up to 10 ms)
// can share a version.
//
// # Cancellation
//
// A context is looked at before, between and after system calls. A single call
// that the kernel does not answer, as on a dead network mount, is waited for.
package fsworld

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/corral-world/corral/seam"
)

// FS is this host's filesystem. It holds nothing open between calls, needs no
// closing, and all its methods may be called concurrently.
type FS struct {
	worldID string
}

var _ seam.FS = (*FS)(nil)

// New returns this host's filesystem as a half of the named world. It acquires
// nothing. An empty worldID is refused with [seam.CodeInvalid].
func New(worldID string) (*FS, error) {
	if worldID == "" {
		return nil, &seam.OpError{Op: "new fs", Code: seam.CodeInvalid, Err: &seam.FieldError{Field: "worldID", Problem: "is empty"}}
	}
	return &FS{worldID: worldID}, nil
}

// WorldID names the world that this filesystem is a half of.
func (f *FS) WorldID() string { return f.worldID }

// path returns the canonical path of t, which must be a target of f. Targets
// may have been stored or have crossed a wire, so the key is checked too.
func (f *FS) path(t seam.Target) (string, error) {
	if t.WorldID != f.worldID {
		return "", &seam.OpError{Path: t.Display, Code: seam.CodeForeignPath, Err: errForeign}
	}
	if !filepath.IsAbs(t.Key) || filepath.Clean(t.Key) != t.Key || strings.ContainsRune(t.Key, 0) {
		return "", invalid("Target.Key", "is not one that this filesystem made")
	}
	return t.Key, nil
}

var errForeign = errors.New("target belongs to another filesystem")
