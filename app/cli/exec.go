package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-world/corral/app/config"
	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/seam"
)

const execLong = `Run a command and end with it everything that it started.

The command's output is passed through as it comes, and its exit code is
corral's: 128+n where signal n ended it, 124 after --timeout, 125 for corral's
own failure, 126 where the command can't be executed, 127 where it is not found.
What corral has to tell it tells on standard error. SIGINT, SIGTERM, SIGHUP and
SIGQUIT end the command and everything it started, after --grace by force, and
corral exits with 128+n; a second signal uses force at once. Signals that were
ignored when corral was started stay ignored.

With --json the output is collected instead, and one object on standard output
is all that is written there. The end of each stream is in it; what is longer is
kept complete in a file that the object names and that outlives corral for the
time of the setting spill.keep. Where standard error is a terminal a line shows
that a command is still running. Without --json the terminal is the command's.

With --detach the command outlives corral, which prints its name and exits as
soon as it runs. "corral ps" lists it, "corral stop NAME" ends it, and everything
that it started, and the name can't be taken twice.

Members that outlive the command are ended (--survivors kill), waited for until
they end by themselves (keep), or ended and counted as a failure (fail). The
timeout covers all of it.`

const execExample = `  corral exec -- make test
  corral exec --timeout 5m --grace 10s -- npm run build
  corral exec --json --dir /src/app --env CI=1 --unset GOFLAGS -- go test ./...
  corral exec --stdin input.sql -- psql shop
  corral exec --detach --name web -- ./server --port 8080
  corral exec --survivors fail -- ./start-and-leave-nothing.sh`

// execCommand is corral exec.
func (inv *invocation) execCommand() *cobra.Command {
	flags := new(execFlags)
	cmd := &cobra.Command{
		Use:     "exec [flags] [--] CMD [ARG]...",
		Short:   "Run a command and end everything it started",
		Long:    execLong,
		Example: execExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			inv.argv = args
			if len(args) == 0 {
				return &usageError{fieldCommand, "is missing"}
			}
			return inv.exec(cmd, flags)
		},
	}
	// What follows the command belongs to it.
	cmd.Flags().SetInterspersed(false)
	flags.register(cmd.Flags())
	cmd.Flags().BoolVar(&inv.json, "json", false, "collect the output and report in one JSON object")
	return cmd
}

// exec does everything that can be refused before it does anything else.
func (inv *invocation) exec(cmd *cobra.Command, flags *execFlags) error {
	if flags.detach {
		if err := checkDetach(cmd.Flags()); err != nil {
			return err
		}
	}
	loaded, err := inv.load(cmd.Flags(), execSettings())
	if err != nil {
		return err
	}
	command, err := inv.command(flags, loaded)
	if err != nil {
		return err
	}
	logger := inv.console.logger(loaded.Log, inv.program.Environ)
	command.OnKept = func(members []seam.Member) {
		logMembers(logger, "waiting for a process that outlived the command", members)
	}
	a, err := inv.compose(loaded, logger)
	if err != nil {
		return err
	}
	if flags.detach {
		return inv.execDetached(cmd.Context(), a, command.Spec)
	}
	v, err := inv.runOn(cmd.Context(), a, logger, flags.survivors, func(ctx context.Context) (foreground.Result, error) {
		quiet := inv.showRunning(command)
		defer quiet()
		return foreground.Run(ctx, a.World().Subprocess(), command)
	})
	if err != nil || !inv.json {
		return err
	}
	return writeJSON(inv.program.Stdout, execReport{
		Name:      v.Process.Name(),
		Argv:      inv.argv,
		endReport: reportEnd(v),
	})
}

// showRunning shows that command is running, where that disturbs nobody, until
// stop is called.
func (inv *invocation) showRunning(command foreground.Command) (stop func()) {
	switch {
	case inv.json:
		return inv.console.progress(command.Spec.Argv)
	case command.Spec.Stdin.Mode != seam.Inherit:
		// The terminal is the command's, whose own lines a line that is taken
		// back would take with it.
		return inv.console.announce(command.Spec.Argv)
	}
	return func() {}
}

// command makes a command of flags and configuration.
func (inv *invocation) command(flags *execFlags, c *config.Loaded) (foreground.Command, error) {
	dir, err := flags.absDir()
	if err != nil {
		return foreground.Command{}, err
	}
	command := foreground.Command{
		Spec: seam.Spec{
			Argv:    inv.argv,
			Dir:     dir,
			Env:     flags.env,
			Grace:   c.Grace,
			Drain:   c.Drain,
			Name:    flags.name,
			Limits:  flags.limits,
			Require: flags.require,
			Detach:  flags.detach,
		},
		Timeout:   time.Duration(flags.timeout),
		Survivors: flags.survivors,
	}
	output := seam.Output{Mode: seam.Inherit}
	switch {
	case flags.detach:
		output.Mode = seam.Null
	case inv.json:
		output = seam.Output{Mode: seam.Collect, MaxBytes: c.OutputMaxBytes, SpillMaxBytes: c.Spill.MaxBytes}
	}
	command.Spec.Stdout, command.Spec.Stderr = output, output
	switch flags.stdin {
	case stdinNull:
	case stdinInherit:
		command.Spec.Stdin.Mode = seam.Inherit
	default:
		source, err := foreground.OpenSource(flags.stdin)
		if err != nil {
			return command, &usageError{"--stdin", "can't be used: " + err.Error()}
		}
		command.Stdin = source
	}
	return command, nil
}
