package seamtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// newMemWorld makes a world of the verbs.
func newMemWorld(containment seam.Containment) *seamtest.MemWorld {
	m := seamtest.NewMemWorld(seamtest.MemConfig{
		FS:          seamtest.NewMemFS("mem"),
		Programs:    programs(),
		Environ:     seamtest.Environ(),
		Containment: containment,
	})
	for _, err := range []error{m.FS().Mkdir("/work"), m.FS().WriteFile("/etc/plain", []byte("no program\n"))} {
		if err != nil {
			panic(err)
		}
	}
	return m
}

// memSubprocess holds memory worlds to the contract. Each case has a world of
// its own, so spill files are read through the half that wrote them.
func memSubprocess(containment seam.Containment) seamtest.SubprocessConfig {
	m := newMemWorld(containment)
	return seamtest.SubprocessConfig{
		New: func() (seam.Subprocess, error) {
			return seamtest.NewMemWorld(seamtest.MemConfig{
				FS: m.FS(), Programs: programs(), Environ: seamtest.Environ(), Containment: containment,
			}), nil
		},
		Close:     func(ctx context.Context, s seam.Subprocess) error { return s.(*seamtest.MemWorld).Close(ctx) },
		Program:   memArgv,
		Dir:       "/work",
		PlainFile: "/etc/plain",
		FS:        m.FS(),
	}
}

func TestMemWorld(t *testing.T) { seamtest.TestSubprocess(t, memSubprocess(seam.Containment{})) }

// incomplete is what a world says that promises less.
var incomplete = seam.Containment{Kind: seam.KindGroup, Escapes: []string{"daemons"}, Reason: "a test"}

func TestMemWorldOnFakeClock(t *testing.T) {
	for name, containment := range map[string]seam.Containment{"complete": {}, "incomplete": incomplete} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, violation := range seamtest.CheckSubprocess(memSubprocess(containment)) {
					t.Error(violation)
				}
			})
		})
	}
}

// launch starts program on its own in a world on the fake clock, which ends
// with the test.
func launch(t *testing.T, program seamtest.MemProgram, change func(*seam.Spec)) seam.Process {
	t.Helper()
	m := seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{"/bin/program": program}})
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	spec := seam.Spec{Argv: []string{"program"}, Dir: "/", Grace: 3 * time.Second}
	if change != nil {
		change(&spec)
	}
	p, err := m.Spawn(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return p
}

func TestMemLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var heard, died time.Duration
		p := launch(t, func(p *seamtest.MemProc) int {
			<-p.TrapTerm()
			heard = time.Since(begin)
			<-p.Context().Done()
			died = time.Since(begin)
			return 0
		}, nil)
		time.Sleep(7 * time.Second)
		cause := errors.New("a cause")
		p.Terminate(cause)
		outcome, err := p.Wait(t.Context())
		if err != nil || outcome.End != seam.EndTerminated || !errors.Is(outcome.Cause, cause) || outcome.Signal.Name != "SIGKILL" {
			t.Errorf("outcome %+v, %v", outcome, err)
		}
		if heard != 7*time.Second || died != 10*time.Second || outcome.Duration != died {
			t.Errorf("TERM after %v and KILL after %v, having lived for %v; want 7s, 10s and 10s", heard, died, outcome.Duration)
		}
	})
}

func TestMemDrain(t *testing.T) {
	for _, c := range []struct {
		name                         string
		exits, member, drain, waited time.Duration
		collect                      bool
	}{
		{"nothing collected", 2 * time.Second, time.Minute, 5 * time.Second, 2 * time.Second, false},
		{"bounded", 2 * time.Second, time.Minute, 5 * time.Second, 7 * time.Second, true},
		{"ends early", 2 * time.Second, 3 * time.Second, 5 * time.Second, 3 * time.Second, true},
		{"none", 2 * time.Second, time.Minute, 0, 2 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				p := launch(t, func(p *seamtest.MemProc) int {
					p.Go(seamtest.MemChild{Streams: true}, func(p *seamtest.MemProc) int {
						p.Sleep(c.member)
						return 0
					})
					p.Sleep(c.exits)
					return 3
				}, func(spec *seam.Spec) {
					spec.Drain = c.drain
					if c.collect {
						spec.Stdout = seam.Output{Mode: seam.Collect, MaxBytes: 1}
					}
				})
				outcome, err := p.Wait(t.Context())
				if err != nil || outcome.ExitCode != 3 || outcome.Duration != c.exits {
					t.Errorf("outcome %+v, %v", outcome, err)
				}
				if waited := time.Since(begin); waited != c.waited {
					t.Errorf("Wait took %v, want %v", waited, c.waited)
				}
			})
		})
	}
}

// What KILL does not end is not proven empty until it has ended.
func TestMemUnkillable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{})
		p := launch(t, func(*seamtest.MemProc) int {
			<-wake
			return 0
		}, nil)
		begin := time.Now()
		p.Terminate(nil)
		err := p.WaitEmpty(t.Context())
		if !errors.Is(err, seam.ErrUnproven) {
			t.Errorf("WaitEmpty: %v, want %v", err, seam.ErrUnproven)
		}
		if passed := time.Since(begin); passed < 3*time.Second || passed > 20*time.Second {
			t.Errorf("WaitEmpty answered after %v; the grace is 3s", passed)
		}
		if err := p.WaitEmpty(t.Context()); !errors.Is(err, seam.ErrUnproven) {
			t.Errorf("WaitEmpty again: %v, want %v", err, seam.ErrUnproven)
		}
		close(wake)
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Errorf("WaitEmpty after the end: %v", err)
		}
		outcome, err := p.Wait(t.Context())
		if err != nil || outcome.End != seam.EndTerminated || !errors.Is(outcome.Cause, context.Canceled) {
			t.Errorf("outcome %+v, %v", outcome, err)
		}
	})
}

// A world with such a process is not closed, and says so.
func TestMemCloseUnproven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{})
		m := seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{
			"/bin/stuck": func(*seamtest.MemProc) int {
				<-wake
				return 0
			},
		}})
		spec := seam.Spec{Argv: []string{"/bin/stuck"}, Dir: "/", Grace: time.Second, Name: "stuck"}
		if _, err := m.Spawn(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		err := m.Close(t.Context())
		if !errors.Is(err, seam.ErrUnproven) || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("Close: %v, want that range stuck is unproven", err)
		}
		close(wake)
		if err := m.Close(t.Context()); err != nil {
			t.Errorf("Close after the end: %v", err)
		}
	})
}

func ExampleMemWorld() {
	m := seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{
		"/bin/upper": func(p *seamtest.MemProc) int {
			in, err := io.ReadAll(p.Stdin)
			if err != nil {
				return 1
			}
			p.Printf("%s", strings.ToUpper(string(in)))
			return 0
		},
	}})
	ctx := context.Background()
	defer func() { _ = m.Close(ctx) }() // nothing of it is left
	p, err := m.World().Subprocess().Spawn(ctx, seam.Spec{
		Argv:   []string{"upper"},
		Dir:    "/",
		Stdin:  seam.Stdin{Mode: seam.Data, Data: []byte("moo")},
		Stdout: seam.Output{Mode: seam.Collect, MaxBytes: 100},
		Grace:  time.Second,
		Drain:  time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := p.Wait(ctx)
	fmt.Printf("%s %v %v\n", p.Output(seam.Stdout).ReadFrom(0).Data, outcome.Success(), err)
	// Output: MOO true <nil>
}
