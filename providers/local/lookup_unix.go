//go:build unix

package local

import (
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	defaultPath = "/usr/bin:/bin" // where PATH is unset
	foldEnv     = false
)

func hasSeparator(name string) bool { return strings.Contains(name, "/") }

func candidates(name string, _ []string) []string { return []string{name} }

func mayExecute(file string, _ fs.FileInfo) bool {
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS) == nil
}
