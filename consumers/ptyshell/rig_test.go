package ptyshell_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// A rig is a session whose terminal the test plays: a shell that answers nothing
// but its setup, and of which the test says what it prints and who has the
// foreground. Time is the bubble's.
type rig struct {
	*testing.T
	world    *seamtest.MemWorld
	config   ptyshell.Config
	shells   *ptyshell.Shells
	session  *ptyshell.Session
	terminal *seamtest.MemTerminal
	shell    int    // the shell's process group
	nonce    string // of its marks

	// starting is called for each terminal before its shell is started.
	starting func(*seamtest.MemTerminal)
	// mute: the shell does not answer its setup.
	mute bool
}

var nonceOf = regexp.MustCompile(`\]133;D;([0-9a-f]{16});`)

// onRig runs a test on a rig, in a bubble.
func onRig(t *testing.T, test func(*testing.T, *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.open()
		test(t, r)
	})
}

// newRig makes a rig that has no session yet.
func newRig(t *testing.T) *rig {
	r := &rig{T: t, config: ptyshell.DefaultConfig()}
	r.config.Dir = "/"
	r.world = seamtest.NewMemWorld(seamtest.MemConfig{
		Programs: map[string]seamtest.MemProgram{"/bin/bash": r.bash},
		Terminal: func(_ context.Context, mt *seamtest.MemTerminal) error {
			r.terminal = mt
			mt.Signals() // which then do nothing
			if r.starting != nil {
				r.starting(mt)
			}
			return nil
		},
	})
	t.Cleanup(func() {
		if err := r.world.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) bash(p *seamtest.MemProc) int {
	typed := bufio.NewReader(p.Stdin)
	for {
		line, err := typed.ReadString('\r')
		if err != nil {
			return 0
		}
		m := nonceOf.FindStringSubmatch(line)
		if m == nil || r.mute {
			continue
		}
		r.nonce, r.shell = m[1], p.PID
		r.print(line + r.mark("R", ";0"))
		r.prompt(0)
	}
}

func (r *rig) make() *ptyshell.Shells {
	r.Helper()
	world, err := seam.NewWorld(r.world.FS(), r.world)
	if err != nil {
		r.Fatal(err)
	}
	shells, err := ptyshell.New(world, r.config)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := shells.Close(context.Background()); err != nil && !errors.Is(err, errScripted) {
			r.Error(err)
		}
	})
	r.shells = shells
	return shells
}

func (r *rig) open() {
	r.Helper()
	if r.shells == nil {
		r.make()
	}
	session, err := r.shells.Open(r.Context(), ptyshell.Open{Owner: "me"})
	if err != nil {
		r.Fatal(err)
	}
	r.session = session
}

func (r *rig) print(text string) { r.terminal.Feed(text) }

func (r *rig) mark(kind, rest string) string { return "\x1b]133;" + kind + ";" + r.nonce + rest + "\a" }

// ran begins a command, whose echo it ends.
func (r *rig) ran() { r.print("\r\n" + r.mark("C", "")) }

// prompt ends a command and shows the prompt.
func (r *rig) prompt(status int) { r.promptAnd(status, "") }

// promptAnd prints the prompt and more, which is read together with it.
func (r *rig) promptAnd(status int, more string) {
	r.print(r.mark("D", fmt.Sprintf(";%d;/here", status)))
	r.print(r.mark("A", "") + "corral> " + r.mark("B", "") + more)
}

// busy has the shell itself run something, child another program.
func (r *rig) busy() { r.foreground(r.shell, false, "bash") }

func (r *rig) child(waits bool) { r.foreground(4711, waits, "child", "-x") }

func (r *rig) foreground(pgid int, waits bool, argv ...string) {
	r.terminal.SetForeground(&seam.Foreground{
		PGID: pgid, Argv: argv, InputKnown: true, WaitsForInput: waits, Canonical: true, Echo: true})
}

// unread has child wait for input while the terminal holds output.
func (r *rig) unread() {
	r.terminal.SetForeground(&seam.Foreground{
		PGID: 4711, Argv: []string{"child", "-x"}, InputKnown: true, WaitsForInput: true, UnreadOutput: true, Canonical: true, Echo: true})
}

// blind is a foreground of which nothing is seen but who it is.
func (r *rig) blind(pgid int) { r.terminal.SetForeground(&seam.Foreground{PGID: pgid}) }

func (r *rig) start(request ptyshell.Request) *ptyshell.Sending {
	r.Helper()
	x, err := r.session.Start(r.Context(), request)
	if err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
	return x
}

func line(text string) ptyshell.Request { return ptyshell.Request{Text: text, Submit: true} }

// run types a line and has the shell begin to run it.
func (r *rig) run(text string) *ptyshell.Sending {
	r.Helper()
	r.busy()
	x := r.start(line(text))
	r.ran()
	synctest.Wait()
	return x
}

// result is what x settles with, and how long after began.
func (r *rig) result(x *ptyshell.Sending, began time.Time) (ptyshell.Result, time.Duration) {
	r.Helper()
	<-x.Settled()
	took := time.Since(began)
	result, err := x.Wait(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return result, took
}

// settles checks what x settles with.
func (r *rig) settles(x *ptyshell.Sending, reason ptyshell.Reason) ptyshell.Result {
	r.Helper()
	result, _ := r.result(x, time.Now())
	if result.Reason != reason {
		r.Errorf("settled with %s, want %s: %+v", result.Reason, reason, result)
	}
	return result
}

// pending checks that x has not settled.
func (r *rig) pending(x *ptyshell.Sending) {
	r.Helper()
	synctest.Wait()
	if settled(x) {
		result, err := x.Wait(r.Context())
		r.Errorf("settled: %+v, %v", result, err)
	}
}

func settled(x *ptyshell.Sending) bool {
	select {
	case <-x.Settled():
		return true
	default:
		return false
	}
}

// signals checks what signals the foreground got.
func (r *rig) signals(want ...string) {
	r.Helper()
	if got := r.terminal.Signalled(); strings.Join(got, " ") != strings.Join(want, " ") {
		r.Errorf("signals %q, want %q", got, want)
	}
}

// gate holds calls of a method until opened. It counts those that came.
type gate struct {
	opened chan struct{}
	came   chan struct{}
}

// errScripted is what calls fail with that are to fail.
var errScripted = errors.New("scripted")

func (r *rig) gate(call seamtest.MemCall, result error) *gate {
	g := &gate{make(chan struct{}), make(chan struct{}, 100)}
	r.terminal.Intercept(call, func(ctx context.Context) error {
		g.came <- struct{}{}
		select {
		case <-g.opened:
			return result
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return g
}

func (g *gate) open() { close(g.opened) }

func (r *rig) fails(call seamtest.MemCall) {
	r.terminal.Intercept(call, func(context.Context) error { return errScripted })
}

func (r *rig) works(call seamtest.MemCall) { r.terminal.Intercept(call, nil) }
