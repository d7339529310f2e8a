package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/seam"
)

// detachReport is the object of corral exec --detach --json.
type detachReport struct {
	Name        string            `json:"name"`
	Argv        []string          `json:"argv"`
	Detached    bool              `json:"detached"`
	Containment containmentReport `json:"containment"`
}

// checkDetach refuses what makes no sense for a command that nobody waits for.
func checkDetach(flags *pflag.FlagSet) error {
	for _, name := range []string{"timeout", "drain", "survivors", "stdin"} {
		if flags.Changed(name) {
			return &usageError{"--" + name, "can't be used with --detach: nobody waits for the command"}
		}
	}
	return nil
}

// execDetached starts a command and leaves it to its keeper.
func (inv *invocation) execDetached(ctx context.Context, a *app.App, spec seam.Spec) error {
	signals := foreground.WatchSignals(ctx, ignores)
	defer signals.Stop()
	startTimeout, stopTimeout := a.Timeouts()
	start, cancel := context.WithTimeout(signals.Context, startTimeout)
	defer cancel()
	if err := a.Start(start); err != nil {
		return err
	}
	p, err := a.World().Subprocess().Spawn(signals.Context, spec)
	stop, cancel := context.WithTimeout(signals.Hard, stopTimeout)
	defer cancel()
	if err := errors.Join(err, a.Stop(stop)); err != nil {
		return err
	}
	if !inv.json {
		_, err := fmt.Fprintln(inv.program.Stdout, p.Name())
		return err
	}
	return writeJSON(inv.program.Stdout, detachReport{
		Name: p.Name(), Argv: inv.argv, Detached: true, Containment: reportContainment(p.Containment()),
	})
}
