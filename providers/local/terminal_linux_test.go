package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// kindsWithTerminals are all.
var kindsWithTerminals = []seam.Kind{seam.KindScope, seam.KindCgroup, seam.KindReaper, seam.KindGroup}

// onTerminals runs a test with each kind of containment that the host gives.
func onTerminals(t *testing.T, test func(t *testing.T, r *local.Runtime, kind seam.Kind)) {
	for _, kind := range kindsHere(t, kindsWithTerminals...) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			test(t, openRuntime(t, local.Config{Containment: kind}), kind)
		})
	}
}

// screen is a terminal whose output is read all the time. Its reader ends with
// the output and is joined by the test's end, which has closed the terminal.
type screen struct {
	seam.Terminal
	t testing.TB

	mu      sync.Mutex
	output  []byte
	seen    int           // how much of it was waited for
	changed chan struct{} // closed, and replaced, by each change
	ended   chan struct{} // closed at the end of output
}

func terminalSpec(argv ...string) seam.TerminalSpec {
	return seam.TerminalSpec{Argv: argv, Dir: "/", Cols: 80, Rows: 24, Grace: 3 * time.Second,
		Env: seam.Env{seam.Set("TERM", "xterm"), seam.Set("PS1", "$ "), seam.Set("HISTFILE", "/dev/null"), seam.Set("LC_ALL", "C")}}
}

// shellArgv is bash as a person has it, without their files.
var shellArgv = []string{"bash", "--norc", "--noprofile", "--noediting", "-i"}

func openScreen(t testing.TB, r *local.Runtime, argv ...string) *screen {
	t.Helper()
	return openScreenOf(t, r, terminalSpec(argv...))
}

func openScreenOf(t testing.TB, r *local.Runtime, spec seam.TerminalSpec) *screen {
	t.Helper()
	terminal, err := r.SpawnTerminal(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{Terminal: terminal, t: t, changed: make(chan struct{}), ended: make(chan struct{})}
	go s.read()
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		<-s.ended
	})
	return s
}

func (s *screen) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := s.Terminal.Read(buf)
		s.mu.Lock()
		s.output = append(s.output, buf[:n]...)
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.t.Errorf("read: %v", err)
			}
			close(s.ended)
			return
		}
	}
}

const patience = 20 * time.Second

// waitFor waits for output that matches, after what was waited for before, and
// returns the submatches.
func (s *screen) waitFor(pattern string) []string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		rest := s.output[s.seen:]
		if loc := re.FindSubmatchIndex(rest); loc != nil {
			s.seen += loc[1]
			var found []string
			for i := 0; i < len(loc); i += 2 {
				found = append(found, string(rest[loc[i]:loc[i+1]]))
			}
			s.mu.Unlock()
			return found
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-limit.C:
			s.t.Fatalf("no %q in %q", pattern, rest)
		}
	}
}

func (s *screen) typeIn(text string) {
	s.t.Helper()
	if _, err := s.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// until looks at the foreground until it is as it should be.
func (s *screen) until(what string, as func(seam.Foreground) bool) seam.Foreground {
	s.t.Helper()
	for limit := time.Now().Add(patience); ; {
		f, err := s.Foreground(s.t.Context())
		if err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
		if as(f) {
			return f
		}
		if time.Now().After(limit) {
			s.t.Fatalf("%s: %+v", what, f)
		}
	}
}

func (s *screen) waitExit() seam.Outcome {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	outcome, err := s.Wait(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return outcome
}

// closeNow closes, and tells how long that took.
func (s *screen) closeNow() time.Duration {
	s.t.Helper()
	began := time.Now()
	if err := s.Close(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	return time.Since(began)
}

// The terminal controls the session, whose leader the command is; it is open as
// the standard streams and by its name, has its size, and nothing else is open.
func TestTerminalIsControlling(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		s := openScreen(t, r, "sh", "-c", `tty; echo by name >/dev/tty; stty size; read -r _ _ _ _ group session tty fore _ </proc/$$/stat; echo ids $$ $group $session $fore; cd /proc/self/fd; echo fds *`)
		s.waitFor(`/dev/pts/\d+\r\nby name\r\n24 80\r\n`)
		ids := s.waitFor(`ids (\d+) (\d+) (\d+) (\d+)\r\n`)
		for _, id := range ids[1:] {
			if id != fmt.Sprint(s.PID()) {
				t.Errorf("process, group, session and foreground are %v, want all %d", ids[1:], s.PID())
			}
		}
		s.waitFor(`fds 0 1 2( 3)?\r\n`)
		if outcome := s.waitExit(); !outcome.Success() {
			t.Errorf("outcome %+v", outcome)
		}
	})
}

// Job control works as on any terminal.
func TestTerminalJobControl(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		s := openScreen(t, r, shellArgv...)
		s.waitFor(`\$ $`)
		s.typeIn("sleep 1000\n")
		f := s.until("sleep in the foreground", func(f seam.Foreground) bool { return slices.Equal(f.Argv, []string{"sleep", "1000"}) })
		if f.PGID == s.PID() || f.WaitsForInput {
			t.Errorf("foreground %+v, want a group of its own that does not wait for input", f)
		}
		pgid, err := s.SignalForeground(t.Context(), "SIGTSTP")
		if err != nil || pgid != f.PGID {
			t.Errorf("SIGTSTP went to %d, %v; want %d", pgid, err, f.PGID)
		}
		s.waitFor(`Stopped +sleep 1000\r\n\$ $`)
		s.typeIn("fg\n")
		s.until("sleep in the foreground again", func(now seam.Foreground) bool { return now.PGID == f.PGID })
		if _, err := s.SignalForeground(t.Context(), "SIGINT"); err != nil {
			t.Error(err)
		}
		s.waitFor(`\$ $`)
		s.typeIn("echo status $?\n")
		s.waitFor(`status 130\r\n`)
		s.typeIn("exit 3\n")
		if outcome := s.waitExit(); outcome.ExitCode != 3 || outcome.End != seam.EndExited {
			t.Errorf("outcome %+v", outcome)
		}
	})
}

