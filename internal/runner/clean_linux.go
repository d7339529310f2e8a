package runner

import (
	"math"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CloseOnExec marks every descriptor above 2 of this process close-on-exec, so
// that no target inherits one: not those that this process was started with,
// nor those that a C library opened since.
func CloseOnExec() error {
	err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // Linux 5.11
	if err == nil {
		return nil
	}
	names, listErr := openDescriptors()
	if listErr != nil {
		return os.NewSyscallError("close_range", err)
	}
	for _, fd := range names {
		if fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func openDescriptors() ([]int, error) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var fds []int
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds, err
}

var (
	// discarded receives the signals that this process goes on ignoring.
	// Nobody reads it: the signal package drops what does not fit.
	discarded = make(chan os.Signal, 1)

	// ignoredSignals is a bit for each signal that RestoreSignals found ignored.
	ignoredSignals atomic.Uint64
)

// RestoreSignals gives children the default disposition of every signal that
// this process ignores. An ignored disposition survives execve, a handler does
// not: so such signals get a handler that does nothing, and this process
// ignores them as before.
func RestoreSignals() {
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if !ignored(sig) {
			continue
		}
		ignoredSignals.Or(1 << (sig - 1))
		if sig >= 32 && sig <= 34 {
			// Go's runtime leaves these to the C library and never handles them.
			setDefault(sig)
			continue
		}
		signal.Notify(discarded, sig)
	}
}

// Ignores reports whether RestoreSignals found sig ignored, which the signal
// package can no longer tell.
func Ignores(sig syscall.Signal) bool { return ignoredSignals.Load()&(1<<(sig-1)) != 0 }

// kernelSigaction is struct sigaction of rt_sigaction(2); the handler is its
// first word, and nothing else is read or set here.
type kernelSigaction struct {
	handler uintptr
	_       [5]uintptr
}

const (
	sigDFL = 0
	sigIGN = 1

	sigsetBytes = 8
)

func ignored(sig syscall.Signal) bool {
	var action kernelSigaction
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), sigsetBytes, 0, 0)
	return errno == 0 && action.handler == sigIGN
}

func setDefault(sig syscall.Signal) {
	action := kernelSigaction{handler: sigDFL}
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, sigsetBytes, 0, 0)
}
