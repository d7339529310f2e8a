package fsworld

import (
	"path/filepath"
	"strings"

	"github.com/corral-world/corral/seam"
)

// ProcessPath implements [seam.Paths].
func (f *FS) ProcessPath(t seam.Target) (string, error) {
	path, err := f.path(t)
	if err != nil {
		return "", opError("process path", t.Display, err)
	}
	return path, nil
}

// FileURI implements [seam.Paths]. On Windows a drive becomes the first segment
// (file:///C:/a), the server of a UNC path the authority (file://server/share);
// device paths have no URI and are [seam.CodeUnsupported].
func (f *FS) FileURI(t seam.Target) (string, error) {
	path, err := f.path(t)
	if err != nil {
		return "", opError("file uri", t.Display, err)
	}
	uri, err := fileURI(path)
	if err != nil {
		return "", &seam.OpError{Op: "file uri", Path: t.Display, Code: seam.CodeUnsupported, Err: err}
	}
	return uri, nil
}

// Contains implements [seam.Paths].
func (f *FS) Contains(parent, child seam.Target) (bool, error) {
	parentPath, err := f.path(parent)
	if err != nil {
		return false, opError("contains", parent.Display, err)
	}
	childPath, err := f.path(child)
	if err != nil {
		return false, opError("contains", child.Display, err)
	}
	if parentPath == childPath {
		return true, nil
	}
	// A separator after the parent keeps /root-evil out of /root. Roots end
	// in theirs.
	separator := string(filepath.Separator)
	return strings.HasPrefix(childPath, strings.TrimSuffix(parentPath, separator)+separator), nil
}
