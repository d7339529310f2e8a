package ptyshell_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/seam"
)

func TestRealShellState(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		dir := t.TempDir()
		b.prints("cd "+dir+"; export A=1; f() { echo \"f $A $1\"; }; shopt -s nullglob", "")
		b.prints("pwd; f x; echo *.none", dir+"\nf 1 x\n\n")
		b.prints(`echo "$TERM $PAGER $GIT_PAGER ${API_TOKEN-unset} $-"`, "dumb cat cat unset himBs\n")
		result := b.sends("(exit 7)", ptyshell.ReasonPrompt)
		if *result.Status != 7 || result.Dir != dir {
			t.Errorf("result %+v", result)
		}
		b.prints("echo $?", "7\n")
	})
}

// B48 and others, and with -e B46: how the shell ends is told at once, whoever still has its
// terminal.
func TestRealShellEndings(t *testing.T) {
	for _, test := range []struct {
		command string
		reason  ptyshell.Reason
		code    int
		signal  string
	}{
		{"exit 3", ptyshell.ReasonSessionExit, 3, ""},
		{"exec sleep 1", ptyshell.ReasonSessionExit, 0, ""},
		{"kill -9 $$", ptyshell.ReasonSessionExit, -1, "SIGKILL"},
		{"sleep 600 & exit 1", ptyshell.ReasonSessionExit, 1, ""},
		{"set -e; false", ptyshell.ReasonSessionExit, 1, ""},
		{"exec 1>&-", ptyshell.ReasonPrompt, 0, ""},
	} {
		t.Run(test.command, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *bench) {
				began := time.Now()
				result := b.sends(test.command, test.reason)
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("took %v", took)
				}
				switch {
				case test.reason == ptyshell.ReasonPrompt:
					if *result.Status != test.code {
						t.Errorf("status %d", *result.Status)
					}
				case result.Exit == nil || result.Exit.ExitCode != test.code || result.Exit.Signal.Name != test.signal:
					t.Errorf("exit %+v", result.Exit)
				default: // B58
					for range 2 {
						if _, err := b.session.Send(t.Context(), line("x")); !errors.Is(err, ptyshell.ErrExited) {
							t.Errorf("send: %v", err)
						}
						if _, err := b.session.Signal(t.Context(), "SIGINT"); !errors.Is(err, ptyshell.ErrExited) {
							t.Errorf("signal: %v", err)
						}
					}
				}
			})
		})
	}
}

// B49.
func TestRealShellContinuations(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		for _, text := range []string{"cat <<EOF\n  body\n  EOF", `echo "abc`, "if true", "echo 'x", "for i in 1 2\ndo", "echo \\", "f() {"} {
			began := time.Now()
			result := b.sends(text, ptyshell.ReasonContinuation)
			if took := time.Since(began); took > time.Second {
				t.Errorf("%q: took %v", text, took)
			}
			if !strings.Contains(result.Render(), "SIGINT") {
				t.Errorf("%q: no way out is told: %s", text, result.Render())
			}
			b.interrupts()
		}
		b.sends("cat <<EOF", ptyshell.ReasonContinuation)
		b.sends("a", ptyshell.ReasonContinuation)
		b.prints("EOF", "a\n")
	})
}

