package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

var _ owner.Limited = (*Range)(nil)

// Limit has the range account for limits that are in force at c. Call it before
// any other method.
func (r *Range) Limit(c Controls, limits seam.Limits) { r.controls, r.limits = c, limits }

// Account implements [owner.Limited].
func (r *Range) Account() owner.Account {
	a := r.controls.account(r.limits)
	if r.accounts != nil {
		a = latest(r.accounts.last(), a)
	}
	return a
}

// latest is b, and what a has seen that b has not: nothing of it goes back.
func latest(a, b owner.Account) owner.Account {
	return owner.Account{
		ReachedMemory: a.ReachedMemory || b.ReachedMemory,
		ReachedPids:   a.ReachedPids || b.ReachedPids,
		PeakMemBytes:  max(a.PeakMemBytes, b.PeakMemBytes),
	}
}

// WatchLimits keeps what the kernel has counted up to date, for a cgroup that
// someone else removes as soon as it is empty. Call it after Limit; Close ends it.
func (r *Range) WatchLimits() error {
	accounts, err := newAccounts(r.controls, r.limits)
	r.accounts = accounts
	return err
}

// accounts follow what the kernel counts. One goroutine does, which ends with
// the cgroup or with close, and which close joins.
//
// v1 tells nobody of an out-of-memory kill in this way: there the reading at the
// end has to come in time.
type accounts struct {
	controls Controls
	limits   seam.Limits
	files    []int    // have to be read where they are polled
	epoll    *os.File // of files, in the runtime's poller
	ended    chan struct{}

	mu   sync.Mutex
	seen owner.Account
}

// newAccounts returns nil where there is no file to follow.
func newAccounts(c Controls, limits seam.Limits) (*accounts, error) {
	a := &accounts{controls: c, limits: limits, ended: make(chan struct{})}
	if limits.Pids > 0 {
		a.add(c.pids, pidsEvents)
	}
	if limits.MemoryBytes > 0 && !c.memory.v1 {
		a.add(c.memory, memoryEvents)
	}
	if len(a.files) == 0 {
		return nil, nil
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		a.closeFiles()
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// Non-blocking mode is what makes os.NewFile hand it to the poller.
	err = os.NewSyscallError("fcntl", unix.SetNonblock(epoll, true))
	a.epoll = os.NewFile(uintptr(epoll), "cgroup accounts")
	for _, fd := range a.files {
		err = errors.Join(err, takeEvent(fd), os.NewSyscallError("epoll_ctl",
			unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLPRI, Fd: int32(fd)})))
	}
	if err != nil {
		_ = a.epoll.Close()
		a.closeFiles()
		return nil, err
	}
	go a.follow() // joined by close
	return a, nil
}

func (a *accounts) add(c control, file string) {
	if c.missing != nil {
		return
	}
	fd, err := unix.Open(filepath.Join(c.dir, file), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		a.files = append(a.files, fd)
	}
}

// takeEvent reads a file, which takes back its event.
func takeEvent(fd int) error {
	var b [1]byte
	for {
		_, err := unix.Pread(fd, b[:], 0)
		if err != unix.EINTR {
			return os.NewSyscallError("read", err)
		}
	}
}

// follow reads at each event, until the cgroup is gone.
func (a *accounts) follow() {
	defer close(a.ended)
	conn, err := a.epoll.SyscallConn()
	if err != nil {
		return
	}
	for {
		err := conn.Read(func(epoll uintptr) bool {
			var events [2]unix.EpollEvent
			n, err := unix.EpollWait(int(epoll), events[:], 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
		if err != nil {
			return // closed
		}
		for _, fd := range a.files {
			if takeEvent(fd) != nil {
				return // gone
			}
		}
		now := a.controls.account(a.limits)
		a.mu.Lock()
		a.seen = latest(a.seen, now)
		a.mu.Unlock()
	}
}

func (a *accounts) last() owner.Account {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

func (a *accounts) close() {
	_ = a.epoll.Close()
	<-a.ended
	a.closeFiles()
}

func (a *accounts) closeFiles() {
	for _, fd := range a.files {
		_ = unix.Close(fd)
	}
}
