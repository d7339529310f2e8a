package local

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/process"
)

const (
	hasTerminals = true
	getTermios   = unix.TCGETS
)

// openPair opens both ends of a new terminal, ours in non-blocking mode. The
// target's is asked of ours (TIOCGPTPEER, Linux 4.13) and not looked up by its
// name: while others look for that, the kernel can say that it does not exist.
func openPair() (ours, target *os.File, err error) {
	const ptmx = "/dev/ptmx"
	fd, err := unix.Open(ptmx, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: ptmx, Err: err}
	}
	ours = os.NewFile(uintptr(fd), ptmx)
	target, err = openPeer(fd)
	if err != nil {
		_ = ours.Close()
		return nil, nil, err
	}
	return ours, target, nil
}

// openPeer opens the target's end of the terminal that master is our end of.
func openPeer(master int) (*os.File, error) {
	number, err := unix.IoctlGetUint32(master, unix.TIOCGPTN)
	if err != nil {
		return nil, os.NewSyscallError("ioctl TIOCGPTN", err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return nil, os.NewSyscallError("ioctl TIOCSPTLCK", err)
	}
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	name := fmt.Sprintf("/dev/pts/%d", number)
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	switch errno {
	case 0:
		return os.NewFile(fd, name), nil
	case unix.ENOTTY, unix.EINVAL: // a kernel that has no such call
		return os.OpenFile(name, flags, 0)
	}
	return nil, os.NewSyscallError("ioctl TIOCGPTPEER", errno)
}

// device tells the terminal from others.
type device = process.Terminal

// identify says which terminal a descriptor of the target's end is.
func identify(fd int) (device, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return device{}, os.NewSyscallError("fstat", err)
	}
	return device{Dev: uint64(stat.Dev), Rdev: uint64(stat.Rdev)}, nil
}

func inspectGroup(pgid int, d device) (argv []string, waits, known bool) {
	member, alive := process.Describe(pgid)
	if !alive {
		others, _ := process.GroupMembers(pgid)
		for _, pid := range others {
			if member, alive = process.Describe(pid); alive {
				break
			}
		}
	}
	waits, known = process.WaitsForInput(pgid, d)
	return member.Argv, waits, known
}

// has reports whether a group is the terminal's. The terminal goes on to give the
// number of one that has ended.
func (t *tty) has(pgid int) bool {
	session := 0
	err := t.control("ioctl TIOCGSID", func(fd int) (err error) {
		session, err = unix.IoctlGetInt(fd, unix.TIOCGSID)
		return err
	})
	return err == nil && process.GroupOf(session, pgid)
}

// sendKeySignal has the terminal send what its keys send (TIOCSIG): the group
// that has the foreground at that moment gets it.
func (t *tty) sendKeySignal(n unix.Signal) (sent bool, err error) {
	err = t.control("ioctl TIOCSIG", func(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSIG, int(n)) })
	return err == nil, err
}

// leader is the direct process, and not another that has its number.
type leader struct{ process.Row }

// findLeader looks at a process that was just started. Where it was reaped
// already, the leader is nobody.
func findLeader(pid int) leader {
	stat, err := process.ReadStat(pid)
	if err != nil {
		return leader{}
	}
	return leader{process.Row{PID: pid, Stat: stat}}
}

// gone reports whether the system says that the process has ended.
func (l leader) gone() bool {
	stat, err := process.ReadStat(l.PID)
	return err != nil || stat.Started != l.Started || stat.Dead()
}

// heedsHangUp reports whether a hangup is the way to ask the process: it handles
// that itself, as interactive shells do, or takes no notice of TERM at all. To
// what handles TERM alone a hangup would be a second, worse one.
func (l leader) heedsHangUp() bool {
	signals, err := process.ReadSignals(l.PID)
	return err == nil && (signals.Catches(unix.SIGHUP) || signals.Ignores(unix.SIGTERM))
}

// hangUp signals that the terminal is going.
func (l leader) hangUp() {
	if l.PID != 0 {
		_ = l.Signal(unix.SIGHUP, unix.SIGCONT) // what it does not end has KILL to come
	}
}
