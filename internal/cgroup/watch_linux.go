package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A watch wakes who waits for a cgroup to become empty. Two events do: the end
// of one member, which comes at once, and the cgroup's own notification, which
// comes at most once in 10 to 16 ms and can be lost with the directory, but
// also tells of a member that left without ending.
type watch struct {
	events int      // cgroup.events, which has to be read where it is polled
	epoll  *os.File // of events, and of one member at a time, in the runtime's poller
}

// newWatch fails with an error of which gone is true where there is no such cgroup.
func newWatch(dir string) (*watch, error) {
	path := filepath.Join(dir, eventsFile)
	events, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		_ = unix.Close(events)
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	w := &watch{events: events}
	// Non-blocking mode is what makes os.NewFile hand it to the poller.
	err = errors.Join(
		os.NewSyscallError("fcntl", unix.SetNonblock(epoll, true)),
		os.NewSyscallError("epoll_ctl", unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, events,
			&unix.EpollEvent{Events: unix.EPOLLPRI, Fd: int32(events)})))
	w.epoll = os.NewFile(uintptr(epoll), "cgroup watch")
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *watch) close() {
	_ = w.epoll.Close()
	_ = unix.Close(w.events)
}

// populated is what the file says now. Reading it also takes back its event.
func (w *watch) populated() (bool, error) {
	var b [256]byte
	for {
		n, err := unix.Pread(w.events, b[:], 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil && gone(err):
			return false, nil
		case err != nil:
			return false, os.NewSyscallError("read "+eventsFile, err)
		}
		return parsePopulated(b[:n])
	}
}

// wait returns nil at the next event, or once pidfd's process has ended.
func (w *watch) wait(ctx context.Context, pidfd int) error {
	conn, err := w.epoll.SyscallConn()
	if err != nil {
		return err
	}
	var ctlErr error
	err = conn.Control(func(epoll uintptr) {
		// It leaves the set when it is closed.
		ctlErr = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, pidfd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(pidfd)})
	})
	if err := errors.Join(err, os.NewSyscallError("epoll_ctl", ctlErr)); err != nil {
		return err
	}
	unblock := context.AfterFunc(ctx, func() { _ = w.epoll.SetReadDeadline(time.Unix(1, 0)) })
	defer unblock()
	err = conn.Read(func(epoll uintptr) bool {
		var events [2]unix.EpollEvent
		n, err := unix.EpollWait(int(epoll), events[:], 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
