package seamtest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// onTerminal starts program on a terminal in a world on the fake clock, which
// ends with the test.
func onTerminal(t *testing.T, program seamtest.MemProgram) (seam.Terminal, *seamtest.MemTerminal) {
	t.Helper()
	var other *seamtest.MemTerminal
	m := seamtest.NewMemWorld(seamtest.MemConfig{
		Programs: map[string]seamtest.MemProgram{"/bin/program": program},
		Terminal: func(_ context.Context, mt *seamtest.MemTerminal) error {
			other = mt
			return nil
		},
	})
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	terminal, err := m.SpawnTerminal(t.Context(), seam.TerminalSpec{
		Argv: []string{"program"}, Dir: "/", Cols: 80, Rows: 24, Grace: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return terminal, other
}

// A test plays what the program does not.
func TestMemTerminalScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terminal, other := onTerminal(t, sleep)
		other.Feed("$ ")
		if _, err := terminal.Write([]byte("ls\n")); err != nil {
			t.Fatal(err)
		}
		if got := other.Typed(); got != "ls\n" {
			t.Errorf("typed %q", got)
		}
		want := seam.Foreground{PGID: 4711, Argv: []string{"ls"}, InputKnown: true, Echo: true}
		other.SetForeground(&want)
		got, err := terminal.Foreground(t.Context())
		if err != nil || got.PGID != want.PGID || !slices.Equal(got.Argv, want.Argv) || !got.Echo {
			t.Errorf("foreground %+v, %v", got, err)
		}
		if pgid, err := terminal.SignalForeground(t.Context(), "SIGKILL"); pgid != 4711 || err != nil {
			t.Errorf("signal went to %d, %v", pgid, err)
		}
		if got := other.Signalled(); !slices.Equal(got, []string{"SIGKILL"}) {
			t.Errorf("signals %q", got)
		}
		other.Exit(7)
		outcome, err := terminal.Wait(t.Context())
		if err != nil || outcome.ExitCode != 7 || outcome.End != seam.EndExited {
			t.Errorf("outcome %+v, %v", outcome, err)
		}
		if out, err := io.ReadAll(terminal); string(out) != "$ " || err != nil {
			t.Errorf("output %q, %v", out, err)
		}
	})
}

// A program that reads is seen to.
func TestMemTerminalForeground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terminal, _ := onTerminal(t, func(p *seamtest.MemProc) int {
			if _, err := bufio.NewReader(p.Stdin).ReadString('\n'); err != nil {
				return 1
			}
			return sleep(p)
		})
		for _, waits := range []bool{true, false} {
			f, err := terminal.Foreground(t.Context())
			if err != nil || f.PGID != terminal.PID() || !f.InputKnown || f.WaitsForInput != waits {
				t.Errorf("foreground %+v, %v; want that it waits: %v", f, err, waits)
			}
			if _, err := terminal.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
	})
}

// Every call can be made to fail, and to block until it is called off or the
// command ends.
func TestMemTerminalIntercepts(t *testing.T) {
	calls := map[seamtest.MemCall]func(context.Context, seam.Terminal) error{
		seamtest.CallRead:       func(_ context.Context, c seam.Terminal) error { _, err := c.Read(make([]byte, 1)); return err },
		seamtest.CallWrite:      func(_ context.Context, c seam.Terminal) error { _, err := c.Write([]byte("x")); return err },
		seamtest.CallResize:     func(_ context.Context, c seam.Terminal) error { return c.Resize(1, 1) },
		seamtest.CallForeground: func(ctx context.Context, c seam.Terminal) error { _, err := c.Foreground(ctx); return err },
		seamtest.CallSignalForeground: func(ctx context.Context, c seam.Terminal) error {
			_, err := c.SignalForeground(ctx, "SIGINT")
			return err
		},
		seamtest.CallWait:  func(ctx context.Context, c seam.Terminal) error { _, err := c.Wait(ctx); return err },
		seamtest.CallClose: func(ctx context.Context, c seam.Terminal) error { return c.Close(ctx) },
	}
	for name, call := range calls {
		t.Run(string(name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				terminal, other := onTerminal(t, sleep)
				other.Intercept(name, func(context.Context) error { return errBare })
				if err := call(t.Context(), terminal); !errors.Is(err, errBare) {
					t.Errorf("got %v, want %v", err, errBare)
				}
				entered := make(chan struct{})
				other.Intercept(name, func(ctx context.Context) error {
					close(entered)
					<-ctx.Done()
					return context.Cause(ctx)
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan error)
				go func() { ended <- call(ctx, terminal) }() // received below
				<-entered
				want := os.ErrProcessDone
				switch name {
				case seamtest.CallWait, seamtest.CallClose:
					want = errBare
					cancel(errBare)
				case seamtest.CallRead:
					want = io.EOF
					other.Exit(0)
				default:
					other.Exit(0)
				}
				if err := <-ended; !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				cancel(nil)
			})
		})
	}
}

// A spawn can be made to fail and to wait, and has left nothing then.
func TestMemTerminalSpawnFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := seamtest.NewMemWorld(seamtest.MemConfig{
			Programs: map[string]seamtest.MemProgram{"/bin/program": sleep},
			Terminal: func(ctx context.Context, mt *seamtest.MemTerminal) error {
				if mt.Spec().Rows == 1 {
					return errBare
				}
				<-ctx.Done()
				return nil
			},
		})
		spec := seam.TerminalSpec{Argv: []string{"program"}, Dir: "/", Cols: 80, Rows: 1, Grace: time.Second, Name: "one"}
		if _, err := m.SpawnTerminal(t.Context(), spec); !errors.Is(err, errBare) {
			t.Errorf("got %v, want %v", err, errBare)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Hour, func() { cancel(errBare) })
		spec.Rows = 2
		if _, err := m.SpawnTerminal(ctx, spec); seam.CodeOf(err) != seam.CodeAborted || !errors.Is(err, errBare) {
			t.Errorf("got %v, want that it was aborted", err)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestMemWorldTerminal(t *testing.T) { seamtest.TestTerminal(t, memSubprocess(seam.Containment{})) }

func TestMemWorldTerminalOnFakeClock(t *testing.T) {
	for name, containment := range map[string]seam.Containment{"complete": {}, "incomplete": incomplete} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, violation := range seamtest.CheckTerminal(memSubprocess(containment)) {
					t.Error(violation)
				}
			})
		})
	}
}

// A terminal that can't be proven ended is not closed, and can be closed later.
func TestMemTerminalCloseUnproven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{})
		terminal, _ := onTerminal(t, func(*seamtest.MemProc) int {
			<-wake
			return 0
		})
		for range 2 {
			if err := terminal.Close(t.Context()); !errors.Is(err, seam.ErrUnproven) {
				t.Errorf("Close: %v, want %v", err, seam.ErrUnproven)
			}
		}
		close(wake)
		if err := terminal.Close(t.Context()); err != nil {
			t.Errorf("Close after the end: %v", err)
		}
	})
}
