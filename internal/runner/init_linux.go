package runner

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Init is what a pid namespace's first process has to do: it starts this
// program again, as an ordinary process with the same arguments, environment
// and standard streams, forwards signals to it, and reaps whatever is orphaned.
// It returns that program's exit code, 128+n where signal n ended it.
func Init() (code int, err error) {
	// From before the start: the kernel drops what a first process does not handle.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	pidfd := -1
	sys := &syscall.SysProcAttr{PidFD: &pidfd}
	if _, err := unix.IoctlGetTermios(0, unix.TCGETS); err == nil {
		// The terminal's signals are the program's, and must not come a second
		// time from here.
		sys.Foreground, sys.Ctty = true, 0
	}
	child, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: sys,
	})
	if err != nil {
		return 0, os.NewSyscallError("fork", err)
	}
	go forward(signals, pidfd) // ends with the process, which ends with child
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, os.NewSyscallError("wait4", err)
		case pid == child && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == child:
			return status.ExitStatus(), nil
		}
	}
}

// forward passes on what is meant for the program, and not what the kernel, or
// Go's runtime, means for this process.
func forward(signals <-chan os.Signal, pidfd int) {
	for sig := range signals {
		switch n := sig.(syscall.Signal); n {
		case unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE:
		default:
			_ = unix.PidfdSendSignal(pidfd, n, nil, 0) // it may have ended
		}
	}
}
