package seamtest

import (
	"bufio"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/seam"
)

// TestTerminal is the contract of [seam.Terminal] and of SpawnTerminal: each
// case is a subtest that names the rule it checks. A world that has terminals
// passes all of them. See [TestSubprocess] for the rest.
func TestTerminal(t *testing.T, cfg SubprocessConfig) {
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	testCases(t, cfg, terminalCases())
}

// CheckTerminal runs the cases of [TestTerminal] as [CheckSubprocess] does its.
func CheckTerminal(cfg SubprocessConfig) []Violation {
	if err := cfg.check(); err != nil {
		return []Violation{{Case: "config", Rule: "the suite is configured", Err: err}}
	}
	return checkCases(cfg, terminalCases())
}

// TerminalCases returns the names of the cases in the order in which they run.
func TerminalCases() []string { return namesOf(terminalCases()) }

func terminalCases() []subprocessCase {
	return slices.Concat(terminalSpawnCases, terminalStreamCases, terminalForegroundCases, terminalEndCases)
}

// terminalSpec is spec on a terminal.
func (e *processEnv) terminalSpec(verb string, args ...string) seam.TerminalSpec {
	return seam.TerminalSpec{Argv: e.Program(verb, args...), Dir: e.Dir, Cols: 80, Rows: 24, Grace: short}
}

// trySpawnTerminal spawns what may be refused.
func (e *processEnv) trySpawnTerminal(spec seam.TerminalSpec) (seam.Terminal, error) {
	t, err := e.sp.SpawnTerminal(e.ctx, spec)
	switch {
	case err == nil && t == nil:
		e.fatalf("SpawnTerminal %q: neither a terminal nor an error", spec.Argv)
	case err == nil:
		e.ownTerminal(t)
	case t != nil:
		e.errorf("SpawnTerminal %q: both a terminal and the error %w", spec.Argv, err)
	}
	return t, err
}

// ownTerminal has t closed after the case.
func (e *processEnv) ownTerminal(t seam.Terminal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.terminals = append(e.terminals, t)
}

// terminal spawns what must start.
func (e *processEnv) terminal(spec seam.TerminalSpec) seam.Terminal {
	t, err := e.trySpawnTerminal(spec)
	if err != nil {
		e.fatalf("SpawnTerminal %q: %w", spec.Argv, err)
	}
	return t
}

// startTerminal spawns a verb that prints a line beginning with "ready", and
// returns when it has.
func (e *processEnv) startTerminal(spec seam.TerminalSpec) seam.Terminal {
	t := e.terminal(spec)
	e.ready(e.terminalLine(t))
	return t
}

// terminalLine reads a line, a byte at a time so that the rest stays there.
func (e *processEnv) terminalLine(t seam.Terminal) string {
	line, err := bufio.NewReaderSize(byteReader{t}, 16).ReadString('\n')
	if err != nil {
		e.fatalf("read a line of the terminal: got %q, %w", line, err)
	}
	return strings.TrimRight(line, "\r\n")
}

// wantLine reads lines until one is as wanted: a terminal echoes what is typed.
func (e *processEnv) wantLine(t seam.Terminal, want string) {
	for {
		if got := e.terminalLine(t); got == want {
			return
		}
	}
}

// wantRest reads to io.EOF.
func (e *processEnv) wantRest(what string, t seam.Terminal, want string) {
	got, err := io.ReadAll(t)
	if err != nil {
		e.errorf("%s: read to the end: %w", what, err)
	}
	if text := strings.ReplaceAll(string(got), "\r\n", "\n"); text != want {
		e.errorf("%s: read %d bytes %s, want %d %s", what, len(text), brief(text), len(want), brief(want))
	}
}

func (e *processEnv) waitTerminal(t seam.Terminal) seam.Outcome {
	outcome, err := t.Wait(e.ctx)
	if err != nil {
		e.fatalf("Wait: %w", err)
	}
	return outcome
}

func (e *processEnv) closeTerminal(t seam.Terminal) {
	if err := t.Close(e.ctx); err != nil {
		e.fatalf("Close: %w", err)
	}
}

// typeIn writes, on its own so that what is echoed can be read meanwhile.
func (e *processEnv) typeIn(t seam.Terminal, text string) {
	if n, err := io.WriteString(t, text); err != nil || n != len(text) {
		e.fatalf("Write of %d bytes: %d, %w", len(text), n, err)
	}
}

func (e *processEnv) foreground(t seam.Terminal) seam.Foreground {
	f, err := t.Foreground(e.ctx)
	if err != nil {
		e.fatalf("Foreground: %w", err)
	}
	return f
}

// wantEnded checks that every call that needs the direct process says that it
// has ended.
func (e *processEnv) wantEnded(when string, t seam.Terminal) {
	_, writeErr := t.Write([]byte("x"))
	_, foregroundErr := t.Foreground(e.ctx)
	_, signalErr := t.SignalForeground(e.ctx, "SIGINT")
	for what, err := range map[string]error{
		"Write": writeErr, "Resize": t.Resize(10, 10), "Foreground": foregroundErr, "SignalForeground": signalErr,
	} {
		e.wantRefused(what+" "+when, err, seam.CodeEnded, os.ErrProcessDone)
	}
}

// inFlight runs a call that blocks. The case's end, which closes the terminal,
// unblocks it.
func (e *processEnv) inFlight(call func()) (returned <-chan struct{}) {
	done := make(chan struct{})
	go func() { // see above
		defer close(done)
		call()
	}()
	return done
}

// wantReturned checks that a call has returned, or is just about to.
func (e *processEnv) wantReturned(what string, returned <-chan struct{}) {
	select {
	case <-returned:
	case <-e.ctx.Done():
		e.fatalf("%s has not returned: %w", what, context.Cause(e.ctx))
	}
}

// wantBlocked checks that a call does not return. Only time shows that.
func (e *processEnv) wantBlocked(what string, returned <-chan struct{}) {
	timer := time.NewTimer(short)
	defer timer.Stop()
	select {
	case <-returned:
		e.errorf("%s has returned", what)
	case <-timer.C:
	}
}

// wantTaken checks that a live range has the name.
func (e *processEnv) wantTaken(name string) {
	spec := e.spec("exit", "0")
	spec.Name = name
	_, err := e.trySpawn(spec)
	e.wantRefused("Spawn with a name in use", err, seam.CodeNameInUse, nil)
}

// wantFree checks that no live range has the name: it was proven empty.
func (e *processEnv) wantFree(name string) {
	spec := e.spec("exit", "0")
	spec.Name = name
	e.wantExit(e.wait(e.spawn(spec)), 0)
}
