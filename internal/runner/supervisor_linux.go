package runner

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
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
//	  | <-------------------------- H: the supervisor's number |
//	  | -- request: path, argv, env, dir -----------------> | fork, exec: target
//	  | <------------------------------ S: the target's number |
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

	recordHere    = 'H' // followed by the supervisor's number
	recordStarted = 'S' // followed by the target's
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

// supervise is the supervisor's side.
func supervise() {
	_ = CloseOnExec() // whatever this process was given, the target gets its streams
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		leave(exitProtocol)
	}
	control := os.NewFile(controlFD, "control")
	s := &supervisor{control: control, wake: make(chan struct{}, 1)}
	s.write(recordHere, uint32(os.Getpid()))
	commands := bufio.NewReader(control)
	request, err := ReadRequest(commands)
	if err != nil {
		leave(exitProtocol)
	}
	target, step, err := s.launch(request)
	if err != nil {
		bootstrapFailed(control, step, err)
	}
	s.write(recordStarted, uint32(target))

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
	killing sync.Once
	wake    chan struct{} // holds a token when another pass of the killing is due
}

func (s *supervisor) write(record byte, body any) {
	message, _ := binary.Append([]byte{record}, binary.LittleEndian, body) // of fixed size
	_, _ = s.control.Write(message)                                        // a harness that is gone is seen by obey
}

// launch starts the target, and keeps nothing of its streams.
func (s *supervisor) launch(r owner.Request) (pid int, step byte, err error) {
	if err := syscall.Chdir(r.Dir); err != nil {
		return 0, stepChdir, err
	}
	pid, err = startUnmasked(r.Path, r.Argv, &syscall.ProcAttr{
		Env: r.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: r.Terminal}, // Ctty is 0
	})
	if err != nil {
		return 0, stepExec, err
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
			terminateBelow(os.Getpid())
		case command == commandKill:
			s.kill()
		}
	}
}

// kill begins to end every member, and goes on until reap finds none left.
func (s *supervisor) kill() {
	s.killing.Do(func() { go killUntilEnd(s.wake, func() { killBelow(os.Getpid(), nil) }) }) // ends with the process
	poke(s.wake)
}

// killUntilEnd makes a pass for each event, and now and then without one: what
// forks while a pass looks is found by the next.
func killUntilEnd(wake <-chan struct{}, pass func()) {
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		pass()
		timer := time.NewTimer(pause)
		select {
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
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
			continue
		case err != nil:
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
		poke(s.wake) // what it leaves has a new parent
	}
}

// terminateBelow signals what it finds until it has found nothing new twice: whose
// parent ended while it looked is found by the next look.
func terminateBelow(root int) {
	known := make(map[process.Identity]bool)
	for pass, quiet := 0, 0; pass < maxPasses && quiet < 2; pass++ {
		quiet++
		for _, row := range process.Descendants(root, nil) {
			if known[row.Identity()] {
				continue
			}
			quiet = 0
			known[row.Identity()] = true
			_ = row.Signal(unix.SIGTERM, unix.SIGCONT) // one that can't be has KILL to come
		}
	}
}

// maxPasses bounds the looks for one signal: what forks without end is found by
// each.
const maxPasses = 16

// killBelow stops what it finds until it finds nothing new, so that nothing forks
// meanwhile, and then kills all of it.
func killBelow(root int, except map[int]bool) {
	var stopped []process.Row
	known := make(map[process.Identity]bool)
	for range maxPasses {
		fresh := slices.DeleteFunc(process.Descendants(root, except), func(row process.Row) bool { return known[row.Identity()] })
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
