//go:build unix

package local

import "golang.org/x/sys/unix"

func mayEnter(dir string) bool {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS) == nil
}
