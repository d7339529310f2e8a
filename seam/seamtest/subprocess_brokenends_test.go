package seamtest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/corral-world/corral/seam"
)

// brokenEndings are broken in how a command ends.
var brokenEndings = []brokenHalf{
	{what: "a failed command is an error", fails: []string{"exit-code", "wait-latched"}, half: func() *half {
		return ended(func(o *seam.Outcome) error {
			if o.ExitCode != 0 {
				return fmt.Errorf("exit status %d", o.ExitCode)
			}
			return nil
		})
	}},
	{what: "signals are exit codes", fails: []string{"signaled", "terminate", "terminate-grace"}, half: func() *half {
		return ended(func(o *seam.Outcome) error {
			if o.Signal.Number > 0 {
				o.ExitCode, o.Signal = 128+o.Signal.Number, seam.Signal{}
			}
			return nil
		})
	}},
	{what: "a killed command is a success", fails: []string{"terminate", "terminate-grace", "terminate-range", "settle-context", "close-ends"}, half: func() *half {
		return ended(func(o *seam.Outcome) error {
			*o = seam.Outcome{End: seam.EndExited, Duration: o.Duration}
			return nil
		})
	}},
	{what: "exit code zero is a success", fails: []string{"terminate-exit-zero"}, half: func() *half {
		return ended(func(o *seam.Outcome) error {
			if o.ExitCode == 0 {
				o.End, o.Cause = seam.EndExited, nil
			}
			return nil
		})
	}},
	{what: "causes are wrapped", fails: []string{"terminate", "terminate-first-cause", "terminate-exit-zero", "settle-context"}, half: func() *half {
		return started(func(p *process) {
			p.terminate = func(cause error) { p.Process.Terminate(fmt.Errorf("terminated: %w", cause)) }
		})
	}},
	{what: "the last cause wins", fails: []string{"terminate-first-cause"}, half: func() *half {
		return started(func(p *process) {
			var mu sync.Mutex
			var last error
			p.terminate = func(cause error) {
				mu.Lock()
				defer mu.Unlock()
				last = cause
				p.Process.Terminate(cause)
			}
			p.wait = func(ctx context.Context) (seam.Outcome, error) {
				outcome, err := p.Process.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				if outcome.End == seam.EndTerminated {
					outcome.Cause = last
				}
				return outcome, err
			}
		})
	}},
	{what: "a nil cause stays nil", fails: []string{"terminate-nil-cause"}, half: func() *half {
		return ended(func(o *seam.Outcome) error {
			if errors.Is(o.Cause, context.Canceled) {
				o.Cause = nil
			}
			return nil
		})
	}},
	{what: "Terminate changes what has ended", fails: []string{"terminate-empty", "terminate-after-exit", "wait-latched"}, half: func() *half {
		return started(func(p *process) {
			var mu sync.Mutex
			var first error
			p.terminate = func(cause error) {
				mu.Lock()
				defer mu.Unlock()
				first = cause
				p.Process.Terminate(cause)
			}
			p.wait = func(ctx context.Context) (seam.Outcome, error) {
				outcome, err := p.Process.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				if first != nil {
					outcome.End, outcome.Cause = seam.EndTerminated, first
				}
				return outcome, err
			}
		})
	}},
	{what: "Terminate does nothing", fails: []string{
		"terminate", "terminate-first-cause", "terminate-nil-cause", "terminate-exit-zero", "terminate-grace", "terminate-range",
		"terminate-after-exit", "terminate-many", "terminate-bomb", "terminate-on", "settle-kill", "settle-fail", "settle-context",
	}, half: func() *half {
		return started(func(p *process) { p.terminate = func(error) {} })
	}},
	{what: "Terminate ends only the direct process", fails: []string{"terminate-after-exit", "terminate-on", "settle-kill", "settle-fail", "empty-last-member"}, half: func() *half {
		return started(func(p *process) {
			p.terminate = func(cause error) {
				if !hasExited(p.Process) {
					p.Process.Terminate(cause)
				}
			}
		})
	}},
	{what: "KILL comes at once", fails: []string{"terminate-grace"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Grace = min(spec.Grace, time.Nanosecond) })
	}},
	{what: "KILL does not come", fails: []string{"terminate-grace", "terminate-range", "terminate-after-exit"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Grace = max(spec.Grace, forever) })
	}},
	{what: "Wait ends what it does not wait for", fails: []string{"wait-context"}, half: func() *half {
		return started(func(p *process) {
			p.wait = func(ctx context.Context) (seam.Outcome, error) {
				defer seam.TerminateOn(ctx, p.Process)()
				return p.Process.Wait(ctx)
			}
		})
	}},
	{what: "Wait ignores its context", fails: []string{"wait-context"}, half: func() *half {
		return started(func(p *process) {
			p.wait = func(ctx context.Context) (seam.Outcome, error) { return p.Process.Wait(context.WithoutCancel(ctx)) }
		})
	}},
	{what: "Wait answers once", fails: []string{"wait-latched"}, half: func() *half {
		return started(func(p *process) {
			var mu sync.Mutex
			answered := false
			p.wait = func(ctx context.Context) (seam.Outcome, error) {
				outcome, err := p.Process.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				if answered {
					return seam.Outcome{}, errBare
				}
				answered = err == nil
				return outcome, err
			}
		})
	}},
	{what: "the drain is not spent", fails: []string{"drain-bound"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Drain = 0 })
	}},
	{what: "the drain is always spent", fails: []string{"drain-early"}, half: func() *half {
		return &half{spawn: func(h *half, ctx context.Context, spec seam.Spec) (seam.Process, error) {
			p, err := h.MemWorld.Spawn(ctx, spec)
			return &process{Process: p, wait: func(ctx context.Context) (seam.Outcome, error) {
				outcome, err := p.Wait(ctx)
				time.Sleep(spec.Drain)
				return outcome, err
			}}, err
		}}
	}},
	{what: "Wait waits for the range", fails: []string{"drain-bound", "drain-none", "output-pipe-held"}, half: func() *half {
		return started(func(p *process) {
			p.wait = func(ctx context.Context) (seam.Outcome, error) {
				if err := p.Process.WaitEmpty(ctx); err != nil {
					return seam.Outcome{}, err
				}
				return p.Process.Wait(ctx)
			}
		})
	}},
}

