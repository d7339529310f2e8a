package fsworld

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// absolute joins path to dir unless it is absolute, and cleans it as the
// system does: lexically, before any link is followed.
func absolute(path, dir string) (string, error) {
	switch {
	case filepath.IsAbs(path):
		return filepath.Clean(stripVerbatim(path)), nil
	case filepath.VolumeName(path) != "":
		// C:x is relative to a current directory that each process has per
		// drive, and that no two processes agree on.
		return "", invalid("path", "is relative to the current directory of a drive")
	case os.IsPathSeparator(path[0]):
		return filepath.Clean(filepath.VolumeName(dir) + path), nil
	default:
		return filepath.Join(stripVerbatim(dir), path), nil
	}
}

// storedPath spells an existing canonical path as it is stored: long names,
// stored case, mount points followed. Where the system does not tell, the
// spelling stays.
func storedPath(path string) string {
	// Symbolic links have been followed as far as they are to be.
	h, err := open(path, windows.FILE_FLAG_OPEN_REPARSE_POINT)
	if err != nil {
		return path
	}
	info, err := attributes(h)
	if err == nil && info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 && !isSymlink(path) {
		_ = windows.CloseHandle(h)
		if h, err = open(path, 0); err != nil {
			return path
		}
	}
	defer windows.CloseHandle(h)
	name := make([]uint16, windows.MAX_PATH)
	for {
		n, err := windows.GetFinalPathNameByHandle(h, &name[0], uint32(len(name)), 0)
		if err != nil {
			return path
		}
		if int(n) < len(name) {
			return filepath.Clean(stripVerbatim(windows.UTF16ToString(name[:n])))
		}
		name = make([]uint16, n+1)
	}
}

func isSymlink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == fs.ModeSymlink
}

// open opens path to ask about it, which needs no right to read it.
func open(path string, flags uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	return windows.CreateFile(name, windows.FILE_READ_ATTRIBUTES, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS|flags, 0)
}

func attributes(h windows.Handle) (info windows.ByHandleFileInformation, err error) {
	err = windows.GetFileInformationByHandle(h, &info)
	return info, err
}

// fileBasicInfo is FILE_BASIC_INFO of winbase.h.
type fileBasicInfo struct {
	creationTime, lastAccessTime, lastWriteTime, changeTime int64
	attributes                                              uint32
	_                                                       uint32
}

// versionOf returns the version of the file at path, described by info: volume,
// file id, size, and the times of writing and of change, the last of which
// nobody puts back in passing.
func versionOf(path string, info fs.FileInfo) (string, error) {
	var flags uint32
	if info.Mode().Type() == fs.ModeSymlink {
		flags = windows.FILE_FLAG_OPEN_REPARSE_POINT
	}
	h, err := open(path, flags)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer windows.CloseHandle(h)
	id, err := attributes(h)
	if err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	var basic fileBasicInfo
	err = windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&basic)), uint32(unsafe.Sizeof(basic)))
	if err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return fmt.Sprintf("%d:%d:%d:%d:%d:%d:%d", id.VolumeSerialNumber, id.FileIndexHigh, id.FileIndexLow,
		id.FileSizeHigh, id.FileSizeLow, basic.lastWriteTime, basic.changeTime), nil
}

func openFile(path string) (*os.File, error) { return os.Open(path) }

func openDir(path string) (*os.File, error) { return os.Open(path) }

func fileURI(path string) (string, error) { return windowsURI(path) }
