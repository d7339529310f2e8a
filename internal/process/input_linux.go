package process

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// A Terminal is a terminal device as the kernel tells it from others.
type Terminal struct {
	Dev  uint64 // the filesystem that it is a file of
	Rdev uint64 // the device
}

// WaitsForInput reports whether a thread of a process group provably waits to
// read the terminal, and whether that is known: the system showed what every
// thread of the group waits for, or one that waits for input was found.
//
// The proof is the system call that a thread is in, where no signal is about to
// wake it: a read of a descriptor that is the terminal, or a wait for several
// (poll, select, epoll) of which the terminal is one. It needs
// /proc/PID/task/TID/syscall, which is shown to who may trace the process; that
// a process merely sleeps proves nothing.
//
// Not known is what a thread waits for that waits on an io_uring, whose
// requests are shown without their descriptors; that resumed an interrupted
// wait; or that runs 32-bit code, whose calls have other numbers.
func WaitsForInput(pgid int, terminal Terminal) (waits, known bool) {
	if kernelABI() == nil {
		return false, false
	}
	// Mostly the leader is who waits, and then nobody else has to be found.
	waits, known = processWaits(pgid, terminal)
	if waits {
		return true, true
	}
	others, complete := GroupMembers(pgid)
	known = known && complete
	for _, pid := range others {
		if pid == pgid {
			continue
		}
		w, k := processWaits(pid, terminal)
		if w {
			return true, true
		}
		known = known && k
	}
	return false, known
}

// GroupMembers lists the processes of a process group, and reports whether the
// system shows all of them.
func GroupMembers(pgid int) (pids []int, complete bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		pid, atoiErr := strconv.Atoi(name)
		if atoiErr != nil {
			continue
		}
		if got, err := unix.Getpgid(pid); err == nil && got == pgid {
			pids = append(pids, pid)
		}
	}
	// Mounted with hidepid, it lists not the processes of others.
	_, hidden := os.Lstat("/proc/1")
	return pids, err == nil && hidden == nil
}

// GroupOf reports whether a process group that once was one of a session still
// is: after the end of its members another may have its number.
func GroupOf(session, pgid int) bool {
	// While the group lives, nobody but its first process can have its number.
	if got, err := unix.Getsid(pgid); err == nil {
		return got == session
	}
	members, complete := GroupMembers(pgid)
	for _, pid := range members {
		if got, err := unix.Getsid(pid); err == nil {
			return got == session
		}
	}
	return !complete
}

