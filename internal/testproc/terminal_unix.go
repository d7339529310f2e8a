//go:build unix

package testproc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal prints "terminal COLSxROWS" where the standard streams are one
// terminal that controls the session, which this process leads; else what is wrong.
func terminal([]string) {
	var streams [3]unix.Stat_t
	for fd := range streams {
		check(unix.Fstat(fd, &streams[fd]))
		if streams[fd].Rdev != streams[0].Rdev || uint32(streams[fd].Mode)&unix.S_IFMT != unix.S_IFCHR {
			fmt.Println("stream", fd, "is another file")
			return
		}
	}
	sid, err := unix.Getsid(0)
	check(err)
	if pid := os.Getpid(); sid != pid {
		fmt.Println("process", pid, "is in session", sid)
		return
	}
	own, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		fmt.Println("no controlling terminal:", err)
		return
	}
	_, err = fmt.Fprintln(own, "terminal", size())
	check(err)
}

func size() string {
	size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
	check(err)
	return fmt.Sprintf("%dx%d", size.Col, size.Row)
}

// winch prints "ready", and "size COLSxROWS" whenever it is told of a size.
func winch([]string) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGWINCH)
	fmt.Println("ready")
	for range told {
		fmt.Println("size", size())
	}
}

// signals prints "ready", and "got SIGNAME" for those that it gets which a
// foreground is sent.
func signals([]string) {
	got := make(chan os.Signal, 16)
	signal.Notify(got, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT, unix.SIGHUP, unix.SIGTERM)
	fmt.Println("ready")
	for sig := range got {
		fmt.Println("got", unix.SignalName(sig.(syscall.Signal)))
	}
}

// lines prints "ready", and what it reads, a line a line, quoted.
func lines([]string) {
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Printf("got %q\n", in.Text())
	}
}

// late prints "ready PID" of a child that takes no notice of a hangup, prints
// "late" a moment after its parent's end, and sleeps on; and exits.
func late(args []string) {
	if len(args) > 0 {
		_, _ = io.Copy(io.Discard, os.NewFile(3, "parent")) // it ends with the parent
		time.Sleep(50 * time.Millisecond)                   //nolint:forbidigo // the moment
		fmt.Println("late")
		rest()
	}
	theirs, ours, err := os.Pipe()
	check(err)
	signal.Ignore(unix.SIGHUP)
	child, _ := start(func(c *exec.Cmd) {
		c.Stdout, c.ExtraFiles = os.Stdout, []*os.File{theirs}
	}, "late", "child")
	fmt.Println("ready", child.Process.Pid)
	_ = ours.Close()
}
