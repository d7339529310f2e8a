package local

import (
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

const (
	hasTerminals = true
	getTermios   = unix.TIOCGETA
)

// openPair opens both ends of a new terminal, ours in non-blocking mode.
func openPair() (ours, target *os.File, err error) {
	opened, target, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	// The package has made opened blocking, for good. So it is given no further
	// use of ours: its way to set a size would do the same again.
	ours, err = nonblocking(opened)
	_ = opened.Close()
	if err != nil {
		_ = target.Close()
		return nil, nil, err
	}
	return ours, target, nil
}

// nonblocking opens f's file again, for the poller.
func nonblocking(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// device: nothing here has to be told from others.
type device struct{}

func identify(int) (device, error) { return device{}, nil }

// inspectGroup: this system does not show what a process waits for.
func inspectGroup(pgid int, _ device) (argv []string, waits, known bool) {
	table, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", pgid)
	if err != nil || len(table) == 0 {
		return nil, false, false
	}
	return []string{unix.ByteSliceToString(table[0].Proc.P_comm[:])}, false, false
}

// has: this system is not asked.
func (*tty) has(int) bool { return true }

// sendKeySignal: the process group is signalled instead.
func (t *tty) sendKeySignal(unix.Signal) (sent bool, err error) { return false, nil }

// leader is the direct process, which is not reaped before its range is empty.
type leader struct{ pid int }

func findLeader(pid int) leader { return leader{pid} }

func (leader) gone() bool { return false }

// heedsHangUp: the system does not tell.
func (leader) heedsHangUp() bool { return true }

// hangUp signals that the terminal is going.
func (l leader) hangUp() { _ = unix.Kill(l.pid, unix.SIGHUP) }
