package control

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// address names a socket in a directory.
func address(dir *os.File, socket string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: filepath.Join(dir.Name(), socket)}
}

type peer struct{ pid, uid int }

func peerOf(conn *net.UnixConn) (p peer, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		var cred *unix.Xucred
		if cred, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); err != nil {
			return
		}
		p.uid = int(cred.Uid)
		p.pid, err = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	})
	if controlErr != nil {
		return peer{}, controlErr
	}
	return p, os.NewSyscallError("getsockopt", err)
}

// wake has nothing to do: this system has no detached ranges.
func wake(int) {}

// waitEnd does not wait: this system has no detached ranges.
func waitEnd(context.Context, int) error { return nil }
