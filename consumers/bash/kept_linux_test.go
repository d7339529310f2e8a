package bash_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
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
