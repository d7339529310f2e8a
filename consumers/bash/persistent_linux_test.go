package bash_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/seam"
)

// keeping is a Persistent on a bench, and what it runs on.
type keeping struct {
	*bash.Persistent
	t      testing.TB
	shells *ptyshell.Shells
	dir    string
}

func newKeeping(t testing.TB, change ...func(*bash.PersistentConfig)) *keeping {
	t.Helper()
	b := newBench(t)
	settings := ptyshell.DefaultConfig()
	settings.Dir, settings.Grace = b.config.Dir, time.Second
	shells, err := ptyshell.New(b.world, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shells.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	config := bash.DefaultPersistentConfig()
	for _, f := range change {
		f(&config)
	}
	p, err := bash.NewPersistent(shells, config)
	if err != nil {
		t.Fatal(err)
	}
	return &keeping{p, t, shells, settings.Dir}
}

func (k *keeping) run(command bash.Command) bash.Report {
	k.t.Helper()
	command.Owner = "me"
	report, err := k.Run(k.t.Context(), command)
	if err != nil {
		k.t.Fatalf("%s: %v", cut(command.Script), err)
	}
	return report
}

// shows runs a script and checks what a model is shown of it.
func (k *keeping) shows(script, want string) {
	k.t.Helper()
	if got := k.run(bash.Command{Script: script}).Render(); got != want {
		k.t.Errorf("%s: got %q, want %q", cut(script), got, want)
	}
}

func TestPersistentState(t *testing.T) {
	k := newKeeping(t)
	k.shows("cd /; export A=1; b=2; f() { echo \"f $1\"; }; shopt -s extglob; set -o pipefail", "(no output)")
	k.shows(`pwd; env | grep ^A=; echo $b; f x; shopt -q extglob && echo glob`, "/\nA=1\n2\nf x\nglob\n")
	k.shows("false | true", "(no output)\n[exit code: 1]")
	k.shows("echo $?", "1\n")
	k.shows("(exit 42)", "(no output)\n[exit code: 42]")
	k.shows("true", "(no output)")
	k.shows("alias ll='echo listed'", "(no output)")
	k.shows("ll", "listed\n")
	k.run(bash.Command{Script: "sleep 600 & p=$!"})
	k.shows("kill -0 $p && jobs", "[1]+  Running                 sleep 600 &\n")
}

// What the script is makes no difference to how it is told from what it prints.
func TestPersistentScripts(t *testing.T) {
	k := newKeeping(t)
	odd := "a\tb'c\"d\\e!f$`é漢\u00a0\x7f\x01\x1b[1m"
	for _, test := range []struct{ script, want string }{
		{"cat <<EOF\na\n\tb\nEOF", "a\n\tb\n"},
		{"python3 - <<'EOF'\nprint(1)\nEOF", "1\n"},
		{"echo a # comment", "a\n"},
		{"echo a\n\n  echo b\n", "a\nb\n"},
		{"printf x", "x"},
		{"printf 'x\\n\\n'", "x\n\n"},
		{`echo "P@ss!word"`, "P@ss!word\n"},
		{"echo 'x", "bash: unexpected EOF while looking for matching `''\n[exit code: 2]"},
		{"if true", "bash: syntax error: unexpected end of file\n[exit code: 2]"},
		{"nosuchcommand", "bash: nosuchcommand: command not found\n[exit code: 127]"},
		{"echo out; echo err >&2", "out\nerr\n"},
		{"for i in 1 2; do echo $i; done; false", "1\n2\n[exit code: 1]"},
		{"sleep 0.1; echo late", "late\n"},
		{"printf '%s' '" + strings.ReplaceAll(odd, "'", `'\''`) + "' | sha256sum", fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(odd)))},
		{": " + strings.Repeat("y", 100_000) + "; echo long", "long\n"},
		{"set -x; echo y; { set +x; } 2>/dev/null", "++ echo y\ny\n"},
		{"trap 'echo trapped' DEBUG; trap - DEBUG", "trapped\n"},
	} {
		k.shows(test.script, test.want)
	}
	if out := k.run(bash.Command{Script: "set; declare -p; history"}).Render(); strings.Contains(out, "133;") {
		t.Errorf("marks are shown: %q", out)
	}
}

