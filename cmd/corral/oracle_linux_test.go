package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// oracle is a program that runs another, and sees whether anything that it
// started outlived it. It is a child subreaper, so orphans become its children,
// and the kernel's ECHILD is the proof that there is none. It is a process of
// its own because wait4(-1) reaps whatever there is.
//
//	oracle [-n N] [-exit CODE] [-within D] [-send SIG:TEXT,...] CMD [ARG]...
//
// Each signal is sent when a line of the program's stdout is its text. The
// program's streams are passed through, and a last line says EMPTY.
type oracle struct {
	exit   int
	within time.Duration
	send   string
	argv   []string
}

func oracleMain() {
	var o oracle
	n := flag.Int("n", 1, "run so many times")
	flag.IntVar(&o.exit, "exit", 0, "exit code that is wanted")
	flag.DurationVar(&o.within, "within", 30*time.Second, "time that the program may take")
	flag.StringVar(&o.send, "send", "", "signals to send")
	flag.Parse()
	o.argv = flag.Args()
	const setChildSubreaper = 36 // prctl(2), Linux 3.4
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		fatal(errno)
	}
	for i := range *n {
		if err := o.run(); err != nil {
			fatal(fmt.Errorf("run %d: %w", i+1, err))
		}
	}
	fmt.Println("EMPTY")
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(1)
}

func (o *oracle) run() error {
	path, err := exec.LookPath(o.argv[0])
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	started := time.Now()
	process, err := os.StartProcess(path, o.argv, &os.ProcAttr{Files: []*os.File{os.Stdin, w, os.Stderr}, Env: os.Environ()})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	relayed := make(chan error, 1)
	go func() { relayed <- relay(r, process.Pid, o.send) }()

	// A hang is a failure of the test's own, with everything ended.
	guard := time.AfterFunc(o.within+30*time.Second, func() {
		killAll()
		fatal(errors.New("the program hangs"))
	})
	defer guard.Stop()
	code, err := waitFor(process.Pid)
	if err != nil {
		return err
	}
	took := time.Since(started)
	if err := checkEmpty(); err != nil {
		killAll()
		return err
	}
	if err := <-relayed; err != nil {
		return err
	}
	switch {
	case code != o.exit:
		return fmt.Errorf("exit code %d, want %d", code, o.exit)
	case took > o.within:
		return fmt.Errorf("took %v, want at most %v", took, o.within)
	}
	return nil
}

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
}

// relay passes lines through and sends signals on the way.
func relay(r io.Reader, pid int, plan string) error {
	var steps []string
	if plan != "" {
		steps = strings.Split(plan, ",")
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fmt.Println(lines.Text())
		if len(steps) == 0 {
			continue
		}
		name, text, _ := strings.Cut(steps[0], ":")
		if lines.Text() != text {
			continue
		}
		steps = steps[1:]
		if err := syscall.Kill(pid, signals[name]); err != nil {
			return fmt.Errorf("send %s: %w", name, err)
		}
	}
	if len(steps) > 0 {
		return fmt.Errorf("signals were not sent: %q", steps)
	}
	return lines.Err()
}

// waitFor reaps until the program itself is reaped.
func waitFor(pid int) (code int, err error) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR, err == nil && got != pid:
			continue
		case err != nil:
			return 0, err
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		}
		return status.ExitStatus(), nil
	}
}

// checkEmpty returns nil only on ECHILD. Zombies are reaped: they have ended.
func checkEmpty() error {
	for {
		got, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case err == syscall.ECHILD:
			return nil
		case err == syscall.EINTR, err == nil && got > 0:
			continue
		case err != nil:
			return err
		}
		return fmt.Errorf("ALIVE: %q", children())
	}
}

// children lists the living children of this process.
func children() (lines []string) {
	for _, pid := range childPIDs() {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%s/cmdline", pid))
		lines = append(lines, pid+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
	}
	return lines
}

func childPIDs() []string {
	threads, _ := os.ReadDir("/proc/self/task")
	var pids []string
	for _, thread := range threads {
		list, _ := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		pids = append(pids, strings.Fields(string(list))...)
	}
	slices.Sort(pids)
	return pids
}

// killAll ends whatever became a child, until nothing does.
func killAll() {
	for range 100 {
		for _, pid := range childPIDs() {
			var n int
			if _, err := fmt.Sscan(pid, &n); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			return
		}
	}
}
