package foreground_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

func sleep(d time.Duration) seamtest.MemProgram {
	return func(p *seamtest.MemProc) int { p.Sleep(d); return 0 }
}

func newWorld() *seamtest.MemWorld {
	return seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{
		"/bin/true": func(*seamtest.MemProc) int { return 0 },
		"/bin/hour": sleep(time.Hour),
		"/bin/polite": func(p *seamtest.MemProc) int {
			<-p.TrapTerm()
			return 0
		},
		// leave leaves a child that lives for a minute, and prints.
		"/bin/leave": func(p *seamtest.MemProc) int {
			p.Go(seamtest.MemChild{Argv: []string{"child"}, Streams: true}, func(p *seamtest.MemProc) int {
				p.Sleep(time.Minute)
				if _, err := fmt.Fprint(p.Stdout, "late"); err != nil {
					return 1
				}
				return 0
			})
			return 3
		},
	}})
}

func command(argv0 string) foreground.Command {
	collect := seam.Output{Mode: seam.Collect, MaxBytes: 1 << 10}
	return foreground.Command{Spec: seam.Spec{
		Argv: []string{argv0}, Dir: "/", Grace: time.Second, Drain: time.Second, Stdout: collect, Stderr: collect,
	}}
}

func TestRun(t *testing.T) {
	errStop := errors.New("stop")
	timeout := func(err error) bool {
		e, ok := errors.AsType[*foreground.TimeoutError](err)
		return ok && e.After == 10*time.Second && err.Error() == "timeout after 10s" && e.Timeout()
	}
	never := func(err error) bool { return err == nil }
	for _, test := range []struct {
		name    string
		program string
		change  func(*foreground.Command)
		stopAt  time.Duration // when Run's context ends; 0: never

		took    time.Duration
		end     seam.EndKind
		code    int
		stopped func(error) bool
		members int
		output  string
	}{
		{name: "nothing special", program: "true", end: seam.EndExited, stopped: never},
		{
			name: "timeout", program: "hour", change: func(c *foreground.Command) { c.Timeout = 10 * time.Second },
			took: 10 * time.Second, end: seam.EndTerminated, code: -1, stopped: timeout,
		},
		{
			name: "timeout of a command that exits with 0", program: "polite", change: func(c *foreground.Command) { c.Timeout = 10 * time.Second },
			took: 10 * time.Second, end: seam.EndTerminated, stopped: timeout,
		},
		{
			name: "context", program: "hour", stopAt: 5 * time.Second,
			took: 5 * time.Second, end: seam.EndTerminated, code: -1,
			stopped: func(err error) bool { return errors.Is(err, errStop) },
		},
		{
			name: "survivors are ended", program: "leave",
			took: time.Second, end: seam.EndExited, code: 3, stopped: never, members: 1,
		},
		{
			name: "a timeout during the drain ended nothing", program: "leave",
			change: func(c *foreground.Command) { c.Timeout, c.Spec.Drain = 10*time.Second, 20*time.Second },
			took:   10 * time.Second, end: seam.EndExited, code: 3, stopped: never,
		},
		{
			name: "survivors are kept", program: "leave",
			change: func(c *foreground.Command) { c.Survivors = seam.KeepSurvivors },
			took:   time.Minute, end: seam.EndExited, code: 3, stopped: never, members: 1, output: "late",
		},
		{
			name: "kept survivors are ended by the timeout", program: "leave",
			change: func(c *foreground.Command) { c.Survivors, c.Timeout = seam.KeepSurvivors, 10*time.Second },
			took:   10 * time.Second, end: seam.EndExited, code: 3, stopped: timeout, members: 1,
		},
		{
			name: "kept survivors are ended by the context", program: "leave", stopAt: 5 * time.Second,
			change: func(c *foreground.Command) { c.Survivors = seam.KeepSurvivors },
			took:   5 * time.Second, end: seam.EndExited, code: 3, members: 1,
			stopped: func(err error) bool { return errors.Is(err, errStop) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world, c := newWorld(), command(test.program)
				kept := 0
				c.OnKept = func(members []seam.Member) { kept = len(members) }
				if test.change != nil {
					test.change(&c)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if test.stopAt > 0 {
					timer := time.AfterFunc(test.stopAt, func() { cancel(errStop) })
					defer timer.Stop()
				}
				started := time.Now()
				got, err := foreground.Run(ctx, world, c)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(started); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				outcome := got.Ending.Outcome
				if outcome.End != test.end || outcome.ExitCode != test.code || got.Ending.Empty != nil {
					t.Errorf("outcome %+v, empty %v; want %v, %d, empty", outcome, got.Ending.Empty, test.end, test.code)
				}
				if !test.stopped(got.Stopped) {
					t.Errorf("stopped = %v", got.Stopped)
				}
				if len(got.Ending.Survivors) != test.members {
					t.Errorf("survivors = %v, want %d", got.Ending.Survivors, test.members)
				}
				if want := test.members; c.Survivors == seam.KeepSurvivors && kept != want {
					t.Errorf("told of %d kept members, want %d", kept, want)
				}
				if text := string(got.Process.Output(seam.Stdout).ReadFrom(0).Data); text != test.output {
					t.Errorf("output = %q, want %q", text, test.output)
				}
				if err := world.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestRunThatDoesNotStart(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(&foreground.SignalError{Name: "SIGTERM"})
	for _, test := range []struct {
		name    string
		ctx     context.Context
		program string
		code    seam.Code
	}{
		{"absent", t.Context(), "absent", seam.CodeExecutableNotFound},
		{"ended context", ended, "true", seam.CodeAborted},
	} {
		t.Run(test.name, func(t *testing.T) {
			world := newWorld()
			defer func() {
				if err := world.Close(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			}()
			_, err := foreground.Run(test.ctx, world, command(test.program))
			if got := seam.CodeOf(err); got != test.code {
				t.Errorf("err = %v, want code %q", err, test.code)
			}
		})
	}
}
