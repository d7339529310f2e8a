package local_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// waitsPreamble gives python programs a quiet start: what they wait for is what
// they do last.
const waitsPreamble = "import os, sys, select, time, ctypes, threading\nprint('ready', flush=True)\n"

// waits are programs and what the system shows of their wait.
var waits = []struct {
	name   string
	python string   // after waitsPreamble
	argv   []string // where it is not python
	reads  bool
	hidden bool   // it is not known
	needs  string // a program beside argv[0]
}{
	{name: "cat", argv: []string{"cat"}, reads: true},
	{name: "shell read", argv: []string{"sh", "-c", "read x"}, reads: true},
	{name: "a read of another descriptor", argv: []string{"bash", "-c", "exec 5</dev/tty </dev/null; read -u 5 x"}, reads: true},
	{name: "readline", argv: []string{"bash", "--norc", "--noprofile", "-i"}, reads: true},
	{name: "a pager", argv: []string{"sh", "-c", "seq 1000 | less"}, needs: "less", reads: true},
	{name: "an editor of lines", argv: []string{"sed", "-n", "p"}, reads: true},
	{name: "an interpreter", argv: []string{"python3", "-i", "-S", "-E", "-q"}, reads: true},
	{name: "an event loop", argv: []string{"node", "-i"}, reads: true},
	{name: "select", python: "select.select([0], [], [])", reads: true},
	{name: "select with a bound", python: "select.select([0], [], [], 600)", reads: true},
	{name: "select among others", python: "r, w = os.pipe(); select.select([r, 0], [], [])", reads: true},
	{name: "select to write", python: "r, w = os.pipe(); select.select([r], [], [0] and [])"},
	{name: "poll", python: "p = select.poll(); p.register(0, select.POLLIN); p.poll()", reads: true},
	{name: "poll for a hangup", python: "p = select.poll(); p.register(0, select.POLLHUP); p.poll()"},
	{name: "epoll", python: "p = select.epoll(); p.register(0, select.EPOLLIN); p.poll()", reads: true},
	{name: "epoll of a pipe", python: "r, w = os.pipe(); p = select.epoll(); p.register(r, select.EPOLLIN); p.poll()"},
	{name: "epoll of an epoll", python: "i = select.epoll(); i.register(0, select.EPOLLIN); p = select.epoll(); p.register(i, select.EPOLLIN); p.poll()", reads: true},
	{name: "epoll_pwait2", python: "p = select.epoll(); p.register(0, select.EPOLLIN)\n" +
		"ctypes.CDLL(None).syscall(441, p.fileno(), ctypes.create_string_buffer(120), 10, None, None, 8)", reads: true},
	{name: "io_uring", python: "f = ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(120)); ctypes.CDLL(None).syscall(426, f, 0, 1, 1, None, 8)", hidden: true},
	{name: "a program with another user's rights", argv: []string{"/run/setuid-sleep", "600"}, hidden: true},
	{name: "a thread", python: "threading.Thread(target=lambda: os.read(0, 1)).start(); time.sleep(600)", reads: true},
	{name: "a child", python: "os.fork() or os.read(0, 1); time.sleep(600)", reads: true},
	{name: "a secret", python: "import getpass; os.close(0); getpass.getpass()", reads: true},
	{name: "sleep", argv: []string{"sleep", "600"}},
	{name: "a read of a pipe", python: "r, w = os.pipe(); os.read(r, 1)"},
	{name: "a read of another file as 0", argv: []string{"sh", "-c", "sleep 600 | cat"}},
	{name: "a lock", python: "threading.Lock().acquire() and threading.Lock().__enter__(); l = threading.Lock(); l.acquire(); l.acquire()"},
	{name: "a busy program", python: "\nwhile True: pass"},
}

// TestTerminalWaitsForInput: who waits for the terminal is seen, whatever it
// waits with; who does not is never taken for one that does.
func TestTerminalWaitsForInput(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		for _, c := range waits {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				argv := c.argv
				if argv == nil {
					argv = []string{"python3", "-S", "-E", "-c", waitsPreamble + c.python}
				}
				for _, program := range []string{argv[0], cmp.Or(c.needs, argv[0])} {
					if _, err := r.LookPath(t.Context(), program, nil); err != nil {
						t.Skipf("%s is not installed", program)
					}
				}
				if strings.HasPrefix(argv[0], "/run/setuid") && os.Getuid() == 0 {
					t.Skip("to root nothing is hidden")
				}
				s := openScreen(t, r, argv...)
				if c.python != "" {
					s.waitFor("ready")
				}
				if c.reads {
					s.until("it waits for input", func(f seam.Foreground) bool { return f.WaitsForInput && f.InputKnown })
					return
				}
				s.until("whether it is known", func(f seam.Foreground) bool { return f.InputKnown != c.hidden })
				for range 50 {
					f, err := s.Foreground(t.Context())
					if err != nil || f.WaitsForInput {
						t.Fatalf("foreground %+v, %v", f, err)
					}
				}
			})
		}
	})
}

