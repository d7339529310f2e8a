//go:build unix

package foreground

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func openNonblocking(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

func isClosedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// awaitWriter waits until a FIFO has something to read, or had a writer that
// is gone. Before it has had one, reading it gives an end of file, which is
// only the beginning.
func awaitWriter(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && err != unix.EINTR && err != unix.EAGAIN
	})
}