// processWaits is WaitsForInput of one process. One that is gone waits for nothing.
func processWaits(pid int, terminal Terminal) (waits, known bool) {
	dir, err := os.Open(procPath(pid, "task"))
	if err != nil {
		return false, gone(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	known = err == nil || gone(err)
	for _, name := range names {
		t := thread{pid: pid, dir: procPath(pid, "task/"+name), terminal: terminal, abi: kernelABI()}
		w, k := t.waits()
		if w {
			return true, true
		}
		known = known && k
	}
	return false, known
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// thread is one whose wait is looked at.
type thread struct {
	pid      int
	dir      string // its directory in /proc
	terminal Terminal
	abi      *abi
}

func (t *thread) waits() (waits, known bool) {
	// Before the call is looked at: a signal that is no longer pending then has
	// woken the thread.
	signalled, toldOfSignals := t.isSignalled()
	data, err := os.ReadFile(t.dir + "/syscall")
	if err != nil {
		_, statErr := os.Lstat(t.dir)
		return false, gone(statErr) // a system without the file has the directory
	}
	call, inCall, err := parseSyscall(data)
	if err != nil {
		return false, false
	}
	if !inCall {
		return false, true
	}
	if call.sp < 1<<32 {
		return false, false
	}
	if call.number == t.abi.restart || call.number == ringCall {
		return false, false
	}
	waits, known = t.waitsIn(t.abi.calls[call.number], call)
	if waits && (signalled || !toldOfSignals) {
		return false, toldOfSignals // it does not wait for much longer
	}
	return waits, known
}

// isSignalled reports whether a signal is on its way to the thread, or to any of
// its process that takes it (proc_pid_status(5)), and whether that is known.
func (t *thread) isSignalled() (is, known bool) {
	data, err := os.ReadFile(t.dir + "/status")
	if err != nil {
		return false, gone(err)
	}
	signals, err := parseSignals(data)
	return signals.Pending&^signals.Blocked != 0, err == nil
}

// waitsIn judges a call of a kind.
func (t *thread) waitsIn(kind callKind, call syscallLine) (waits, known bool) {
	switch kind {
	case callRead:
		return t.isTerminal(int(int32(call.args[0])))
	case callPoll:
		const entry, maxEntries = 8, 1024
		n := min(call.args[1], maxEntries)
		data, err := t.memory(call.args[0], int(n)*entry)
		if err != nil {
			return false, false
		}
		return t.anyTerminal(polledForInput(data))
	case callSelect:
		const maxBits = 4096
		n := min(uint64(uint32(call.args[0])), maxBits)
		if n == 0 || call.args[1] == 0 {
			return false, true
		}
		data, err := t.memory(call.args[1], int(n+63)/64*8)
		if err != nil {
			return false, false
		}
		return t.anyTerminal(selected(data, int(n)))
	case callEpoll:
		return t.epollWaits(int(int32(call.args[0])), maxNested)
	}
	return false, true
}

func (t *thread) anyTerminal(fds []int) (waits, known bool) {
	known = true
	for _, fd := range fds {
		w, k := t.isTerminal(fd)
		if w {
			return true, true
		}
		known = known && k
	}
	return false, known
}

// isTerminal reports whether a descriptor of the thread is the terminal. Stat
// follows the link to the open file itself, whatever its name means by now.
func (t *thread) isTerminal(fd int) (is, known bool) {
	var stat unix.Stat_t
	if err := unix.Stat(t.dir+"/fd/"+strconv.Itoa(fd), &stat); err != nil {
		return false, gone(err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
		return false, true
	}
	if uint64(stat.Rdev) != devTTY {
		return uint64(stat.Rdev) == t.terminal.Rdev && uint64(stat.Dev) == t.terminal.Dev, true
	}
	// /dev/tty is whatever controls the process.
	own, err := ReadStat(t.pid)
	if err != nil {
		return false, gone(err)
	}
	return unpackDevice(own.TTY) == t.terminal.Rdev, true
}

var devTTY = unix.Mkdev(5, 0)

// unpackDevice turns the number of a device in /proc/PID/stat into that of stat(2).
func unpackDevice(packed int) uint64 {
	n := uint32(packed)
	return unix.Mkdev(n>>8&0xfff, n&0xff|n>>12&0xfff00)
}

// memory reads the memory of the thread's process.
func (t *thread) memory(address uint64, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	f, err := os.Open(procPath(t.pid, "mem"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, n)
	if address > 1<<63-1 {
		return nil, unix.EFAULT
	}
	_, err = f.ReadAt(data, int64(address))
	return data, err
}

// maxNested is how deep epolls are followed that wait for epolls.
const maxNested = 4

func (t *thread) epollWaits(fd, nested int) (waits, known bool) {
	data, err := os.ReadFile(t.dir + "/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return false, gone(err)
	}
	targets := epollTargets(data)
	if waits, known = t.anyTerminal(targets); waits {
		return true, true
	}
	for _, target := range targets {
		link, err := os.Readlink(t.dir + "/fd/" + strconv.Itoa(target))
		switch {
		case err != nil:
			known = known && gone(err)
		case link == "anon_inode:[eventpoll]" && nested > 0:
			w, k := t.epollWaits(target, nested-1)
			if w {
				return true, true
			}
			known = known && k
		case link == "anon_inode:[eventpoll]", link == "anon_inode:[io_uring]":
			known = false
		}
	}
	return false, known
}

// syscallLine is what /proc/PID/task/TID/syscall says of a thread in a system
// call (proc_pid_syscall(5)).
type syscallLine struct {
	number int
	args   [6]uint64
	sp     uint64
}

var errMalformedSyscall = errors.New("malformed /proc syscall")

// parseSyscall reports inCall false for a thread that runs or waits in the
// kernel for something else than its system call.
func parseSyscall(data []byte) (line syscallLine, inCall bool, err error) {
	fields := bytes.Fields(data)
	if len(fields) == 1 && string(fields[0]) == "running" {
		return line, false, nil
	}
	if len(fields) > 0 && string(fields[0]) == "-1" {
		return line, false, nil
	}
	if len(fields) != 9 {
		return line, false, errMalformedSyscall
	}
	if line.number, err = strconv.Atoi(string(fields[0])); err != nil {
		return line, false, errMalformedSyscall
	}
	for i, field := range fields[1:8] {
		n, err := strconv.ParseUint(string(field), 0, 64)
		if err != nil {
			return line, false, errMalformedSyscall
		}
		if i < len(line.args) {
			line.args[i] = n
		} else {
			line.sp = n
		}
	}
	return line, true, nil
}

// callKind is how a system call waits for input.
type callKind uint8

const (
	callRead   callKind = iota + 1 // of its first argument
	callPoll                       // array of pollfd, length
	callSelect                     // number of bits, set to read
	callEpoll                      // of its first argument
)

// abi is a numbering of system calls.
type abi struct {
	read    int              // the number of read, which tells the numbering
	calls   map[int]callKind // those that can wait for a terminal's input
	restart int              // of the call that resumes an interrupted wait, without saying which
}

var abis = map[string]*abi{
	"amd64": {
		read: 0,
		calls: map[int]callKind{
			0: callRead, 19: callRead, 17: callRead, 295: callRead, 327: callRead, // read, readv, pread64, preadv, preadv2
			7: callPoll, 271: callPoll, // poll, ppoll
			23: callSelect, 270: callSelect, // select, pselect6
			232: callEpoll, 281: callEpoll, 441: callEpoll, // epoll_wait, epoll_pwait, epoll_pwait2
		},
		restart: 219,
	},
	"arm64": {
		read: 63,
		calls: map[int]callKind{
			63: callRead, 65: callRead, 67: callRead, 69: callRead, 286: callRead,
			73: callPoll,
			72: callSelect,
			22: callEpoll, 441: callEpoll,
		},
		restart: 128,
	},
}

// ringCall waits on an io_uring, on every architecture.
const ringCall = 426

// kernelABI is the numbering that the kernel uses, nil where it is none of ours.
// An emulator may translate this program's calls, so the kernel is asked: a
// thread that reads its own file is in the call read.
var kernelABI = sync.OnceValue(func() *abi {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	data, err := os.ReadFile("/proc/thread-self/syscall")
	if err != nil {
		return nil // then no other thread's is shown either
	}
	call, inCall, err := parseSyscall(data)
	if err != nil || !inCall {
		return nil
	}
	for _, known := range abis {
		if known.read == call.number {
			return known
		}
	}
	return nil
})

// polledForInput lists the descriptors that an array of struct pollfd asks to
// read.
func polledForInput(data []byte) (fds []int) {
	for ; len(data) >= 8; data = data[8:] {
		fd := int32(binary.NativeEndian.Uint32(data))
		if events := binary.NativeEndian.Uint16(data[4:]); fd >= 0 && events&unix.POLLIN != 0 {
			fds = append(fds, int(fd))
		}
	}
	return fds
}

// selected lists the first n descriptors that are in a set, made of words.
func selected(data []byte, n int) (fds []int) {
	for fd := range n {
		word := binary.NativeEndian.Uint64(data[fd/64*8:])
		if word&(1<<(fd%64)) != 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

// epollTargets lists the descriptors that an epoll asks to read, from its
// fdinfo (proc_pid_fdinfo(5)).
func epollTargets(data []byte) (fds []int) {
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) < 4 || string(fields[0]) != "tfd:" || string(fields[2]) != "events:" {
			continue
		}
		fd, err := strconv.Atoi(string(fields[1]))
		events, eventsErr := strconv.ParseUint(string(fields[3]), 16, 32)
		if err == nil && eventsErr == nil && events&unix.EPOLLIN != 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}
