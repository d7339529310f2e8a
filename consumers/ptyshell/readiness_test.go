package ptyshell_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// What settles a send, and when.
func TestReadiness(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name   string
		play   func(*rig) *ptyshell.Sending
		reason ptyshell.Reason
		min    time.Duration // after the play
		max    time.Duration
		output string
	}{
		{
			name: "a prompt settles at once",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("true")
				time.Sleep(time.Second)
				r.print("out\r\n")
				r.prompt(0)
				return x
			},
			reason: ptyshell.ReasonPrompt, output: "out\n",
		},
		{
			name: "the mark and the prompt come apart",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("true")
				r.print(r.mark("D", ";0;/"))
				time.Sleep(100 * ms)
				r.pending(x)
				r.print(r.mark("A", "") + "corral> ")
				time.Sleep(100 * ms)
				r.pending(x)
				r.print(r.mark("B", ""))
				return x
			},
			reason: ptyshell.ReasonPrompt,
		},
		{
			name: "the mark itself comes in pieces",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("true")
				r.promptAnd(0, "late")
				r.pending(x)
				for _, c := range r.mark("B", "") {
					r.pending(x)
					r.print(string(c))
				}
				return x
			},
			reason: ptyshell.ReasonPrompt,
		},
		{
			name: "output behind a prompt takes it back",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("true")
				r.print(r.mark("A", "") + "corral> " + r.mark("B", "") + "not yet")
				time.Sleep(time.Second)
				r.pending(x)
				r.prompt(0)
				return x
			},
			reason: ptyshell.ReasonPrompt,
		},
		{
			name: "a prompt from before the typing is none after it",
			play: func(r *rig) *ptyshell.Sending {
				g := r.gate(seamtest.CallForeground, nil)
				x := r.start(line("true"))
				r.prompt(0) // while it is inspected
				r.busy()
				g.open()
				r.pending(x)
				time.Sleep(time.Second)
				r.pending(x)
				r.ran()
				r.prompt(0)
				return x
			},
			reason: ptyshell.ReasonPrompt,
		},
		{
			name: "a prompt that follows no command wants to be confirmed",
			play: func(r *rig) *ptyshell.Sending {
				// An interrupt of the send before, say, has the shell show it again.
				r.busy()
				x := r.start(line("sleep 4"))
				r.prompt(0)
				time.Sleep(time.Second)
				r.pending(x)
				r.ran()
				r.prompt(0)
				return x
			},
			reason: ptyshell.ReasonPrompt,
		},
		{
			name: "an empty line and a syntax error begin no command",
			play: func(r *rig) *ptyshell.Sending {
				x := r.start(line(")"))
				r.prompt(2)
				return x // the shell reads, which confirms it
			},
			reason: ptyshell.ReasonPrompt, min: 5 * ms, max: 100 * ms,
		},
		{
			name: "a prompt that follows no command where nothing is seen",
			play: func(r *rig) *ptyshell.Sending {
				r.blind(r.shell)
				x := r.start(line(")"))
				r.prompt(2)
				return x
			},
			reason: ptyshell.ReasonPrompt, min: 150 * ms, max: 500 * ms,
		},
		{
			name: "the prompt of a child that inherited it",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("bash")
				r.child(false)
				r.prompt(0)
				return x
			},
			reason: ptyshell.ReasonInferredIdle, min: 3500 * ms, max: 3600 * ms,
		},
		{
			name: "a forged mark",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("cat evil")
				r.print("\x1b]133;B;0123456789abcdef\a\x1b]133;B\a")
				time.Sleep(time.Second)
				r.pending(x)
				r.prompt(0)
				return x
			},
			reason: ptyshell.ReasonPrompt,
		},
		{
			name: "the world shows no foregrounds",
			play: func(r *rig) *ptyshell.Sending {
				r.terminal.Intercept(seamtest.CallForeground, func(context.Context) error {
					return &seam.OpError{Op: "foreground", Code: seam.CodeUnsupported}
				})
				x := r.run("true")
				time.Sleep(time.Second)
				r.pending(x)
				r.prompt(0)
				return x
			},
			reason: ptyshell.ReasonPrompt,
		},
		{
			name: "continuation",
			play: func(r *rig) *ptyshell.Sending {
				x := r.start(line("cat <<E"))
				r.print("cat <<E\r\n" + r.mark("E", "") + "> " + r.mark("F", ""))
				return x
			},
			reason: ptyshell.ReasonContinuation, max: 100 * ms,
		},
		{
			name: "a continuation in the middle of lines that are still to be read",
			play: func(r *rig) *ptyshell.Sending {
				x := r.start(line("for i in 1\ndo echo $i\ndone"))
				r.busy()
				r.print(r.mark("E", "") + "> " + r.mark("F", ""))
				time.Sleep(time.Second)
				r.pending(x)
				r.ran()
				r.prompt(0)
				return x
			},
			reason: ptyshell.ReasonPrompt,
		},
		{
			name: "a program that waits for input and has printed",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("python3")
				r.print(">>> ")
				r.child(true)
				return x
			},
			reason: ptyshell.ReasonStdinRead, max: 300 * ms, output: ">>> ",
		},
		{
			name: "a program that waits for input and prints nothing",
			play: func(r *rig) *ptyshell.Sending {
				r.child(true)
				return r.start(ptyshell.Request{Text: "x", Submit: true, Force: true})
			},
			reason: ptyshell.ReasonStdinRead, min: 600 * ms, max: 900 * ms,
		},
		{
			name: "a program that ran and waits again, and prints nothing",
			play: func(r *rig) *ptyshell.Sending {
				r.child(false)
				x := r.start(ptyshell.Request{Text: "x", Submit: true, Force: true})
				time.Sleep(100 * ms)
				r.child(true)
				return x
			},
			reason: ptyshell.ReasonStdinRead, max: 150 * ms,
		},
		{
			name: "a program that waited before and has not read yet",
			play: func(r *rig) *ptyshell.Sending {
				r.child(true)
				x := r.start(ptyshell.Request{Text: "x", Submit: true, Force: true})
				time.Sleep(100 * ms)
				r.pending(x)
				r.print("\x1b[?2004h") // nothing that can be seen
				time.Sleep(100 * ms)
				r.pending(x)
				r.child(false)
				time.Sleep(time.Second)
				r.pending(x)
				r.print("x\r\n")
				r.child(true)
				return x
			},
			reason: ptyshell.ReasonStdinRead, max: 100 * ms, output: "x\n",
		},
		{
			name: "who waits is no evidence while output is unread",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("child")
				r.unread()
				time.Sleep(time.Second)
				r.pending(x)
				r.child(true)
				return x
			},
			reason: ptyshell.ReasonStdinRead, max: 300 * ms,
		},
		{
			name: "that output is unread is no sign of having run",
			play: func(r *rig) *ptyshell.Sending {
				r.child(true)
				x := r.start(ptyshell.Request{Text: "x", Submit: true, Force: true})
				r.unread()
				time.Sleep(100 * ms)
				r.child(true)
				return x
			},
			reason: ptyshell.ReasonStdinRead, min: 500 * ms, max: 800 * ms,
		},
		{
			name: "the line editor with text that was not submitted",
			play: func(r *rig) *ptyshell.Sending {
				x := r.start(ptyshell.Request{Text: "ec"})
				r.print("ec")
				return x
			},
			reason: ptyshell.ReasonStdinRead, min: 100 * ms, max: 450 * ms, output: "ec",
		},
		{
			name: "a shell without marks",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("PS1= PROMPT_COMMAND=")
				r.foreground(r.shell, true, "bash")
				r.print("$ ")
				return x
			},
			reason: ptyshell.ReasonStdinRead, max: 300 * ms, output: "$ ",
		},
		{
			name: "silence",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("sleep 600")
				r.child(false)
				return x
			},
			reason: ptyshell.ReasonInferredIdle, min: 2900 * ms, max: 3100 * ms,
		},
		{
			name: "output puts silence off",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("make")
				r.child(false)
				for range 5 {
					time.Sleep(2 * time.Second)
					r.print("x")
					r.pending(x)
				}
				return x
			},
			reason: ptyshell.ReasonInferredIdle, min: 2900 * ms, max: 3100 * ms, output: "xxxxx",
		},
		{
			name: "a deadline, counted from the reservation",
			play: func(r *rig) *ptyshell.Sending {
				g := r.gate(seamtest.CallForeground, nil)
				x := r.start(ptyshell.Request{Text: "x", Submit: true, Timeout: 2 * time.Second})
				time.Sleep(1500 * ms)
				g.open()
				r.busy()
				return x
			},
			reason: ptyshell.ReasonTimeout, min: 500 * ms, max: 500 * ms,
		},
		{
			name: "waiting behind a signal that is still to be heard of",
			play: func(r *rig) *ptyshell.Sending {
				r.foreground(r.shell, true, "bash")
				if _, err := r.session.Signal(r.Context(), "SIGINT"); err != nil {
					r.Fatal(err)
				}
				x := r.start(ptyshell.Request{})
				time.Sleep(500 * ms)
				r.pending(x)
				r.prompt(130)
				return x
			},
			reason: ptyshell.ReasonPrompt,
		},
		{
			name: "a shell that waits, and whose output is late",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("cat")
				r.print("a")
				r.foreground(r.shell, true, "bash")
				time.Sleep(100 * ms)
				r.pending(x)
				r.print("\r\n")
				r.prompt(0)
				return x
			},
			reason: ptyshell.ReasonPrompt, output: "a\n",
		},
		{
			name: "waiting where the prompt is shown",
			play: func(r *rig) *ptyshell.Sending {
				r.busy()
				return r.start(ptyshell.Request{})
			},
			reason: ptyshell.ReasonPrompt,
		},
		{
			name: "waiting for a command that a send did not wait for",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("sleep 5")
				r.child(false)
				r.settles(x, ptyshell.ReasonInferredIdle)
				x = r.start(ptyshell.Request{})
				r.print("late\r\n")
				r.busy()
				r.prompt(0)
				return x
			},
			reason: ptyshell.ReasonPrompt, output: "late\n",
		},
		{
			name: "the shell exits, and its output comes before",
			play: func(r *rig) *ptyshell.Sending {
				x := r.run("exit 3")
				r.print("bye\r\n")
				r.terminal.Exit(3)
				return x
			},
			reason: ptyshell.ReasonSessionExit, output: "bye\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			onRig(t, func(t *testing.T, r *rig) {
				x := test.play(r)
				result, took := r.result(x, time.Now())
				if result.Reason != test.reason || took < test.min || took > test.max {
					t.Errorf("settled with %s after %v, want %s after %v to %v", result.Reason, took, test.reason, test.min, test.max)
				}
				if test.output != "" && result.Output != test.output {
					t.Errorf("output %q, want %q", result.Output, test.output)
				}
			})
		})
	}
}

