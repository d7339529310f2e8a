package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/fx"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/app/config"
	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/seam"
)

const shellLong = `Run a shell, or another command, on a terminal of its own, and end with it
everything that was ever started in it.

Without --json this terminal is passed through: its size, also when it changes,
every key, job control. CMD is what runs, and without it the shell that $SHELL
names, or bash. The exit code is the command's: 128+n where signal n ended it,
125 for corral's own failure, 126 where the command can't be executed, 127 where
it is not found. SIGINT, SIGTERM, SIGHUP and SIGQUIT to corral end the command
and everything it started, and corral exits with 128+n. This terminal is as it
was before, however corral ends, but for SIGKILL.

With --json a program talks to a bash that keeps its state. Standard input has
one JSON object a line, standard output one for each, in the same order but for
those of cancel:

  {"op":"send","text":"make test"}    type text and return, and wait until the
                                      terminal is ready for more. "submit":false
                                      leaves out the return; "force":true types
                                      also where another program than the shell
                                      reads; "timeout":"5m" replaces --timeout
  {"op":"wait"}                       wait without typing
  {"op":"cancel"}                     interrupt what the present send started; it
                                      does not wait for its turn
  {"op":"signal","signal":"SIGINT"}   signal whoever owns the terminal
  {"op":"read","offset":0,"count":500}  lines of the scrollback, from its end
  {"op":"resize","cols":80,"rows":24}
  {"op":"close"}                      end; so does the end of standard input

An "id" in an object comes back in its answer. The answer to a send has "output"
and "reason", the evidence that the terminal is ready: prompt, continuation (of
a command that is not finished), stdin_read (a program waits for input),
inferred_idle (silence alone), timeout, session_exit; and "status", "dir",
"foreground", "echo_off", "alternate_screen", as far as they are known. An
answer with "error" means that nothing was done. The first object tells that the
shell is open, and the last one how it ended and whether all of it is gone. The
exit code is the shell's where it ended by itself, and 0 where it was closed.`

const shellExample = `  corral shell
  corral shell --dir /src/app -- vim README.md
  corral shell --require complete
  printf '%s\n' '{"op":"send","text":"cd /src && make"}' | corral shell --json`

// shellCommand is corral shell.
func (inv *invocation) shellCommand() *cobra.Command {
	flags := new(execFlags)
	cmd := &cobra.Command{
		Use:     "shell [flags] [[--] CMD [ARG]...]",
		Short:   "Run a shell on a terminal and end everything that was started in it",
		Long:    shellLong,
		Example: shellExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			inv.argv = args
			return inv.shell(cmd, flags)
		},
	}
	cmd.Flags().SetInterspersed(false)
	flags.registerRange(cmd.Flags())
	cmd.Flags().Var(&flags.timeout, "timeout", fmt.Sprintf("with --json, let a send wait `D` (default %v)", ptyshell.DefaultConfig().Timeout))
	cmd.Flags().BoolVar(&inv.json, "json", false, "talk to a program in JSON lines")
	return cmd
}

// shell does everything that can be refused before it does anything else.
func (inv *invocation) shell(cmd *cobra.Command, flags *execFlags) error {
	loaded, err := inv.load(cmd.Flags(), map[string]string{"grace": "grace", "containment": "containment"})
	if err != nil {
		return err
	}
	dir, err := flags.absDir()
	if err != nil {
		return err
	}
	logger := inv.console.logger(loaded.Log, inv.program.Environ)
	if inv.json {
		return inv.shellJSON(cmd.Context(), flags, dir, loaded, logger)
	}
	if flags.timeout != 0 {
		return &usageError{"--timeout", "is for --json: a person says when it is enough"}
	}
	outer, err := openOuter(inv.program)
	if err != nil {
		return err
	}
	if len(inv.argv) == 0 {
		inv.argv = []string{cmp.Or(lookup(inv.program.Environ, "SHELL"), "bash")}
	}
	cols, rows, err := outer.size()
	if err != nil {
		return err
	}
	spec := seam.TerminalSpec{
		Argv: inv.argv, Dir: dir, Env: flags.env, Cols: cols, Rows: rows,
		Grace: loaded.Grace, Name: flags.name, Limits: flags.limits, Require: flags.require,
	}
	a, err := inv.compose(loaded, logger)
	if err != nil {
		return err
	}
	return inv.onApp(cmd.Context(), a, func(ctx context.Context) error {
		end, err := passThrough(ctx, outer, a.World().Subprocess(), spec)
		if err != nil {
			return err
		}
		inv.exit = exitOfShell(end.outcome)
		if end.unproven != nil {
			logger.Error("what was started in the terminal may live", "err", end.unproven)
			inv.exit = cmp.Or(inv.exit, exitFailure)
		}
		return nil
	})
}

