package runner

import (
	"bufio"
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

// A supervisor owns one range where there is no cgroup to hold it. It is a
// subreaper: whatever the target starts, and however that detaches itself, stays
// below it, and when it has no child left nothing of the range lives. A nursery,
// one for each runtime, is the supervisors' parent and itself a subreaper: what
// a killed supervisor leaves falls to the nursery, which ends it.
//
//	harness                     nursery                  supervisor
//	  | -- L: streams, control --> | -- fork --------------> |
//	  | -- request: path, argv, env, dir -----------------> | fork, exec: target
//	  | <------------------ S: numbers of target, supervisor |
//	  |            or E: step, errno, and the end           |
//	  | -- T or K ----------------------------------------> | signals every member
//	  | <-------------------- D: how the target ended, usage |
//	  | <----------------- Z: no child is left, and the end |
//
// The end of any of them ends the range: the supervisor sees the harness's by
// its control socket and the nursery's by a pipe, and kills; the nursery sees
// the supervisor's as its parent, and kills.
const (
	verbSupervise = "supervise"
	verbNursery   = "nursery"

	nurseryFD = 4 // of a supervisor: its end says that the nursery has ended

	recordStarted = 'S'
	recordEnded   = 'D'
	recordEmpty   = 'Z'

	commandLaunch    = 'L'
	commandTerminate = 'T'
	commandKill      = 'K'
)

// endedRecord is what follows recordEnded.
type endedRecord struct {
	Signaled       uint32 // 1 if Value is a signal, 0 if an exit code
	Value          uint32
	UserCPU        int64 // nanoseconds
	SystemCPU      int64
	MaxRSSKibibyte int64
}

func (r endedRecord) exit() owner.Exit {
	exit := owner.Exit{Code: int(r.Value), Usage: &seam.Usage{
		UserCPU:     time.Duration(r.UserCPU),
		SystemCPU:   time.Duration(r.SystemCPU),
		MaxRSSBytes: r.MaxRSSKibibyte * 1024,
	}}
	if r.Signaled != 0 {
		exit.Code = -1
		exit.Signal = seam.Signal{Name: signalName(syscall.Signal(r.Value)), Number: int(r.Value)}
	}
	return exit
}

// startedRecord is what follows recordStarted.
type startedRecord struct{ Target, Supervisor uint32 }

// supervise is the supervisor's side.
func supervise() {
	unix.CloseOnExec(controlFD)
	unix.CloseOnExec(nurseryFD)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		leave(exitProtocol)
	}
	control := os.NewFile(controlFD, "control")
	commands := bufio.NewReader(control)
	request, err := readRequest(commands)
	if err != nil {
		leave(exitProtocol)
	}
	s := &supervisor{control: control}
	target, step, err := s.launch(request)
	if err != nil {
		bootstrapFailed(control, step, err)
	}
	s.write(recordStarted, startedRecord{uint32(target), uint32(os.Getpid())})

	// Neither is joined: both end with the process, at the last child's end.
	go s.obey(commands)
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(nurseryFD, "nursery"))
		s.kill()
	}()
	s.reap(target)
	s.write(recordEmpty, struct{}{})
	leave(0)
}

type supervisor struct {
	control *os.File

	mu    sync.Mutex // held while signalling
	empty bool
}

func (s *supervisor) write(record byte, body any) {
	message, _ := binary.Append([]byte{record}, binary.LittleEndian, body) // of fixed size
	_, _ = s.control.Write(message)                                        // a harness that is gone is seen by obey
}

// launch starts the target, and keeps nothing of its streams.
func (s *supervisor) launch(r owner.Request) (pid int, step byte, err error) {
	if err := syscall.Chdir(r.Dir); err != nil {
		return 0, 'd', err
	}
	pid, _, err = syscall.StartProcess(r.Path, r.Argv, &syscall.ProcAttr{
		Env: r.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, 'x', err
	}
	null, nullErr := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		_ = unix.Close(fd)
		if nullErr == nil {
			_ = unix.Dup3(null, fd, 0)
		}
	}
	_ = syscall.Chdir("/") // or the target's directory can't be unmounted
	return pid, 0, nil
}

// obey signals as the harness asks, and kills when it has ended.
func (s *supervisor) obey(commands *bufio.Reader) {
	for {
		command, err := commands.ReadByte()
		switch {
		case err != nil:
			s.kill()
			return
		case command == commandTerminate:
			s.signalAll(unix.SIGTERM, unix.SIGCONT)
		case command == commandKill:
			go s.kill() // ends with the process, as obey does
		}
	}
}

func (s *supervisor) signalAll(signals ...unix.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.empty {
		signalBelow(os.Getpid(), signals...)
	}
}

