package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/fx"

	"github.com/corral-world/corral/app/config"
	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/seam"
)

const bashLong = `Run a script in a fresh bash, end with it everything that it started, and print
the result as a model is to read it.

What the script printed comes first, its standard error behind a line [stderr],
and then, each on a line of its own, what became of processes that outlived the
script, that it timed out, and how it ended, unless it succeeded. It is printed
when the script has ended. Of a long stream the end is shown, and a file is
named that holds all of it and outlives corral for the time of the setting
spill.keep.

The shell reads no startup files and keeps no state. A script "-" is read from
standard input, which is the way for one that is longer than an argument may be.
The script's own standard input is empty; a file that --stdin names is read
to its end before the script is started, and the timeout covers that.

Exit codes, signals to corral and --survivors are as with corral exec; 127 means
that there is no bash. With --json one object is printed, which has the text, the
streams and the members of the object of corral exec --json. Where standard
error is a terminal a line shows that a script is still running.`

const bashExample = `  corral bash 'make test 2>&1 | tail -n 50'
  corral bash --timeout 10m --dir /src/app --env CI=1 './configure && make'
  corral bash --json --survivors keep --drain 0s './start.sh; echo started'
  corral bash --stdin rows.csv 'cut -d, -f2 | sort | uniq -c'
  corral bash - < long-script.sh`

// fieldScript names the script among the arguments.
const fieldScript = "SCRIPT"

// fromStdin stands for a script that is read from standard input.
const fromStdin = "-"

// maxInputBytes bounds a script that is read, and what is read for one.
const maxInputBytes = 16 << 20

// bashCommand is corral bash.
func (inv *invocation) bashCommand() *cobra.Command {
	flags := new(execFlags)
	cmd := &cobra.Command{
		Use:     "bash [flags] [--] SCRIPT",
		Short:   "Run a bash script and print the result for a model",
		Long:    bashLong,
		Example: bashExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return &usageError{fieldScript, "is missing"}
			case len(args) > 1:
				return &usageError{fieldScript, fmt.Sprintf("is one argument and the last, and %q follows it", args[1])}
			}
			if args[0] != fromStdin {
				inv.script = args[0]
			}
			return inv.bash(cmd, flags)
		},
	}
	// As with exec, although here nothing may follow.
	cmd.Flags().SetInterspersed(false)
	flags.register(cmd.Flags())
	describeForBash(cmd.Flags())
	cmd.Flags().BoolVar(&inv.json, "json", false, "report in one JSON object")
	return cmd
}

// describeForBash says where the flags mean something else than with exec.
func describeForBash(flags *pflag.FlagSet) {
	flags.Lookup("timeout").Usage = fmt.Sprintf("end the script after `D` (default %v)", bash.DefaultConfig().Timeout)
	flags.Lookup("stdin").Usage = fmt.Sprintf("read input from `FROM`: null, or a file of at most %d bytes", maxInputBytes)
	flags.Lookup("detach").Hidden = true // refused
}

// bash does everything that can be refused before it does anything else.
func (inv *invocation) bash(cmd *cobra.Command, flags *execFlags) error {
	loaded, err := inv.load(cmd.Flags(), execSettings())
	if err != nil {
		return err
	}
	if flags.detach {
		return &usageError{"--detach", "can't be used with bash, which waits for what the script prints"}
	}
	settings, err := bashConfig(flags, loaded)
	if err != nil {
		return err
	}
	logger := inv.console.logger(loaded.Log, inv.program.Environ)
	source, err := bashSource(flags)
	if err != nil {
		return err
	}
	request, err := inv.bashRequest(cmd, flags)
	if err != nil {
		return err
	}
	request.OnKept = func(members []seam.Member) {
		logMembers(logger, "waiting for a process that outlived the script", members)
	}
	var shell *bash.Bash
	a, err := inv.compose(loaded, logger, bash.Module(), fx.Supply(settings), fx.Populate(&shell))
	if err != nil {
		return err
	}
	var result bash.Result
	v, err := inv.runOn(cmd.Context(), a, logger, flags.survivors, func(ctx context.Context) (end foreground.Result, err error) {
		quiet := inv.console.progress([]string{settings.Shell, inv.script})
		defer quiet()
		if source != nil {
			result, err = runFed(ctx, shell, request, source, settings.Timeout)
		} else {
			result, err = shell.Run(ctx, request)
		}
		if result.Process == nil {
			return end, err
		}
		return endOf(ctx, result, err), nil
	})
	if err != nil {
		return err
	}
	return inv.printResult(result, v)
}

