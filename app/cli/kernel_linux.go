package cli

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// kernelChecks tells of what ownership on this system is built on.
func kernelChecks() []check {
	return []check{
		newCheck("kernel", nil, release()),
		newCheck("pidfd", probePidfd(), "processes can be watched and signalled without races"),
		newCheck("/proc", probeProc(), "members of ranges can be seen"),
	}
}

func release() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}

func probePidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0) // Linux 5.3
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	return unix.Close(fd)
}

func probeProc() error {
	self, err := os.Readlink("/proc/self")
	if err == nil && self != strconv.Itoa(os.Getpid()) {
		err = errors.New("belongs to another pid namespace")
	}
	return err
}