// brokenRanges are broken in what they say of a range.
var brokenRanges = []brokenHalf{
	{what: "the range is empty at the direct exit", fails: []string{
		"empty-last-member", "complete", "drain-bound", "drain-none", "terminate-on", "settle-keep",
	}, half: func() *half {
		return started(func(p *process) {
			p.waitEmpty = func(ctx context.Context) error {
				if hasExited(p.Process) {
					return nil
				}
				return p.Process.WaitEmpty(ctx)
			}
		})
	}},
	{what: "WaitEmpty ignores its context", fails: []string{"empty-live", "empty-last-member"}, half: func() *half {
		return started(func(p *process) {
			p.waitEmpty = func(ctx context.Context) error { return p.Process.WaitEmpty(context.WithoutCancel(ctx)) }
		})
	}},
	{what: "WaitEmpty ends what it does not wait for", fails: []string{"empty-live", "terminate-on-stop"}, half: func() *half {
		return started(func(p *process) {
			p.waitEmpty = func(ctx context.Context) error {
				err := p.Process.WaitEmpty(ctx)
				if err != nil {
					p.Process.Terminate(err)
				}
				return err
			}
		})
	}},
	{what: "proof is not kept", fails: []string{"empty-kept", "close-ends", "close-ended-context", "drain-early"}, half: func() *half {
		return started(func(p *process) {
			p.waitEmpty = func(ctx context.Context) error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return p.Process.WaitEmpty(ctx)
			}
		})
	}},
	{what: "the direct process is its own survivor", fails: []string{"survivors", "settle-clean"}, half: func() *half {
		return started(func(p *process) {
			p.survivors = func(ctx context.Context) ([]seam.Member, error) {
				members, err := p.Process.Survivors(ctx)
				return append(members, seam.Member{PID: math.MaxInt32}), err
			}
		})
	}},
	{what: "survivors are not seen", fails: []string{
		"survivors", "complete", "empty-last-member", "output-pipe-held", "terminate-many", "settle-kill", "settle-keep", "settle-fail",
	}, half: func() *half {
		return started(func(p *process) {
			p.survivors = func(context.Context) ([]seam.Member, error) { return nil, nil }
		})
	}},
}
