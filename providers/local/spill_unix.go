//go:build unix

package local

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	noFollow = unix.O_NOFOLLOW
	nonBlock = unix.O_NONBLOCK
)

// tryLock takes f's lock, which is released when f, and every copy of its
// descriptor, is closed: at the latest when this process ends.
func tryLock(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	lockErr := error(nil)
	err = conn.Control(func(fd uintptr) { lockErr = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		return err
	}
	return lockErr
}

func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
