package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/seam"
)

// A Handle is a process, fenced by a pidfd: its number can't become another's
// meaning. Linux 5.3.
type Handle struct{ pidfd *os.File }

// Open returns a handle, or nil where there is no such process. The caller
// looks at what the number is only now, when it is fenced.
func Open(pid int) (*Handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &Handle{os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Close frees the handle.
func (h *Handle) Close() { _ = h.pidfd.Close() }

// Signal sends a signal. That the process has ended is no error.
func (h *Handle) Signal(sig unix.Signal) error {
	conn, err := h.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	sendErr := error(nil)
	if err := conn.Control(func(fd uintptr) { sendErr = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(sendErr, unix.ESRCH) {
		return nil
	}
	return os.NewSyscallError("pidfd_send_signal", sendErr)
}

// WaitExit returns nil once the process has ended, all its threads with it, and
// ctx's cause if that comes first. It holds no thread.
func (h *Handle) WaitExit(ctx context.Context) error {
	unblock := context.AfterFunc(ctx, func() { _ = h.pidfd.SetReadDeadline(time.Unix(1, 0)) })
	defer unblock()
	conn, err := h.pidfd.SyscallConn()
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

// Describe is a live process as it is seen. It reports false where there is none.
func Describe(pid int) (seam.Member, bool) {
	stat, err := ReadStat(pid)
	if err != nil || stat.Dead() {
		return seam.Member{}, false
	}
	m := seam.Member{PID: pid, Started: startTime(stat.Started)}
	// Unreadable, or gone by now: then only the number is known.
	cmdline, err := os.ReadFile(procPath(pid, "cmdline"))
	if err != nil || len(cmdline) == 0 {
		return m, true
	}
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(cmdline, []byte{0}), []byte{0}) {
		m.Argv = append(m.Argv, string(arg))
	}
	return m, true
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

// Stat is what is read of /proc/PID/stat (proc_pid_stat(5)).
type Stat struct {
	State   byte
	Parent  int
	Group   int
	Session int
	TTY     int // the controlling terminal's device, as the kernel packs it; 0 for none
	Threads int
	Started uint64 // clock ticks since boot: with the number, an identity
}

// Dead reports whether nothing of the process runs. A zombie holds no resources
// and runs nothing, unless only its first thread has ended.
func (s Stat) Dead() bool {
	return (s.State == 'Z' || s.State == 'X' || s.State == 'x') && s.Threads <= 1
}

// ReadStat reads the stat of a process. Where there is none the error matches
// fs.ErrNotExist or unix.ESRCH.
func ReadStat(pid int) (Stat, error) {
	data, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(data)
}

// ParseStat begins at the last parenthesis: the name before it is the
// process's own choice and may hold anything.
func ParseStat(data []byte) (Stat, error) {
	_, after, found := bytes.Cut(data[max(bytes.LastIndexByte(data, ')'), 0):], []byte(") "))
	fields := bytes.Fields(after)
	// Fields are numbered from 1 in the manual; the state is the third.
	const state, parent, group, session, tty, threads, started = 3, 4, 5, 6, 7, 20, 22
	if !found || len(fields) <= started-state {
		return Stat{}, fmt.Errorf("malformed /proc stat: %q", data)
	}
	field := func(n int) string { return string(fields[n-state]) }
	s := Stat{State: field(state)[0]}
	var errs [6]error
	s.Group, errs[0] = strconv.Atoi(field(group))
	s.Session, errs[1] = strconv.Atoi(field(session))
	s.Threads, errs[2] = strconv.Atoi(field(threads))
	s.Started, errs[3] = strconv.ParseUint(field(started), 10, 64)
	s.Parent, errs[4] = strconv.Atoi(field(parent))
	s.TTY, errs[5] = strconv.Atoi(field(tty))
	return s, errors.Join(errs[:]...)
}

// Signals are what a process does about signals, a bit for each from the lowest
// (proc_pid_status(5)). Pending are those of the thread that was asked about and of
// its process; not every system tells of them, and of Blocked.
type Signals struct{ Ignored, Caught, Blocked, Pending uint64 }

// Ignores reports whether a signal is without effect.
func (s Signals) Ignores(sig unix.Signal) bool { return s.Ignored&(1<<(sig-1)) != 0 }

// Catches reports whether a signal has a handler.
func (s Signals) Catches(sig unix.Signal) bool { return s.Caught&(1<<(sig-1)) != 0 }

// ReadSignals reads what a process does about signals.
func ReadSignals(pid int) (Signals, error) {
	data, err := os.ReadFile(procPath(pid, "status"))
	if err != nil {
		return Signals{}, err
	}
	return parseSignals(data)
}

func parseSignals(data []byte) (s Signals, err error) {
	needed := 2
	for line := range bytes.Lines(data) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		var field *uint64
		switch string(name) {
		case "SigIgn":
			field, needed = &s.Ignored, needed-1
		case "SigCgt":
			field, needed = &s.Caught, needed-1
		case "SigBlk":
			field = &s.Blocked
		case "SigPnd", "ShdPnd":
			field = &s.Pending
		default:
			continue
		}
		set, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
		if err != nil {
			return s, fmt.Errorf("malformed /proc status: %q", line)
		}
		*field |= set
	}
	if needed != 0 {
		return s, errors.New("/proc status does not tell of signals")
	}
	return s, nil
}

// A Row is a process in a table.
type Row struct {
	PID int
	Stat
}

// Table lists the processes of this pid namespace, as far as they can be read.
func Table() []Row {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // as far as it can be read
	var rows []Row
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if stat, err := ReadStat(pid); err == nil {
			rows = append(rows, Row{pid, stat})
		}
	}
	return rows
}

// An Identity is a process, not a number that another may get.
type Identity struct {
	PID     int
	Started uint64
}

// Identity of the process in the row.
func (r Row) Identity() Identity { return Identity{r.PID, r.Started} }

// Signal sends signals to the process that was seen, and to no other that has
// its number now. That it has ended is no error.
func (r Row) Signal(signals ...unix.Signal) error {
	handle, err := Open(r.PID)
	if handle == nil || err != nil {
		return err
	}
	defer handle.Close()
	if stat, err := ReadStat(r.PID); err != nil || stat.Started != r.Started {
		return nil
	}
	for _, sig := range signals {
		if err := handle.Signal(sig); err != nil {
			return err
		}
	}
	return nil
}

// Children lists the children of a process, those of all its threads.
func Children(pid int) []int {
	threads, err := os.ReadDir(procPath(pid, "task"))
	if err != nil {
		return nil
	}
	var children []int
	for _, thread := range threads {
		// CONFIG_PROC_CHILDREN, which few kernels lack.
		data, err := os.ReadFile(procPath(pid, "task/"+thread.Name()+"/children"))
		if errors.Is(err, os.ErrNotExist) && thread.Name() == strconv.Itoa(pid) {
			return childrenInTable(pid)
		}
		for field := range bytes.FieldsSeq(data) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

func childrenInTable(pid int) []int {
	var children []int
	for _, row := range Table() {
		if row.Parent == pid {
			children = append(children, row.PID)
		}
	}
	return children
}

// Descendants lists what lives below root, parents before children, without the
// trees of those in except. One whose parent ends while it looks can be missed.
func Descendants(root int, except map[int]bool) []Row {
	var found []Row
	seen := map[int]bool{root: true}
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, pid := range Children(next[0]) {
			if seen[pid] || except[pid] {
				continue
			}
			seen[pid] = true
			if stat, err := ReadStat(pid); err == nil && !stat.Dead() {
				found = append(found, Row{PID: pid, Stat: stat})
				next = append(next, pid)
			}
		}
	}
	return found
}
