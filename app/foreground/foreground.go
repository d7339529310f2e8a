// Package foreground runs one command of a world in the foreground of a
// program: bounded by a timeout and by the signals that the program gets, fed
// from a file, and seen to the end of its range.
package foreground

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corral-world/corral/seam"
)

// A Command is what to run.
type Command struct {
	// Spec says everything about the launch, except Stdin where that is fed.
	Spec seam.Spec

	// Stdin is fed to the command through a pipe, and closed by Run. Nil:
	// Spec.Stdin holds.
	Stdin *Source

	// Timeout ends the command, with a [TimeoutError] as the cause. 0: nothing does.
	Timeout time.Duration

	// Survivors is what becomes of members that outlive the direct process.
	// With KeepSurvivors Run returns when they have ended by themselves.
	Survivors seam.SurvivorPolicy

	// OnKept is told of members that are kept, before they are waited for. May
	// be nil.
	OnKept func([]seam.Member)
}

// A Result is how a command and its range ended.
type Result struct {
	// Process is the command, which has ended.
	Process seam.Process

	// Ending is as [seam.Settle] has it, except that Empty tells of the range
	// after kept members have ended.
	Ending seam.Ending

	// Stopped is the cause that ended the command, or members that were kept:
	// a *TimeoutError, or the cause of Run's context. Nil if they ended otherwise.
	Stopped error

	// Feeding is an error in reading Command.Stdin.
	Feeding error

	// Listing is an error in listing survivors.
	Listing error
}

// A TimeoutError is the cause of a command's end by its timeout.
type TimeoutError struct{ After time.Duration }

func (e *TimeoutError) Error() string { return "timeout after " + e.After.String() }

// Timeout reports true, as network errors do.
func (e *TimeoutError) Timeout() bool { return true }

// Run runs c to the end of its range. When ctx ends, the range is terminated
// with ctx's cause, and Run goes on to the end. The timeout covers everything,
// also the start and members that are kept.
//
// An error means that c was not started.
func Run(ctx context.Context, world seam.Subprocess, c Command) (Result, error) {
	defer c.Stdin.close()
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, &TimeoutError{c.Timeout})
		defer cancel()
	}
	if c.Stdin != nil {
		c.Spec.Stdin = seam.Stdin{Mode: seam.Pipe}
	}
	p, err := world.Spawn(ctx, c.Spec)
	if err != nil {
		return Result{}, err
	}
	feed := startFeed(c.Stdin, p.Stdin())

	r := Result{Process: p}
	r.Ending, r.Listing = seam.Settle(ctx, p, c.Spec.Drain, c.Survivors)
	kept := errors.Is(r.Ending.Empty, seam.ErrSurvivors)
	if kept {
		if c.OnKept != nil {
			c.OnKept(r.Ending.Survivors)
		}
		r.Ending.Empty = waitKept(ctx, p)
	}
	r.Feeding = feed.stop()
	if ctx.Err() != nil && (kept || errors.Is(r.Ending.Outcome.Cause, context.Cause(ctx))) {
		r.Stopped = context.Cause(ctx)
	}
	return r, nil
}

// waitKept waits until the members that were kept have ended by themselves or,
// when ctx ends, are ended.
func waitKept(ctx context.Context, p seam.Process) error {
	stop := seam.TerminateOn(ctx, p)
	defer stop()
	always := context.Background() // the members bound it, or the ladder does
	if err := p.WaitEmpty(always); err != nil {
		return err
	}
	for _, stream := range []seam.Stream{seam.Stdout, seam.Stderr} {
		if output := p.Output(stream); output != nil {
			if err := output.WaitEnd(always); err != nil {
				return fmt.Errorf("wait for the end of %v: %w", stream, err)
			}
		}
	}
	return nil
}