func TestFacts(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig) {
		x := r.run("less x")
		r.terminal.SetForeground(&seam.Foreground{PGID: 4711, Argv: []string{"less", "x"}, InputKnown: true, WaitsForInput: true})
		r.print("\x1b[?1049h~")
		got := r.settles(x, ptyshell.ReasonStdinRead)
		if got.Foreground == nil || got.Foreground.PGID != 4711 || got.Foreground.String() != "less x (process group 4711)" {
			t.Errorf("foreground %v", got.Foreground)
		}
		if !got.AlternateScreen || got.EchoOff || got.Status != nil || got.Exit != nil {
			t.Errorf("result %+v", got)
		}

		if _, err := r.session.Send(t.Context(), line("ls")); !errors.Is(err, ptyshell.ErrOccupied) || !strings.Contains(err.Error(), "less x") {
			t.Errorf("err %v, want one that names less", err)
		}
		typed := r.terminal.Typed()
		x = r.start(ptyshell.Request{Text: "q", Force: true})
		if got := strings.TrimPrefix(r.terminal.Typed(), typed); got != "q" {
			t.Errorf("typed %q", got)
		}
		r.print("\x1b[?1049l")
		r.foreground(r.shell, true, "bash")
		r.prompt(7)
		got = r.settles(x, ptyshell.ReasonPrompt)
		if got.Status == nil || *got.Status != 7 || got.Dir != "/here" || got.AlternateScreen || got.Foreground != nil {
			t.Errorf("result %+v", got)
		}

		x = r.run("read -s x")
		r.terminal.SetForeground(&seam.Foreground{PGID: r.shell, InputKnown: true, WaitsForInput: true, Canonical: true})
		if got := r.settles(x, ptyshell.ReasonStdinRead); !got.EchoOff || got.Foreground != nil {
			t.Errorf("result %+v", got)
		}
	})
}

