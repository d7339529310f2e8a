package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/internal/control"
	"github.com/corral-world/corral/seam"
)

const psLong = `List the live ranges of this user: what harnesses of this program's kind, and
others that embed Corral, are running now, and what runs detached.

Each harness answers for its own. Members are the processes that live in a
range, the command itself among them. A range whose command has ended, and that
something still lives in, is shown as exited.`

// psReport is the object of corral ps --json.
type psReport struct {
	Ranges []rangeReport `json:"ranges"`
	// Silent are harnesses that did not answer.
	Silent []silentReport `json:"silent"`
}

type rangeReport struct {
	Name        string            `json:"name"`
	Argv        []string          `json:"argv"`
	Owner       *int              `json:"owner"` // the process that owns it; null in a pid namespace that is not seen from here
	AgeMS       int64             `json:"age_ms"`
	Detached    bool              `json:"detached"`
	Exited      bool              `json:"exited"` // the command itself has ended
	Containment containmentReport `json:"containment"`
	Members     []memberReport    `json:"members"`
	MembersErr  *string           `json:"members_error"`
}

type silentReport struct {
	Owner *int   `json:"owner"`
	Error string `json:"error"`
}

// psCommand is corral ps.
func (inv *invocation) psCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ps [flags]",
		Short:   "List the live ranges of this user",
		Long:    psLong,
		Example: "  corral ps\n  corral ps --json | jq '.ranges[].name'",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return inv.ps(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&inv.json, "json", false, "report in one JSON object")
	return cmd
}

func (inv *invocation) ps(ctx context.Context) error {
	runtimes, err := control.Runtimes(ctx)
	if err != nil && len(runtimes) == 0 {
		return fmt.Errorf("list ranges: %w", err)
	}
	if err != nil {
		inv.console.line("corral: " + err.Error()) // the others have answered
	}
	report := psReport{Ranges: []rangeReport{}, Silent: []silentReport{}}
	for _, r := range runtimes {
		if r.Err != nil {
			report.Silent = append(report.Silent, silentReport{ownerOf(r), r.Err.Error()})
			continue
		}
		for _, found := range r.Ranges {
			report.Ranges = append(report.Ranges, reportRange(r, found))
		}
	}
	slices.SortStableFunc(report.Ranges, func(a, b rangeReport) int {
		return cmp.Or(cmp.Compare(b.AgeMS, a.AgeMS), cmp.Compare(a.Name, b.Name))
	})
	if inv.json {
		return writeJSON(inv.program.Stdout, report)
	}
	for _, silent := range report.Silent {
		inv.console.line(fmt.Sprintf("corral: process %s does not tell its ranges: %s", shownPID(silent.Owner), plainText(silent.Error)))
	}
	table := tabwriter.NewWriter(inv.program.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tOWNER\tAGE\tCONTAINMENT\tMEMBERS\tCOMMAND") //nolint:errcheck // Flush tells
	for _, r := range report.Ranges {
		owner := shownPID(r.Owner)
		if r.Detached {
			owner = "detached"
		}
		command := quoteArgv(r.Argv, 60)
		if r.Exited {
			command += " (exited)"
		}
		//nolint:errcheck // Flush tells
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", plainText(r.Name), owner, shownAge(r.AgeMS),
			plainText(string(r.Containment.Kind)), len(r.Members), command)
	}
	return table.Flush()
}

func reportRange(r control.Runtime, found control.Range) rangeReport {
	report := rangeReport{
		Name:     found.Name,
		Argv:     append([]string{}, found.Argv...),
		Owner:    ownerOf(r),
		AgeMS:    max(time.Since(found.Started).Milliseconds(), 0),
		Detached: found.Detached,
		Exited:   found.Exited,
		Containment: reportContainment(seam.Containment{
			Kind: found.Kind, Complete: found.Complete, Escapes: found.Escapes}),
		Members: []memberReport{},
	}
	for _, m := range found.Members {
		report.Members = append(report.Members, reportMember(seam.Member(m)))
	}
	if found.MembersError != "" {
		report.MembersErr = &found.MembersError
	}
	return report
}