// Resizes are told to the foreground.
func TestTerminalResize(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		s := openScreen(t, r, "bash", "-c", `trap "stty size" WINCH; echo ready; while :; do sleep .1; done`)
		s.waitFor("ready\r\n")
		if err := s.Resize(132, 50); err != nil {
			t.Fatal(err)
		}
		s.waitFor("^50 132\r\n")
	})
}

// B56: what a command prints just before its end is not lost.
func TestTerminalLosesNothing(t *testing.T) {
	const length, rounds = 20_000, 200
	script := fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a; exit 7", length)
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		for range rounds {
			terminal, err := r.SpawnTerminal(t.Context(), terminalSpec("sh", "-c", script))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(terminal)
			if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{'a'}, length)) {
				t.Fatalf("read %d bytes, %v", len(got), err)
			}
			if outcome, err := terminal.Wait(t.Context()); err != nil || outcome.ExitCode != 7 {
				t.Fatalf("outcome %+v, %v", outcome, err)
			}
		}
	})
}

// A script without an interpreter line gets the terminal that was tried without.
func TestTerminalOfScript(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("tty; echo by name >/dev/tty\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		s := openScreen(t, r, script)
		s.waitFor(`/dev/pts/\d+\r\nby name\r\n`)
	})
}

// That nobody has the terminal open is not the end of its output, as long as
// the command may open it again.
func TestTerminalReopened(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		s := openScreen(t, r, "sh", "-c", `echo before; exec <&- >&- 2>&-; sleep .2; echo back >/dev/tty; sleep .2; echo again >/dev/tty`)
		s.waitFor("before\r\nback\r\nagain\r\n")
		if outcome := s.waitExit(); !outcome.Success() {
			t.Errorf("outcome %+v", outcome)
		}
	})
}

// A member that holds the terminal does not hold up the end of the command.
func TestTerminalHeldByJob(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, _ seam.Kind) {
		s := openScreen(t, r, shellArgv...)
		s.waitFor(`\$ $`)
		s.typeIn("sleep 600 & exit 1\n")
		if outcome := s.waitExit(); outcome.ExitCode != 1 || outcome.End != seam.EndExited {
			t.Errorf("outcome %+v", outcome)
		}
		select {
		case <-s.ended:
		case <-time.After(patience):
			t.Error("its output has not ended")
		}
	})
}

// Neither terminals nor failed starts of them leave descriptors, terminals or
// goroutines behind.
func TestTerminalsLeaveNothing(t *testing.T) {
	onTerminals(t, func(t *testing.T, r *local.Runtime, kind seam.Kind) {
		rounds := 100
		if kind == seam.KindGroup {
			rounds = 600 // it takes the least time, and shares all that can be left
		}
		open := func(argv ...string) {
			terminal, err := r.SpawnTerminal(t.Context(), terminalSpec(argv...))
			if err != nil {
				return
			}
			if err := terminal.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		open("sleep", "600") // what the first costs stays
		descriptors, terminals := entries(t, "/proc/self/fd"), entries(t, "/dev/pts")
		goroutines := runtime.NumGoroutine()
		for range rounds {
			open("sleep", "600")
		}
		for i := range rounds {
			open([]string{"/nowhere/to/be/found", "/etc/passwd", "/dev"}[i%3])
		}
		// The last ranges are released when they are empty already, and others on
		// this host may open and close terminals meanwhile.
		for deadline := time.Now().Add(patience); ; {
			d, p, g := entries(t, "/proc/self/fd"), entries(t, "/dev/pts"), runtime.NumGoroutine()
			if d <= descriptors && p <= terminals+rounds/10 && g <= goroutines {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d descriptors, %d terminals and %d goroutines, before %d, %d and %d", d, p, g, descriptors, terminals, goroutines)
			}
		}
	})
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