// How text is typed.
func TestTyping(t *testing.T) {
	for _, test := range []struct {
		name    string
		paste   bool
		request ptyshell.Request
		want    string
	}{
		{"a line", false, line("ls"), "ls\r"},
		{"a line with its newline", false, line("ls\n"), "ls\r"},
		{"lines", false, line("a\n\tb!\n\n"), "a\n\tb!\n\r"},
		{"no return", false, ptyshell.Request{Text: "a\n"}, "a\n"},
		{"return alone", true, ptyshell.Request{Submit: true}, "\r"},
		{"a paste", true, line("a\n\tb\\\n"), "\x1b[200~a\n\tb\\\x1b[201~\r"},
		{"nothing", true, ptyshell.Request{}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			onRig(t, func(t *testing.T, r *rig) {
				if test.paste {
					r.print("\x1b[?2004h")
					synctest.Wait()
				}
				before := r.terminal.Typed()
				x := r.start(test.request)
				if got := strings.TrimPrefix(r.terminal.Typed(), before); got != test.want {
					t.Errorf("typed %q, want %q", got, test.want)
				}
				x.Cancel()
			})
		})
	}
	onRig(t, func(t *testing.T, r *rig) {
		before := r.terminal.Typed()
		r.foreground(r.shell, true, "bash")
		for _, text := range []string{"a\x00", "a\x1b[201~b", strings.Repeat("x", 5000)} {
			_, err := r.session.Send(t.Context(), line(text))
			if seam.CodeOf(err) != seam.CodeInvalid {
				t.Errorf("%.10q: err %v", text, err)
			}
		}
		if got := r.terminal.Typed(); got != before {
			t.Errorf("typed %q", got)
		}
	})
}