func bashConfig(flags *execFlags, c *config.Loaded) (bash.Config, error) {
	dir, err := flags.absDir()
	if err != nil {
		return bash.Config{}, err
	}
	b := bash.DefaultConfig()
	b.Dir = dir
	b.Grace, b.Drain = c.Grace, c.Drain
	b.SpillMaxBytes = c.Spill.MaxBytes
	if c.IsSet("output.max_bytes") { // else a model's budget, which is smaller
		b.MaxOutputBytes = c.OutputMaxBytes
	}
	if flags.timeout > 0 {
		b.Timeout = time.Duration(flags.timeout)
		b.MaxTimeout = max(b.MaxTimeout, b.Timeout)
	}
	b.Survivors, b.Require, b.Limits = flags.survivors, flags.require, flags.limits
	return b, nil
}

// bashSource opens what the script is to read; nil where that is nothing.
func bashSource(flags *execFlags) (*foreground.Source, error) {
	switch flags.stdin {
	case stdinNull:
		return nil, nil
	case stdinInherit:
		return nil, &usageError{"--stdin", "can't be inherit with bash: name a file, or /dev/stdin"}
	}
	source, err := foreground.OpenSource(flags.stdin)
	if err != nil {
		return nil, unusableStdin(err)
	}
	return source, nil
}

func unusableStdin(err error) error { return &usageError{"--stdin", "can't be used: " + err.Error()} }

// runFed reads source, runs the script on what it holds, and has one timeout for
// both.
func runFed(ctx context.Context, shell *bash.Bash, request bash.Request, source *foreground.Source, timeout time.Duration) (bash.Result, error) {
	ranOut := &foreground.TimeoutError{After: timeout}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ranOut)
	defer cancel()
	var err error
	request.Stdin, err = source.ReadAll(ctx, maxInputBytes)
	switch {
	case ctx.Err() != nil:
		return bash.Result{}, fmt.Errorf("--stdin: %w", err)
	case err != nil:
		return bash.Result{}, unusableStdin(err)
	}
	result, err := shell.Run(ctx, request)
	if result.Aborted && errors.Is(context.Cause(ctx), ranOut) {
		result.TimedOut, result.Aborted = true, false
	}
	return result, err
}

// bashRequest makes a request of flags, and reads the script.
func (inv *invocation) bashRequest(cmd *cobra.Command, flags *execFlags) (bash.Request, error) {
	request := bash.Request{Env: flags.env, Name: flags.name}
	if cmd.Flags().Arg(0) == fromStdin {
		script, err := readBounded(inv.program.Stdin)
		if err != nil {
			return request, &usageError{fieldScript, "can't be read from standard input: " + err.Error()}
		}
		inv.script = string(script)
	}
	request.Script = inv.script
	return request, nil
}

// readBounded reads all of r.
func readBounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxInputBytes+1))
	if err == nil && len(data) > maxInputBytes {
		err = fmt.Errorf("there are more than %d bytes", maxInputBytes)
	}
	return data, err
}

// endOf has a script's end judged as a command's. listing is an error in listing
// survivors.
func endOf(ctx context.Context, r bash.Result, listing error) foreground.Result {
	end := foreground.Result{
		Process: r.Process,
		Ending:  seam.Ending{Outcome: r.Outcome, Survivors: r.Survivors, Empty: r.Empty, Err: r.Failure},
		Listing: listing,
	}
	if r.JobErr != nil { // they were to be kept, and were not
		end.Ending.Err = errors.Join(r.Failure, r.JobErr)
	}
	switch {
	case r.TimedOut:
		end.Stopped = &foreground.TimeoutError{After: r.Timeout}
	case r.Aborted:
		end.Stopped = context.Cause(ctx)
	}
	return end
}

func (inv *invocation) printResult(r bash.Result, v verdict) error {
	text := r.Render()
	if !inv.json {
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if _, err := io.WriteString(inv.program.Stdout, text); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		return nil
	}
	report := bashReport{
		Name:      v.Process.Name(),
		Script:    inv.script,
		Text:      text,
		TimedOut:  r.TimedOut,
		Aborted:   r.Aborted,
		TimeoutMS: r.Timeout.Milliseconds(),
		endReport: reportEnd(v),
	}
	if r.Job != nil {
		report.Job = &r.Job.ID
	}
	return writeJSON(inv.program.Stdout, report)
}