// kill ends every member. It goes on until reap says that none is left: what is
// forked while it looks is found when it looks again.
func (s *supervisor) kill() {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		s.mu.Lock()
		empty := s.empty
		if !empty {
			killBelow(os.Getpid(), nil)
		}
		s.mu.Unlock()
		if empty {
			return
		}
		time.Sleep(pause) //nolint:forbidigo // members' ends are reap's to see
	}
}

// reap waits for every child, and reports the target's end. ECHILD is the proof.
func (s *supervisor) reap(target int) {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, unix.WALL, &usage)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			s.mu.Lock()
			s.empty = true
			s.mu.Unlock()
			return
		case pid == target:
			record := endedRecord{
				Value:          uint32(status.ExitStatus()),
				UserCPU:        usage.Utime.Nano(),
				SystemCPU:      usage.Stime.Nano(),
				MaxRSSKibibyte: int64(usage.Maxrss),
			}
			if status.Signaled() {
				record.Signaled, record.Value = 1, uint32(status.Signal())
			}
			s.write(recordEnded, record)
		}
	}
}

// descendants lists what lives below root, parents before children, without the
// trees of those in except.
func descendants(root int, except map[int]bool) []process.Row {
	children := make(map[int][]process.Row)
	for _, row := range process.Table() {
		if !row.Dead() {
			children[row.Parent] = append(children[row.Parent], row)
		}
	}
	var found []process.Row
	seen := map[int]bool{root: true}
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, row := range children[next[0]] {
			if !seen[row.PID] && !except[row.PID] {
				seen[row.PID] = true
				found = append(found, row)
				next = append(next, row.PID)
			}
		}
	}
	return found
}

func signalBelow(root int, signals ...unix.Signal) {
	for _, row := range descendants(root, nil) {
		_ = row.Signal(signals...) // one that can't be has KILL to come
	}
}

// killBelow stops what it finds until it finds nothing new, so that nothing forks
// meanwhile, and then kills all of it.
func killBelow(root int, except map[int]bool) {
	var stopped []process.Row
	known := make(map[process.Identity]bool)
	for range 16 {
		fresh := slices.DeleteFunc(descendants(root, except), func(row process.Row) bool { return known[row.Identity()] })
		if len(fresh) == 0 {
			break
		}
		for _, row := range fresh {
			known[row.Identity()] = true
			stopped = append(stopped, row)
			_ = row.Signal(unix.SIGSTOP) // one that can't be is killed all the same
		}
	}
	for _, row := range stopped {
		_ = row.Signal(unix.SIGKILL) // what is left is found at the next pass
	}
}

// nursery is the side of the supervisors' parent.
func nursery() {
	unix.CloseOnExec(controlFD)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		leave(exitProtocol)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		leave(exitProtocol)
	}
	n := &parent{children: make(map[int]bool), theirs: theirs}
	n.changed.L = &n.mu
	go n.reap() // ends with the process
	n.serve()
	// The harness has ended, or wants no more: the supervisors see that, too.
	n.mu.Lock()
	for len(n.children) > 0 {
		n.changed.Wait()
	}
	n.mu.Unlock()
	runtime.KeepAlive(ours)
	leave(0)
}

// parent is a nursery's state.
type parent struct {
	theirs *os.File // the supervisors' end of the pipe that ends with this process

	mu       sync.Mutex
	changed  sync.Cond
	children map[int]bool // supervisors that live
}

// serve starts a supervisor for each message, until the socket ends.
func (n *parent) serve() {
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4*4))
	for {
		size, oobSize, _, _, err := unix.Recvmsg(controlFD, data, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || size == 0 {
			return
		}
		fds := receivedFDs(oob[:oobSize])
		if data[0] == commandLaunch && len(fds) == 4 {
			n.start(fds)
		}
		for _, fd := range fds {
			_ = unix.Close(fd) // the supervisor has its own; without one the harness sees the end
		}
	}
}

func receivedFDs(oob []byte) []int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil
	}
	fds, _ := unix.ParseUnixRights(&messages[0]) // none
	return fds
}

func (n *parent) start(fds []int) {
	n.mu.Lock() // so that reap does not see the child before it is known
	defer n.mu.Unlock()
	pid, _, err := syscall.StartProcess("/proc/self/exe", []string{"corral-runner"}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{Select(verbSupervise)},
		Files: []uintptr{uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2]), uintptr(fds[3]), n.theirs.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_, _ = unix.Write(fds[3], errorRecord('s', err)) // the harness sees the end, too
		return
	}
	n.children[pid] = true
	n.changed.Broadcast()
}