// What was typed at a prompt takes the place of its echo, and other output that
// came meanwhile is kept.
func TestEcho(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig) {
		r.print("\x1b[?2004h")
		synctest.Wait()
		x := r.start(line("echo a\n\techo b"))
		r.print("echo a^J        echo b\r\r" + r.mark("A", "") + "corral> " + r.mark("B", ""))
		r.pending(x)
		r.print("echo a^J        echo b\r\n\x1b[?2004l\r" + r.mark("C", "") + "a\r\n" + r.mark("C", "") + "b\r\n")
		r.prompt(0)
		if got := r.settles(x, ptyshell.ReasonPrompt); got.Output != "a\nb\n" {
			t.Errorf("output %q", got.Output)
		}
		x = r.start(line("true"))
		r.print("true[1]+ Done\r\n  sleep\r\nmore\r\n" + r.mark("C", ""))
		r.prompt(0)
		if got := r.settles(x, ptyshell.ReasonPrompt); !strings.Contains(got.Output, "Done") {
			t.Errorf("output %q", got.Output)
		}
		page, err := r.session.Read(0, 100)
		want := "corral> echo a\n\techo b\na\nb\ncorral> true[1]+ Done\n  sleep\nmore\ncorral> "
		if err != nil || page.Text != want {
			t.Errorf("scrollback %q, %v; want %q", page.Text, err, want)
		}
	})
}

// A prompt that is drawn anew takes the place of the one before.
func TestRedrawnPrompt(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig) {
		again := strings.Repeat(" ", 150) + "\r" + r.mark("A", "") + "corral> " + r.mark("B", "")
		x := r.run("printf x")
		r.print("x")
		r.promptAnd(0, again)
		if got := r.settles(x, ptyshell.ReasonPrompt); got.Output != "x" {
			t.Errorf("output %q", got.Output)
		}
		r.print(again + "\r\n[1] done\r\n" + again)
		synctest.Wait()
		page, err := r.session.Read(0, 100)
		want := "corral> printf x\nxcorral> \n[1] done\n" + strings.Repeat(" ", 150) + "\ncorral> "
		if err != nil || page.Text != want {
			t.Errorf("scrollback %q, %v; want %q", page.Text, err, want)
		}
	})
}

// Output between two sends is the next one's, and is kept in the scrollback.
func TestLateOutput(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig) {
		x := r.run("sleep 9 &")
		r.prompt(0)
		r.settles(x, ptyshell.ReasonPrompt)
		r.print("late\r\n" + r.mark("A", "") + "corral> " + r.mark("B", ""))
		synctest.Wait()
		x = r.run("true")
		r.prompt(0)
		if got := r.settles(x, ptyshell.ReasonPrompt); got.Output != "late\n" {
			t.Errorf("output %q", got.Output)
		}
	})
}

// Nobody learns the marks from what the shell tells of its variables.
func TestMarksAreNotShown(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig) {
		x := r.run("set")
		r.print("A=1\r\nPS1='\\e]133;A;" + r.nonce + "'\r\nZ=2\r\n")
		r.prompt(0)
		if got := r.settles(x, ptyshell.ReasonPrompt); got.Output != "A=1\nZ=2\n" {
			t.Errorf("output %q", got.Output)
		}
		if page, err := r.session.Read(0, 100); err != nil || strings.Contains(page.Text, r.nonce) {
			t.Errorf("page %q, %v", page.Text, err)
		}
	})
}
