package bash_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// onEveryContainment runs a test on the weakest and on the strongest that this
// host has.
func onEveryContainment(t *testing.T, test func(t *testing.T, kind func(*local.Config))) {
	for name, kind := range map[string]seam.Kind{"weakest": seam.KindGroup, "strongest": ""} {
		t.Run(name, func(t *testing.T) { test(t, func(c *local.Config) { c.Containment = kind }) })
	}
}

func TestEndings(t *testing.T) { onEveryContainment(t, testEndings) }

func testEndings(t *testing.T, kind func(*local.Config)) {
	for _, c := range []struct {
		name   string
		script string // writes to "$READY" once it may be ended
		// What ends it, with the text that it wrote; nil: nothing but itself.
		end     func(t *testing.T, ready string, abort context.CancelCauseFunc)
		timeout time.Duration

		outcome seam.Outcome
		is      error // the cause
		stdout  string
		timed   bool
		aborted bool
	}{
		{
			name: "timeout, with partial output", script: "echo hi; sleep 60", timeout: time.Second,
			outcome: killed(seam.EndTerminated, "SIGTERM", nil), is: bash.ErrTimeout, stdout: "hi\n", timed: true,
		},
		{
			name: "timeout of a script that traps TERM and exits with 0", timeout: time.Second,
			script:  "trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.05; done",
			outcome: seam.Outcome{End: seam.EndTerminated}, is: bash.ErrTimeout, stdout: "hi\nbye\n", timed: true,
		},
		{
			name: "timeout of a script that ignores TERM", timeout: time.Second,
			script:  "trap '' TERM; echo hi; sleep 60",
			outcome: killed(seam.EndTerminated, "SIGKILL", nil), is: bash.ErrTimeout, stdout: "hi\n", timed: true,
		},
		{
			name: "abort", script: `echo hi; echo up >"$READY"; sleep 60`,
			end:     func(_ *testing.T, _ string, abort context.CancelCauseFunc) { abort(errEnough) },
			outcome: killed(seam.EndTerminated, "SIGTERM", nil), is: errEnough, stdout: "hi\n", aborted: true,
		},
		{
			name: "abort without a cause", script: `echo up >"$READY"; sleep 60`,
			end:     func(_ *testing.T, _ string, abort context.CancelCauseFunc) { abort(nil) },
			outcome: killed(seam.EndTerminated, "SIGTERM", nil), is: context.Canceled, aborted: true,
		},
		{
			name: "abort with an outer call's timeout", script: `echo up >"$READY"; sleep 60`,
			end:     func(_ *testing.T, _ string, abort context.CancelCauseFunc) { abort(bash.ErrTimeout) },
			outcome: killed(seam.EndTerminated, "SIGTERM", nil), is: bash.ErrTimeout, aborted: true,
		},
		{
			name: "a signal to itself", script: "echo hi; kill -9 $$", outcome: killed(seam.EndSignaled, "SIGKILL", nil), stdout: "hi\n",
		},
		{
			name: "TERM to itself", script: "echo hi; kill $$; sleep 60", outcome: killed(seam.EndSignaled, "SIGTERM", nil), stdout: "hi\n",
		},
		{
			name: "a signal from elsewhere", script: `echo hi; echo $$ >"$READY"; sleep 60`,
			end:     func(t *testing.T, ready string, _ context.CancelCauseFunc) { kill(t, ready, syscall.SIGKILL) },
			outcome: killed(seam.EndSignaled, "SIGKILL", nil), stdout: "hi\n",
		},
		{
			name: "a signal from elsewhere to a child", script: `sleep 60 & echo $! >"$READY"; wait $! 2>/dev/null`,
			end:     func(t *testing.T, ready string, _ context.CancelCauseFunc) { kill(t, ready, syscall.SIGKILL) },
			outcome: exited(137),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, m := newBench(t, kind), newMark(t)
			b.config.Grace = 300 * time.Millisecond
			var r bash.Result
			var began time.Time
			for {
				ctx, abort := context.WithCancelCause(t.Context())
				began = time.Now()
				ended := make(chan struct{})
				go func() { // joined below
					defer close(ended)
					if c.end != nil {
						c.end(t, m.ready(t), abort)
					}
				}()
				var err error
				r, err = b.bash(t).Run(ctx, bash.Request{Script: c.script, Timeout: c.timeout, Env: m.env()})
				<-ended
				abort(nil)
				// The script can say that it runs before its start is reported, and an
				// abort between the two is one of the start.
				if c.aborted && seam.CodeOf(err) == seam.CodeAborted {
					m.assertEmpty(t)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			bounded(t, began, c.timeout+b.config.Grace+slack)
			m.assertEmpty(t)
			got := r.Outcome
			if got.End != c.outcome.End || got.ExitCode != c.outcome.ExitCode || got.Signal.Name != c.outcome.Signal.Name {
				t.Errorf("got %+v, want %+v", got, c.outcome)
			}
			if !errors.Is(got.Cause, c.is) {
				t.Errorf("got cause %v, want %v", got.Cause, c.is)
			}
			if r.TimedOut != c.timed || r.Aborted != c.aborted || r.Empty != nil {
				t.Errorf("got timed out %v, aborted %v, empty %v", r.TimedOut, r.Aborted, r.Empty)
			}
			expect(t, "stdout", r.Stdout.Text, c.stdout)
		})
	}
}

// A context that ended before the script could start is an error with a code of
// its own, and nothing was started.
func TestAbortedBeforeTheStart(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	_, runErr := b.bash(t).Run(ctx, bash.Request{Script: "touch ran"})
	_, startErr := b.bash(t).Start(ctx, bash.Request{Script: "touch ran"})
	for _, err := range []error{runErr, startErr} {
		if seam.CodeOf(err) != seam.CodeAborted || !errors.Is(err, errEnough) {
			t.Errorf("got %v", err)
		}
	}
	expect(t, "files", b.script(t, "ls"), "")
}

// The caller's context ends a foreground script, and none that became a job.
func TestStartOutlivesItsContext(t *testing.T) {
	b, m := newBench(t), newMark(t)
	ctx, cancel := context.WithCancel(t.Context())
	info, err := b.bash(t).Start(ctx, bash.Request{Owner: "me", Script: `echo up >"$READY"; read x <"$READY"; echo $x`, Env: m.env()})
	if err != nil {
		t.Fatal(err)
	}
	m.ready(t)
	cancel()
	b.script(t, "echo on >"+m.fifo)
	if got := b.wait(t, info.ID); got.Status != jobs.Completed {
		t.Errorf("got %+v", got)
	}
	expect(t, "stdout", string(b.read(t, info.ID).Stdout.Data), "on\n")
}

func TestSurvivors(t *testing.T) { onEveryContainment(t, testSurvivors) }

func testSurvivors(t *testing.T, kind func(*local.Config)) {
	const script = "sleep 600 >/dev/null 2>&1 & echo up; exit 3"
	one := func(t *testing.T, members []seam.Member) {
		t.Helper()
		if len(members) != 1 || !slices.Equal(members[0].Argv, []string{"sleep", "600"}) || members[0].PID < 2 || time.Since(members[0].Started) > time.Minute {
			t.Errorf("got survivors %+v", members)
		}
	}
	facts := func(t *testing.T, r bash.Result) {
		t.Helper()
		one(t, r.Survivors)
		expect(t, "stdout", r.Stdout.Text, "up\n")
		if r.Outcome.ExitCode != 3 || r.Outcome.End != seam.EndExited || r.TimedOut || r.Aborted {
			t.Errorf("got %+v", r)
		}
	}

	t.Run("ended", func(t *testing.T) {
		t.Parallel()
		b, m := newBench(t, kind), newMark(t)
		r := b.run(t, bash.Request{Script: script, Env: m.env()})
		facts(t, r)
		m.assertEmpty(t)
		if r.Job != nil || r.Failure != nil {
			t.Errorf("got %+v", r)
		}
		if text := r.Render(); !strings.Contains(text, " sleep 600]\n[exit code: 3]") {
			t.Errorf("rendered %q", text)
		}
	})
	t.Run("ended, ignoring TERM", func(t *testing.T) {
		t.Parallel()
		b, m := newBench(t, kind), newMark(t)
		b.config.Grace = 100 * time.Millisecond
		b.run(t, bash.Request{Script: "trap '' TERM; sleep 600 & echo up", Env: m.env()})
		m.assertEmpty(t)
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		b, m := newBench(t, kind), newMark(t)
		b.config.Survivors = seam.FailOnSurvivors
		r := b.run(t, bash.Request{Script: script, Env: m.env()})
		facts(t, r)
		m.assertEmpty(t)
		if !errors.Is(r.Failure, seam.ErrSurvivors) {
			t.Errorf("got failure %v", r.Failure)
		}
		if r := b.run(t, bash.Request{Script: "sleep 0 & wait"}); r.Failure != nil || len(r.Survivors) > 0 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("kept", func(t *testing.T) {
		t.Parallel()
		b, m := newBench(t, kind), newMark(t)
		b.config.Survivors = seam.KeepSurvivors
		const talks = `(echo up >"$READY"; read x <"$READY"; echo "$x"; sleep 600) & echo first; exit 3`
		r := make(chan bash.Result, 1)
		go func() { // joined by the receive below
			result, err := b.bash(t).Run(t.Context(), bash.Request{Script: talks, Owner: "me", Env: m.env()})
			if err != nil {
				t.Error(err)
			}
			r <- result
		}()
		m.ready(t)
		result := <-r
		if result.Job == nil || result.JobErr != nil || result.Empty != nil || result.Outcome.ExitCode != 3 {
			t.Fatalf("got %+v", result)
		}
		expect(t, "stdout", result.Stdout.Text, "first\n")
		if len(m.living(t)) == 0 {
			t.Error("nothing lives of what was kept")
		}
		b.script(t, "echo on >"+m.fifo)
		until(t, "output of the job", func() bool { return string(b.read(t, result.Job.ID).Stdout.Data) == "first\non\n" })
		if info, err := b.registry.Kill("me", result.Job.ID, "done"); err != nil || info.Status != jobs.Stopping {
			t.Errorf("got %+v, %v", info, err)
		}
		info := b.wait(t, result.Job.ID)
		m.assertEmpty(t)
		if info.Status != jobs.Killed || !errors.Is(info.Cause, jobs.ErrKilled) || info.Outcome.ExitCode != 3 || info.Outcome.End != seam.EndExited {
			t.Errorf("got %+v, outcome %+v", info, info.Outcome)
		}
	})
	t.Run("kept by a registry that is full", func(t *testing.T) {
		t.Parallel()
		b, m := newBench(t, kind), newMark(t)
		b.config.Survivors = seam.KeepSurvivors
		b.useRegistry(jobs.Config{MaxLive: 1})
		if _, err := b.bash(t).Start(t.Context(), bash.Request{Script: "sleep 600"}); err != nil {
			t.Fatal(err)
		}
		r := b.run(t, bash.Request{Script: `(trap 'echo bye; exit' TERM; echo >"$READY"; while :; do sleep 0.02; done) & read <"$READY"; echo up`, Env: m.env()})
		m.assertEmpty(t)
		if r.Job != nil || !errors.Is(r.JobErr, jobs.ErrTooMany) || len(r.Survivors) == 0 {
			t.Errorf("got %+v", r)
		}
		expect(t, "stdout", r.Stdout.Text, "up\nbye\n") // to the end
	})
	t.Run("kept, but the call timed out", func(t *testing.T) {
		t.Parallel()
		b, m := newBench(t, kind), newMark(t)
		b.config.Survivors = seam.KeepSurvivors
		r := b.run(t, bash.Request{Script: "sleep 600 & sleep 601", Timeout: 200 * time.Millisecond, Env: m.env()})
		m.assertEmpty(t)
		if !r.TimedOut || r.Job != nil {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("none where the script waited", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, kind)
		b.config.Survivors = seam.KeepSurvivors
		began := time.Now()
		b.config.Drain = time.Minute
		r := b.run(t, bash.Request{Script: "sleep 0.1 & exit"}) // ends in the drain
		bounded(t, began, slack)
		if len(r.Survivors) > 0 || r.Job != nil {
			t.Errorf("got %+v", r)
		}
	})
}

func TestBackgroundAfter(t *testing.T) {
	t.Run("in time", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		r := b.run(t, bash.Request{Script: "echo hi; exit 3", BackgroundAfter: 10 * time.Second})
		if r.Job != nil || r.Outcome.ExitCode != 3 || r.Stdout.Text != "hi\n" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		b, m := newBench(t), newMark(t)
		script := `echo hi; echo "$$" >"$READY"; read x <"$READY"; echo "$x"; exit 4`
		result := make(chan bash.Result, 1)
		go func() { // joined by the receive below
			r, err := b.bash(t).Run(t.Context(), bash.Request{Script: script, Owner: "me", BackgroundAfter: time.Second, Env: m.env()})
			if err != nil {
				t.Error(err)
			}
			result <- r
		}()
		m.ready(t)
		r := <-result
		if r.Job == nil || r.Outcome != (seam.Outcome{}) || r.Empty != nil || r.TimedOut || r.Aborted {
			t.Fatalf("got %+v", r)
		}
		expect(t, "rendered", r.Render(), "hi\n[still running; continues as background job "+r.Job.ID+"]")
		b.script(t, "echo on >"+m.fifo)
		info := b.wait(t, r.Job.ID)
		if info.Status != jobs.Completed || info.Outcome.ExitCode != 4 {
			t.Errorf("got %+v", info)
		}
		expect(t, "stdout", string(b.read(t, r.Job.ID).Stdout.Data), "hi\non\n")
	})
	t.Run("aborted before", func(t *testing.T) {
		t.Parallel()
		b, m := newBench(t), newMark(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { // ends with the script's first write, at the latest
			m.ready(t)
			cancel(errEnough)
		}()
		r, err := b.bash(t).Run(ctx, bash.Request{Script: `echo up >"$READY"; sleep 60`, BackgroundAfter: 20 * time.Second, Env: m.env()})
		if err != nil || !r.Aborted || r.Job != nil || !errors.Is(r.Outcome.Cause, errEnough) {
			t.Errorf("got %+v, %v", r, err)
		}
		m.assertEmpty(t)
	})
	t.Run("not after the timeout", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		r := b.run(t, bash.Request{Script: "sleep 60", Timeout: 100 * time.Millisecond, BackgroundAfter: time.Second})
		if !r.TimedOut || r.Job != nil {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("refused by a registry that is full", func(t *testing.T) {
		t.Parallel()
		b, m := newBench(t), newMark(t)
		b.useRegistry(jobs.Config{MaxLive: 1})
		if _, err := b.bash(t).Start(t.Context(), bash.Request{Script: "sleep 600"}); err != nil {
			t.Fatal(err)
		}
		r := b.run(t, bash.Request{Script: "sleep 60", Timeout: 300 * time.Millisecond, BackgroundAfter: 50 * time.Millisecond, Env: m.env()})
		if !r.TimedOut || r.Job != nil {
			t.Errorf("got %+v", r)
		}
		m.assertEmpty(t)
	})
}

// The end of the world ends what it still has, and says that it did.
func TestWorldCloses(t *testing.T) {
	b, m := newBench(t), newMark(t)
	result := make(chan bash.Result, 1)
	go func() { // joined by the receive below
		r, err := b.bash(t).Run(t.Context(), bash.Request{Script: `echo hi; echo up >"$READY"; sleep 60`, Env: m.env()})
		if err != nil {
			t.Error(err)
		}
		result <- r
	}()
	m.ready(t)
	if err := b.runtime.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.assertEmpty(t)
	if r := <-result; !r.Aborted || r.TimedOut || !errors.Is(r.Outcome.Cause, seam.ErrClosed) {
		t.Errorf("got %+v", r)
	}
	if _, err := b.bash(t).Run(t.Context(), bash.Request{Script: "true"}); seam.CodeOf(err) != seam.CodeClosed {
		t.Errorf("got %v", err)
	}
}
