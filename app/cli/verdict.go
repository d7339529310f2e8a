package cli

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/seam"
)

// A verdict is what corral makes of how a command ended.
type verdict struct {
	foreground.Result
	exit int
	// complaint is what Corral itself has to say; nil if nothing. It takes the
	// place of success, and never of a command's own failure.
	complaint *failure
}

// judge weighs a result. cause is of the signals' context: a signal that came
// while survivors were ended counts, too. stopErr is the app's.
func judge(r foreground.Result, cause, stopErr error) verdict {
	v := verdict{Result: r, complaint: complain(r, stopErr)}
	sig, interrupted := errors.AsType[*foreground.SignalError](cause)
	_, timedOut := errors.AsType[*foreground.TimeoutError](r.Stopped)
	outcome := r.Ending.Outcome
	switch {
	case interrupted:
		v.exit = exitSignalBase + int(sig.Signal)
	case timedOut:
		v.exit = exitTimeout
	case outcome.Signal.Number != 0:
		v.exit = exitSignalBase + outcome.Signal.Number
	case outcome.End == seam.EndLost:
		v.exit = exitFailure
	default:
		v.exit = outcome.ExitCode
	}
	if v.exit == 0 && v.complaint != nil {
		v.exit = exitFailure
	}
	return v
}

// complain finds the gravest thing that is wrong.
func complain(r foreground.Result, stopErr error) *failure {
	outcome := r.Ending.Outcome
	switch {
	case r.Ending.Empty != nil:
		return &failure{Code: "unproven", Message: r.Ending.Empty.Error()}
	case stopErr != nil:
		return &failure{Code: string(seam.CodeUncertain), Message: stopErr.Error()}
	case outcome.End == seam.EndLost:
		return &failure{Code: "lost", Message: "the command was reaped by someone else, and how it ended is not known"}
	case r.Ending.Err != nil:
		return &failure{Code: "survivors", Field: "--survivors", Message: r.Ending.Err.Error()}
	case r.Feeding != nil:
		return &failure{Code: string(seam.CodeIO), Field: "--stdin", Message: r.Feeding.Error()}
	case r.Listing != nil:
		return &failure{Code: string(seam.CodeIO), Message: r.Listing.Error()}
	case outcome.End == seam.EndTerminated && outcome.ExitCode == 0:
		return &failure{Code: string(seam.CodeAborted), Message: fmt.Sprintf("the command was terminated: %v", outcome.Cause)}
	}
	return nil
}

// log tells what matters.
func (v verdict) log(logger *slog.Logger, survivors seam.SurvivorPolicy) {
	outcome := v.Ending.Outcome
	switch {
	case v.Stopped != nil:
		logger.Warn("command was ended", "name", v.Process.Name(), "err", v.Stopped)
	case outcome.End == seam.EndTerminated: // by another process
		logger.Warn("command was ended", "name", v.Process.Name(), "err", outcome.Cause)
	}
	switch end := v.Ending.Outcome.End; end {
	case seam.EndLimitMemory, seam.EndLimitPids:
		logger.Warn("command failed, and its range has reached a limit", "name", v.Process.Name(), "cause", string(end))
	}
	if survivors != seam.KeepSurvivors {
		logMembers(logger, "ended a process that outlived the command", v.Ending.Survivors)
	}
	if v.complaint != nil {
		logger.Error("command was not run as asked", "name", v.Process.Name(), "err", v.complaint.Message)
	}
}
