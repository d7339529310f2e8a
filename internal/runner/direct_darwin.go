package runner

import (
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// Start starts the target of r in a new session and returns its observer. An
// error is the system's own; then no process is left.
func Start(r owner.Request) (*Direct, error) {
	var fds [3]uintptr
	for i, f := range r.Stdio {
		conn, err := f.SyscallConn()
		if err != nil {
			return nil, err
		}
		if err := conn.Control(func(fd uintptr) { fds[i] = fd }); err != nil {
			return nil, err
		}
	}
	attr := &syscall.ProcAttr{Dir: r.Dir, Env: r.Env, Files: fds[:], Sys: &syscall.SysProcAttr{Setsid: true, Setctty: r.Terminal}} // Ctty is 0
	pid, _, err := syscall.StartProcess(r.Path, r.Argv, attr)
	runtime.KeepAlive(r.Stdio)
	if err != nil {
		return nil, err
	}
	d := &Direct{pid: pid, ended: make(chan struct{})}
	d.watch.Go(d.observe)
	return d, nil
}

// Direct observes one direct process with a kqueue of its own: EVFILT_PROC
// gives the exit status without reaping (kqueue(2), NOTE_EXITSTATUS).
//
// Its goroutine ends with the process and is joined by Release.
type Direct struct {
	pid   int
	watch sync.WaitGroup
	ended chan struct{} // closed once exit is known
	exit  owner.Exit
}

var _ owner.Direct = (*Direct)(nil)

// PID is the process, its session and its process group, until Release.
func (d *Direct) PID() int { return d.pid }

// Wait implements [owner.Direct].
func (d *Direct) Wait() owner.Exit { <-d.ended; return d.exit }

// Exited implements [owner.Direct].
func (d *Direct) Exited() (owner.Exit, bool) {
	select {
	case <-d.ended:
		return d.exit, true
	default:
		return owner.Exit{}, false
	}
}

// Lost reports whether someone else reaped the process.
func (d *Direct) Lost() bool { exit, ended := d.Exited(); return ended && exit.Lost }

// Release implements [owner.Direct].
func (d *Direct) Release() error {
	d.watch.Wait()
	for {
		_, err := syscall.Wait4(d.pid, nil, syscall.WNOHANG, nil)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.ECHILD:
			return nil // lost: there is nothing to reap
		}
		return os.NewSyscallError("wait4", err)
	}
}

func (d *Direct) observe() {
	defer close(d.ended)
	status, ok := WaitExit(d.pid)
	switch {
	case !ok:
		d.exit = owner.Exit{Lost: true, Code: -1}
	case status.Signaled():
		n := status.Signal()
		d.exit = owner.Exit{Code: -1, Signal: seam.Signal{Name: unix.SignalName(n), Number: int(n)}}
	default:
		d.exit = owner.Exit{Code: status.ExitStatus()}
	}
}

// WaitExit blocks until process pid has ended. It reports false where the
// process can't be watched: it is gone already.
func WaitExit(pid int) (status syscall.WaitStatus, ok bool) {
	queue, err := unix.Kqueue()
	if err != nil {
		return 0, false
	}
	defer unix.Close(queue)
	change := []unix.Kevent_t{{
		Ident:  uint64(pid),
		Filter: unix.EVFILT_PROC,
		Flags:  unix.EV_ADD | unix.EV_ONESHOT,
		Fflags: unix.NOTE_EXIT | unix.NOTE_EXITSTATUS,
	}}
	events := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(queue, change, events, nil)
		switch {
		case err == unix.EINTR:
			change = nil
			continue
		case err != nil || n == 0 || events[0].Flags&unix.EV_ERROR != 0:
			return 0, false
		}
		return syscall.WaitStatus(events[0].Data), true
	}
}
