package seamtest

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/corral-world/corral/seam"
)

// terminalForegroundCases check the size, and who has the foreground.
var terminalForegroundCases = []subprocessCase{
	{
		name: "terminal-resize", rule: "the foreground is told of another size, and of no size that is the same",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("winch"))
			for _, size := range []struct {
				cols, rows uint16
				told       string
			}{{80, 24, ""}, {132, 50, "size 132x50"}, {132, 50, ""}, {1, 1, "size 1x1"}} {
				if err := t.Resize(size.cols, size.rows); err != nil {
					e.fatalf("Resize: %w", err)
				}
				if size.told == "" {
					continue // the next line is of the next size
				}
				if got := e.terminalLine(t); got != size.told {
					e.errorf("the program says %q, want %q", got, size.told)
				}
			}
		},
	},
	{
		name: "terminal-resize-invalid", rule: "a size of nothing is CodeInvalid and names the field",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("sleep"))
			for field, size := range map[string][2]uint16{"Cols": {0, 1}, "Rows": {1, 0}} {
				err := t.Resize(size[0], size[1])
				e.wantRefused("Resize", err, seam.CodeInvalid, fs.ErrInvalid)
				e.wantField("Resize", err, field)
			}
		},
	},
	{
		name: "terminal-foreground", rule: "the command has the foreground at first, as the group of its PID",
		run: func(e *processEnv) {
			spec := e.terminalSpec("sleep")
			t := e.startTerminal(spec)
			f := e.foreground(t)
			if f.PGID != t.PID() || t.PID() <= 0 {
				e.errorf("foreground %+v, and the PID is %d", f, t.PID())
			}
			if f.Argv != nil && !slices.Equal(f.Argv, spec.Argv) {
				e.errorf("Argv of the foreground is %q, want %q", f.Argv, spec.Argv)
			}
		},
	},
	{
		name: "terminal-foreground-input", rule: "WaitsForInput is proof, where InputKnown says that it is known: of a program that reads it is seen, of one that does not never",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("lines"))
			e.until("a program that reads", func() bool {
				f := e.foreground(t)
				return f.WaitsForInput || !f.InputKnown
			})
			t = e.startTerminal(e.terminalSpec("sleep"))
			for range 20 {
				if f := e.foreground(t); f.WaitsForInput {
					e.errorf("foreground %+v of a program that does not read", f)
				}
			}
		},
	},
	{
		name: "terminal-foreground-unread", rule: "UnreadOutput is said as long as there is output to read, and no longer",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("lines"))
			unread := func() bool { return e.foreground(t).UnreadOutput }
			if _, err := t.Write([]byte("typed\n")); err != nil {
				e.fatalf("Write: %w", err)
			}
			e.until("that output is unread", unread)
			e.wantLine(t, `got "typed"`)
			e.until("that no output is unread", func() bool { return !unread() })
		},
	},
	{
		name: "terminal-foreground-context", rule: "an ended context is CodeAborted, and nothing is signalled",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("sleep"))
			_, err := t.Foreground(endedContext())
			e.wantRefused("Foreground", err, seam.CodeAborted, errCause)
			_, err = t.SignalForeground(endedContext(), "SIGTERM")
			e.wantRefused("SignalForeground", err, seam.CodeAborted, errCause)
			e.wantBlocked("Wait", e.inFlight(func() { _, _ = t.Wait(e.ctx) }))
		},
	},
	{
		name: "terminal-signal", rule: "the foreground group gets the signal, and SignalForeground says which group that is",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("signals"))
			for _, name := range seam.ForegroundSignals() {
				if name == "SIGKILL" {
					continue
				}
				if pgid, err := t.SignalForeground(e.ctx, name); err != nil || pgid != t.PID() {
					e.fatalf("%s went to %d, %w; want %d", name, pgid, err, t.PID())
				}
				e.wantLine(t, "got "+name)
			}
		},
	},
	{
		name: "terminal-signal-ends", rule: "a command that a foreground signal ended is EndSignaled: this world did not ask its range to end",
		run: func(e *processEnv) {
			for _, name := range []string{"SIGINT", "SIGTERM", "SIGHUP"} {
				t := e.startTerminal(e.terminalSpec("sleep"))
				if _, err := t.SignalForeground(e.ctx, name); err != nil {
					e.fatalf("%s: %w", name, err)
				}
				if outcome := e.waitTerminal(t); outcome.End != seam.EndSignaled || outcome.Signal.Name != name {
					e.errorf("outcome %+v, want signaled by %s", outcome, name)
				}
			}
		},
	},
	{
		name: "terminal-signal-refused", rule: "unknown signals are CodeInvalid, with the known ones named, and so is SIGKILL for the command's own group",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("sleep"))
			for _, name := range []string{"", "INT", "sigint", "SIGSEGV", "9", "SIGKILL"} {
				_, err := t.SignalForeground(e.ctx, name)
				e.wantRefused("SignalForeground "+name, err, seam.CodeInvalid, fs.ErrInvalid)
				e.wantField("SignalForeground "+name, err, "name")
				if err != nil && name != "SIGKILL" && !strings.Contains(err.Error(), "SIGINT, SIGQUIT") {
					e.errorf("SignalForeground %q: %w, want the known names", name, err)
				}
			}
			e.wantBlocked("Wait", e.inFlight(func() { _, _ = t.Wait(e.ctx) }))
		},
	},
}
