package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/app/config"
	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// diagnosis is what corral doctor reports.
type diagnosis struct {
	Version     string           `json:"version"`
	World       string           `json:"world"`
	Containment containmentFacts `json:"containment"`
	Environment environmentFacts `json:"environment"`
	Limits      limitFacts       `json:"limits"`
	Spill       spillFacts       `json:"spill"`
	Terminals   check            `json:"terminals"`
	Kernel      []check          `json:"kernel"`
	ConfigFile  *string          `json:"config_file"`
}

type containmentFacts struct {
	containmentReport
	Reason   string    `json:"reason"`   // why nothing stronger is used
	Attempts []attempt `json:"attempts"` // what was tried, the strongest first
}

// attempt is one way to own ranges that was tried.
type attempt struct {
	Kind  seam.Kind `json:"kind"`
	Where string    `json:"where"`
	Error *string   `json:"error"` // why it is not used; null for the one that is
}

type environmentFacts struct {
	Mode    string   `json:"mode"`
	Allow   []string `json:"allow"`
	Deny    []string `json:"deny"`
	Dropped []string `json:"dropped"` // names, never values
}

type limitFacts struct {
	GraceMS     int64    `json:"grace_ms"`
	DrainMS     int64    `json:"drain_ms"`
	OutputBytes int64    `json:"output_max_bytes"`
	Enforceable []string `json:"enforceable"` // of a range's resources: memory, pids, cpu
	Refused     []check  `json:"refused"`     // the others, and why
}

type spillFacts struct {
	Dir        string `json:"dir"`
	Usable     bool   `json:"usable"`
	Detail     string `json:"detail"`
	MaxBytes   int64  `json:"max_bytes"`
	QuotaBytes int64  `json:"quota_bytes"`
	KeepMS     int64  `json:"keep_ms"`
}

// check is one fact about the host.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func newCheck(name string, err error, detail string) check {
	if err != nil {
		detail = err.Error()
	}
	return check{Name: name, OK: err == nil, Detail: detail}
}

// doctorCommand is corral doctor.
func (inv *invocation) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this host can promise, and why not more",
		Long: `Tell what owns the ranges of commands on this host, what can escape it, and why
nothing stronger is used; which variables commands do not get to see (their
names, never their values); and what of the system is used.

No command is run. To tell what owns ranges corral chooses it as for a command,
and that may start a helper of corral's own: a supervisor, or a guardian in a
unit of the systemd manager. It has ended when doctor has.`,
		Example: "  corral doctor\n  corral doctor --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return inv.doctor(cmd)
		},
	}
	cmd.Flags().BoolVar(&inv.json, "json", false, "report in one JSON object")
	return cmd
}

func (inv *invocation) doctor(cmd *cobra.Command) error {
	loaded, err := inv.load(cmd.Flags(), nil)
	if err != nil {
		return err
	}
	a, err := inv.compose(loaded, inv.console.logger(loaded.Log, inv.program.Environ))
	if err != nil {
		return err
	}
	d, err := inv.diagnose(cmd.Context(), a, loaded)
	if err != nil {
		return err
	}
	if inv.json {
		return writeJSON(inv.program.Stdout, d)
	}
	return inv.printDiagnosis(d)
}

// diagnose asks a, and ends what that has started, also where a signal ends the
// asking.
func (inv *invocation) diagnose(ctx context.Context, a *app.App, c *config.Loaded) (diagnosis, error) {
	signals := foreground.WatchSignals(ctx, ignores)
	defer signals.Stop()
	startTimeout, stopTimeout := a.Timeouts()
	ask, cancel := context.WithTimeout(signals.Context, startTimeout)
	defer cancel()
	d, err := diagnose(ask, a, c)
	stop, cancel := context.WithTimeout(signals.Hard, stopTimeout)
	defer cancel()
	return d, errors.Join(err, a.Stop(stop))
}

func diagnose(ctx context.Context, a *app.App, c *config.Loaded) (diagnosis, error) {
	world := a.World().Subprocess()
	containment, err := world.Containment(ctx)
	if err != nil {
		return diagnosis{}, err
	}
	d := diagnosis{
		Version:     version(),
		World:       a.World().ID(),
		Containment: containmentFacts{reportContainment(containment), containment.Reason, attempts(world)},
		Environment: environmentFacts{
			Mode:    "deny",
			Allow:   append([]string{}, c.Scrub.Allow...),
			Deny:    append([]string{}, c.Scrub.Deny...),
			Dropped: []string{},
		},
		Limits: limitFacts{
			GraceMS:     c.Grace.Milliseconds(),
			DrainMS:     c.Drain.Milliseconds(),
			OutputBytes: c.OutputMaxBytes,
		},
		Spill:     diagnoseSpill(c.Spill),
		Terminals: diagnoseTerminals(ctx, world),
		Kernel:    kernelChecks(),
	}
	d.Limits.Enforceable, d.Limits.Refused = enforceable(ctx, world)
	if c.Scrub.AllowOnly {
		d.Environment.Mode = "allow"
	}
	if scrubbed, ok := world.(interface{ DroppedEnv() []string }); ok {
		d.Environment.Dropped = append(d.Environment.Dropped, scrubbed.DroppedEnv()...)
	}
	if c.File != "" {
		d.ConfigFile = &c.File
	}
	return d, nil
}

