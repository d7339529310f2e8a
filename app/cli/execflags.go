package cli

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/corral-world/corral/app/config"
	"github.com/corral-world/corral/seam"
)

// Forms of --stdin that are no file.
const (
	stdinNull    = "null"
	stdinInherit = "inherit"
)

// execFlags are the flags of corral exec and corral bash, and of corral shell some,
// other than those that override settings.
type execFlags struct {
	timeout   positiveDuration
	dir       string
	env       seam.Env
	stdin     string
	survivors seam.SurvivorPolicy
	require   seam.Completeness
	name      string
	detach    bool
	limits    seam.Limits
}

// execSettings are the settings that flags of both override, by flag.
func execSettings() map[string]string {
	return map[string]string{"grace": "grace", "drain": "drain", "containment": "containment"}
}

func (f *execFlags) register(flags *pflag.FlagSet) {
	f.registerRange(flags)
	flags.Var(&f.timeout, "timeout", "end the command after `D`, such as 90s or 5m")
	flags.String("drain", "", "wait up to `D` after the command for what it started (setting drain)")
	f.stdin = stdinNull
	flags.Var((*notEmpty)(&f.stdin), "stdin", "read input from `FROM`: null, inherit, or a file (./null is one)")
	flags.Var(word[seam.SurvivorPolicy]{&f.survivors, map[string]seam.SurvivorPolicy{
		"kill": seam.KillSurvivors, "keep": seam.KeepSurvivors, "fail": seam.FailOnSurvivors,
	}}, "survivors", "apply `POLICY` to what outlives the command: kill, keep or fail (default kill)")
	flags.BoolVar(&f.detach, "detach", false, "let the command outlive corral")
}

// registerRange registers what every launch has.
func (f *execFlags) registerRange(flags *pflag.FlagSet) {
	flags.String("grace", "", "leave `D` between asking to end and force (setting grace)")
	flags.Var((*notEmpty)(&f.dir), "dir", "run in `DIR` (default the present directory)")
	flags.Var(setVariable{&f.env}, "env", "set a variable, `K=V`; may be repeated")
	flags.Var(unsetVariable{&f.env}, "unset", "remove the variable `K`; may be repeated")
	flags.String("containment", "", "force a `KIND`: auto, scope, cgroup, reaper or group (setting containment)")
	flags.Var(word[seam.Completeness]{&f.require, map[string]seam.Completeness{
		"complete": seam.CompleteContainment,
	}}, "require", "refuse to start with less than `WHAT`: complete")
	flags.Var((*notEmpty)(&f.name), "name", "give the range a `NAME`")
	flags.Var((*memorySize)(&f.limits.MemoryBytes), "limit-memory", "bound the range's memory to `SIZE`, such as 2GiB")
	flags.Var((*positiveInt)(&f.limits.Pids), "limit-pids", "allow the range `N` processes and threads")
	flags.Var((*positiveNumber)(&f.limits.CPUs), "limit-cpus", "give the range `N` processors' time, such as 1.5")
}

func (f *execFlags) absDir() (string, error) {
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return "", &usageError{"--dir", "can't be told: " + err.Error()}
	}
	return dir, nil
}

// The types below are flags. Errors of Set complete a sentence that begins with
// the flag's name.

type positiveDuration time.Duration

func (v *positiveDuration) Set(s string) error {
	d, err := config.Duration(s)
	if err == nil && d <= 0 {
		err = fmt.Errorf("is %v, and must be greater than 0", d)
	}
	*v = positiveDuration(d)
	return err
}

func (v *positiveDuration) String() string { return shown(int64(*v), time.Duration(*v).String()) }
func (v *positiveDuration) Type() string   { return "duration" }

type memorySize int64

func (v *memorySize) Set(s string) error {
	n, err := config.Size(s)
	if err == nil && n < 1 {
		err = fmt.Errorf("is %d, and must be at least 1", n)
	}
	*v = memorySize(n)
	return err
}

func (v *memorySize) String() string { return shown(int64(*v), strconv.FormatInt(int64(*v), 10)) }
func (v *memorySize) Type() string   { return "size" }

type positiveInt int

func (v *positiveInt) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return fmt.Errorf("is %q, and must be an integer of at least 1", s)
	}
	*v = positiveInt(n)
	return nil
}

func (v *positiveInt) String() string { return shown(int64(*v), strconv.Itoa(int(*v))) }
func (v *positiveInt) Type() string   { return "int" }

type positiveNumber float64

func (v *positiveNumber) Set(s string) error {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) {
		return fmt.Errorf("is %q, and must be a number greater than 0", s)
	}
	*v = positiveNumber(n)
	return nil
}

func (v *positiveNumber) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*v), 'g', -1, 64)
}
func (v *positiveNumber) Type() string { return "number" }

// shown is how the help shows a default: not at all where there is none.
func shown(n int64, text string) string {
	if n == 0 {
		return ""
	}
	return text
}

type notEmpty string

func (v *notEmpty) Set(s string) error {
	if s == "" {
		return fmt.Errorf("is empty")
	}
	*v = notEmpty(s)
	return nil
}

func (v *notEmpty) String() string { return string(*v) }
func (v *notEmpty) Type() string   { return "string" }

// word is one of some words that stand for values.
type word[T comparable] struct {
	value *T
	words map[string]T
}

func (v word[T]) Set(s string) error {
	value, ok := v.words[s]
	if !ok {
		return fmt.Errorf("can't be %q", s)
	}
	*v.value = value
	return nil
}

func (v word[T]) String() string { return "" }
func (v word[T]) Type() string   { return "word" }

// setVariable and unsetVariable share a list, in which later entries win.
type (
	setVariable   struct{ env *seam.Env }
	unsetVariable struct{ env *seam.Env }
)

func (v setVariable) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("must be K=V, and is %q", name)
	}
	*v.env = append(*v.env, seam.Set(name, value))
	return nil
}

func (v setVariable) String() string { return "" }
func (v setVariable) Type() string   { return "K=V" }

func (v unsetVariable) Set(s string) error {
	if s == "" || strings.Contains(s, "=") {
		return fmt.Errorf("must name a variable, and is %q", s)
	}
	*v.env = append(*v.env, seam.Unset(s))
	return nil
}

func (v unsetVariable) String() string { return "" }
func (v unsetVariable) Type() string   { return "K" }
