package runner

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/seam"
)

// runnerName is what supervisors are called.
const runnerName = "corral-runner"

// ErrSupervisor is matched by a launch that failed for its supervisor, not for
// its target.
var ErrSupervisor = errors.New("no supervisor")

// Nursery is a runtime's nursery.
type Nursery struct {
	direct *Direct
	socket *os.File
}

// StartNursery starts one.
func StartNursery() (*Nursery, error) {
	if !Linked() {
		return nil, ErrNotLinked
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "nursery"), os.NewFile(uintptr(pair[1]), "nursery")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer null.Close()
	direct, err := start(launch{
		path: "/proc/self/exe", argv: []string{"corral-runner"}, env: []string{Select(verbNursery)},
		dir: "/", files: []*os.File{null, null, null, theirs}, cgroup: -1,
	})
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return &Nursery{direct: direct, socket: ours}, nil
}

// Alive reports whether it can start supervisors.
func (n *Nursery) Alive() bool {
	_, ended := n.direct.Exited()
	return !ended
}

// Close ends the nursery, once its supervisors have ended, and joins it. When ctx
// ends it is killed: supervisors that are left see that, and kill.
func (n *Nursery) Close(ctx context.Context) error {
	err := n.socket.Close()
	unblock := context.AfterFunc(ctx, func() { _ = n.direct.Kill() })
	stopped := time.AfterFunc(2*unanswered, func() { _ = n.direct.Kill() }) // it is stopped
	n.direct.Wait()
	unblock()
	stopped.Stop()
	return errors.Join(err, n.direct.Release())
}

// Launch has a supervisor start the target of r, and returns it once it has. ctx
// bounds starting. An error is the system's own about chdir or execve, ctx's
// cause, or matches ErrSupervisor; nothing of the target lives then.
func (n *Nursery) Launch(ctx context.Context, r owner.Request) (*Supervised, error) {
	if requestBytes(r) > maxRequestBytes {
		return nil, syscall.E2BIG // as execve would have it
	}
	ours, theirs, err := ControlPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	_ = n.direct.signal(unix.SIGCONT) // a target can stop it, and nobody else would notice
	s := &Supervised{control: ours, nursery: n.direct.PID(), ended: make(chan struct{}), done: make(chan struct{})}
	if err := n.send(ctx, append(slices.Clone(r.Stdio[:]), theirs)); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrSupervisor, err), ours.Close())
	}
	_ = theirs.Close() // before we read: the supervisor's and the nursery's must be the only ones
	release := Interrupt(ctx, ours)
	err = s.begin(r)
	if release() && err != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.giveUp()
		return nil, err
	}
	s.reader.Go(s.listen)
	return s, nil
}

// giveUp has a supervisor end what it may have started, and waits for that.
func (s *Supervised) giveUp() {
	_ = s.control.SetDeadline(time.Now().Add(unanswered))
	if conn, err := s.control.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
		_, _ = io.Copy(io.Discard, s.control)
	}
	_ = s.control.Close()
	if s.handle != nil {
		s.handle.Close()
	}
}

// Interrupt ends what waits on conn when ctx ends, until release is called, which
// reports whether it did. By then conn is left alone, and can be waited on again:
// what was done in time does not fail for a context that ends just then.
func Interrupt(ctx context.Context, conn interface{ SetDeadline(time.Time) error }) (release func() (ended bool)) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	return func() bool {
		if stop() {
			return false
		}
		<-interrupted
		_ = conn.SetDeadline(time.Time{})
		return true
	}
}

// ControlPair makes a control socket. Our end goes into the poller.
func ControlPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(pair[0]), unix.Close(pair[1]))
	}
	return os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control"), nil
}

