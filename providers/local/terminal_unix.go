//go:build unix

package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/seam"
)

// tty is our end of a pseudo-terminal, in non-blocking mode: who waits for it
// holds no thread, and can be unblocked.
type tty struct {
	master *os.File
	conn   syscall.RawConn
	device device
}

// openTTY opens a terminal. The target's end is in blocking mode, which the
// target shares.
func openTTY(cols, rows uint16) (ours *tty, target *os.File, err error) {
	master, target, err := openPair()
	if err != nil {
		return nil, nil, err
	}
	ours = &tty{master: master}
	if ours.conn, err = master.SyscallConn(); err == nil {
		err = ours.resize(cols, rows)
	}
	if err == nil {
		err = master.SetDeadline(time.Time{}) // it is in the poller, or could never be unblocked
	}
	if err == nil {
		ours.device, err = identify(int(target.Fd())) // Fd makes it blocking, where it is not
	}
	if err != nil {
		_ = target.Close()
		_ = master.Close()
		return nil, nil, err
	}
	return ours, target, nil
}

// Close hangs up whoever still has the terminal.
func (t *tty) Close() error { return t.master.Close() }

// unblock ends every read and write that waits, for good.
func (t *tty) unblock() { _ = t.master.SetDeadline(time.Unix(1, 0)) }

// read waits for output until over. That nobody has the terminal open (EIO) is
// not its end: while the direct process lives it can be opened again.
func (t *tty) read(b []byte, over func() bool) (n int, err error) {
	waitErr := t.conn.Read(func(fd uintptr) bool {
		n, err = readFD(fd, b)
		return n > 0 || over() || !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EIO)
	})
	if n > 0 {
		return n, nil
	}
	return 0, errors.Join(waitErr, err)
}

// readNow returns output that is there: what was written before the call, up to
// the length of b.
func (t *tty) readNow(b []byte) (n int) {
	// The line discipline takes in what is on its way before it says EAGAIN.
	_ = t.conn.Control(func(fd uintptr) { n, _ = readFD(fd, b) })
	return n
}

func readFD(fd uintptr, b []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), b)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// unread reports whether the terminal holds output. That of processes which have
// written it is there, also where the system has still to pass it on: to be asked
// makes it do so.
func (t *tty) unread() (unread bool, err error) {
	err = t.control("poll", func(fd int) error {
		for {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			_, err := unix.Poll(fds, 0)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			unread = fds[0].Revents&unix.POLLIN != 0
			return err
		}
	})
	return unread, err
}

// drain takes what the terminal holds. It is bounded: who has left the range
// may be writing all the time.
func (t *tty) drain() (rest []byte) {
	const maxBytes = 64 << 10 // more than a terminal holds
	buf := make([]byte, 4096)
	for len(rest) < maxBytes {
		n := t.readNow(buf)
		if n == 0 {
			break
		}
		rest = append(rest, buf[:n]...)
	}
	return rest
}

func (t *tty) write(b []byte) (int, error) { return t.master.Write(b) }

// control runs an operation on the descriptor, which stays in the poller.
func (t *tty) control(name string, do func(fd int) error) error {
	var err error
	if controlErr := t.conn.Control(func(fd uintptr) { err = do(int(fd)) }); controlErr != nil {
		return controlErr
	}
	return os.NewSyscallError(name, err)
}

func (t *tty) resize(cols, rows uint16) error {
	return t.control("ioctl TIOCSWINSZ", func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows})
	})
}

// owner is the foreground process group.
func (t *tty) owner() (pgid int, err error) {
	err = t.control("ioctl TIOCGPGRP", func(fd int) error {
		pgid, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	if err == nil && pgid <= 0 {
		err = errNoForeground
	}
	return pgid, err
}

// foreground inspects the foreground. Where that changes meanwhile it looks
// again, a few times.
func (t *tty) foreground() (f seam.Foreground, err error) {
	for range 3 {
		if f.PGID, err = t.owner(); err != nil {
			return f, err
		}
		if err := t.inspect(&f); err != nil {
			return f, err
		}
		again, err := t.owner()
		if err != nil {
			return f, err
		}
		if again == f.PGID {
			break
		}
	}
	return f, nil
}

// inspect fills in what is known of the group that has the foreground.
func (t *tty) inspect(f *seam.Foreground) error {
	var termios *unix.Termios
	if err := t.control("ioctl TCGETS", func(fd int) (err error) {
		termios, err = unix.IoctlGetTermios(fd, getTermios)
		return err
	}); err != nil {
		return err
	}
	f.Canonical = termios.Lflag&unix.ICANON != 0
	f.Echo = termios.Lflag&unix.ECHO != 0
	f.Argv, f.WaitsForInput, f.InputKnown = nil, false, true // of nobody
	if t.has(f.PGID) {
		f.Argv, f.WaitsForInput, f.InputKnown = inspectGroup(f.PGID, t.device)
	}
	return nil
}

// signal sends a signal to the foreground group, which pgid was a moment ago.
func (t *tty) signal(pgid int, name string) error {
	n := unix.SignalNum(name)
	switch n {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP:
		// As the terminal's own keys do, but also where they are turned off.
		sent, err := t.sendKeySignal(n)
		if sent || err != nil {
			return err
		}
	}
	if !t.has(pgid) {
		return errNoForeground
	}
	err := unix.Kill(-pgid, n)
	if errors.Is(err, unix.ESRCH) {
		return errNoForeground
	}
	if err != nil {
		return fmt.Errorf("signal process group %d: %w", pgid, err)
	}
	return nil
}

// hangUp tells a direct process that its terminal is going, as soon as it waits
// for input again: TERM has not ended it. Interactive shells take no notice of
// TERM, and would otherwise be waited for until KILL. What does not wait for
// input, or handles TERM, is taken to obey it, and gets all of the grace.
func (t *terminal) hangUp(stop <-chan struct{}) {
	if !t.leader.heedsHangUp() {
		return
	}
	// No event tells that a process begins to wait for input.
	for pause := 2 * time.Millisecond; !t.readsOn(); pause = min(2*pause, 100*time.Millisecond) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-t.exited:
			timer.Stop()
			return
		case <-stop:
			timer.Stop()
			return
		}
	}
	t.leader.hangUp()
}

// readsOn reports whether the direct process has the foreground and waits for
// input, or, where the system does not show that, edits a line.
func (t *terminal) readsOn() bool {
	t.calls.RLock()
	defer t.calls.RUnlock()
	if t.closed {
		return false
	}
	f, err := t.tty.foreground()
	return err == nil && f.PGID == t.pid && (f.WaitsForInput || !f.InputKnown && !f.Canonical && !f.Echo)
}
