//go:build unix

package fsworld

import (
	"os"
	"path/filepath"
	"syscall"
)

// absolute joins path to dir unless it is absolute. It does not clean: what
// ".." means is known only once the links before it are followed.
func absolute(path, dir string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	return dir + "/" + path, nil
}

// openFile opens for reading. O_NONBLOCK: a FIFO put in a file's place between
// two looks would be waited for. O_NOCTTY: a terminal would become ours.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
}

func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
}

func fileURI(path string) (string, error) { return posixURI(path), nil }
