package runner

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// Direct observes one direct process by pidfd, parked in the runtime's poller:
// a live child costs no thread.
type Direct struct {
	pid   int
	pidfd *os.File
}

var _ owner.Direct = (*Direct)(nil)

func newDirect(pid, pidfd int) (*Direct, error) {
	// Non-blocking mode is what makes os.NewFile hand it to the poller.
	if err := unix.SetNonblock(pidfd, true); err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		return nil, os.NewSyscallError("fcntl pidfd", err)
	}
	return &Direct{pid: pid, pidfd: os.NewFile(uintptr(pidfd), "pidfd")}, nil
}

// PID is the process, its session and its process group. It stays theirs until
// Release, unless the process is Lost.
func (d *Direct) PID() int { return d.pid }

// Wait implements [owner.Direct].
func (d *Direct) Wait() owner.Exit {
	var exit owner.Exit
	var ended bool
	conn, err := d.pidfd.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool {
			exit, ended = peek(int(fd))
			return ended
		})
	}
	if err != nil || !ended {
		return owner.Exit{Lost: true, Code: -1}
	}
	return exit
}

// Exited implements [owner.Direct].
func (d *Direct) Exited() (exit owner.Exit, ended bool) {
	conn, err := d.pidfd.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { exit, ended = peek(int(fd)) })
	}
	return exit, ended && err == nil
}

// Lost reports whether someone else reaped the process, so that its ids may by
// now be a stranger's.
func (d *Direct) Lost() bool {
	exit, ended := d.Exited()
	return ended && exit.Lost
}

// Kill ends the process itself, and nothing else of its range.
func (d *Direct) Kill() error { return d.signal(unix.SIGKILL) }

func (d *Direct) signal(sig unix.Signal) error {
	conn, err := d.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	sendErr := error(nil)
	if err := conn.Control(func(fd uintptr) { sendErr = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(sendErr, unix.ESRCH) {
		return nil
	}
	return os.NewSyscallError("pidfd_send_signal", sendErr)
}

// Release implements [owner.Direct].
func (d *Direct) Release() error {
	conn, err := d.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	waitErr := error(nil)
	err = conn.Control(func(fd uintptr) { _, waitErr = waitPidfd(int(fd), unix.WEXITED|unix.WNOHANG, nil) })
	if errors.Is(waitErr, unix.ECHILD) {
		waitErr = nil // lost: there is nothing to reap
	}
	if closeErr := d.pidfd.Close(); err == nil {
		err = closeErr
	}
	if waitErr != nil {
		return fmt.Errorf("reap: %w", waitErr)
	}
	return err
}

// siginfoChild is siginfo_t as waitid fills it (sigaction(2), Linux).
type siginfoChild struct {
	signo, errno, code int32
	_                  [unsafe.Sizeof(uintptr(0)) - 4]byte // the union is aligned like a pointer
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// Values of siginfoChild.code (sigaction(2)).
const cldExited = 1

// peek tells how the process ended and leaves it to be reaped. It reports
// false while the process lives.
func peek(pidfd int) (owner.Exit, bool) {
	var usage unix.Rusage
	info, err := waitPidfd(pidfd, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, &usage)
	switch {
	case err != nil:
		return owner.Exit{Lost: true, Code: -1}, true
	case info.pid == 0:
		return owner.Exit{}, false
	}
	exit := owner.Exit{Code: -1, Usage: &seam.Usage{
		UserCPU:     time.Duration(usage.Utime.Nano()),
		SystemCPU:   time.Duration(usage.Stime.Nano()),
		MaxRSSBytes: int64(usage.Maxrss) * 1024,
	}}
	if info.code == cldExited {
		exit.Code = int(info.status)
	} else {
		exit.Signal = seam.Signal{Name: signalName(syscall.Signal(info.status)), Number: int(info.status)}
	}
	return exit, true
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(s)) // a real-time signal
}

func waitPidfd(pidfd, options int, usage *unix.Rusage) (*siginfoChild, error) {
	var info siginfoChild
	for {
		err := unix.Waitid(unix.P_PIDFD, pidfd, (*unix.Siginfo)(unsafe.Pointer(&info)), options, usage)
		if !errors.Is(err, unix.EINTR) {
			return &info, err
		}
	}
}