// exitOfShell is the exit code for how a direct process ended.
func exitOfShell(o seam.Outcome) int {
	switch {
	case o.Signal.Number != 0:
		return exitSignalBase + o.Signal.Number
	case o.End == seam.EndLost:
		return exitFailure
	}
	return o.ExitCode
}

// onApp runs f on an app that it starts and stops. f's context ends with the first
// signal, which then is what the exit code tells; a second one uses force.
func (inv *invocation) onApp(ctx context.Context, a *app.App, f func(context.Context) error) error {
	signals := foreground.WatchSignals(ctx, ignores)
	defer signals.Stop()
	startTimeout, stopTimeout := a.Timeouts()
	start, cancel := context.WithTimeout(signals.Context, startTimeout)
	defer cancel()
	if err := a.Start(start); err != nil {
		return err
	}
	harder := context.AfterFunc(signals.Hard, a.KillAll)
	defer harder()
	err := f(signals.Context)
	stop, cancel := context.WithTimeout(signals.Hard, stopTimeout)
	defer cancel()
	err = errors.Join(err, a.Stop(stop))
	if sig, ok := errors.AsType[*foreground.SignalError](context.Cause(signals.Context)); ok {
		inv.exit = exitSignalBase + int(sig.Signal)
	}
	return err
}

// lookup is the value of a variable; "" where it has none.
func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if n, value, ok := strings.Cut(entry, "="); ok && n == name {
			return value
		}
	}
	return ""
}

// shellJSON talks to a program.
func (inv *invocation) shellJSON(ctx context.Context, flags *execFlags, dir string, c *config.Loaded, logger *slog.Logger) error {
	if len(inv.argv) > 0 {
		return &usageError{fieldCommand, "can't be chosen with --json, which runs bash"}
	}
	settings := ptyshell.DefaultConfig()
	settings.Dir, settings.Grace, settings.Limits, settings.Require = dir, c.Grace, flags.limits, flags.require
	if flags.timeout > 0 {
		settings.Timeout = time.Duration(flags.timeout)
	}
	var shells *ptyshell.Shells
	managed := func(e *bash.Environment) ptyshell.Config {
		settings.Environ = e.Snapshot
		return settings
	}
	a, err := inv.compose(c, logger, ptyshell.Module(), fx.Provide(managed), fx.Populate(&shells))
	if err != nil {
		return err
	}
	return inv.onApp(ctx, a, func(ctx context.Context) error {
		session, err := shells.Open(ctx, ptyshell.Open{Env: flags.env, Range: flags.name})
		if err != nil {
			return err
		}
		talk := newTalk(session, inv.program.Stdin, inv.program.Stdout)
		exit, err := talk.run(ctx, func(ctx context.Context) error {
			_, err := shells.CloseSession(ctx, "", session.ID())
			return err
		})
		inv.exit = exit
		return err
	})
}

// An outer is the terminal that a person sits at.
type outer struct{ in, out *os.File }

func openOuter(p Program) (outer, error) {
	in, _ := p.Stdin.(*os.File)
	out, _ := p.Stdout.(*os.File)
	switch {
	case in == nil || !isTerminal(in):
		return outer{}, &usageError{"standard input", "is no terminal; --json is for programs"}
	case out == nil || !isTerminal(out):
		return outer{}, &usageError{"standard output", "is no terminal; --json is for programs"}
	}
	return outer{in, out}, nil
}
