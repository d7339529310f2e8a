package runner

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// verbOrphan starts this program again, as the runner that its argument names,
// and ends: what it starts is no child of who started it.
const verbOrphan = "orphan"

// orphan gives its child its own standard input, in a session of its own.
func orphan() {
	if len(os.Args) != 2 {
		leave(exitProtocol)
	}
	_, _, err := syscall.StartProcess("/proc/self/exe", []string{"corral-runner"}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{Select(os.Args[1])},
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		leave(1)
	}
	leave(0)
}

// StartOrphan starts this program again, as the runner of the verb, and returns
// once it has. Nothing ends it with this process.
func StartOrphan(verb string, stdin *os.File) error {
	if !Linked() {
		return ErrNotLinked
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	direct, err := start(launch{
		path: "/proc/self/exe", argv: []string{"corral-runner", verb}, env: []string{Select(verbOrphan)},
		dir: "/", files: []*os.File{stdin, null, null}, cgroup: -1,
	})
	if err != nil {
		return err
	}
	exit := direct.Wait()
	if exit.Code != 0 {
		err = fmt.Errorf("start of %s: exit code %d", verb, exit.Code)
	}
	return errors.Join(err, direct.Release())
}
