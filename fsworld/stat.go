package fsworld

import (
	"context"
	"io/fs"
	"os"

	"github.com/corral-world/corral/seam"
)

// Stat implements [seam.Reader].
func (f *FS) Stat(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
	return do(ctx, "stat", t.Display, func() (seam.FileInfo, error) {
		path, err := f.path(t)
		if err != nil {
			return seam.FileInfo{}, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return seam.FileInfo{}, err
		}
		return describe(path, info)
	})
}

// Lstat implements [seam.Reader].
func (f *FS) Lstat(ctx context.Context, path, dir string) (seam.FileInfo, error) {
	return do(ctx, "lstat", path, func() (seam.FileInfo, error) {
		abs, err := spelling(path, dir)
		if err != nil {
			return seam.FileInfo{}, err
		}
		canonical, err := walk(ctx, abs, false)
		if err != nil {
			return seam.FileInfo{}, err
		}
		return lstat(canonical)
	})
}

// lstat describes the file at path itself.
func lstat(path string) (seam.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return seam.FileInfo{}, err
	}
	return describe(path, info)
}

// describe turns info, of the file at path, into the seam's terms.
func describe(path string, info fs.FileInfo) (seam.FileInfo, error) {
	version, err := versionOf(path, info)
	if err != nil {
		return seam.FileInfo{}, err
	}
	d := seam.FileInfo{Type: typeOf(info.Mode()), Mode: info.Mode(), Version: version}
	if d.Type == seam.TypeFile {
		d.SizeBytes = info.Size()
	}
	return d, nil
}

func typeOf(mode fs.FileMode) seam.FileType {
	switch mode.Type() {
	case 0:
		return seam.TypeFile
	case fs.ModeDir:
		return seam.TypeDir
	case fs.ModeSymlink:
		return seam.TypeSymlink
	default:
		return seam.TypeOther
	}
}
