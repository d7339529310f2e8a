// Package cli is the corral command: it reads flags and configuration, runs
// what they ask for on a world that package app composes, and reports.
package cli

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/fx"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/app/config"
	"github.com/corral-world/corral/providers/local"
)

// Program is corral, and what it uses of the process that it is.
type Program struct {
	Args    []string // without the program's name
	Environ []string // in the form of os.Environ
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer

	// App replaces what commands run on; the zero value is this host.
	// Configuration overrides App.Local and App.Logger.
	App app.Options
}

// Main runs the program and returns its exit code. Commands that inherit
// streams get those of this process, whatever Stdin, Stdout and Stderr are.
func (p Program) Main() int {
	// Without someone to tell of it, writing to a reader that is gone ends this
	// process; it is to be an error. Nobody reads the channel.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	inv := &invocation{program: p, console: newConsole(p.Stderr)}
	root := inv.root()
	root.SetArgs(p.Args)
	root.SetOut(p.Stdout)
	root.SetErr(inv.console)
	if err := root.ExecuteContext(context.Background()); err != nil {
		return inv.fail(err)
	}
	return inv.exit
}

// invocation is one run of the program.
type invocation struct {
	program Program
	console *console
	flags   globalFlags
	json    bool     // --json of the subcommand
	argv    []string // of exec, once it is known
	script  string   // of bash, once it is known
	exit    int
}

// globalFlags are understood by every subcommand.
type globalFlags struct {
	config              string
	logLevel, logFormat string
}

func (inv *invocation) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "corral",
		Short: "Run commands, and end with them everything that they started",
		Long: `Corral runs commands in ranges: what a command starts belongs to it, ends with
it, and is proven to have ended. "corral doctor" tells what this host can promise.

Settings come from a JSON file (--config, else $CORRAL_CONFIG, else
corral/config.json in $XDG_CONFIG_HOME or ~/.config), are overridden by
variables such as CORRAL_GRACE, and these by flags. "corral config show" lists
them.

Exit code 125 is Corral's own failure.`,
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&inv.flags.config, "config", "", "read settings from `FILE`")
	flags.StringVar(&inv.flags.logLevel, "log-level", "", "log from `LEVEL` on: debug, info, warn, error (default warn)")
	flags.StringVar(&inv.flags.logFormat, "log-format", "", "log in `FORMAT` text or json (default text)")
	root.AddCommand(inv.execCommand(), inv.bashCommand(), inv.shellCommand(), inv.psCommand(), inv.stopCommand(), inv.doctorCommand(), inv.configCommand())
	return root
}

// load reads the configuration. settings names the settings that flags of the
// subcommand override, by flag.
func (inv *invocation) load(flags *pflag.FlagSet, settings map[string]string) (*config.Loaded, error) {
	sources := config.Sources{Environ: inv.program.Environ}
	if flags.Changed("config") {
		sources.File = &inv.flags.config
	}
	override := func(flag, setting string) {
		if flags.Changed(flag) {
			sources.Flags = append(sources.Flags,
				config.Flag{Flag: "--" + flag, Setting: setting, Text: flags.Lookup(flag).Value.String()})
		}
	}
	override("log-level", "log.level")
	override("log-format", "log.format")
	for _, flag := range slices.Sorted(maps.Keys(settings)) {
		override(flag, settings[flag])
	}
	return config.Load(sources)
}

// compose makes the app of a configuration, and more on it.
func (inv *invocation) compose(c *config.Loaded, logger *slog.Logger, more ...fx.Option) (*app.App, error) {
	options := inv.program.App
	options.Logger = logger
	options.Local = local.Config{
		Containment: c.Containment,
		Environ:     inv.program.Environ,
		Scrub:       c.Scrub,
		Spill: local.SpillConfig{
			Dir:        c.Spill.Dir,
			QuotaBytes: c.Spill.QuotaBytes,
			Keep:       c.Spill.Keep,
		},
	}
	return app.New(options, more...)
}

// ignores reports whether this process was started with sig ignored.
func ignores(sig os.Signal) bool { return local.Ignores(sig) }
