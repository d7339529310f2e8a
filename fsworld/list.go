package fsworld

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/corral-world/corral/seam"
)

// listBatch is how many names List reads between two looks at its context.
const listBatch = 512

// List implements [seam.Reader]. Names are ordered by their bytes. A link that
// cannot be followed (a loop, a directory that may not be searched) has a
// target that names the link itself. Trouble with a child itself, other than
// that it vanished, fails the listing.
func (f *FS) List(ctx context.Context, t seam.Target) ([]seam.Entry, error) {
	return do(ctx, "list", t.Display, func() ([]seam.Entry, error) {
		path, err := f.path(t)
		if err != nil {
			return nil, err
		}
		names, err := readNames(ctx, path)
		if err != nil {
			return nil, err
		}
		entries := make([]seam.Entry, 0, len(names))
		for _, name := range names {
			entry, err := f.child(ctx, path, t.Display, name)
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry)
		}
		return entries, nil
	})
}

// readNames returns the names in the directory at path, in order.
func readNames(ctx context.Context, path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &seam.OpError{Code: seam.CodeNotDir}
	}
	dir, err := openDir(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var names []string
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch, err := dir.Readdirnames(listBatch)
		names = append(names, batch...)
		if err == io.EOF {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// child describes one name of the directory at dir, which displays as shown.
func (f *FS) child(ctx context.Context, dir, shown, name string) (seam.Entry, error) {
	if err := ctx.Err(); err != nil {
		return seam.Entry{}, err
	}
	path := filepath.Join(dir, name)
	entry := seam.Entry{
		Name:   name,
		Target: seam.Target{WorldID: f.worldID, Key: path, Display: filepath.Join(shown, name)},
	}
	info, err := lstat(path)
	switch {
	case absent(err):
		entry.Info = seam.FileInfo{Type: seam.TypeOther}
		return entry, nil
	case err != nil:
		return seam.Entry{}, opError("list", entry.Target.Display, err)
	case info.Type == seam.TypeFile, info.Type == seam.TypeDir:
		entry.Info = info
		return entry, nil
	}
	entry.Info = info
	if key, err := walk(ctx, path, true); err == nil {
		entry.Target.Key = key
	}
	if info.Type == seam.TypeSymlink {
		if _, err := os.Stat(path); absent(err) || errors.Is(err, syscall.ELOOP) {
			entry.Info = seam.FileInfo{Type: seam.TypeOther}
		}
	}
	return entry, nil
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
