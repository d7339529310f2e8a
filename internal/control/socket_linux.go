package control

import (
	"context"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/process"
)

// address names a socket in a directory that is open: through the descriptor,
// because a path may be longer than an address (unix(7): 107 bytes).
func address(dir *os.File, socket string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + socket}
}

type peer struct{ pid, uid int }

func peerOf(conn *net.UnixConn) (p peer, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p = peer{pid: int(cred.Pid), uid: int(cred.Uid)}
		}
	})
	if controlErr != nil {
		return peer{}, controlErr
	}
	return p, os.NewSyscallError("getsockopt", err)
}

// wake continues a process that may be stopped.
func wake(pid int) {
	p, err := process.Open(pid)
	if p == nil || err != nil {
		return
	}
	defer p.Close()
	_ = p.Signal(unix.SIGCONT) // one that can't be will not answer, either
}

// waitEnd waits for the end of a process.
func waitEnd(ctx context.Context, pid int) error {
	p, err := process.Open(pid)
	if p == nil || err != nil {
		return err
	}
	defer p.Close()
	return p.WaitExit(ctx)
}
