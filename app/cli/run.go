package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/seam"
)

// runOn runs a command on an app that it starts and stops, tells what matters,
// and sets the exit code. run's context ends with the first signal. When runOn
// returns nothing of the command is alive, or the verdict or error says that
// this is not known. An error means that the command was not started.
func (inv *invocation) runOn(
	ctx context.Context, a *app.App, logger *slog.Logger, survivors seam.SurvivorPolicy,
	run func(context.Context) (foreground.Result, error),
) (verdict, error) {
	signals := foreground.WatchSignals(ctx, ignores)
	defer signals.Stop()
	startTimeout, stopTimeout := a.Timeouts()
	start, cancel := context.WithTimeout(signals.Context, startTimeout)
	defer cancel()
	if err := a.Start(start); err != nil {
		return verdict{}, err
	}
	harder := context.AfterFunc(signals.Hard, a.KillAll)
	defer harder()
	result, err := run(signals.Context)
	stop, cancel := context.WithTimeout(signals.Hard, stopTimeout)
	defer cancel()
	stopErr := a.Stop(stop)
	if err != nil {
		return verdict{}, errors.Join(err, stopErr)
	}
	v := judge(result, context.Cause(signals.Context), stopErr)
	v.log(logger, survivors)
	inv.exit = v.exit
	return v, nil
}

// maxMembers bounds what is told of survivors one by one.
const maxMembers = 10

func logMembers(logger *slog.Logger, message string, members []seam.Member) {
	for i, m := range members {
		if i == maxMembers {
			logger.Warn("and more processes like these", "count", len(members)-i)
			return
		}
		logger.Warn(message, "pid", m.PID, "argv", quoteArgv(m.Argv, 120), "age", age(m).Round(time.Millisecond))
	}
}

// age of m now; 0 where it is not known.
func age(m seam.Member) time.Duration {
	if m.Started.IsZero() {
		return 0
	}
	return max(time.Since(m.Started), 0)
}
