package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asFirstProcess is a command that runs program as the first process of a pid
// namespace, whose exit code is its own.
func asFirstProcess(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--pid", "--fork", "--kill-child", "--mount-proc", program}, args...)...)
	cmd.Env = append(os.Environ(), "CORRAL="+program, "CORRAL_CONTAINMENT=group")
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok && err != nil {
		t.Fatal(err)
	}
	if ok {
		return exit.ExitCode()
	}
	return 0
}

// orphans makes 2,000 processes whose parents have ended, and says how many
// zombies there are that stay.
const orphans = `import os, sys, time
def zombies():
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += open("/proc/%s/stat" % pid).read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            pass
    return found
for i in range(2000):
    child = os.fork()
    if child == 0:
        if os.fork():
            os._exit(0)
        os.setsid()
        os._exit(i % 7)
    os.waitpid(child, 0)
end = time.monotonic() + 20
while zombies() and time.monotonic() < end:
    pass
print("parent", os.getppid() != 1, "zombies", zombies(), flush=True)
`

// TestFirstProcess: corral as the first process of a container reaps whatever is
// orphaned, and is to its command what it is elsewhere.
func TestFirstProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making a pid namespace takes root")
	}
	program := build(t, ".")

	t.Run("reaps", func(t *testing.T) {
		script := filepath.Join(t.TempDir(), "orphans.py")
		if err := os.WriteFile(script, []byte(orphans), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := asFirstProcess(t, program, "exec", "--", "sh", "-c", "python3 -S -E "+script+"; exit 5")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if code := exitCode(t, err); code != 5 || string(out) != "parent True zombies 0\n" {
			t.Errorf("exit code %d, %q, want 5 and no zombie\n%s", code, out, stderr.Bytes())
		}
	})

	t.Run("runs corral", func(t *testing.T) {
		const inner = `"$CORRAL" exec --json --containment reaper -- sh -c 'setsid sleep 600 & (setsid sleep 601 &) ; exit 3'`
		cmd := asFirstProcess(t, program, "exec", "--", "sh", "-c", inner+"; exit $?")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if code := exitCode(t, err); code != 3 {
			t.Errorf("exit code %d, want 3\n%s%s", code, out, stderr.Bytes())
		}
		var report struct {
			ExitCode    int `json:"exit_code"`
			Cause       string
			Empty       bool
			Containment struct{ Kind string }
			Survivors   []struct{ Argv []string }
		}
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		if report.ExitCode != 3 || report.Cause != "exited" || !report.Empty || report.Containment.Kind != "reaper" || len(report.Survivors) != 2 {
			t.Errorf("got %s", out)
		}
	})

	t.Run("forwards signals", func(t *testing.T) {
		cmd := asFirstProcess(t, program, "exec", "--", "sh", "-c", `trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.02; done`)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		if !lines.Scan() || lines.Text() != "ready" {
			t.Fatalf("said %q", lines.Text())
		}
		if err := syscall.Kill(onlyChild(t, cmd.Process.Pid), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || lines.Text() != "asked" {
			t.Errorf("said %q, want that it was asked to end", lines.Text())
		}
		for lines.Scan() {
			t.Errorf("and %q", lines.Text())
		}
		if code := exitCode(t, cmd.Wait()); code != 128+int(syscall.SIGTERM) {
			t.Errorf("exit code %d, want %d", code, 128+int(syscall.SIGTERM))
		}
	})

	t.Run("is ended by a signal", func(t *testing.T) {
		cmd := asFirstProcess(t, program, "exec", "--", "sh", "-c", "kill -KILL $$")
		if code := exitCode(t, cmd.Run()); code != 128+int(syscall.SIGKILL) {
			t.Errorf("exit code %d, want %d", code, 128+int(syscall.SIGKILL))
		}
	})
}

// onlyChild is the one child of a process.
func onlyChild(t *testing.T, pid int) (child int) {
	t.Helper()
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(strings.TrimSpace(string(list)), &child); err != nil {
		t.Fatalf("children %q: %v", list, err)
	}
	return child
}