func TestRealShellPrograms(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.needs("python3", "ed", "less", "git")
		owned(t, b.sends("python3 -q", ptyshell.ReasonStdinRead), ptyshell.ReasonStdinRead, "python3")
		if _, err := b.session.Send(t.Context(), line("ls")); !errors.Is(err, ptyshell.ErrOccupied) || !strings.Contains(err.Error(), "python3") {
			t.Errorf("err %v", err)
		}
		if result := b.force("6*7"); !strings.Contains(result.Output, "\n42\n") {
			t.Errorf("python3: %s", result.Render())
		}
		if result := b.force("import time; time.sleep(0.5); 'la' + 'te'"); !strings.Contains(result.Output, "late") {
			t.Errorf("python3 settled early: %s", result.Render())
		}
		if result := b.force("exit()"); result.Reason != ptyshell.ReasonPrompt {
			t.Errorf("python3: %s", result.Render())
		}

		owned(t, b.sends("ed", ptyshell.ReasonStdinRead), ptyshell.ReasonStdinRead, "ed")
		b.force("q")
		long := filepath.Join(t.TempDir(), "long")
		b.prints("seq 1000 >"+long, "")
		owned(t, b.sends("less "+long, ptyshell.ReasonStdinRead), ptyshell.ReasonStdinRead, "less")
		b.quits()
		repository := t.TempDir()
		b.sends("cd "+repository+" && git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one", ptyshell.ReasonPrompt)
		owned(t, b.sends("GIT_PAGER='less -+F' git log", ptyshell.ReasonStdinRead), ptyshell.ReasonStdinRead, "git log")
		b.quits()

		if result := b.sends("read -s x", ptyshell.ReasonStdinRead); !result.EchoOff || result.Foreground != nil {
			t.Errorf("read -s: %s", result.Render())
		}
		if result := b.force("hunter2"); result.Reason != ptyshell.ReasonPrompt || result.EchoOff {
			t.Errorf("read -s: %s", result.Render())
		}
		if page, err := b.session.Read(0, 1000); err != nil || strings.Contains(page.Text, "hunter2") {
			t.Errorf("the secret is in the scrollback: %v", err)
		}
		if result := b.sends(`printf '\e[?1049h'; read x`, ptyshell.ReasonStdinRead); !result.AlternateScreen {
			t.Errorf("alternate screen: %s", result.Render())
		}
	})
}

// B53.
func TestSilenceIsNoPrompt(t *testing.T) {
	b := newBench(t, seam.KindGroup)
	b.open()
	request, output := line("sleep 4; echo late"), ""
	for {
		result := b.send(request)
		output += result.Output
		if result.Reason == ptyshell.ReasonPrompt {
			break
		}
		owned(t, result, ptyshell.ReasonInferredIdle, "sleep 4")
		request = ptyshell.Request{}
	}
	if output != "late\n" {
		t.Errorf("output %q", output)
	}
}

// A real SIGINT reaches a program that turned the terminal's keys off.
func TestRealShellRawMode(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.needs("python3")
		ctx, cancel := context.WithCancel(t.Context())
		x, err := b.session.Start(ctx, line(`python3 -c 'import signal, tty; keys = [signal.SIGINT]; signal.pthread_sigmask(signal.SIG_BLOCK, keys)
tty.setraw(0); print("raw", flush=True); print("got", signal.sigwait(keys).name)'`))
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the program is raw", func() bool {
			page, err := b.session.Read(0, 9)
			return err == nil && strings.Contains(page.Text, "\nraw")
		})
		cancel()
		result, err := x.Wait(t.Context())
		if err != nil || result.Reason != ptyshell.ReasonPrompt || !result.Canceled || !strings.Contains(result.Output, "got SIGINT") {
			t.Errorf("%s, %v", result.Render(), err)
		}
		b.sends("stty sane", ptyshell.ReasonPrompt)
		b.prints("echo usable", "usable\n")
	})
}

// B50 and B129: text arrives as it was sent.
func TestRealShellText(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		var body strings.Builder
		for i := range 60 {
			fmt.Fprintf(&body, "%d\t\tline!%d !! !$ \"q!\" 'a' \\\n  `x` $(y) ${z} \\\\ é漢👍🏽 \u00a0 ~ # %%\t\n", i, i)
		}
		for name, text := range map[string]string{
			"as it is":  body.String(),
			"long line": strings.Repeat("x!\t é", 10_000) + "\n",
		} {
			want := fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(text)))
			if result := b.sends("sha256sum <<'END'\n"+text+"END", ptyshell.ReasonPrompt); result.Output != want {
				t.Errorf("%s: got %q, want %q", name, result.Output, want)
			}
		}
		b.prints(`echo "P@ss!word" "Hello!"`, "P@ss!word Hello!\n")
		b.prints("cat <<'EOF'\nprint(1)\nEOF", "print(1)\n")
		b.prints("cat - <<'EOF' #comment\nx\nEOF", "x\n")
		b.prints("echo a\necho b\n\n\techo c", "a\nb\nc\n")
		b.prints("echo x # "+strings.Repeat("y", 300), "x\n")
	})
}

