//go:build unix

package managed

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// PipeSource collects from the read end of a pipe that is in non-blocking mode.
// While the pipe is silent it holds no buffer and no thread.
type PipeSource struct{ File *os.File }

// ReadAll implements [Source].
func (s PipeSource) ReadAll(consume func([]byte)) bool {
	conn, err := s.File.SyscallConn()
	if err != nil {
		return false
	}
	for {
		var n int
		var readErr error
		err := conn.Read(func(fd uintptr) bool {
			n, readErr = readOnce(fd, consume)
			return !errors.Is(readErr, unix.EAGAIN)
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return s.takeRest(conn, consume)
		case err != nil || readErr != nil:
			return false
		case n == 0:
			return true
		}
	}
}

// takeRest reads what the pipe holds at an interruption. It is bounded: who
// holds the other end may be writing all the time.
func (s PipeSource) takeRest(conn syscall.RawConn, consume func([]byte)) (atEOF bool) {
	const maxPipeBytes = 1 << 20
	for taken := 0; taken < maxPipeBytes; {
		var n int
		var readErr error
		if err := conn.Control(func(fd uintptr) { n, readErr = readOnce(fd, consume) }); err != nil || readErr != nil {
			return false
		}
		if n == 0 {
			return true
		}
		taken += n
	}
	return false
}

func readOnce(fd uintptr, consume func([]byte)) (int, error) {
	buf := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buf)
	for {
		n, err := unix.Read(int(fd), buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n > 0 {
			consume(buf[:n])
		}
		return n, err
	}
}

// Interrupt implements [Source].
func (s PipeSource) Interrupt() { _ = s.File.SetReadDeadline(time.Unix(1, 0)) }

// Close implements [Source].
func (s PipeSource) Close() error { return s.File.Close() }
