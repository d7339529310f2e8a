package bash_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// TestOnKept: with OnKept the job of the survivors is waited for, within what
// bounds the script.
func TestOnKept(t *testing.T) {
	stop := errors.New("the user said so")
	for _, test := range []struct {
		name, script string
		timeout      time.Duration
		cancel       bool // when the survivors are kept
		status       jobs.Status
		timedOut     bool
		text         []string
	}{
		{"by themselves", "(sleep 0.3; echo late) & echo up", time.Minute, false, jobs.Completed, false,
			[]string{"up\nlate\n", "[background processes kept until their end, completed: "}},
		{"timeout", "sleep 600 & echo up", time.Second, false, jobs.Killed, true,
			[]string{"up\n", "until their end, killed: ", "[timed out after 1000ms]"}},
		{"context", "sleep 600 & exit 3", time.Minute, true, jobs.Killed, false,
			[]string{"until their end, killed: ", "[aborted: job killed: the user said so]\n[exit code: 3]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.config.Survivors = seam.KeepSurvivors
			b.config.Drain = 0
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			told := 0
			result, err := b.bash(t).Run(ctx, bash.Request{
				Script:  test.script,
				Timeout: test.timeout,
				OnKept: func(members []seam.Member) {
					told += len(members)
					if test.cancel {
						cancel(stop)
					}
				},
			})
			if err != nil || result.Empty != nil || result.Job == nil {
				t.Fatalf("%v, empty %v, job %v", err, result.Empty, result.Job)
			}
			if told == 0 || told != len(result.Survivors) {
				t.Errorf("told of %d, want the survivors %v", told, result.Survivors)
			}
			if result.Job.Status != test.status || result.Job.Ended.IsZero() {
				t.Errorf("job %+v, want %s", result.Job, test.status)
			}
			if result.TimedOut != test.timedOut || result.Aborted != test.cancel {
				t.Errorf("timed out %t, aborted %t", result.TimedOut, result.Aborted)
			}
			// What it printed is not the registry's, which forgets.
			if _, err := b.registry.Get("", result.Job.ID); !errors.Is(err, jobs.ErrNotFound) {
				t.Errorf("the registry still has the job: %v", err)
			}
			if got := string(result.Process.Output(seam.Stdout).ReadFrom(0).Data); got != result.Stdout.Text {
				t.Errorf("output is %q, want %q", got, result.Stdout.Text)
			}
			for _, want := range test.text {
				if got := result.Render(); !strings.Contains(got, want) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
		})
	}
}

// TestLaunchOptions: what a launch may ask for reaches the world.
func TestLaunchOptions(t *testing.T) {
	b := newBench(t, func(c *local.Config) { c.Containment = seam.KindGroup })
	result := b.run(t, bash.Request{Script: "true", Name: "tests"})
	if got := result.Process.Name(); got != "tests" {
		t.Errorf("name %q, want tests", got)
	}
	for field, change := range map[string]func(*bash.Config){
		"Require":            func(c *bash.Config) { c.Require = seam.CompleteContainment },
		"Limits.MemoryBytes": func(c *bash.Config) { c.Limits.MemoryBytes = 1 << 30 },
	} {
		config := b.config
		change(&config)
		sh, err := bash.New(b.world, config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sh.Run(t.Context(), bash.Request{Script: "true"})
		if bad, ok := errors.AsType[*seam.FieldError](err); !ok || bad.Field != field {
			t.Errorf("got %v, want a refusal of %s", err, field)
		}
	}
}

// TestCutIsTold: a stream that someone outside of the range holds open is cut off,
// and the result says so.
func TestCutIsTold(t *testing.T) {
	b, m := newBench(t), newMark(t)
	result := b.run(t, bash.Request{Script: "setsid sleep 600 2>/dev/null & sleep 0.1; echo up", Env: m.env()})
	escaped := m.living(t)
	for pid := range escaped {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if len(escaped) == 0 {
		t.Fatal("nothing escaped")
	}
	if !result.Stdout.Cut || result.Stderr.Cut {
		t.Errorf("stdout cut %v, stderr cut %v", result.Stdout.Cut, result.Stderr.Cut)
	}
	expect(t, "text", result.Render(), "up\n[output cut off: a process outside of the command's range held it open]")
}

// TestKeptUnproven: a job whose end can't be proven does not keep Run, which
// says so, and stays with its registry.
func TestKeptUnproven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{})
		m := seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{
			"/bin/bash": func(p *seamtest.MemProc) int {
				p.Go(seamtest.MemChild{Argv: []string{"stuck"}}, func(*seamtest.MemProc) int {
					<-wake
					return 0
				})
				return 0
			},
		}})
		registry := jobs.New(jobs.Config{})
		config := bash.DefaultConfig()
		config.Dir, config.Survivors, config.Jobs = "/", seam.KeepSurvivors, registry
		sh, err := bash.New(m.World(), config)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		result, err := sh.Run(t.Context(), bash.Request{Script: "x", Timeout: time.Minute, OnKept: func([]seam.Member) {}})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("took %v", took)
		}
		if !errors.Is(result.Empty, seam.ErrUnproven) || !result.TimedOut || result.Job == nil || result.Job.Status != jobs.Stopping {
			t.Errorf("got %+v, job %+v", result, result.Job)
		}
		close(wake)
		if info, err := registry.Wait(t.Context(), "", result.Job.ID); err != nil || info.Status != jobs.Killed || info.Err != nil {
			t.Errorf("got %+v, %v", info, err)
		}
		if err := errors.Join(registry.Close(t.Context()), m.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
