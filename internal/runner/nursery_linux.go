package runner

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/process"
)

// unanswered is how long a supervisor may take to kill what it owns, before it
// is taken for stopped and killed itself.
const unanswered = 2 * time.Second

// nursery is the side of the supervisors' parent.
func nursery() {
	_ = CloseOnExec()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		leave(exitProtocol)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		leave(exitProtocol)
	}
	n := &parent{controls: make(map[int]int), theirs: theirs, wake: make(chan struct{}, 1)}
	n.changed.L = &n.mu
	go n.reap() // ends with the process, as do the others
	n.serve()

	// The harness has ended, or wants no more: the supervisors see that, too.
	time.AfterFunc(unanswered, n.killSupervisors)
	n.mu.Lock()
	for len(n.controls) > 0 || len(n.bereft) > 0 {
		n.changed.Wait()
	}
	n.mu.Unlock()
	runtime.KeepAlive(ours)
	leave(0)
}

// parent is a nursery's state.
type parent struct {
	theirs  *os.File // the supervisors' end of the pipe that ends with this process
	killing sync.Once
	wake    chan struct{} // holds a token when another pass over orphans is due

	mu       sync.Mutex
	changed  sync.Cond
	controls map[int]int // control sockets of supervisors that live, by their number
	bereft   []int       // those of supervisors that were killed, whose members may live
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
		if data[0] != commandLaunch || len(fds) != 4 {
			closeAll(fds)
			continue
		}
		n.start(fds)
		closeAll(fds[:3]) // the supervisor has its own
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

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// start starts a supervisor, and keeps its control socket until its end: who is
// there to write Z where it can't.
func (n *parent) start(fds []int) {
	n.mu.Lock() // so that reap does not see the child before it is known
	defer n.mu.Unlock()
	pid, _, err := syscall.StartProcess("/proc/self/exe", []string{runnerName}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{Select(verbSupervise)},
		Files: []uintptr{uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2]), uintptr(fds[3]), n.theirs.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_, _ = unix.Write(fds[3], errorRecord(stepSupervisor, err)) // a harness that is gone needs no answer
		_ = unix.Close(fds[3])
		return
	}
	n.controls[pid] = fds[3]
	n.changed.Broadcast()
}

// reap waits for supervisors, and for what killed ones have left.
func (n *parent) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, unix.WALL, nil)
		n.mu.Lock()
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			for len(n.controls) == 0 {
				n.changed.Wait() // there is no child to wait for
			}
		default:
			n.ended(pid, status)
		}
		n.mu.Unlock()
	}
}

// ended takes the end of a child. mu is held.
func (n *parent) ended(pid int, status syscall.WaitStatus) {
	poke(n.wake)
	control, supervisor := n.controls[pid]
	if !supervisor {
		return
	}
	delete(n.controls, pid)
	// 0 says that nothing was left, 127 that nothing was started.
	if status.Exited() && (status.ExitStatus() == 0 || status.ExitStatus() == 127) {
		_ = unix.Close(control)
	} else {
		n.bereft = append(n.bereft, control)
		n.killing.Do(func() { go killUntilEnd(n.wake, n.endOrphans) })
	}
	n.changed.Broadcast()
}

// endOrphans kills whatever is below this process and is no supervisor's, and
// tells the harness once there is nothing.
func (n *parent) endOrphans() {
	n.mu.Lock()
	except := make(map[int]bool, len(n.controls))
	for pid := range n.controls {
		except[pid] = true
	}
	bereft := len(n.bereft)
	n.mu.Unlock()
	if bereft == 0 {
		return
	}
	killBelow(os.Getpid(), except)
	// What they leave is our child, or below one: nothing has to be found twice.
	for range 2 {
		if len(process.Descendants(os.Getpid(), except)) > 0 {
			return
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, control := range n.bereft[:bereft] {
		_, _ = unix.Write(control, []byte{recordEmpty}) // a harness that is gone needs no answer
		_ = unix.Close(control)
	}
	n.bereft = n.bereft[bereft:]
	n.changed.Broadcast()
}

// killSupervisors ends those that do not end when they should: they are stopped.
func (n *parent) killSupervisors() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pid := range n.controls {
		_ = syscall.Kill(pid, syscall.SIGKILL) // a child that is not reaped while mu is held
	}
}
