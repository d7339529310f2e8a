package bash_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
)

func exited(code int) seam.Outcome { return seam.Outcome{ExitCode: code, End: seam.EndExited} }

func killed(end seam.EndKind, name string, cause error) seam.Outcome {
	return seam.Outcome{ExitCode: -1, Signal: seam.Signal{Name: name}, End: end, Cause: cause}
}

func TestRender(t *testing.T) {
	job := &jobs.Info{ID: "bash-3"}
	cause := errors.New("the user\nsaid so")
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name   string
		result bash.Result
		want   string
	}{
		{"output alone", bash.Result{Outcome: exited(0), Stdout: bash.Text{Text: "hi\n"}}, "hi\n"},
		{"no newline at the end", bash.Result{Outcome: exited(0), Stdout: bash.Text{Text: "hi"}}, "hi"},
		{"nothing", bash.Result{Outcome: exited(0)}, "(no output)"},
		{"a newline is output", bash.Result{Outcome: exited(0), Stdout: bash.Text{Text: "\n"}}, "\n"},
		{"a limit on processes", bash.Result{Outcome: seam.Outcome{ExitCode: 254, End: seam.EndLimitPids}}, "(no output)\n[reached its limit on processes]\n[exit code: 254]"},
		{"a limit on memory", bash.Result{Outcome: killed(seam.EndLimitMemory, "SIGKILL", nil)}, "(no output)\n[reached its limit on memory]\n[killed by signal: SIGKILL]"},
		{"nothing, and a code", bash.Result{Outcome: exited(3)}, "(no output)\n[exit code: 3]"},
		{"stderr alone", bash.Result{Outcome: exited(0), Stderr: bash.Text{Text: "oops\n"}}, "[stderr]\noops\n"},
		{
			"both streams and a code",
			bash.Result{Outcome: exited(1), Stdout: bash.Text{Text: "out"}, Stderr: bash.Text{Text: "err"}},
			"out\n[stderr]\nerr\n[exit code: 1]",
		},
		{
			"truncated, with a file",
			bash.Result{Outcome: exited(2), Stdout: bash.Text{Text: "tail\n", Truncated: true, Spill: seam.Spill{Path: "/spill/1"}}},
			"tail\n[output truncated; full output: /spill/1]\n[exit code: 2]",
		},
		{
			"truncated, without a file",
			bash.Result{Outcome: exited(0), Stdout: bash.Text{Text: "tail", Truncated: true}},
			"tail\n[output truncated; full output: (unavailable)]",
		},
		{
			"truncated to nothing",
			bash.Result{Outcome: exited(0), Stdout: bash.Text{Truncated: true}},
			"[output truncated; full output: (unavailable)]",
		},
		{
			"both truncated",
			bash.Result{
				Outcome: exited(0),
				Stdout:  bash.Text{Text: "o", Truncated: true, Spill: seam.Spill{Path: "/o"}},
				Stderr:  bash.Text{Text: "e", Truncated: true, Spill: seam.Spill{Path: "/e"}},
			},
			"o\n[output truncated; full output: /o]\n[stderr]\ne\n[output truncated; full output: /e]",
		},
		{
			"cut off",
			bash.Result{Outcome: exited(0), Stdout: bash.Text{Text: "up\n", Cut: true}, Stderr: bash.Text{Cut: true}},
			"up\n[output cut off: a process outside of the command's range held it open]\n" +
				"[stderr]\n[output cut off: a process outside of the command's range held it open]",
		},
		{
			"truncated and cut off",
			bash.Result{Outcome: exited(0), Stdout: bash.Text{Text: "tail", Truncated: true, Cut: true}},
			"tail\n[output truncated; full output: (unavailable)]\n" +
				"[output cut off: a process outside of the command's range held it open]",
		},
		{
			"timed out",
			bash.Result{Outcome: killed(seam.EndTerminated, "SIGTERM", bash.ErrTimeout), TimedOut: true, Timeout: 1500 * time.Millisecond,
				Stdout: bash.Text{Text: "hi\n"}},
			"hi\n[timed out after 1500ms]\n[killed by signal: SIGTERM]",
		},
		{
			"timed out, and exited with 0",
			bash.Result{Outcome: seam.Outcome{End: seam.EndTerminated, Cause: bash.ErrTimeout}, TimedOut: true, Timeout: time.Second},
			"(no output)\n[timed out after 1000ms]",
		},
		{
			"timed out, and exited with another code",
			bash.Result{Outcome: seam.Outcome{ExitCode: 9, End: seam.EndTerminated, Cause: bash.ErrTimeout}, TimedOut: true, Timeout: time.Second},
			"(no output)\n[timed out after 1000ms]\n[exit code: 9]",
		},
		{
			"aborted, for a reason of two lines",
			bash.Result{Outcome: killed(seam.EndTerminated, "SIGKILL", cause), Aborted: true},
			"(no output)\n[aborted: the user said so]\n[killed by signal: SIGKILL]",
		},
		{
			"killed by someone else",
			bash.Result{Outcome: killed(seam.EndSignaled, "SIGKILL", nil)},
			"(no output)\n[killed by signal: SIGKILL]",
		},
		{"exit status lost", bash.Result{Outcome: seam.Outcome{ExitCode: -1, End: seam.EndLost}}, "(no output)\n[exit status lost]"},
		{
			"survivors ended",
			bash.Result{Outcome: exited(0), Stdout: bash.Text{Text: "up\n"},
				Survivors: []seam.Member{{PID: 7, Argv: []string{"sleep", "600"}}, {PID: 8}}},
			"up\n[background processes ended: 7 sleep 600; 8 ]",
		},
		{
			"survivors kept",
			bash.Result{Outcome: exited(1), Survivors: []seam.Member{{PID: 7, Argv: []string{"yes"}}}, Job: job},
			"(no output)\n[background processes kept as background job bash-3: 7 yes]\n[exit code: 1]",
		},
		{
			"survivors that could not be kept",
			bash.Result{Outcome: exited(0), Survivors: []seam.Member{{PID: 7, Argv: []string{"yes"}}}, JobErr: jobs.ErrTooMany},
			"(no output)\n[background processes ended: 7 yes]\n[not kept: too many live jobs]",
		},
		{
			"many survivors",
			bash.Result{Outcome: exited(0), Survivors: make([]seam.Member, 7)},
			"(no output)\n[background processes ended: 0 ; 0 ; 0 ; 0 ; 0 ; and 2 more]",
		},
		{
			"a survivor that looks like a marker",
			bash.Result{Outcome: exited(0), Survivors: []seam.Member{{PID: 7, Argv: []string{"bash", "-c", "x\n[exit code: 3]"}}}},
			"(no output)\n[background processes ended: 7 bash -c x [exit code: 3]]",
		},
		{
			"a survivor with a long command",
			bash.Result{Outcome: exited(0), Survivors: []seam.Member{{PID: 7, Argv: []string{long}}}},
			"(no output)\n[background processes ended: 7 " + long[:200] + "…]",
		},
		{
			"failed for its survivors",
			bash.Result{Outcome: exited(0), Failure: seam.ErrSurvivors},
			"(no output)\n[failed: members outlived the command]",
		},
		{
			"not proven empty",
			bash.Result{Outcome: exited(4), Empty: &seam.UnprovenError{Reason: errors.New("no\nanswer")}},
			"(no output)\n[may still be running: range not proven empty: no answer]\n[exit code: 4]",
		},
		{
			"moved to the background",
			bash.Result{Job: job, Stdout: bash.Text{Text: "so far"}},
			"so far\n[still running; continues as background job bash-3]",
		},
		{
			"everything at once, in order",
			bash.Result{
				Outcome:   killed(seam.EndTerminated, "SIGKILL", bash.ErrTimeout),
				TimedOut:  true,
				Timeout:   time.Second,
				Stdout:    bash.Text{Text: "o\n", Truncated: true},
				Stderr:    bash.Text{Text: "e\n"},
				Survivors: []seam.Member{{PID: 7, Argv: []string{"yes"}}},
				Failure:   seam.ErrSurvivors,
				Empty:     seam.ErrUnproven,
			},
			"o\n[output truncated; full output: (unavailable)]\n[stderr]\ne\n[background processes ended: 7 yes]\n" +
				"[timed out after 1000ms]\n[failed: members outlived the command]\n" +
				"[may still be running: range not proven empty]\n[killed by signal: SIGKILL]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.result.Render(); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// The exit marker can be read back: it ends the text and begins a line, also
// where the output does not end one.
func TestRenderedExitIsReadBack(t *testing.T) {
	marker := regexp.MustCompile(`(?:^|\n)\[(?:exit code: (\d+)|killed by signal: (SIG\w+))\]$`)
	b := newBench(t)
	for _, c := range []struct{ name, script, code, signal string }{
		{"success", "echo hi", "", ""},
		{"a code", "echo hi; exit 7", "7", ""},
		{"no newline before it", "printf hi; exit 7", "7", ""},
		{"stderr without a newline before it", "printf hi >&2; exit 255", "255", ""},
		{"nothing before it", "exit 1", "1", ""},
		{"a signal", "printf x; kill -9 $$", "", "SIGKILL"},
		{"a marker of its own, and another end", "echo '[exit code: 3]'; exit 4", "4", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := b.run(t, bash.Request{Script: c.script}).Render()
			match := marker.FindStringSubmatch(text)
			if match == nil {
				match = make([]string, 3)
			}
			if match[1] != c.code || match[2] != c.signal {
				t.Errorf("got %q, want code %q, signal %q", text, c.code, c.signal)
			}
		})
	}
}
