//go:build unix

package local

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/managed"
)

// openPipe makes a pipe whose target's end is in blocking mode, which the
// target shares, and whose other end is not, which the poller needs.
func openPipe(targetReads bool) (target, ours *os.File, err error) {
	var fds [2]int
	syscall.ForkLock.RLock()
	err = syscall.Pipe(fds[:])
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	targetFD, oursFD := fds[1], fds[0]
	if targetReads {
		targetFD, oursFD = fds[0], fds[1]
	}
	target = os.NewFile(uintptr(targetFD), "|target")
	if err := unix.SetNonblock(oursFD, true); err != nil {
		_ = target.Close()
		_ = unix.Close(oursFD)
		return nil, nil, os.NewSyscallError("fcntl pipe", err)
	}
	return target, os.NewFile(uintptr(oursFD), "|corral"), nil
}

func collectFrom(f *os.File) managed.Source { return managed.PipeSource{File: f} }