// attempts is empty where the world does not say.
func attempts(world seam.Subprocess) []attempt {
	tried := []attempt{}
	if w, ok := world.(interface{ Attempts() []local.Attempt }); ok {
		for _, a := range w.Attempts() {
			tried = append(tried, attempt{Kind: a.Kind, Where: a.Where, Error: textOf(a.Err)})
		}
	}
	return tried
}

// enforceable are the limits that the next launch could have, and refused the
// others. It asks for each
// with a program that can't be executed, a directory: a world that enforces the
// limit refuses the program, and any other the limit. Nothing is started.
func enforceable(ctx context.Context, world seam.Subprocess) (list []string, refused []check) {
	list, refused = []string{}, []check{}
	for _, limit := range []struct {
		name   string
		limits seam.Limits
	}{
		{"memory", seam.Limits{MemoryBytes: 1 << 40}},
		{"pids", seam.Limits{Pids: 1 << 15}},
		{"cpu", seam.Limits{CPUs: 1}},
	} {
		_, err := world.Spawn(ctx, seam.Spec{Argv: []string{"/"}, Dir: "/", Grace: time.Second, Limits: limit.limits})
		if seam.CodeOf(err) == seam.CodeNotExecutable {
			list = append(list, limit.name)
		} else if field, ok := errors.AsType[*seam.FieldError](err); ok {
			refused = append(refused, check{Name: limit.name, Detail: field.Problem})
		} else {
			refused = append(refused, newCheck(limit.name, err, "was not refused"))
		}
	}
	return list, refused
}

// diagnoseTerminals asks for a terminal in a way that can't be granted: a world
// that has terminals says so by refusing the request and not the operation.
func diagnoseTerminals(ctx context.Context, world seam.Subprocess) check {
	_, err := world.SpawnTerminal(ctx, seam.TerminalSpec{})
	if seam.CodeOf(err) == seam.CodeInvalid {
		err = nil
	}
	return newCheck("terminals", err, "supported")
}

// diagnoseSpill tries the directory the way a runtime would use it.
func diagnoseSpill(s config.Spill) spillFacts {
	f := spillFacts{
		Dir:        s.Dir,
		MaxBytes:   s.MaxBytes,
		QuotaBytes: s.QuotaBytes,
		KeepMS:     s.Keep.Milliseconds(),
	}
	if f.Dir == "" {
		f.Dir = os.TempDir()
	}
	tried, err := os.MkdirTemp(f.Dir, ".corral-doctor-")
	if err == nil {
		err = os.Remove(tried)
	}
	if f.Usable = err == nil; !f.Usable {
		f.Detail = err.Error()
	}
	return f
}

func (inv *invocation) printDiagnosis(d diagnosis) error {
	table := tabwriter.NewWriter(inv.program.Stdout, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}

	row("version", "%s", d.Version)
	row("world", "%s", d.World)
	if d.ConfigFile != nil {
		row("config file", "%s", *d.ConfigFile)
	}
	complete := "complete"
	if !d.Containment.Complete {
		complete = "not complete"
	}
	row("containment", "%s (%s)", d.Containment.Kind, complete)
	for _, escape := range d.Containment.Escapes {
		row("  escape", "%s", escape)
	}
	if d.Containment.Reason != "" && len(d.Containment.Attempts) == 0 {
		row("  why not more", "%s", d.Containment.Reason)
	}
	for _, a := range d.Containment.Attempts {
		if a.Error != nil {
			row("  why not", "%s (%s): %s", a.Kind, a.Where, *a.Error)
		}
	}
	row("environment", "rule %s, %d variables dropped", d.Environment.Mode, len(d.Environment.Dropped))
	if len(d.Environment.Allow) > 0 {
		row("  allow", "%s", quoteArgv(d.Environment.Allow, 1000))
	}
	if len(d.Environment.Deny) > 0 {
		row("  deny", "%s", quoteArgv(d.Environment.Deny, 1000))
	}
	for _, name := range d.Environment.Dropped {
		row("  dropped", "%s", quoteArgv([]string{name}, 200))
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	row("limits", "grace %v, drain %v, %d bytes of output kept", ms(d.Limits.GraceMS), ms(d.Limits.DrainMS), d.Limits.OutputBytes)
	row("  enforceable", "%s", orNone(d.Limits.Enforceable))
	for _, c := range d.Limits.Refused {
		row("  why not", "%s %s", c.Name, c.Detail)
	}
	row("spill", "%s, %d bytes a stream, %d together, kept %v", d.Spill.Dir, d.Spill.MaxBytes, d.Spill.QuotaBytes, ms(d.Spill.KeepMS))
	if !d.Spill.Usable {
		row("  not usable", "%s", d.Spill.Detail)
	}
	for _, c := range append([]check{d.Terminals}, d.Kernel...) {
		state := "ok"
		if !c.OK {
			state = "no"
		}
		row(c.Name, "%s: %s", state, c.Detail)
	}
	return table.Flush() // which has the errors of writing
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
