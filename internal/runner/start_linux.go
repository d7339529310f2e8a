package runner

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
)

// Start starts the target of r in a new session and returns its observer. An
// error is the system's own; then no process is left.
//
// Linux 5.4 (waitid on a pidfd).
func Start(r owner.Request) (*Direct, error) {
	return start(launch{path: r.Path, argv: r.Argv, env: r.Env, dir: r.Dir, files: r.Stdio[:], terminal: r.Terminal, cgroup: -1})
}

// StartIn is Start inside the cgroup v2 directory that dir is open on
// (CLONE_INTO_CGROUP, Linux 5.7).
func StartIn(dir *os.File, r owner.Request) (*Direct, error) {
	fd, err := descriptor(dir)
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(dir)
	return start(launch{path: r.Path, argv: r.Argv, env: r.Env, dir: r.Dir, files: r.Stdio[:], terminal: r.Terminal, cgroup: int(fd)})
}

// launch is what start starts.
type launch struct {
	path     string
	argv     []string
	env      []string
	dir      string
	files    []*os.File // by descriptor number
	terminal bool       // descriptor 0 becomes the session's controlling terminal
	cgroup   int        // a descriptor of a cgroup to start in; -1 for this process's
}

func start(l launch) (*Direct, error) {
	fds := make([]uintptr, len(l.files))
	for i, f := range l.files {
		fd, err := descriptor(f)
		if err != nil {
			return nil, err
		}
		fds[i] = fd
	}
	pidfd := -1
	sys := &syscall.SysProcAttr{Setsid: true, Setctty: l.terminal, PidFD: &pidfd} // Ctty is 0
	if l.cgroup >= 0 {
		sys.UseCgroupFD, sys.CgroupFD = true, l.cgroup
	}
	attr := &syscall.ProcAttr{Dir: l.dir, Env: l.env, Files: fds, Sys: sys}
	pid, err := startUnmasked(l.path, l.argv, attr)
	runtime.KeepAlive(l.files)
	if err != nil {
		return nil, err
	}
	if pidfd < 0 {
		// The kernel took no CLONE_PIDFD. The child can't be observed as we
		// promise, so it may not run.
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		return nil, fmt.Errorf("no pidfd at start: %w", errors.ErrUnsupported)
	}
	return newDirect(pid, pidfd)
}

// startUnmasked starts a process whose signal mask is empty. The child takes
// the mask of the thread that forks it, and a thread's mask is what this
// process was started with, so it is emptied on one thread for the time of the
// fork.
func startUnmasked(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var empty, old unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &empty, &old); err != nil {
		return 0, err
	}
	defer func() {
		if restoreErr := unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil); restoreErr != nil && err == nil {
			err = restoreErr
		}
	}()
	// Another thread's fork may for a moment hold a program open for writing
	// that was just made (golang.org/issue/22315). There is no event to wait for.
	for pause := time.Millisecond; ; pause *= 2 {
		pid, _, err = syscall.StartProcess(path, argv, attr)
		if !errors.Is(err, syscall.ETXTBSY) || pause > 64*time.Millisecond {
			return pid, err
		}
		time.Sleep(pause) //nolint:forbidigo // see above
	}
}

// descriptor is f's number, without the side effect on its mode that Fd has.
func descriptor(f *os.File) (fd uintptr, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = conn.Control(func(n uintptr) { fd = n })
	return fd, err
}
