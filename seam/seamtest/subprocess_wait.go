package seamtest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/corral-world/corral/seam"
)

// waitCases check the direct result and the drain.
var waitCases = []subprocessCase{
	{
		name: "exit-code", rule: "a non-zero exit is an outcome, not an error",
		run: func(e *processEnv) {
			for code, text := range map[int]string{0: "0", 1: "1", 7: "7", 255: "255"} {
				e.wantExit(e.wait(e.spawn(e.spec("exit", text))), code)
			}
		},
	},
	{
		name: "signaled", rule: "a signal that this world did not send is EndSignaled, with the signal and no exit code",
		run: func(e *processEnv) {
			for _, name := range []string{"SIGTERM", "SIGKILL"} {
				outcome := e.wait(e.spawn(e.spec("kill-self", name)))
				if outcome.End != seam.EndSignaled || outcome.Signal.Name != name || outcome.Signal.Number <= 0 ||
					outcome.ExitCode != -1 || outcome.Cause != nil || outcome.Success() {
					e.errorf("outcome of %s to itself: %+v", name, outcome)
				}
			}
		},
	},
	{
		name: "wait-context", rule: "the context of Wait bounds the waiting: its cause is the error, and says nothing about the process",
		run: func(e *processEnv) {
			p := e.cat()
			if outcome, err := p.Wait(endedContext()); !errors.Is(err, errCause) {
				e.errorf("Wait with an ended context: %+v, %v; want its cause", outcome, err)
			}
			e.wantUndisturbed(p)
			e.echo(p, "still here")
			_ = p.Stdin().Close()
			e.wantExit(e.wait(p), 0)
		},
	},
	{
		name: "wait-latched", rule: "the direct result is latched: every Wait returns the same",
		run: func(e *processEnv) {
			spec := e.spec("exit", "5")
			spec.Stdout = collect(1, 0)
			p := e.spawn(spec)
			outcomes := make([]seam.Outcome, 4)
			var waiters sync.WaitGroup
			for i := range outcomes {
				waiters.Go(func() { outcomes[i], _ = p.Wait(e.ctx) })
			}
			waiters.Wait()
			e.waitEmpty(p)
			p.Terminate(errCause)
			outcomes = append(outcomes, e.wait(p))
			last, err := p.Wait(endedContext())
			if err != nil {
				e.errorf("Wait with an ended context, and all has ended: %w", err)
			}
			for _, outcome := range append(outcomes, last) {
				if !reflect.DeepEqual(outcome, outcomes[0]) {
					e.errorf("outcomes %+v and %+v differ", outcome, outcomes[0])
				}
			}
			e.wantExit(last, 5)
		},
	},
	{
		name: "drain-bound", rule: "where a stream is collected Wait waits for the range and its streams, at most Drain after the direct exit",
		run: func(e *processEnv) {
			spec := e.spec("survivor")
			spec.Stdout, spec.Drain = collect(ample, 0), short
			begin := time.Now()
			p := e.spawn(spec)
			e.wantExit(e.wait(p), 0)
			if passed := time.Since(begin); passed < short {
				e.errorf("Wait returned after %v, and the range is not empty before the drain of %v is over", passed, short)
			}
			for range 5 {
				if _, err := p.Wait(endedContext()); err != nil {
					e.errorf("Wait with an ended context, and the drain is over: %w", err)
				}
			}
			e.wantAlive(p)
		},
	},
	{
		name: "drain-early", rule: "the drain is over as soon as the range is empty and the collected streams have ended",
		run: func(e *processEnv) {
			spec := e.spec("print", "all of it", "")
			spec.Stdout, spec.Drain = collect(ample, 0), 100*time.Hour
			p := e.spawn(spec)
			e.wantExit(e.wait(p), 0)
			if w := p.Output(seam.Stdout).ReadFrom(0); !w.Ended || string(w.Data) != "all of it" {
				e.errorf("after Wait: %q of %s", w.Data, describe(w))
			}
			if err := p.WaitEmpty(endedContext()); err != nil {
				e.errorf("after Wait: %w", err)
			}
		},
	},
	{
		name: "drain-none", rule: "where nothing is collected Wait returns as soon as the direct process has ended",
		run: func(e *processEnv) {
			spec := e.spec("survivor")
			spec.Drain = 100 * time.Hour
			p, _ := e.startMember(spec)
			e.wantExit(e.wait(p), 0)
			e.wantAlive(p)
		},
	},
}

const ruleCause = "the first cause of Terminate wins and is kept verbatim"

