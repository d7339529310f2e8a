package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/corral-world/corral/app/config"
)

// configCommand is corral config.
func (inv *invocation) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show the settings in effect",
		Example: `  corral config check
  corral --config new.json config check
  CORRAL_GRACE=10s corral config show`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{"config", "needs a subcommand: check or show"}
		},
	}
	check := &cobra.Command{
		Use:     "check",
		Short:   "Read the settings, and say what is wrong with them",
		Example: "  corral config check",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return inv.showConfig(cmd, inv.checked)
		},
	}
	show := &cobra.Command{
		Use:     "show",
		Short:   "Show every setting, its value, and where the value is from",
		Example: "  corral config show\n  corral config show --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if inv.json {
				return inv.showConfig(cmd, inv.settingsJSON)
			}
			return inv.showConfig(cmd, inv.settingsTable)
		},
	}
	show.Flags().BoolVar(&inv.json, "json", false, "show one JSON object")
	cmd.AddCommand(check, show)
	return cmd
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{cmd.Name(), fmt.Sprintf("takes no argument: %q", args[0])}
	}
	return nil
}

func (inv *invocation) showConfig(cmd *cobra.Command, show func(*config.Loaded) error) error {
	loaded, err := inv.load(cmd.Flags(), nil)
	if err != nil {
		return err
	}
	for _, name := range loaded.Unknown {
		inv.console.line("corral: " + quoteArgv([]string{name}, 120) + " is set, and is no setting")
	}
	return show(loaded)
}

func (inv *invocation) checked(c *config.Loaded) error {
	file := "no file"
	if c.File != "" {
		file = c.File
	}
	_, err := fmt.Fprintf(inv.program.Stdout, "ok (%s)\n", file)
	return err
}

func (inv *invocation) settingsTable(c *config.Loaded) error {
	table := tabwriter.NewWriter(inv.program.Stdout, 0, 0, 2, ' ', 0)
	for _, v := range c.Values() {
		text := fmt.Sprint(v.Value)
		if list, ok := v.Value.([]string); ok {
			text = strings.Join(list, ",")
		}
		if text == "" {
			text = "-"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", v.Setting, text, v.Origin)
	}
	return table.Flush() // which has the errors of writing
}

func (inv *invocation) settingsJSON(c *config.Loaded) error {
	type entry struct {
		Value  any    `json:"value"`
		Origin string `json:"origin"`
	}
	all := make(map[string]entry)
	for _, v := range c.Values() {
		all[v.Setting] = entry{v.Value, v.Origin}
	}
	return writeJSON(inv.program.Stdout, all)
}