// reap waits for supervisors. One that did not end by itself has left its
// members to us.
func (n *parent) reap() {
	for {
		n.mu.Lock()
		for len(n.children) == 0 {
			n.changed.Wait()
		}
		n.mu.Unlock()
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, unix.WALL, nil)
		if err != nil {
			continue
		}
		n.mu.Lock()
		supervisor := n.children[pid]
		if supervisor && !(status.Exited() && (status.ExitStatus() == 0 || status.ExitStatus() == 127)) {
			n.endOrphans()
		}
		delete(n.children, pid)
		n.changed.Broadcast()
		n.mu.Unlock()
	}
}

// endOrphans kills whatever is below this process and is no supervisor's. mu is
// held.
func (n *parent) endOrphans() {
	for pause := time.Millisecond; len(descendants(os.Getpid(), n.children)) > 0; pause = min(2*pause, 20*time.Millisecond) {
		killBelow(os.Getpid(), n.children)
		time.Sleep(pause) //nolint:forbidigo // their ends are told to us one by one, and reaped after
	}
}

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

// Close ends the nursery, once its supervisors have ended, and joins it.
func (n *Nursery) Close() error {
	err := n.socket.Close()
	n.direct.Wait()
	return errors.Join(err, n.direct.Release())
}

// Launch has a supervisor start the target of r, and returns it once it has. An
// error is the system's own about chdir or execve, or matches ErrLost.
func (n *Nursery) Launch(r owner.Request, deadline time.Time) (*Supervised, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(pair[0]))
	}
	s := &Supervised{control: os.NewFile(uintptr(pair[0]), "control"), ended: make(chan struct{}), done: make(chan struct{})}
	if err := n.send(append(slices.Clone(r.Stdio[:]), theirs)); err != nil {
		return nil, errors.Join(err, s.control.Close())
	}
	_ = theirs.Close() // before we read: the supervisor's end must be the only one
	if err := s.begin(r, deadline); err != nil {
		return nil, errors.Join(err, s.control.Close())
	}
	s.reader.Go(s.listen)
	return s, nil
}

func (n *Nursery) send(files []*os.File) error {
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
	sendErr := error(nil)
	err = conn.Control(func(fd uintptr) {
		sendErr = unix.Sendmsg(int(fd), []byte{commandLaunch}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
	})
	runtime.KeepAlive(files)
	if err == nil {
		err = os.NewSyscallError("sendmsg", sendErr)
	}
	return err
}

// Supervised is a range that a supervisor owns, as the harness sees it. One
// goroutine listens to the supervisor; it ends with it and is joined by Release.
type Supervised struct {
	control    *os.File
	records    *bufio.Reader
	target     int
	supervisor int
	reader     sync.WaitGroup

	ended chan struct{} // closed when exit is known, or lost
	exit  owner.Exit
	done  chan struct{} // closed at the end of the supervisor
	empty bool          // it said that no child was left; valid once done is closed
}

var _ owner.Direct = (*Supervised)(nil)

// begin sends the request and waits for the start.
func (s *Supervised) begin(r owner.Request, deadline time.Time) error {
	if err := s.control.SetDeadline(deadline); err != nil {
		return err
	}
	if err := writeRequest(s.control, r); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	s.records = bufio.NewReader(s.control)
	record, err := s.records.ReadByte()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	switch record {
	case recordStarted:
		var started startedRecord
		if err := binary.Read(s.records, binary.LittleEndian, &started); err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		s.target, s.supervisor = int(started.Target), int(started.Supervisor)
		return s.control.SetDeadline(time.Time{})
	case recordError:
		rest, err := io.ReadAll(io.LimitReader(s.records, 64))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		return readRecords(append([]byte{recordError}, rest...))
	}
	return fmt.Errorf("%w: it wrote %q", ErrLost, record)
}

// listen takes the supervisor's records until its end.
func (s *Supervised) listen() {
	defer close(s.done)
	known := false
	for {
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
	return err
}

// Done is closed at the supervisor's end.
func (s *Supervised) Done() <-chan struct{} { return s.done }

// Empty reports, once Done is closed, whether the supervisor said that nothing
// of the range was left.
func (s *Supervised) Empty() bool { return s.empty }

// Signal has the supervisor signal every member.
func (s *Supervised) Signal(sig owner.Signal) error {
	command := byte(commandTerminate)
	if sig == owner.Kill {
		command = commandKill
	}
	_, err := s.control.Write([]byte{command})
	return err
}

// Members lists what lives below the supervisor, without the target.
func (s *Supervised) Members() []seam.Member {
	var members []seam.Member
	for _, row := range descendants(s.supervisor, nil) {
		if row.PID == s.target {
			continue
		}
		if m, alive := process.Describe(row.PID); alive {
			members = append(members, m)
		}
	}
	return members
}