// What the foreground does with the terminal is seen.
func TestTerminalModes(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		for _, c := range []struct {
			name, script    string
			canonical, echo bool
		}{
			{"lines", "echo ready; read x", true, true},
			{"a secret", "stty -echo; echo ready; read x", true, false},
			{"keys", "stty raw -echo; echo ready; read x", false, false},
		} {
			s := openScreen(t, r, "sh", "-c", c.script)
			s.waitFor("ready")
			if f, err := s.Foreground(t.Context()); err != nil || f.Canonical != c.canonical || f.Echo != c.echo {
				t.Errorf("%s: foreground %+v, %v", c.name, f, err)
			}
		}
	})
}

// A job has the foreground while it runs, and the shell before and after.
func TestTerminalForegroundOfShell(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		s := openScreen(t, r, shellArgv...)
		atPrompt := func(f seam.Foreground) bool {
			return f.PGID == s.PID() && f.WaitsForInput && slices.Equal(f.Argv, shellArgv)
		}
		s.until("a prompt", atPrompt)
		s.typeIn("sleep 600 | cat\n")
		f := s.until("a pipeline", func(f seam.Foreground) bool {
			return f.PGID != s.PID() && strings.HasPrefix(strings.Join(f.Argv, " "), "sleep")
		})
		if f.WaitsForInput || !f.InputKnown {
			t.Errorf("foreground %+v, want that nobody waits for the terminal", f)
		}
		if pgid, err := s.SignalForeground(t.Context(), "SIGKILL"); err != nil || pgid != f.PGID {
			t.Errorf("SIGKILL went to %d, %v", pgid, err)
		}
		s.until("a prompt again", atPrompt)
	})
}

// Signals reach a program that has turned their keys off.
func TestTerminalSignalsRawProgram(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		script := "import os, signal, tty\n" +
			"keys = [signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP]\n" +
			"signal.pthread_sigmask(signal.SIG_BLOCK, keys)\n" +
			"tty.setraw(0)\nprint('ready', flush=True)\n" +
			"while True: os.write(1, b'got %s\\n' % signal.Signals(signal.sigwait(keys)).name.encode())"
		s := openScreen(t, r, "python3", "-S", "-E", "-c", script)
		s.waitFor("ready")
		s.typeIn("\x03") // which is a byte like any other
		for _, name := range []string{"SIGINT", "SIGQUIT", "SIGTSTP"} {
			if pgid, err := s.SignalForeground(t.Context(), name); err != nil || pgid != s.PID() {
				t.Errorf("%s went to %d, %v", name, pgid, err)
			}
			s.waitFor("got " + name)
		}
	})
}

// A foreground whose group has ended is nobody, whoever has its number now.
func TestTerminalForegroundIsNobodyElse(t *testing.T) {
	r := openRuntime(t, local.Config{Containment: seam.KindGroup})
	s := openScreen(t, r, "python3", "-c", `
import os, signal, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    os._exit(0)
os.waitpid(pid, 0)
print("group", pid, flush=True)
time.sleep(600)
`)
	group, err := strconv.Atoi(s.waitFor(`group (\d+)\r\n`)[1])
	if err != nil {
		t.Fatal(err)
	}
	stranger := processNumbered(t, group)
	if f, err := s.Foreground(t.Context()); err != nil || f.PGID != group || f.Argv != nil || f.WaitsForInput || !f.InputKnown {
		t.Errorf("foreground %+v, %v; want group %d, and nobody in it", f, err, group)
	}
	if _, err := s.SignalForeground(t.Context(), "SIGINT"); err != nil {
		t.Errorf("SIGINT: %v", err) // the terminal itself knows that it is nobody
	}
	for _, name := range []string{"SIGTERM", "SIGKILL"} {
		if pgid, err := s.SignalForeground(t.Context(), name); seam.CodeOf(err) != seam.CodeIO {
			t.Errorf("%s went to %d, %v", name, pgid, err)
		}
	}
	// What had been sent would have ended it by now, or ends it before this.
	if err := stranger.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var end *exec.ExitError
	if err := stranger.Wait(); !errors.As(err, &end) || end.Sys().(syscall.WaitStatus).Signal() != syscall.SIGUSR1 {
		t.Errorf("the stranger ended by %v, and not by what we sent last", err)
	}
}

// processNumbered starts a process, and leader of a group, that has a number.
func processNumbered(t *testing.T, pid int) *exec.Cmd {
	t.Helper()
	for range 100 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Skipf("numbers can't be chosen here: %v", err)
		}
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid == pid {
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			return cmd
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Skip("the number is not to be had")
	return nil
}

// Who has a signal to take does not wait for long, whatever call it is in.
func TestTerminalPendingSignalEndsWaiting(t *testing.T) {
	r := openRuntime(t, local.Config{Containment: seam.KindGroup})
	s := openScreen(t, r, "cat")
	s.until("it waits for input", func(f seam.Foreground) bool { return f.WaitsForInput })
	// Stopped it is in its call still, and takes nothing.
	for _, step := range []struct {
		signal syscall.Signal
		waits  bool
	}{{syscall.SIGSTOP, true}, {syscall.SIGINT, false}} {
		if err := syscall.Kill(s.PID(), step.signal); err != nil {
			t.Fatal(err)
		}
		s.until("what "+step.signal.String()+" makes of it", func(f seam.Foreground) bool {
			stat, err := process.ReadStat(s.PID())
			return err == nil && stat.State == 'T' && f.WaitsForInput == step.waits
		})
	}
}