// Marks that are taken away are missed, and what is left is enough.
func TestWithoutMarks(t *testing.T) {
	for _, test := range []struct {
		name    string
		program string // that is needed
		lines   []string
	}{
		{"PS1", "bash", []string{"PS1="}},
		{"PROMPT_COMMAND", "bash", []string{"PROMPT_COMMAND="}},
		{"all", "bash", []string{"PS0= PS1= PS2= PROMPT_COMMAND="}},
		{"zsh", "zsh", []string{"exec zsh -f"}},
		{"options", "bash", []string{"set -uo pipefail"}}, // B46; with -e see TestRealShellEndings
		{"trap", "bash", []string{"trap - DEBUG", "trap : DEBUG"}},
		{"stderr", "bash", []string{"exec 2>/dev/null"}},
		{"xtrace", "bash", []string{"set -x"}},
		{"unset", "bash", []string{"unset PS0 PS1 PS2 PROMPT_COMMAND"}},
		{"sh", "sh", []string{"exec sh"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // they mostly sleep
			b := newBench(t, seam.KindGroup)
			b.needs(test.program)
			b.open()
			for _, text := range test.lines {
				if result := b.send(line(text)); result.Reason != ptyshell.ReasonPrompt && result.Reason != ptyshell.ReasonStdinRead {
					t.Errorf("%q: %s", text, result.Render())
				}
			}
			for i := range 3 {
				began := time.Now()
				result := b.send(line("sleep 0.3; echo a$((0+" + strconv.Itoa(i) + "))z"))
				if result.Reason != ptyshell.ReasonPrompt && result.Reason != ptyshell.ReasonStdinRead {
					t.Errorf("%s", result.Render())
				}
				if !strings.Contains(result.Output, fmt.Sprintf("a%dz", i)) {
					t.Errorf("settled early: %s", result.Render())
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("took %v", took)
				}
			}
		})
	}
}