func ownerOf(r control.Runtime) *int {
	if r.Owner == 0 {
		return nil
	}
	return &r.Owner
}

func shownPID(pid *int) string {
	if pid == nil {
		return "?"
	}
	return strconv.Itoa(*pid)
}

// shownAge is how ps(1) would round it.
func shownAge(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

const stopLong = `End a live range of this user, by the name that "corral ps" shows, and wait
until its owner has proven that nothing of it lives. Its members are asked to
end, and after the grace that it was started with they are killed; --force kills
them at once.

Exit code 0 means proven empty. The harness that owns the range learns that it
was stopped, and by which process.`

const stopExample = `  corral exec --detach --name web -- ./server
  corral stop web
  corral stop --force run-5k2mzq7c1x
  corral stop --owner 4711 build`

// stopReport is the object of corral stop --json.
type stopReport struct {
	Name  string `json:"name"`
	Owner *int   `json:"owner"`
	Empty bool   `json:"empty"`
}

type stopFlags struct {
	owner int
	force bool
}

// stopCommand is corral stop.
func (inv *invocation) stopCommand() *cobra.Command {
	flags := new(stopFlags)
	cmd := &cobra.Command{
		Use:     "stop [flags] NAME",
		Short:   "End a live range of this user, by name",
		Long:    stopLong,
		Example: stopExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return &usageError{"NAME", "is missing"}
			case len(args) > 1:
				return noArguments(cmd, args[1:])
			}
			return inv.stop(cmd.Context(), args[0], flags)
		},
	}
	cmd.Flags().BoolVar(&inv.json, "json", false, "report in one JSON object")
	cmd.Flags().BoolVar(&flags.force, "force", false, "kill at once, without grace")
	cmd.Flags().Var((*positiveInt)(&flags.owner), "owner", "only the range of process `PID`")
	return cmd
}

func (inv *invocation) stop(ctx context.Context, name string, flags *stopFlags) error {
	signals := foreground.WatchSignals(ctx, ignores)
	defer signals.Stop()
	ctx = signals.Context
	runtimes, err := control.Runtimes(ctx)
	if err != nil && len(runtimes) == 0 {
		return fmt.Errorf("list ranges: %w", err)
	}
	var found []*control.Runtime
	var owners []string
	silent := 0
	for i := range runtimes {
		r := &runtimes[i]
		if flags.owner != 0 && r.Owner != flags.owner {
			continue
		}
		if r.Err != nil {
			silent++
		}
		if slices.ContainsFunc(r.Ranges, func(found control.Range) bool { return found.Name == name }) {
			found = append(found, r)
			owners = append(owners, shownPID(ownerOf(*r)))
		}
	}
	switch {
	case len(found) == 0:
		problem := fmt.Sprintf("is %q, and no live range has that name", name)
		if silent > 0 {
			problem += fmt.Sprintf(" (%d of this user's harnesses did not answer)", silent)
		}
		return &usageError{"NAME", problem}
	case len(found) > 1:
		return &usageError{"NAME", fmt.Sprintf("is %q, which processes %s each have a range of: say which with --owner",
			name, strings.Join(owners, ", "))}
	}
	if err := found[0].Stop(ctx, name, flags.force); err != nil {
		return stopError(name, err)
	}
	if inv.json {
		return writeJSON(inv.program.Stdout, stopReport{Name: name, Owner: ownerOf(*found[0]), Empty: true})
	}
	return nil
}

// stopError is why a range is not known to be empty.
func stopError(name string, err error) error {
	if errors.Is(err, control.ErrNoRange) {
		return &usageError{"NAME", fmt.Sprintf("is %q, and that range has just ended", name)}
	}
	code := seam.CodeIO
	if answer, ok := errors.AsType[*control.Error](err); ok {
		code = answer.Code
		err = errors.New(plainText(answer.Text))
	}
	return &seam.OpError{Op: "stop", Argv0: name, Code: code, Err: err}
}
