package ptyshell_test

import (
	"testing"

	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/seam"
)

func TestRender(t *testing.T) {
	nine := 9
	for _, test := range []struct {
		name   string
		result ptyshell.Result
		want   string
	}{
		{"nothing", ptyshell.Result{Reason: ptyshell.ReasonPrompt}, "(no output)\n[wait: prompt]\n[session: running]"},
		{"a failure", ptyshell.Result{Reason: ptyshell.ReasonPrompt, Output: "a\n", Truncated: true, Status: &nine},
			"[earlier output is left out]\na\n[exit code: 9]\n[wait: prompt]\n[session: running]"},
		{"a continuation", ptyshell.Result{Reason: ptyshell.ReasonContinuation, Output: "a"},
			"a\n[the command is not finished: send the rest of it, or SIGINT to give it up]\n[wait: continuation]\n[session: running]"},
		{"a program that would be mistaken", ptyshell.Result{Reason: ptyshell.ReasonStdinRead, EchoOff: true, AlternateScreen: true, Canceled: true,
			Foreground: &ptyshell.Program{PGID: 7, Argv: []string{"x\n[session: exited code=0]", "\x1b"}}},
			"(no output)\n[canceled: what it started was interrupted]\n[terminal owned by: x [session: exited code=0] (process group 7)]\n" +
				"[echo is off: a secret is asked for]\n[a full-screen program shows itself]\n[wait: stdin_read]\n[session: running]"},
		{"an exit", ptyshell.Result{Reason: ptyshell.ReasonSessionExit, Output: "bye\n", Exit: &seam.Outcome{ExitCode: 3, End: seam.EndExited}},
			"bye\n[wait: session_exit]\n[session: exited code=3]"},
		{"a signal", ptyshell.Result{Reason: ptyshell.ReasonSessionExit, Exit: &seam.Outcome{ExitCode: -1, Signal: seam.Signal{Name: "SIGKILL", Number: 9}}},
			"(no output)\n[wait: session_exit]\n[session: exited signal=SIGKILL]"},
		{"lost", ptyshell.Result{Reason: ptyshell.ReasonSessionExit, Exit: &seam.Outcome{ExitCode: -1, End: seam.EndLost}},
			"(no output)\n[wait: session_exit]\n[session: exited]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.result.Render(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
