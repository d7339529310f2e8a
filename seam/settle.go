package seam

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// TerminateOn binds p's range to ctx: when ctx ends, p is terminated with
// ctx's cause. It stays armed after the direct process has ended, until the
// range is proven empty.
//
// stop disarms it, waits for its goroutine and may be called more than once.
// Without stop the goroutine ends with the range.
func TerminateOn(ctx context.Context, p Process) (stop func()) {
	disarm := context.AfterFunc(ctx, func() { p.Terminate(context.Cause(ctx)) })
	watch, cancel := context.WithCancel(context.Background())
	var watcher sync.WaitGroup
	watcher.Go(func() {
		// Unproven is not empty: then ctx stays armed for good.
		if p.WaitEmpty(watch) == nil {
			disarm()
		}
	})
	return func() {
		disarm()
		cancel()
		watcher.Wait()
	}
}

// A SurvivorPolicy says what becomes of members that outlive the direct process.
type SurvivorPolicy uint8

// Survivor policies.
const (
	KillSurvivors   SurvivorPolicy = iota // terminate them
	KeepSurvivors                         // leave them; the caller goes on owning the range
	FailOnSurvivors                       // terminate them, and report the command as failed
)

// An Ending is how a command and its range ended.
type Ending struct {
	Outcome   Outcome
	Survivors []Member // alive when the drain was over
	// Empty is nil with proof that the range is empty. With KeepSurvivors and
	// survivors it is an error that matches ErrSurvivors.
	Empty error
	// Err is set, and matches ErrSurvivors, when FailOnSurvivors found some.
	Err error
}

// Settle sees a foreground command to its end, in the seam's order: the direct
// result and the drain, a snapshot of the survivors, the policy, the range's
// emptiness, and the end of collected streams. drain is the command's
// [Spec.Drain]: where nothing is collected [Process.Wait] does not spend it,
// and Settle does.
//
// When ctx ends the range is terminated with its cause, survivors are not kept,
// and Settle goes on to the end. The error is not nil only where survivors could not be listed; the
// Ending is valid all the same.
func Settle(ctx context.Context, p Process, drain time.Duration, policy SurvivorPolicy) (Ending, error) {
	stop := TerminateOn(ctx, p)
	defer stop()

	// The ladder bounds everything from here on, so no context does.
	always := context.Background()
	var end Ending
	var err error
	if end.Outcome, err = p.Wait(always); err != nil {
		return end, err
	}
	collected := []OutputReader{p.Output(Stdout), p.Output(Stderr)}
	if collected[0] == nil && collected[1] == nil {
		waitAtMost(p.WaitEmpty, drain)
	}

	members, listErr := p.Survivors(always)
	end.Survivors = members
	// A list can miss whom it does not show; only the proof counts.
	if len(members) > 0 || listErr != nil || !waitAtMost(p.WaitEmpty, proofTime) {
		if policy == KeepSurvivors && ctx.Err() == nil {
			end.Empty = fmt.Errorf("kept: %w", ErrSurvivors)
			return end, listErr
		}
		if policy == FailOnSurvivors {
			end.Err = fmt.Errorf("%w: %d", ErrSurvivors, len(members))
		}
		p.Terminate(ErrSurvivors)
	}
	if end.Empty = p.WaitEmpty(always); end.Empty == nil {
		for _, output := range collected {
			if output != nil {
				err = errors.Join(err, output.WaitEnd(always))
			}
		}
	}
	return end, errors.Join(listErr, err)
}

// proofTime is what the proof of a range may take in which nothing was found. It
// takes much less, but on a host that does a great deal else.
const proofTime = time.Second

// waitAtMost waits for an event at most d, and reports whether it came.
func waitAtMost(wait func(context.Context) error, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return wait(ctx) == nil
}
