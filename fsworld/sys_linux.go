package fsworld

import (
	"fmt"
	"io/fs"
	"syscall"
)

// storedPath returns an existing canonical path: names are kept as they are
// stored. (Directories with casefold set are an exception that is not made.)
func storedPath(path string) string { return path }

// versionOf returns the version of the file at path, described by info.
func versionOf(_ string, info fs.FileInfo) (string, error) {
	st := info.Sys().(*syscall.Stat_t) // os.Stat and os.Lstat promise it
	return fmt.Sprintf("%d:%d:%d:%d:%d", st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()), nil
}