// terminateCases check the ending of ranges.
var terminateCases = []subprocessCase{
	{
		name: "terminate", rule: "Terminate ends the command, with its cause",
		run: func(e *processEnv) {
			spec := e.spec("sleep")
			spec.Grace = e.Patience // KILL does not come before TERM has been obeyed
			p, _ := e.start(spec)
			p.Terminate(errCause)
			outcome := e.wait(p)
			e.wantTerminated(outcome, errCause)
			if outcome.ExitCode != -1 || outcome.Signal.Name != "SIGTERM" {
				e.errorf("outcome %+v, want that SIGTERM ended it", outcome)
			}
			e.waitEmpty(p)
		},
	},
	{
		name: "terminate-first-cause", rule: ruleCause + "; later calls do nothing",
		run: func(e *processEnv) {
			p, _ := e.start(e.spec("ignore-term"))
			p.Terminate(errCause)
			p.Terminate(errLate)
			e.wantTerminated(e.wait(p), errCause)
			p.Terminate(errLate)
			e.wantTerminated(e.wait(p), errCause)
		},
	},
	{
		name: "terminate-nil-cause", rule: "a nil cause is kept as context.Canceled",
		run: func(e *processEnv) {
			p, _ := e.start(e.spec("sleep"))
			p.Terminate(nil)
			e.wantTerminated(e.wait(p), context.Canceled)
		},
	},
	{
		name: "terminate-exit-zero", rule: "a process that Terminate had asked to stop is EndTerminated even if it then exits with code 0",
		run: func(e *processEnv) {
			spec := e.spec("trap-term", "0")
			spec.Grace = 100 * time.Hour
			p, _ := e.start(spec)
			p.Terminate(errCause)
			if said := e.line(p); said != "term" {
				e.errorf("the program said %q, want that TERM reached it", said)
			}
			outcome := e.wait(p)
			e.wantTerminated(outcome, errCause)
			if outcome.ExitCode != 0 || outcome.Signal != (seam.Signal{}) {
				e.errorf("outcome %+v, want exit code 0 and no signal", outcome)
			}
		},
	},
	{
		name: "terminate-grace", rule: "KILL follows TERM after Grace, and not before",
		run: func(e *processEnv) {
			p, _ := e.start(e.spec("ignore-term"))
			begin := time.Now()
			p.Terminate(errCause)
			outcome := e.wait(p)
			e.wantTerminated(outcome, errCause)
			if passed := time.Since(begin); passed < short || outcome.Duration < short {
				e.errorf("it ended %v after Terminate, having lived for %v; the grace is %v", passed, outcome.Duration, short)
			}
			if outcome.Signal.Name != "SIGKILL" || outcome.ExitCode != -1 {
				e.errorf("outcome %+v, want that SIGKILL ended it", outcome)
			}
			e.waitEmpty(p)
		},
	},
	{
		name: "terminate-range", rule: "TERM and KILL go to every member, whether or not the direct process has ended",
		run: func(e *processEnv) {
			spec := e.spec("family")
			spec.Grace = 4 * short
			p, _ := e.startMember(spec)
			p.Terminate(errCause)
			outcome := e.wait(p) // of TERM; the child ignores it and has the grace
			e.wantTerminated(outcome, errCause)
			if outcome.Signal.Name != "SIGTERM" {
				e.errorf("outcome %+v, want that SIGTERM ended it", outcome)
			}
			e.waitEmpty(p)
		},
	},
	{
		name: "terminate-after-exit", rule: "Terminate after the direct exit ends the survivors and leaves the direct result as it is",
		run: func(e *processEnv) {
			p, _ := e.startMember(e.spec("survivor-ignoring-term"))
			e.wantExit(e.wait(p), 0)
			e.terminate(p)
			e.wantExit(e.wait(p), 0)
		},
	},
	{
		name: "terminate-empty", rule: "Terminate does nothing on an empty range",
		run: func(e *processEnv) {
			p := e.spawn(e.spec("exit", "0"))
			e.waitEmpty(p)
			p.Terminate(errCause)
			e.wantExit(e.wait(p), 0)
		},
	},
	{
		name: "terminate-many", rule: "no member is missed, however many there are",
		run: func(e *processEnv) {
			const members = 12
			spec := e.spec("many", "12")
			p, _ := e.start(spec)
			if ids := e.memberIDs(p); len(ids) != members {
				e.errorf("Survivors are %v, want %d", ids, members)
			}
			e.terminate(p)
		},
	},
	{
		name: "terminate-bomb", rule: "no member is missed, however fast they replace themselves",
		run: func(e *processEnv) {
			p, _ := e.start(e.spec("bomb", "40"))
			e.terminate(p)
		},
	},
}
