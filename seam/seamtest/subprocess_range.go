package seamtest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/corral-world/corral/seam"
)

// rangeCases check what is said of a range.
var rangeCases = []subprocessCase{
	{
		name: "empty-live", rule: "the context of WaitEmpty bounds the waiting: its cause is the error, and WaitEmpty is not nil while the command lives",
		run: func(e *processEnv) {
			p := e.cat()
			e.wantAlive(p)
			ctx, cancel := context.WithCancelCause(e.ctx)
			time.AfterFunc(short, func() { cancel(errCause) })
			if err := p.WaitEmpty(ctx); !errors.Is(err, errCause) {
				e.errorf("WaitEmpty with a context that ends: %v, want its cause", err)
			}
			e.echo(p, "still here")
		},
	},
	{
		name: "empty-last-member", rule: "WaitEmpty returns nil only after the last member's end",
		run: func(e *processEnv) {
			for _, verb := range []string{"survivor", "daemon"} {
				p, member := e.startMember(e.spec(verb))
				e.wantExit(e.wait(p), 0)
				e.wantAlive(p)
				if ids := e.memberIDs(p); !slices.Equal(ids, []int{member}) {
					e.errorf("survivors of %s: %v, want %d", verb, ids, member)
				}
				e.terminate(p)
			}
		},
	},
	{
		name: "empty-kept", rule: "proof of emptiness, once had, is kept: an ended context does not hide it",
		run: func(e *processEnv) {
			p := e.spawn(e.spec("exit", "0"))
			for range 5 {
				e.waitEmpty(p)
				if err := p.WaitEmpty(endedContext()); err != nil {
					e.errorf("WaitEmpty with an ended context, after the proof: %w", err)
				}
			}
		},
	},
	{
		name: "survivors", rule: "Survivors lists the members that live, and not the direct process",
		run: func(e *processEnv) {
			p, member := e.startMember(e.spec("family"))
			if ids := e.memberIDs(p); !slices.Equal(ids, []int{member}) {
				e.errorf("survivors while the direct process lives: %v, want its child %d", ids, member)
			}
			e.terminate(p)
			if ids := e.memberIDs(p); len(ids) > 0 {
				e.errorf("survivors of an empty range: %v", ids)
			}
			alone := e.cat()
			if ids := e.memberIDs(alone); len(ids) > 0 {
				e.errorf("survivors of a process that is alone: %v", ids)
			}
		},
	},
	{
		name: "terminate-on", rule: "TerminateOn stays armed after the direct exit, until the range is empty",
		run: func(e *processEnv) {
			p, _ := e.startMember(e.spec("survivor"))
			ctx, cancel := context.WithCancelCause(e.ctx)
			defer cancel(nil)
			stop := seam.TerminateOn(ctx, p)
			defer stop()
			e.wantExit(e.wait(p), 0)
			e.wantAlive(p)
			cancel(errCause)
			e.waitEmpty(p)
		},
	},
	{
		name: "terminate-on-stop", rule: "a stopped TerminateOn is disarmed",
		run: func(e *processEnv) {
			p := e.cat()
			ctx, cancel := context.WithCancelCause(e.ctx)
			stop := seam.TerminateOn(ctx, p)
			stop()
			stop()
			cancel(errCause)
			e.wantUndisturbed(p)
			e.echo(p, "still here")
			_ = p.Stdin().Close()
			e.wantExit(e.wait(p), 0)
		},
	},
}

// settleCases check that a world's processes can be settled.
var settleCases = []subprocessCase{
	{
		name: "settle-clean", rule: "Settle of a command that leaves nothing is its outcome, under every policy",
		run: func(e *processEnv) {
			for _, policy := range []seam.SurvivorPolicy{seam.KillSurvivors, seam.KeepSurvivors, seam.FailOnSurvivors} {
				spec := e.spec("print", "out", "")
				spec.Stdout = collect(ample, 0)
				p := e.spawn(spec)
				end := e.settle(e.ctx, p, spec.Drain, policy)
				e.wantExit(end.Outcome, 0)
				if len(end.Survivors) > 0 || end.Empty != nil || end.Err != nil {
					e.errorf("ending %+v, want neither survivors nor errors", end)
				}
				if w := p.Output(seam.Stdout).ReadFrom(0); !w.Ended {
					e.errorf("after Settle: %s, want ended", describe(w))
				}
			}
		},
	},
	{
		name: "settle-kill", rule: "KillSurvivors terminates what outlives the drain, and reports the command as it ended",
		run: func(e *processEnv) {
			end := e.settleSurvivor(seam.KillSurvivors, seam.Output{})
			if end.Empty != nil || end.Err != nil {
				e.errorf("ending %+v, want no errors", end)
			}
			end = e.settleSurvivor(seam.KillSurvivors, collect(ample, 0))
			if end.Empty != nil || end.Err != nil {
				e.errorf("ending, with output collected, %+v, want no errors", end)
			}
		},
	},
	{
		name: "settle-keep", rule: "KeepSurvivors leaves them, and the range to the caller",
		run: func(e *processEnv) {
			end := e.settleSurvivor(seam.KeepSurvivors, seam.Output{})
			if !errors.Is(end.Empty, seam.ErrSurvivors) || end.Err != nil {
				e.errorf("ending %+v, want that it is not empty because of survivors", end)
			}
			e.wantAlive(e.processes[len(e.processes)-1])
		},
	},
	{
		name: "settle-fail", rule: "FailOnSurvivors terminates them and reports the command as failed",
		run: func(e *processEnv) {
			end := e.settleSurvivor(seam.FailOnSurvivors, seam.Output{})
			if end.Empty != nil || !errors.Is(end.Err, seam.ErrSurvivors) {
				e.errorf("ending %+v, want that it is empty, and failed because of survivors", end)
			}
		},
	},
	{
		name: "settle-context", rule: "when the context of Settle ends the range is terminated with its cause, and Settle goes on to the end",
		run: func(e *processEnv) {
			p, _ := e.startMember(e.spec("family"))
			ctx, cancel := context.WithCancelCause(e.ctx)
			time.AfterFunc(short/4, func() { cancel(errCause) })
			end := e.settle(ctx, p, e.Patience, seam.KeepSurvivors)
			e.wantTerminated(end.Outcome, errCause)
			if end.Empty != nil {
				e.errorf("after Settle: %w", end.Empty)
			}
		},
	},
}

func (e *processEnv) settle(ctx context.Context, p seam.Process, drain time.Duration, policy seam.SurvivorPolicy) seam.Ending {
	end, err := seam.Settle(ctx, p, drain, policy)
	if err != nil {
		e.errorf("Settle: %w", err)
	}
	return end
}

// settleSurvivor settles a command that leaves a member.
func (e *processEnv) settleSurvivor(policy seam.SurvivorPolicy, stdout seam.Output) seam.Ending {
	spec := e.spec("survivor")
	spec.Stdout, spec.Drain = stdout, short
	end := e.settle(e.ctx, e.spawn(spec), spec.Drain, policy)
	e.wantExit(end.Outcome, 0)
	if len(end.Survivors) != 1 {
		e.errorf("survivors %v, want the one", end.Survivors)
	}
	return end
}