// The hooks that tell of the status can be lost; the status is not.
func TestPersistentWithoutHooks(t *testing.T) {
	k := newKeeping(t)
	for _, script := range []string{"PROMPT_COMMAND=; PS1=", "unset PROMPT_COMMAND PS0 PS1 PS2", "PROMPT_COMMAND='false'", "exec 2>/dev/null", "set -u; PROMPT_COMMAND=", "exec 2>/dev/null; PROMPT_COMMAND="} {
		k.shows(script+"; (exit 9)", "(no output)\n[exit code: 9]")
		k.shows("echo x; (exit 8)", "x\n[exit code: 8]")
		k.shows("echo y", "y\n")
		if err := k.Reset(t.Context(), "me"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPersistentEndings(t *testing.T) {
	k := newKeeping(t)
	k.shows("x=1; exit 3", "exit\n[shell exited: code 3]\n[the next command gets a new shell]")
	k.shows("echo ${x-gone}", "gone\n")
	k.shows("kill -9 $$", "(no output)\n[shell killed by signal: SIGKILL]\n[the next command gets a new shell]")
	k.shows("set -e; false", "(no output)\n[shell exited: code 1]\n[the next command gets a new shell]")
	if got := k.run(bash.Command{Script: "sleep 600 & exec true"}).Render(); !strings.HasSuffix(got, "\n[shell exited: code 0]\n[the next command gets a new shell]") {
		t.Errorf("got %q", got)
	}

	report := k.run(bash.Command{Script: "echo begun; sleep 60", Timeout: 300 * time.Millisecond})
	expect(t, "timed out", report.Render(), "begun\n[timed out after 300ms]\n[the next command gets a new shell]")
	if !report.TimedOut || !report.Reset || report.Status != nil {
		t.Errorf("report %+v", report)
	}
	k.shows("echo anew", "anew\n")

	ctx, cancel := context.WithCancelCause(t.Context())
	errStop := errors.New("stop")
	stop := time.AfterFunc(200*time.Millisecond, func() { cancel(errStop) })
	defer stop.Stop()
	began := time.Now()
	_, err := k.Run(ctx, bash.Command{Owner: "me", Script: "trap '' INT TERM; sleep 60"})
	if !errors.Is(err, errStop) || seam.CodeOf(err) != seam.CodeAborted {
		t.Errorf("err %v", err)
	}
	bounded(t, began, slack)
	if k.shells.Active("me") {
		t.Error("the shell lives")
	}
	k.shows("echo anew", "anew\n")
	if err := k.Reset(t.Context(), "me"); err != nil || k.shells.Active("me") {
		t.Errorf("reset: %v", err)
	}
}

// Programs that read get what is meant for them, and nothing else.
func TestPersistentInput(t *testing.T) {
	k := newKeeping(t)
	report := k.run(bash.Command{Script: `read -p 'name? ' x; echo "got $x"`})
	if !report.Waiting || report.Foreground != nil || report.Status != nil || report.Output != "name? " {
		t.Errorf("report %+v", report)
	}
	report = k.run(bash.Command{Script: "me", Input: true})
	if report.Waiting || report.Status == nil || *report.Status != 0 || report.Output != "me\ngot me\n" {
		t.Errorf("report %+v", report)
	}
	report = k.run(bash.Command{Script: "head -n 1; exit 5 2>/dev/null || true"})
	if !report.Waiting || report.Foreground == nil || !strings.Contains(report.Render(), "head -n 1") {
		t.Errorf("report %+v", report)
	}
	if _, err := k.Run(t.Context(), bash.Command{Owner: "me", Script: "ls"}); !errors.Is(err, ptyshell.ErrOccupied) {
		t.Errorf("err %v", err)
	}
	report = k.run(bash.Command{Script: "x", Input: true})
	if report.Exit == nil || report.Exit.ExitCode != 5 {
		t.Errorf("report %+v", report)
	}
}

func TestPersistentOutput(t *testing.T) {
	k := newKeeping(t, func(c *bash.PersistentConfig) { c.MaxOutputBytes = 11 })
	k.shows("seq 1000; false", "1\n2\n3\n4\n5\n6\n[output clipped]\n[exit code: 1]")
	report := k.run(bash.Command{Script: "seq 200000"})
	if !report.LostPrefix || !report.Clipped || *report.Status != 0 || !strings.HasPrefix(report.Render(), "[the beginning of the output is lost]\n") {
		t.Errorf("report %+v", report)
	}
	k.shows("true", "(no output)")
}

// Each owner has a shell, and its commands run one after the other.
func TestPersistentOwners(t *testing.T) {
	k := newKeeping(t)
	k.shows("x=mine", "(no output)")
	report, err := k.Run(t.Context(), bash.Command{Owner: "you", Script: "echo ${x-none}"})
	if err != nil || report.Output != "none\n" {
		t.Errorf("%+v, %v", report, err)
	}
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			report, err := k.Run(t.Context(), bash.Command{Owner: "me", Script: "n=$((n+1)); m=$n; sleep 0.02; [[ $m == $n ]]"})
			if err == nil && (report.Status == nil || *report.Status != 0) {
				err = errors.New(report.Render())
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	k.shows("echo $n", "8\n")

	for _, command := range []bash.Command{{Script: " "}, {Script: "a\x00"}, {Script: "a", Timeout: -1}} {
		if _, err := k.Run(t.Context(), command); seam.CodeOf(err) != seam.CodeInvalid {
			t.Errorf("%+v: %v", command, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Run(ended, bash.Command{Owner: "they", Script: "true"}); seam.CodeOf(err) != seam.CodeAborted {
		t.Errorf("err %v", err)
	}
	for _, config := range []bash.PersistentConfig{{Timeout: time.Second}, {MaxOutputBytes: 1}} {
		if _, err := bash.NewPersistent(k.shells, config); seam.CodeOf(err) != seam.CodeInvalid {
			t.Errorf("%+v: %v", config, err)
		}
	}
	// Closed by someone else: the next command gets a new shell.
	if err := k.shells.CloseOwner(t.Context(), "me"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Run(t.Context(), bash.Command{Owner: "me", Script: "true"}); !errors.Is(err, ptyshell.ErrExited) {
		t.Errorf("err %v", err)
	}
	k.shows("echo ${n-none}", "none\n")
}
