package fsworld

import (
	"bytes"
	"fmt"
	"io/fs"
	"syscall"
	"unsafe"
)

// storedPath spells an existing canonical path as it is stored: the usual file
// systems of macOS fold case and normalise Unicode. Where the system does not
// tell, the spelling stays.
func storedPath(path string) string {
	fd, err := syscall.Open(path, syscall.O_EVTONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_SYMLINK, 0)
	if err != nil {
		return path
	}
	defer syscall.Close(fd)
	var stored [1024]byte // MAXPATHLEN, which F_GETPATH requires
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETPATH, uintptr(unsafe.Pointer(&stored))); errno != 0 {
		return path
	}
	if name, _, ok := bytes.Cut(stored[:], []byte{0}); ok && len(name) > 0 {
		return string(name)
	}
	return path
}

// versionOf returns the version of the file at path, described by info.
func versionOf(_ string, info fs.FileInfo) (string, error) {
	st := info.Sys().(*syscall.Stat_t) // os.Stat and os.Lstat promise it
	return fmt.Sprintf("%d:%d:%d:%d:%d", st.Dev, st.Ino, st.Size, st.Mtimespec.Nano(), st.Ctimespec.Nano()), nil
}
