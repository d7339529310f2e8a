package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

var _ owner.Limited = (*Range)(nil)

// Limit has the range account for limits that are in force at c, from now on.
// Call it before any other method.
func (r *Range) Limit(c Controls, limits seam.Limits) {
	c.refused = c.refusedForks()
	r.controls, r.limits = c, limits
}

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
	var err error
	r.accounts, err = newAccounts(r.controls, r.limits)
	return err
}

// accounts follow what the kernel counts. One goroutine does, which ends with
// the cgroup or with close, and which close joins.
type accounts struct {
	controls Controls
	limits   seam.Limits
	files    []int         // of v2; they have to be read where they are polled
	epoll    *os.File      // of files, in the runtime's poller
	ended    chan struct{} // closed when nothing is followed any more
	closing  chan struct{}

	mu   sync.Mutex
	seen owner.Account
}

// pace is how often the counters of v1 are read, which tells nobody of them:
// also of a refused fork it does not, as Linux 6.18 was seen not to do.
const pace = 50 * time.Millisecond

// newAccounts returns nil where there is nothing to follow.
func newAccounts(c Controls, limits seam.Limits) (*accounts, error) {
	a := &accounts{controls: c, limits: limits, ended: make(chan struct{}), closing: make(chan struct{})}
	if limits.Pids > 0 && c.pids.v1 || limits.MemoryBytes > 0 && c.memory.v1 {
		go a.keepReading() // joined by close
		return a, nil
	}
	if limits.Pids > 0 {
		a.add(c.pids, pidsEvents)
	}
	if limits.MemoryBytes > 0 {
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
		a.read()
	}
}

// keepReading reads at its pace.
func (a *accounts) keepReading() {
	defer close(a.ended)
	ticks := time.NewTicker(pace)
	defer ticks.Stop()
	for {
		select {
		case <-a.closing:
			return
		case <-ticks.C:
			a.read()
		}
	}
}

func (a *accounts) read() {
	now := a.controls.account(a.limits)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = latest(a.seen, now)
}

func (a *accounts) last() owner.Account {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

func (a *accounts) close() {
	close(a.closing)
	if a.epoll != nil {
		_ = a.epoll.Close()
	}
	<-a.ended
	a.closeFiles()
}

func (a *accounts) closeFiles() {
	for _, fd := range a.files {
		_ = unix.Close(fd)
	}
}
