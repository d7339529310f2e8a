package local_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// An interactive shell takes no notice of TERM. At its prompt, or back there
// because its job has obeyed, it is hung up, and so not waited for.
func TestTerminalCloseShell(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		for _, c := range []struct {
			name, typed string
			argv        []string
		}{
			{"at its prompt", "", shellArgv},
			{"at its prompt, editing", "", []string{"bash", "--norc", "--noprofile", "-i"}},
			{"of another kind", "", []string{"zsh", "-f", "-i"}},
			{"of a small kind", "", []string{"sh", "-i"}},
			{"with a job in the foreground", "sleep MARKER\n", shellArgv},
			{"with jobs in the background", "sleep MARKER & sleep MARKER & disown\n", shellArgv},
			{"with a stopped job", "sleep MARKER & sh -c 'kill -STOP $$'\n", shellArgv},
		} {
			t.Run(c.name, func(t *testing.T) {
				if _, err := r.LookPath(t.Context(), c.argv[0], nil); err != nil {
					t.Skipf("%s is not installed", c.argv[0])
				}
				spec := terminalSpec(c.argv...)
				spec.Grace = time.Minute
				s := openScreenOf(t, r, spec)
				s.waitFor(`\$ `)
				s.until("a prompt", func(f seam.Foreground) bool { return f.WaitsForInput })
				if c.typed != "" {
					marker := sleepMarker()
					typed := strings.ReplaceAll(c.typed, "MARKER", marker)
					s.typeIn(typed)
					// A job that the shell has forked and not executed yet takes as
					// little notice of TERM as the shell.
					waitForSleepers(t, marker, strings.Count(typed, marker))
					s.until("a prompt", func(f seam.Foreground) bool { return f.WaitsForInput || f.Argv != nil && f.PGID != s.PID() })
				}
				took := s.closeNow()
				t.Logf("closed after %v", took.Round(time.Millisecond))
				if took > spec.Grace/2 {
					t.Errorf("closing took %v", took)
				}
				if outcome := s.waitExit(); outcome.End != seam.EndTerminated || !errors.Is(outcome.Cause, seam.ErrTerminalClosed) {
					t.Errorf("outcome %+v", outcome)
				}
			})
		}
	})
}

// A command that obeys TERM is not hung up while it does, though that takes long.
func TestTerminalCloseIsPatient(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		for _, argv := range [][]string{
			{"bash", "-c", `trap "sleep .5; echo obeyed; exit 4" TERM; echo ready; while :; do sleep .01; done`},
			// It goes on to wait for input, too. A handler would run between
			// instructions: not while a sleep goes on that was about to begin.
			{"python3", "-S", "-E", "-c", "import os, signal, threading, time\n" +
				"signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n" +
				"threading.Thread(target=lambda: os.read(0, 1), daemon=True).start()\nprint('ready', flush=True)\n" +
				"signal.sigwait([signal.SIGTERM])\ntime.sleep(.5)\nos.write(1, b'obeyed')\nos._exit(4)"},
		} {
			spec := terminalSpec(argv...)
			spec.Grace = time.Minute
			s := openScreenOf(t, r, spec)
			s.waitFor("ready")
			s.closeNow()
			if outcome := s.waitExit(); outcome.ExitCode != 4 || outcome.End != seam.EndTerminated {
				t.Errorf("outcome %+v", outcome)
			}
			s.waitFor("obeyed")
		}
	})
}

// terminalAdversaries start processes with a marker in their arguments, which
// they say the number of.
var terminalAdversaries = []struct {
	name, typed string
	escapes     []seam.Kind
}{
	{name: "ignores TERM and HUP", typed: `(trap "" TERM HUP; exec sleep MARKER) &`},
	{name: "is disowned", typed: `nohup sleep MARKER >/dev/null & disown -a`},
	{name: "double-forks", typed: `(sh -c 'trap "" TERM HUP; sleep MARKER & exit' &)`},
	{name: "has left the session, and was seen to", typed: `(trap "" TERM HUP; exec setsid --wait sleep MARKER) &`},
	{name: "became a daemon before it was seen", typed: `setsid sh -c 'sleep MARKER >/dev/null 2>&1 & exit'`, escapes: []seam.Kind{seam.KindGroup}},
}

// Close ends whatever a shell's commands have left, as far as its containment
// reaches.
func TestTerminalCloseEndsAll(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, kind seam.Kind) {
		for _, c := range terminalAdversaries {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				spec := terminalSpec(shellArgv...)
				spec.Grace = 300 * time.Millisecond
				s := openScreenOf(t, r, spec)
				s.waitFor(`\$ $`)
				marker := sleepMarker()
				s.typeIn(strings.ReplaceAll(c.typed, "MARKER", marker) + "\n")
				waitForSleepers(t, marker, 1)
				if c.escapes == nil {
					// Whoever works at a terminal looks at its foreground.
					if _, err := s.Foreground(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				s.closeNow()
				left := sleepers(marker)
				escapes := slices.Contains(c.escapes, kind)
				if (len(left) > 0) != escapes {
					t.Errorf("%d left, and that it escapes is %v", len(left), escapes)
				}
				for _, row := range left {
					if err := row.Signal(syscall.SIGKILL); err != nil {
						t.Error(err)
					}
				}
			})
		}
	})
}

// sleepMarker is a time to sleep that no other process has among its arguments.
func sleepMarker() string {
	return "600." + strings.Map(func(r rune) rune { return '0' + r%10 }, rand.Text())
}

// waitForSleepers waits until so many sleep.
func waitForSleepers(t *testing.T, marker string, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); len(sleepers(marker)) < n; {
		if time.Now().After(deadline) {
			t.Fatal("they have not started")
		}
	}
}

func sleepers(marker string) (found []process.Row) {
	for _, row := range process.Table() {
		if !row.Dead() && strings.HasPrefix(string(cmdline(row.PID)), fmt.Sprintf("sleep\x00%s", marker)) {
			found = append(found, row)
		}
	}
	return found
}

// What ends every range ends terminals.
func TestTerminalEndedByRuntime(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		spec := terminalSpec("bash", "-c", `trap "" TERM HUP; echo ready; while :; do read x; done`)
		spec.Grace = time.Hour
		s := openScreenOf(t, r, spec)
		s.waitFor("ready")
		r.KillAll()
		if outcome := s.waitExit(); outcome.End != seam.EndTerminated || outcome.Signal.Name != "SIGKILL" {
			t.Errorf("outcome %+v", outcome)
		}
		closeRuntime(t, r)
		<-s.ended
	})
}