// B52: with a user's startup files, if asked for.
func TestUserStartupFiles(t *testing.T) {
	rc := filepath.Join(t.TempDir(), "rc")
	err := os.WriteFile(rc, []byte("PS1='\\n[\\u] two\\nlines $ '\nPROMPT_COMMAND='echo hook; PS1=other'\necho welcome\nalias ll='echo ll'\nset -H\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, seam.KindGroup, func(c *ptyshell.Config) { c.Args = []string{"--noprofile", "--rcfile", rc, "-i"} })
	b.open()
	b.prints("ll", "ll\n")
	b.prints(`echo "Hi!"`, "Hi!\n")
}

// B41, B60: what upsets a terminal or a shell does not upset the session.
func TestRoughTreatment(t *testing.T) {
	b := newBench(t, seam.KindGroup)
	b.open()
	b.prints("mkdir w1 && cd w1 && rmdir ../w1", "")
	b.sends("echo hi", ptyshell.ReasonPrompt)
	b.prints("cd /; echo back", "back\n")

	x, err := b.session.Start(t.Context(), line("sleep 60"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "sleep runs", func() bool {
		page, err := b.session.Read(0, 1)
		return err == nil && strings.HasSuffix(page.Text, "sleep 60\n")
	})
	x.Cancel()
	if result, err := x.Wait(t.Context()); err != nil || result.Reason != ptyshell.ReasonPrompt || *result.Status != 130 {
		t.Errorf("%s, %v", result.Render(), err)
	}
	for _, text := range []string{"printf '\\e[2J\\e[H'", "printf '\\ec'", "stty -echo", "stty raw -echo; stty sane", "printf '\\e]0;unfinished'",
		"printf '\\e[?2004l'", "printf '\\xe2'", "printf '\\eP'", "head -c 20000 /dev/urandom", "set -v", "set +v"} {
		b.sends(text, ptyshell.ReasonPrompt)
		if result := b.sends("echo still", ptyshell.ReasonPrompt); !strings.HasSuffix("\n"+result.Output, "\nstill\n") || *result.Status != 0 {
			t.Errorf("after %q: %q", text, result.Output)
		}
	}
}

// B59.
func TestResize(t *testing.T) {
	b := newBench(t, seam.KindGroup)
	b.open()
	x, err := b.session.Start(t.Context(), line(`tty </dev/tty && bash -c 'trap "stty size" WINCH; echo ready; while :; do sleep .1; done'`))
	if err != nil {
		t.Fatal(err)
	}
	shows := func(text string) func() bool {
		return func() bool {
			page, err := b.session.Read(0, 9)
			return err == nil && strings.Contains(page.Text, text)
		}
	}
	until(t, "the loop runs", shows("\nready"))
	if err := b.session.Resize(50, 20); err != nil {
		t.Fatal(err)
	}
	until(t, "the program is told", shows("\n20 50\n"))
	if ended, err := b.shells.CloseSession(t.Context(), "me", b.session.ID()); !ended || err != nil {
		t.Errorf("close: %v, %v", ended, err)
	}
	if result, err := x.Wait(t.Context()); err != nil || result.Reason != ptyshell.ReasonSessionExit {
		t.Errorf("%s, %v", result.Render(), err)
	}
}

// Close ends what was ever started in the session, and proves it.
func TestRealShellClose(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.sends(`(trap '' TERM HUP; exec sleep 600) & echo $! >ignores; sleep 600 & echo $! >disowned; disown; (sleep 600 & echo $! >forked) &`, ptyshell.ReasonPrompt)
		programs := []string{"ignores", "disowned", "forked"}
		if b.kind != seam.KindGroup { // where that escapes
			b.sends("setsid bash -c 'echo $$ >daemon; exec sleep 600' </dev/null >/dev/null 2>&1 &", ptyshell.ReasonPrompt)
			programs = append(programs, "daemon")
		}
		pids := make(map[string]int)
		for _, program := range programs {
			until(t, program, func() bool {
				text, err := os.ReadFile(filepath.Join(b.config.Dir, program))
				pids[program], _ = strconv.Atoi(strings.TrimSpace(string(text)))
				return err == nil && pids[program] > 0
			})
		}
		if ended, err := b.shells.CloseSession(t.Context(), "me", b.session.ID()); !ended || err != nil {
			t.Errorf("close: %v, %v", ended, err)
		}
		for _, program := range programs {
			gone(t, program, pids[program])
		}
	})
}

// until waits for what has no event of its own.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// B55, B62: sessions leave nothing behind, and need no other program to keep them.
func TestSessionsLeaveNothing(t *testing.T) {
	b := newBench(t, seam.KindGroup)
	b.open() // what the first one opens for good
	count := func(dir string) int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	descriptors, terminals := count("/proc/self/fd"), count("/dev/pts")
	for range 50 {
		s, err := b.shells.Open(t.Context(), ptyshell.Open{Owner: "other"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.shells.CloseSession(t.Context(), "other", s.ID()); err != nil {
			t.Fatal(err)
		}
	}
	if got := count("/proc/self/fd"); got > descriptors {
		t.Errorf("%d descriptors, had %d", got, descriptors)
	}
	if got := count("/dev/pts"); got > terminals+5 { // others have some, too
		t.Errorf("%d terminals, had %d", got, terminals)
	}
}
