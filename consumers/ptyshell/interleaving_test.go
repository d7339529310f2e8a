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

// Every interleaving of a send with its cancellation, its deadline, the shell's
// end and the session's close, by what is in flight when it comes.
func TestInterleavings(t *testing.T) {
	in := func(d time.Duration) ptyshell.Request { return ptyshell.Request{Text: "x", Submit: true, Timeout: d} }
	for _, test := range []struct {
		name string
		play func(*testing.T, *rig)
	}{
		// Cancel.
		{"canceled before it began", func(t *testing.T, r *rig) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errScripted)
			if _, err := r.session.Start(ctx, line("x")); seam.CodeOf(err) != seam.CodeAborted || !errors.Is(err, errScripted) {
				t.Errorf("err %v", err)
			}
			if r.session.Info().Sending {
				t.Error("the slot is taken")
			}
		}},
		{"canceled while the foreground is inspected", func(t *testing.T, r *rig) {
			g := r.gate(seamtest.CallForeground, nil)
			typed := r.terminal.Typed()
			x := r.start(line("x"))
			if !x.Cancel() {
				t.Error("not canceled")
			}
			r.pending(x)
			g.open()
			if got := r.settles(x, ptyshell.ReasonPrompt); !got.Canceled {
				t.Errorf("result %+v", got)
			}
			if r.terminal.Typed() != typed {
				t.Error("typed all the same")
			}
			r.signals()
		}},
		{"canceled while it is typed", func(t *testing.T, r *rig) {
			g := r.gate(seamtest.CallWrite, nil)
			x := r.start(line("x"))
			x.Cancel()
			time.Sleep(time.Second)
			r.pending(x)
			r.signals()
			g.open()
			synctest.Wait()
			r.signals("SIGINT")
			r.foreground(r.shell, true, "bash")
			r.prompt(130)
			r.settles(x, ptyshell.ReasonPrompt)
		}},
		{"canceled while it is typed, and the typing fails", func(t *testing.T, r *rig) {
			g := r.gate(seamtest.CallWrite, errScripted)
			x := r.start(line("x"))
			x.Cancel()
			g.open()
			<-x.Settled()
			if _, err := x.Wait(t.Context()); !errors.Is(err, errScripted) {
				t.Errorf("err %v", err)
			}
			r.signals()
		}},
		{"canceled while it waits", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			r.child(false)
			x.Cancel()
			synctest.Wait()
			r.signals("SIGINT")
			r.pending(x)
			r.foreground(r.shell, true, "bash")
			r.print("^C\r\n")
			r.prompt(130)
			got := r.settles(x, ptyshell.ReasonPrompt)
			if !got.Canceled || got.Status == nil || *got.Status != 130 || got.Output != "^C\n" {
				t.Errorf("result %+v", got)
			}
		}},
		{"canceled while it waits, twice", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			r.child(false)
			x.Cancel()
			synctest.Wait()
			x.Cancel()
			synctest.Wait()
			r.signals("SIGINT")
		}},
		{"canceled by its context", func(t *testing.T, r *rig) {
			ctx, cancel := context.WithCancelCause(t.Context())
			r.busy()
			done := make(chan error, 1)
			var result ptyshell.Result
			go func() {
				var err error
				result, err = r.session.Send(ctx, line("x"))
				done <- err
			}()
			synctest.Wait()
			cancel(errScripted)
			synctest.Wait()
			r.signals("SIGINT")
			r.foreground(r.shell, true, "bash")
			r.prompt(130)
			if err := <-done; !errors.Is(err, errScripted) || result.Reason != ptyshell.ReasonPrompt || !result.Canceled {
				t.Errorf("result %+v, err %v", result, err)
			}
		}},
		{"canceled while a look is stuck", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			g := r.gate(seamtest.CallForeground, nil)
			<-g.came
			x.Cancel()
			time.Sleep(time.Second)
			r.signals()
			r.works(seamtest.CallForeground)
			g.open()
			synctest.Wait()
			r.signals("SIGINT")
		}},
		{"a stale look does not settle a canceled send", func(t *testing.T, r *rig) {
			x := r.run("cat")
			g := r.gate(seamtest.CallForeground, nil)
			<-g.came
			r.child(true) // what the look will say
			x.Cancel()
			g.open()
			synctest.Wait()
			r.signals("SIGINT")
		}},
		{"canceled after it settled", func(t *testing.T, r *rig) {
			x := r.run("true")
			r.prompt(0)
			r.settles(x, ptyshell.ReasonPrompt)
			if x.Cancel() {
				t.Error("canceled")
			}
			r.signals()
		}},
		{"canceled, and the program takes no notice", func(t *testing.T, r *rig) {
			r.busy()
			x := r.start(in(10 * time.Second))
			r.ran()
			r.child(false)
			r.print("x")
			time.Sleep(time.Second)
			x.Cancel()
			began := time.Now()
			if got, took := r.result(x, began); got.Reason != ptyshell.ReasonInferredIdle || took < 2900*time.Millisecond {
				t.Errorf("%+v after %v", got, took)
			}
		}},
		{"canceled, and the interrupt fails", func(t *testing.T, r *rig) {
			r.fails(seamtest.CallSignalForeground)
			x := r.run("sleep 9")
			x.Cancel()
			<-x.Settled()
			if _, err := x.Wait(t.Context()); !errors.Is(err, errScripted) {
				t.Errorf("err %v", err)
			}
			if _, err := r.session.Start(t.Context(), line("x")); !errors.Is(err, errScripted) {
				t.Errorf("next: %v", err)
			}
			// The terminal's end was begun, and closing tells why.
			if _, err := r.shells.CloseSession(t.Context(), "me", r.session.ID()); !errors.Is(err, errScripted) {
				t.Errorf("close: %v", err)
			}
			if r.shells.Active("me") {
				t.Error("still there")
			}
		}},
		{"an interrupt before the execve of what was forked", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			r.foreground(4711, false, append([]string{"/bin/bash"}, r.config.Args...)...) // as the shell is called
			x.Cancel()
			time.Sleep(100 * time.Millisecond)
			r.foreground(4711, false, "sleep", "9")
			time.Sleep(time.Second)
			r.signals("SIGINT", "SIGINT")
			r.foreground(r.shell, true, "bash")
			r.prompt(130)
			r.settles(x, ptyshell.ReasonPrompt)
		}},
		{"an interrupt that a program handles is sent once", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			r.foreground(4711, false, "sleep", "9")
			x.Cancel()
			time.Sleep(2 * time.Second)
			r.signals("SIGINT")
			r.foreground(r.shell, true, "bash")
			r.prompt(130)
			r.settles(x, ptyshell.ReasonPrompt)
		}},
		{"an interrupted prompt does not end the next send", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			g := r.gate(seamtest.CallSignalForeground, nil)
			x.Cancel()
			<-g.came
			r.foreground(r.shell, true, "bash")
			r.prompt(0) // it ended by itself
			g.open()
			r.settles(x, ptyshell.ReasonPrompt)
			r.busy()
			x = r.start(line("sleep 9"))
			r.print("^C\r\n")
			r.prompt(130) // of the interrupt
			time.Sleep(2 * time.Second)
			r.pending(x)
			r.ran()
			r.prompt(0)
			r.settles(x, ptyshell.ReasonPrompt)
		}},

		// The deadline.
		{"timed out while the foreground is inspected", func(t *testing.T, r *rig) {
			g := r.gate(seamtest.CallForeground, nil)
			typed := r.terminal.Typed()
			x := r.start(in(time.Second))
			r.settles(x, ptyshell.ReasonTimeout)
			if _, err := r.session.Start(t.Context(), line("y")); !errors.Is(err, ptyshell.ErrSendActive) {
				t.Errorf("next: %v", err)
			}
			g.open()
			<-x.Released()
			if r.terminal.Typed() != typed {
				t.Error("typed all the same")
			}
		}},
		{"timed out while it is typed", func(t *testing.T, r *rig) {
			g := r.gate(seamtest.CallWrite, nil)
			x := r.start(in(time.Second))
			r.settles(x, ptyshell.ReasonTimeout)
			_, err := r.session.Start(t.Context(), line("y"))
			if !errors.Is(err, ptyshell.ErrSendActive) || !strings.Contains(err.Error(), "types") {
				t.Errorf("next: %v", err)
			}
			if x.Cancel() {
				t.Error("canceled after it settled")
			}
			g.open()
			<-x.Released()
			r.signals()
			r.works(seamtest.CallWrite)
			r.run("y").Cancel()
		}},
		{"timed out while it is interrupted", func(t *testing.T, r *rig) {
			g := r.gate(seamtest.CallSignalForeground, nil)
			r.busy()
			x := r.start(in(time.Second))
			x.Cancel()
			if got := r.settles(x, ptyshell.ReasonTimeout); !got.Canceled {
				t.Errorf("result %+v", got)
			}
			_, err := r.session.Start(t.Context(), line("y"))
			if !errors.Is(err, ptyshell.ErrSendActive) || !strings.Contains(err.Error(), "interrupts") {
				t.Errorf("next: %v", err)
			}
			g.open()
			<-x.Released()
		}},
		{"timed out while a look is stuck", func(t *testing.T, r *rig) {
			r.busy()
			x := r.start(in(time.Second))
			g := r.gate(seamtest.CallForeground, nil)
			r.settles(x, ptyshell.ReasonTimeout)
			g.open()
			<-x.Released()
		}},
		{"timed out, and the next waits for the same", func(t *testing.T, r *rig) {
			r.busy()
			x := r.start(in(time.Second))
			r.ran()
			r.child(false)
			r.settles(x, ptyshell.ReasonTimeout)
			<-x.Released()
			x = r.start(ptyshell.Request{})
			r.print("late\r\n")
			r.busy()
			r.prompt(0)
			if got := r.settles(x, ptyshell.ReasonPrompt); got.Output != "late\n" || *got.Status != 0 {
				t.Errorf("result %+v", got)
			}
		}},

		// Another send.
		{"a second send", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			if _, err := r.session.Start(t.Context(), line("y")); !errors.Is(err, ptyshell.ErrSendActive) {
				t.Errorf("err %v", err)
			}
			r.prompt(0)
			r.settles(x, ptyshell.ReasonPrompt)
			r.run("y").Cancel()
		}},
		{"an inspection that fails fails its send alone", func(t *testing.T, r *rig) {
			r.fails(seamtest.CallForeground)
			typed := r.terminal.Typed()
			x := r.start(line("x"))
			<-x.Settled()
			if _, err := x.Wait(t.Context()); !errors.Is(err, errScripted) {
				t.Errorf("err %v", err)
			}
			if r.terminal.Typed() != typed {
				t.Error("typed all the same")
			}
			r.works(seamtest.CallForeground)
			x = r.run("y")
			r.prompt(0)
			r.settles(x, ptyshell.ReasonPrompt)
		}},

		// The shell's end.
		{"the shell ends while the foreground is inspected", func(t *testing.T, r *rig) {
			r.gate(seamtest.CallForeground, nil)
			x := r.start(line("x"))
			r.terminal.Exit(3)
			if got := r.settles(x, ptyshell.ReasonSessionExit); got.Exit == nil || got.Exit.ExitCode != 3 {
				t.Errorf("result %+v", got)
			}
		}},
		{"the shell ends while it is typed", func(t *testing.T, r *rig) {
			r.gate(seamtest.CallWrite, nil)
			x := r.start(line("x"))
			r.terminal.Exit(3)
			r.settles(x, ptyshell.ReasonSessionExit)
		}},
		{"the shell ends while it waits", func(t *testing.T, r *rig) {
			x := r.run("exit")
			r.print("exit\r\n")
			r.terminal.Exit(3)
			if got := r.settles(x, ptyshell.ReasonSessionExit); got.Output != "exit\n" {
				t.Errorf("result %+v", got)
			}
		}},
		{"the shell ends while it is interrupted", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			r.gate(seamtest.CallSignalForeground, nil)
			x.Cancel()
			synctest.Wait()
			r.terminal.Exit(3)
			r.settles(x, ptyshell.ReasonSessionExit)
		}},
		{"the shell has ended", func(t *testing.T, r *rig) {
			r.terminal.Exit(3)
			synctest.Wait()
			_, err := r.session.Start(t.Context(), line("x"))
			exited, ok := errors.AsType[*ptyshell.ExitedError](err)
			if !ok || !errors.Is(err, ptyshell.ErrExited) || exited.Outcome.ExitCode != 3 {
				t.Errorf("err %v", err)
			}
			if _, err := r.session.Signal(t.Context(), "SIGINT"); !errors.Is(err, ptyshell.ErrExited) {
				t.Errorf("signal: %v", err)
			}
			for range 2 {
				if _, err := r.shells.CloseSession(t.Context(), "me", r.session.ID()); err != nil && !errors.Is(err, ptyshell.ErrNotFound) {
					t.Errorf("close: %v", err)
				}
			}
		}},

		// The close.
		{"closed while the foreground is inspected", func(t *testing.T, r *rig) {
			r.gate(seamtest.CallForeground, nil)
			r.closes(r.start(line("x")))
		}},
		{"closed while it is typed", func(t *testing.T, r *rig) {
			r.gate(seamtest.CallWrite, nil)
			r.closes(r.start(line("x")))
		}},
		{"closed while it waits", func(t *testing.T, r *rig) { r.closes(r.run("sleep 9")) }},
		{"closed while it is interrupted", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			r.gate(seamtest.CallSignalForeground, nil)
			x.Cancel()
			synctest.Wait()
			r.closes(x)
		}},
		{"nothing else settles a send during the close", func(t *testing.T, r *rig) {
			r.busy()
			x := r.start(in(time.Second))
			g := r.gate(seamtest.CallClose, nil)
			closed := make(chan error, 1)
			go func() {
				_, err := r.shells.CloseSession(t.Context(), "me", r.session.ID())
				closed <- err
			}()
			<-g.came
			r.ran()
			r.prompt(0)
			time.Sleep(10 * time.Second)
			r.pending(x)
			if _, err := r.session.Signal(t.Context(), "SIGINT"); !errors.Is(err, ptyshell.ErrClosing) {
				t.Errorf("signal: %v", err)
			}
			if _, err := r.session.Start(t.Context(), line("y")); !errors.Is(err, ptyshell.ErrClosing) {
				t.Errorf("send: %v", err)
			}
			g.open()
			r.settles(x, ptyshell.ReasonSessionExit)
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}},
		{"a close that fails rejects the send, and may be tried again", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			r.fails(seamtest.CallClose)
			if ended, err := r.shells.CloseSession(t.Context(), "me", r.session.ID()); ended || !errors.Is(err, errScripted) {
				t.Errorf("close: %v, %v", ended, err)
			}
			<-x.Settled()
			if _, err := x.Wait(t.Context()); !errors.Is(err, errScripted) {
				t.Errorf("send: %v", err)
			}
			r.works(seamtest.CallClose)
			if ended, err := r.shells.CloseSession(t.Context(), "me", r.session.ID()); !ended || err != nil {
				t.Errorf("close again: %v, %v", ended, err)
			}
		}},
		{"two closes", func(t *testing.T, r *rig) {
			g := r.gate(seamtest.CallClose, nil)
			ended := make(chan bool, 2)
			for range 2 {
				go func() {
					mine, err := r.shells.CloseSession(t.Context(), "me", r.session.ID())
					if err != nil {
						t.Error(err)
					}
					ended <- mine
				}()
				synctest.Wait()
			}
			g.open()
			if first, second := <-ended, <-ended; first == second {
				t.Error("both or none ended it")
			}
		}},
		{"a close that nobody waits for any longer", func(t *testing.T, r *rig) {
			r.gate(seamtest.CallClose, nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := time.AfterFunc(time.Second, func() { cancel(errScripted) })
			defer stop.Stop()
			if _, err := r.shells.CloseSession(ctx, "me", r.session.ID()); !errors.Is(err, errScripted) {
				t.Errorf("err %v", err)
			}
			r.works(seamtest.CallClose)
		}},

		// The transport.
		{"the output fails", func(t *testing.T, r *rig) {
			x := r.run("sleep 9")
			r.fails(seamtest.CallRead)
			r.print("x") // the read that waits returns
			<-x.Settled()
			if got, err := x.Wait(t.Context()); !errors.Is(err, errScripted) {
				t.Errorf("send: %+v, %v", got, err)
			}
			if info := r.session.Info(); !errors.Is(info.Err, errScripted) {
				t.Errorf("info %+v", info)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) { onRig(t, test.play) })
	}
}

// closes closes the session, which settles x.
func (r *rig) closes(x *ptyshell.Sending) {
	r.Helper()
	ended, err := r.shells.CloseSession(r.Context(), "me", r.session.ID())
	if !ended || err != nil {
		r.Errorf("close: %v, %v", ended, err)
	}
	if got := r.settles(x, ptyshell.ReasonSessionExit); got.Exit == nil {
		r.Errorf("result %+v", got)
	}
	if _, err := r.session.Start(r.Context(), line("y")); !errors.Is(err, ptyshell.ErrExited) {
		r.Errorf("send after the close: %v", err)
	}
}