func (n *Nursery) send(ctx context.Context, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fd, err := descriptor(f)
		if err != nil {
			return err
		}
		fds[i] = int(fd)
	}
	conn, err := n.socket.SyscallConn()
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(files)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		sendErr := error(nil)
		err := conn.Control(func(fd uintptr) {
			sendErr = unix.Sendmsg(int(fd), []byte{commandLaunch}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		})
		if err != nil || !errors.Is(sendErr, unix.EAGAIN) {
			return errors.Join(err, os.NewSyscallError("sendmsg", sendErr))
		}
		// The nursery's queue is full of launches before this one. A deadline on
		// the socket would be everyone's, so each waits by its own clock.
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// Supervised is a range that a supervisor owns, as the harness sees it. One
// goroutine listens to the supervisor; it ends with it and is joined by Release.
type Supervised struct {
	control    *os.File
	records    *bufio.Reader
	target     int
	nursery    int
	supervisor int
	born       uint64          // when the supervisor was: with its number, an identity
	handle     *process.Handle // of the supervisor; nil where it had ended
	reader     sync.WaitGroup

	mu     sync.Mutex
	killed time.Time // when KILL was first asked for; zero before

	ended chan struct{} // closed when exit is known, or lost
	exit  owner.Exit
	done  chan struct{} // closed at the end of the supervisor
	empty bool          // it said that no child was left; valid once done is closed
}

var _ owner.Direct = (*Supervised)(nil)

// begin sends the request and waits for the start.
func (s *Supervised) begin(r owner.Request) error {
	lost := func(err error) error { return fmt.Errorf("%w: %w", ErrSupervisor, err) }
	s.records = bufio.NewReader(s.control)
	record, number, err := s.next()
	if err != nil {
		return lost(err)
	}
	if record == recordHere {
		// It lives, or its number is pinned by the nursery that has not reaped it.
		s.supervisor = int(number)
		if s.handle, err = process.Open(s.supervisor); err != nil {
			return lost(err)
		}
		if stat, err := process.ReadStat(s.supervisor); err == nil {
			s.born = stat.Started
		}
		if err := WriteRequest(s.control, r); err != nil {
			return lost(err)
		}
		// A target can stop its supervisor before that has said a word.
		silent := time.AfterFunc(startSilence, func() {
			if s.handle != nil {
				_ = s.handle.Signal(unix.SIGKILL)
			}
		})
		record, number, err = s.next()
		silent.Stop()
		if err != nil {
			return lost(err)
		}
	}
	switch record {
	case recordStarted:
		s.target = int(number)
		return nil
	case recordError:
		step, errno := byte(number>>32), syscall.Errno(uint32(number))
		if step == stepSupervisor {
			return lost(errno)
		}
		return errno
	}
	return lost(fmt.Errorf("it wrote %q", record))
}

// next reads a record of a start: its number, or its step above its errno.
func (s *Supervised) next() (record byte, number uint64, err error) {
	if record, err = s.records.ReadByte(); err != nil {
		return 0, 0, err
	}
	var step byte
	if record == recordError {
		if step, err = s.records.ReadByte(); err != nil {
			return 0, 0, err
		}
	}
	var low uint32
	err = binary.Read(s.records, binary.LittleEndian, &low)
	return record, uint64(step)<<32 | uint64(low), err
}

// startSilence is how long a supervisor may take for a start.
const startSilence = 10 * time.Second

// listen takes the supervisor's records until its end.
func (s *Supervised) listen() {
	defer close(s.done)
	known := false
	for !s.empty {
		record, err := s.records.ReadByte()
		if err != nil {
			break
		}
		switch record {
		case recordEnded:
			var ended endedRecord
			if binary.Read(s.records, binary.LittleEndian, &ended) == nil && !known {
				known, s.exit = true, ended.exit()
				close(s.ended)
			}
		case recordEmpty:
			s.empty = true
		}
	}
	if !known {
		s.exit = owner.Exit{Lost: true, Code: -1}
		close(s.ended)
	}
}

// PID implements [owner.Direct]. The supervisor reaps the target at its end.
func (s *Supervised) PID() int { return s.target }

// Wait implements [owner.Direct].
func (s *Supervised) Wait() owner.Exit { <-s.ended; return s.exit }

// Exited implements [owner.Direct].
func (s *Supervised) Exited() (owner.Exit, bool) {
	select {
	case <-s.ended:
		return s.exit, true
	default:
		return owner.Exit{}, false
	}
}

// Release implements [owner.Direct].
func (s *Supervised) Release() error {
	err := s.control.Close()
	s.reader.Wait()
	if s.handle != nil {
		s.handle.Close()
	}
	return err
}

// Done is closed at the supervisor's end.
func (s *Supervised) Done() <-chan struct{} { return s.done }

// Empty reports, once Done is closed, whether the supervisor said that nothing
// of the range was left.
func (s *Supervised) Empty() bool { return s.empty }

// Signal has the supervisor signal every member. One that a member has stopped is
// continued; one that is stopped all the same, and has not answered KILL for a
// while, is killed: the nursery ends what it leaves.
func (s *Supervised) Signal(sig owner.Signal) error {
	command := byte(commandTerminate)
	if sig == owner.Kill {
		command = commandKill
		s.mu.Lock()
		first := s.killed.IsZero()
		if first {
			s.killed = time.Now()
		}
		late := time.Since(s.killed) > unanswered
		s.mu.Unlock()
		// One that runs and does not answer has a member that it can't kill.
		if state := s.state(); late && (state == 'T' || state == 't') {
			return s.handle.Signal(unix.SIGKILL)
		}
	}
	if s.handle != nil {
		_ = s.handle.Signal(unix.SIGCONT) // one that can't be will not answer, either
	}
	_, err := s.control.Write([]byte{command})
	return err
}

// state is the supervisor's, as the system has it (proc_pid_stat(5)); 0 where it
// has ended.
func (s *Supervised) state() byte {
	stat, err := process.ReadStat(s.supervisor)
	if err != nil || stat.Started != s.born || stat.Dead() || s.handle == nil {
		return 0
	}
	return stat.State
}

// Members lists what lives below the supervisor, without the target. What a
// supervisor left that was killed is below the nursery, and can't be told from
// what others left.
func (s *Supervised) Members() []seam.Member {
	rows := process.Descendants(s.supervisor, nil)
	if s.state() == 0 {
		supervisors := make(map[int]bool)
		for _, pid := range process.Children(s.nursery) {
			m, alive := process.Describe(pid)
			supervisors[pid] = alive && len(m.Argv) > 0 && m.Argv[0] == runnerName
		}
		rows = process.Descendants(s.nursery, supervisors)
	}
	var members []seam.Member
	for _, row := range rows {
		if row.PID == s.target {
			continue
		}
		if m, alive := process.Describe(row.PID); alive {
			members = append(members, m)
		}
	}
	return members
}
