//go:build unix

package testproc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func platformVerbs() map[string]func([]string) {
	return map[string]func([]string){
		"bomb":                   bomb,
		"daemon":                 daemon,
		"family":                 family,
		"hold-pipe":              holdPipe,
		"ignore-term":            ignoreTerm,
		"kill-self":              killSelf,
		"late":                   late,
		"lines":                  lines,
		"many":                   many,
		"setsid":                 setsid,
		"signals":                signals,
		"stdin-kind":             stdinKind,
		"survivor":               survivor,
		"survivor-ignoring-term": survivorIgnoringTerm,
		"terminal":               terminal,
		"trap-term":              trapTerm,
		"winch":                  winch,
	}
}

// ignoreTerm prints "ready" and sleeps, TERM ignored by the system: there is no
// handler.
func ignoreTerm([]string) {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("ready")
	rest()
}

// trapTerm CODE prints "ready", waits for TERM, prints "term", and exits.
func trapTerm(args []string) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println("ready")
	<-term
	fmt.Println("term")
	leave(arg(args, 0, 0))
}

// killSelf SIGNAME ends by that signal.
func killSelf(args []string) {
	if len(args) != 1 || unix.SignalNum(args[0]) == 0 {
		fatalf(exitUsage, "want a signal, such as SIGTERM")
	}
	sig := unix.SignalNum(args[0])
	signal.Reset(sig)
	check(syscall.Kill(os.Getpid(), sig))
	rest() // the signal may come by another thread
}

// stdinKind prints "null" where standard input is the null device, and else the
// kind of file that it is.
func stdinKind([]string) {
	var in, null unix.Stat_t
	check(unix.Fstat(0, &in))
	check(unix.Stat(os.DevNull, &null))
	kinds := map[uint32]string{
		unix.S_IFCHR: "character device", unix.S_IFIFO: "pipe", unix.S_IFREG: "file",
		unix.S_IFDIR: "directory", unix.S_IFSOCK: "socket", unix.S_IFBLK: "block device",
	}
	kind := kinds[uint32(in.Mode)&unix.S_IFMT]
	if kind == "character device" && in.Rdev == null.Rdev {
		kind = "null"
	}
	fmt.Println(kind)
}

// start starts another program as prepare, which may be nil, says. Unless that
// gives it an output it gets none, start returns once it is ready, and returns
// what it said after that word.
func start(prepare func(*exec.Cmd), verb string, args ...string) (child *exec.Cmd, ready string) {
	argv := Command(verb, args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	if prepare != nil {
		prepare(cmd)
	}
	if cmd.Stdout != nil {
		check(cmd.Start())
		return cmd, ""
	}
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	check(err)
	if !strings.HasPrefix(line, "ready") {
		fatalf(exitBroken, "%s said %q", verb, line)
	}
	check(out.Close())
	return cmd, strings.TrimSpace(strings.TrimPrefix(line, "ready"))
}

// survivor prints "ready PID" of a child that sleeps on, and exits.
func survivor([]string) {
	child, _ := start(nil, "sleep")
	fmt.Println("ready", child.Process.Pid)
}

// survivorIgnoringTerm is survivor, and the child ignores TERM.
func survivorIgnoringTerm([]string) {
	child, _ := start(nil, "ignore-term")
	fmt.Println("ready", child.Process.Pid)
}

// family prints "ready PID" of a child that ignores TERM, and sleeps itself,
// not ignoring it.
func family([]string) {
	child, _ := start(nil, "ignore-term")
	fmt.Println("ready", child.Process.Pid)
	rest()
}

// holdPipe prints "ready PID" of a child that sleeps on and holds standard
// output, and exits.
func holdPipe([]string) {
	child, _ := start(func(c *exec.Cmd) { c.Stdout = os.Stdout }, "sleep", "silently")
	fmt.Println("ready", child.Process.Pid)
}

// daemon prints "ready PID" of a grandchild that sleeps on and whose parent has
// ended, and exits.
func daemon([]string) {
	middle, pid := start(nil, "survivor")
	check(middle.Wait())
	fmt.Println("ready", pid)
}

// setsid prints "ready PID" of a child that sleeps on in a session of its own,
// and exits. With the argument "silently" the child holds standard output.
func setsid(args []string) {
	child, _ := start(func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if len(args) > 0 {
			c.Stdout = os.Stdout
		}
	}, "sleep", args...)
	fmt.Println("ready", child.Process.Pid)
}

// maxMembers bounds what many and bomb start.
const maxMembers = 256

// many N starts N members that sleep, prints "ready" and sleeps.
func many(args []string) {
	for range min(arg(args, 0, 1), maxMembers) {
		start(nil, "sleep")
	}
	fmt.Println("ready")
	rest()
}

// bombLasts bounds a bomb in time.
const bombLasts = 20 * time.Second

// bomb N prints "ready" and exits, and so does each of the N generations that
// follow: each starts the next and is gone. The last one sleeps. A second
// argument is the end of the bomb in Unix seconds.
func bomb(args []string) {
	left := min(arg(args, 0, 1), maxMembers)
	end := int64(arg(args, 1, int(time.Now().Add(bombLasts).Unix())))
	fmt.Println("ready")
	if left == 0 || time.Now().Unix() > end {
		rest()
	}
	argv := Command("bomb", strconv.Itoa(left-1), strconv.FormatInt(end, 10))
	next := exec.Command(argv[0], argv[1:]...)
	check(next.Start())
}
