package fsworld

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/corral-world/corral/seam"
)

// maxLinks bounds the symbolic links of one walk, as in filepath.EvalSymlinks.
const maxLinks = 255

// Resolve implements [seam.Paths]. A loop of symbolic links is CodeIO.
func (f *FS) Resolve(ctx context.Context, path, dir string) (seam.Target, error) {
	return do(ctx, "resolve", path, func() (seam.Target, error) {
		abs, err := spelling(path, dir)
		if err != nil {
			return seam.Target{}, err
		}
		key, err := walk(ctx, abs, true)
		if err != nil {
			return seam.Target{}, err
		}
		display := filepath.Clean(abs)
		if display != abs && strings.Contains(abs, "..") {
			// Cleaning has taken ".." back through a link, perhaps.
			if cleanKey, err := walk(ctx, display, true); err != nil || cleanKey != key {
				display = abs
			}
		}
		return seam.Target{WorldID: f.worldID, Key: key, Display: display}, nil
	})
}

// spelling returns path as an absolute one, its ".." still in place where the
// platform gives them to the filesystem.
func spelling(path, dir string) (string, error) {
	switch {
	case path == "":
		return "", invalid("path", "is empty")
	case strings.ContainsRune(path, 0):
		return "", invalid("path", "contains a NUL byte")
	case filepath.IsAbs(path):
	case !filepath.IsAbs(dir):
		return "", invalid("dir", "is not absolute")
	case strings.ContainsRune(dir, 0):
		return "", invalid("dir", "contains a NUL byte")
	}
	return absolute(path, dir)
}

// walk returns the canonical form of abs. Components from the first missing
// one on stay as they are spelt. Unless follow is set, a link that is the last
// component is not followed.
func walk(ctx context.Context, abs string, follow bool) (string, error) {
	volume := filepath.VolumeName(abs)
	root := volume + string(filepath.Separator)
	current := root   // canonical, missing components included
	missing := 0      // how many of current's last components are
	enterable := true // whether current is a directory or missing
	pending := split(abs, volume)
	for links := 0; len(pending) > 0; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		component := pending[0]
		pending = pending[1:]
		if !enterable {
			return "", syscall.ENOTDIR
		}
		switch component {
		case ".":
			continue
		case "..":
			current = filepath.Dir(current)
			missing = max(missing-1, 0)
			continue
		}
		current = filepath.Join(current, component)
		if missing > 0 {
			missing++
			continue
		}
		info, err := os.Lstat(current)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = 1
		case err != nil:
			return "", err
		case info.Mode().Type() != fs.ModeSymlink:
			enterable, err = canEnter(current, info)
			if err != nil {
				return "", err
			}
		case follow || len(pending) > 0:
			if links++; links > maxLinks {
				return "", &os.PathError{Op: "readlink", Path: current, Err: syscall.ELOOP}
			}
			link, err := os.Readlink(current)
			if err != nil {
				return "", err
			}
			// What the link says is walked from the root again: the part
			// above it is canonical already, and one rule serves all links.
			target, err := absolute(link, filepath.Dir(current))
			if err != nil {
				return "", err
			}
			volume = filepath.VolumeName(target)
			current = volume + string(filepath.Separator)
			pending = append(split(target, volume), pending...)
		}
	}
	return storedName(current, missing), nil
}

// canEnter reports whether the file at path, not a symbolic link, can have
// children.
func canEnter(path string, info fs.FileInfo) (bool, error) {
	if info.Mode().Type() != fs.ModeIrregular {
		return info.IsDir(), nil
	}
	info, err := os.Stat(path) // a mount point on Windows
	if err != nil {
		return false, err
	}
	return info.IsDir(), nil
}

// storedName spells the existing part of a canonical path as it is stored.
func storedName(canonical string, missing int) string {
	existing, suffix := canonical, ""
	for range missing {
		suffix = filepath.Join(filepath.Base(existing), suffix)
		existing = filepath.Dir(existing)
	}
	return filepath.Join(storedPath(existing), suffix)
}

// split returns the components of abs below its volume's root.
func split(abs, volume string) []string {
	return strings.FieldsFunc(abs[len(volume):], func(r rune) bool {
		return r < 0x80 && os.IsPathSeparator(uint8(r))
	})
}
