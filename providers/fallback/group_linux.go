package fallback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/runner"
	"github.com/corral-world/corral/seam"
)

func groupEscapes() []string {
	return []string{
		"a process that starts a session of its own (setsid, daemons)",
		"everything, when the harness is killed before it can end its ranges",
	}
}

// Launch implements [owner.Launcher].
func (g Group) Launch(_ context.Context, r owner.Request) (owner.Direct, owner.Owner, error) {
	direct, err := runner.Start(r)
	if err != nil {
		return nil, nil, err
	}
	s := &linuxSession{leader: direct}
	// The leader is not reaped before the proof, so this reads its own entry.
	if stat, err := readStat(direct.PID()); err == nil {
		s.started = stat.started
	}
	return direct, &group{leader: direct, session: s}, nil
}

// linuxSession finds members in /proc. The leader's zombie, and any member,
// pins the number of the session, so the number is not a stranger's.
type linuxSession struct {
	leader  *runner.Direct
	started uint64 // the leader's; 0 if it could not be read
}

func (s *linuxSession) members() ([]process, error) {
	pids, err := processIDs()
	if err != nil {
		return nil, err
	}
	sid := s.leader.PID()
	var members []process
	for _, pid := range pids {
		// Most processes are strangers, and getsid tells them for a fraction
		// of what reading their files costs.
		if got, err := unix.Getsid(pid); err != nil || got != sid {
			continue
		}
		stat, err := readStat(pid)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ESRCH):
			continue
		case err != nil:
			return nil, err
		case stat.session != sid || stat.dead():
			continue
		case pid == sid && s.started != 0 && stat.started != s.started:
			// Someone else reaped the leader, and its number was given to the
			// leader of another session: then nothing was left of this one.
			return nil, nil
		}
		members = append(members, process{identity: identity{pid, stat.started}, session: sid, group: stat.group})
	}
	return members, nil
}

func (s *linuxSession) inGroup(p process) bool { return p.group == s.leader.PID() }

func (s *linuxSession) signalGroup(sig owner.Signal) error {
	for _, n := range signalsOf(sig) {
		// ESRCH: no member of the group is left, not even a zombie.
		if err := unix.Kill(-s.leader.PID(), n); err != nil && err != unix.ESRCH {
			return fmt.Errorf("signal process group %d: %w", s.leader.PID(), err)
		}
	}
	return nil
}

// signalsOf continues what was stopped, so that it can obey.
func signalsOf(sig owner.Signal) []unix.Signal {
	if sig == owner.Terminate {
		return []unix.Signal{unix.SIGTERM, unix.SIGCONT}
	}
	return []unix.Signal{unix.SIGKILL}
}

// process is a member as it was found.
type process struct {
	identity
	session int
	group   int
}

// open returns a pidfd of p, or nil where p is gone.
func (p process) open() (*os.File, error) {
	fd, err := unix.PidfdOpen(p.pid, unix.PIDFD_NONBLOCK)
	if err == unix.ESRCH {
		return nil, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	// Only now is the number fenced: look whose it is.
	if stat, err := readStat(p.pid); err != nil || stat.started != p.started {
		_ = unix.Close(fd)
		return nil, nil
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

func (p process) signal(sig owner.Signal) error {
	pidfd, err := p.open()
	if pidfd == nil || err != nil {
		return err
	}
	defer pidfd.Close()
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	for _, n := range signalsOf(sig) {
		var sendErr error
		if err := conn.Control(func(fd uintptr) { sendErr = unix.PidfdSendSignal(int(fd), n, nil, 0) }); err != nil {
			return err
		}
		if sendErr != nil && sendErr != unix.ESRCH {
			return os.NewSyscallError("pidfd_send_signal", sendErr)
		}
	}
	return nil
}

// waitExit returns nil once p has ended, and ctx's cause if that comes first.
func (p process) waitExit(ctx context.Context) error {
	pidfd, err := p.open()
	if pidfd == nil || err != nil {
		return err
	}
	defer pidfd.Close()
	unblock := context.AfterFunc(ctx, func() { _ = pidfd.SetReadDeadline(time.Unix(1, 0)) })
	defer unblock()
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	err = conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, _ := unix.Poll(fds, 0)
		return n > 0
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (p process) describe() seam.Member {
	m := seam.Member{PID: p.pid, Started: startTime(p.started)}
	// Unreadable, or gone by now: then only the number is known.
	cmdline, err := os.ReadFile(procPath(p.pid, "cmdline"))
	if err != nil || len(cmdline) == 0 {
		return m
	}
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(cmdline, []byte{0}), []byte{0}) {
		m.Argv = append(m.Argv, string(arg))
	}
	return m
}

// startTime converts a start time in clock ticks since boot. User space sees
// 100 ticks a second on every architecture (time(7)).
func startTime(ticks uint64) time.Time {
	var sinceBoot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot); err != nil {
		return time.Time{}
	}
	age := time.Duration(sinceBoot.Nano()) - time.Duration(ticks)*(time.Second/100)
	return time.Now().Add(-max(age, 0))
}

func procPath(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// errForeignProc: what /proc shows is not what the numbers here mean.
var errForeignProc = errors.New("/proc belongs to another pid namespace, or is not mounted")

// processIDs lists the processes of this pid namespace.
func processIDs() ([]int, error) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errForeignProc
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// procStat is what is read of /proc/PID/stat (proc_pid_stat(5)).
type procStat struct {
	state   byte
	group   int
	session int
	threads int
	started uint64 // clock ticks since boot
}

// dead: a zombie holds no resources and runs nothing, unless only its first
// thread has ended.
func (s procStat) dead() bool {
	return (s.state == 'Z' || s.state == 'X' || s.state == 'x') && s.threads <= 1
}

func readStat(pid int) (procStat, error) {
	data, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(data)
}

// parseStat begins at the last parenthesis: the name before it is the
// process's own choice and may hold anything.
func parseStat(data []byte) (procStat, error) {
	_, after, found := bytes.Cut(data[max(bytes.LastIndexByte(data, ')'), 0):], []byte(") "))
	fields := bytes.Fields(after)
	// Fields are numbered from 1 in the manual; the state is the third.
	const state, group, session, threads, started = 3, 5, 6, 20, 22
	if !found || len(fields) <= started-state {
		return procStat{}, fmt.Errorf("malformed /proc stat: %q", data)
	}
	field := func(n int) string { return string(fields[n-state]) }
	s := procStat{state: field(state)[0]}
	var errs [4]error
	s.group, errs[0] = strconv.Atoi(field(group))
	s.session, errs[1] = strconv.Atoi(field(session))
	s.threads, errs[2] = strconv.Atoi(field(threads))
	s.started, errs[3] = strconv.ParseUint(field(started), 10, 64)
	return s, errors.Join(errs[:]...)
}
