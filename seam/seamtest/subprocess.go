package seamtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corral-world/corral/seam"
)

// A SubprocessConfig is a subprocess half to be held to the contract of
// [seam.Subprocess], and what the suite has to know of its world.
type SubprocessConfig struct {
	// New makes a runtime for one case. Its base environment is made from the
	// entries of [Environ], at least. Required.
	New func() (seam.Subprocess, error)

	// Close ends a runtime that New made. It returns nil with proof that
	// nothing of it lives, and may be called again. When ctx ends, or had
	// ended, what is left is killed at once. It is nil where runtimes are not
	// closed; the cases about that are skipped then.
	Close func(ctx context.Context, subprocess seam.Subprocess) error

	// Program returns an argument vector that runs a verb of internal/testproc
	// in the world. Its first element is an absolute path whose directory holds
	// it under its last element. Required.
	Program func(verb string, args ...string) []string

	// Dir is an existing directory, absolute and canonical in the world's
	// syntax. Required.
	Dir string

	// PlainFile is the absolute path of an existing file of the world that may
	// not be executed. Required.
	PlainFile string

	// FS is the world's other half, through which spill files are read. Where
	// it is nil the cases about them are skipped.
	FS seam.FS

	// Patience bounds what has to happen. Zero is a minute.
	Patience time.Duration

	// Omit names cases that the world can't be asked, each with the reason why.
	Omit map[string]string
}

// Environ is what the environment of a world's host must hold for the cases
// about the base environment, in the form of os.Environ.
func Environ() []string {
	return []string{
		plainName + "=plain",
		secretName + "=ambient secret",
		ownName + "=ambient",
	}
}

// Names in Environ: one to be kept, and two to be scrubbed.
const (
	plainName  = "SEAMTEST_PLAIN"
	secretName = "SEAMTEST_API_TOKEN"
	ownName    = seam.EnvPrefix + "SEAMTEST"
)

// TestSubprocess is the contract of [seam.Subprocess] and [seam.Process]: each
// case is a subtest that names the rule it checks. A world passes all of them.
//
// The subtests are parallel, so they run when the calling test function has
// returned: what cfg needs is released by t.Cleanup, not by defer.
func TestSubprocess(t *testing.T, cfg SubprocessConfig) {
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	testCases(t, cfg, subprocessCases())
}

func testCases(t *testing.T, cfg SubprocessConfig, cases []subprocessCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if reason := c.skip(cfg); reason != "" {
				t.Skip(reason)
			}
			if err := c.check(cfg); err != nil {
				t.Errorf("%v\nrule: %s", err, c.rule)
			}
		})
	}
}

// CheckSubprocess runs the cases of [TestSubprocess] outside a test and one
// after the other, those that cfg can't support left out, and returns the
// violations. It works in a bubble of testing/synctest, where it takes no time.
func CheckSubprocess(cfg SubprocessConfig) []Violation {
	if err := cfg.check(); err != nil {
		return []Violation{{Case: "config", Rule: "the suite is configured", Err: err}}
	}
	return checkCases(cfg, subprocessCases())
}

func checkCases(cfg SubprocessConfig, cases []subprocessCase) []Violation {
	var violations []Violation
	for _, c := range cases {
		if c.skip(cfg) != "" {
			continue
		}
		if err := c.check(cfg); err != nil {
			violations = append(violations, Violation{Case: c.name, Rule: c.rule, Err: err})
		}
	}
	return violations
}

// SubprocessCases returns the names of the cases in the order in which they run.
func SubprocessCases() []string { return namesOf(subprocessCases()) }

func namesOf(cases []subprocessCase) []string {
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

func subprocessCases() []subprocessCase {
	return slices.Concat(validationCases, spawnCases, environmentCases, nameCases, runtimeCases,
		streamCases, collectCases, waitCases, terminateCases, rangeCases, settleCases)
}

func (cfg SubprocessConfig) check() error {
	if cfg.New == nil || cfg.Program == nil || cfg.Dir == "" || cfg.PlainFile == "" {
		return errors.New("SubprocessConfig lacks New, Program, Dir or PlainFile")
	}
	names := append(SubprocessCases(), TerminalCases()...)
	for name, reason := range cfg.Omit {
		if !slices.Contains(names, name) {
			return fmt.Errorf("SubprocessConfig.Omit names no case: %q", name)
		}
		if reason == "" {
			return fmt.Errorf("SubprocessConfig.Omit gives no reason for %q", name)
		}
	}
	return nil
}

// A subprocessCase checks one rule.
type subprocessCase struct {
	name  string
	rule  string
	needs processNeeds
	run   func(e *processEnv)
}

// processNeeds is a set of optional things that a case uses.
type processNeeds int

const (
	needClose processNeeds = 1 << iota
	needFS
)

// skip returns why c can't run against cfg, or "".
func (c subprocessCase) skip(cfg SubprocessConfig) string {
	if reason := cfg.Omit[c.name]; reason != "" {
		return reason
	}
	if c.needs&needFS != 0 && cfg.FS == nil {
		return "SubprocessConfig.FS is nil: no file of this world can be read"
	}
	if c.needs&needClose != 0 && cfg.Close == nil {
		return "SubprocessConfig.Close is nil: this world is not closed"
	}
	return ""
}

// check runs c with a runtime of its own, and leaves nothing of it alive.
func (c subprocessCase) check(cfg SubprocessConfig) error {
	cfg.Patience = cmp.Or(cfg.Patience, time.Minute)
	subprocess, err := cfg.New()
	if err != nil {
		return fmt.Errorf("new runtime: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), cfg.Patience, errNoPatience)
	defer cancel()
	e := &processEnv{SubprocessConfig: cfg, sp: subprocess, ctx: ctx}

	// The case has a goroutine to itself, which fatalf ends. It is joined here
	// unless the provider blocks; then ending its ranges may unblock it.
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(e)
	}()
	limit := time.NewTimer(2 * cfg.Patience) // ctx gives calls the chance to say what they wait for
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		e.errorf("no end after %v", 2*cfg.Patience)
	}
	e.end()
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.errs...)
}

var (
	errNoPatience = errors.New("it has not come within the suite's patience")
	errCaseOver   = errors.New("the case is over")
)

// A processEnv is what a case works with.
type processEnv struct {
	SubprocessConfig
	sp  seam.Subprocess
	ctx context.Context // bounds what has to happen

	mu        sync.Mutex
	errs      []error
	processes []seam.Process  // that were spawned
	terminals []seam.Terminal // likewise
}

func (e *processEnv) errorf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.errs = append(e.errs, fmt.Errorf(format, args...))
}

// fatalf ends the case.
func (e *processEnv) fatalf(format string, args ...any) {
	e.errorf(format, args...)
	runtime.Goexit()
}

// end terminates what the case has left and holds the world to the proof.
func (e *processEnv) end() {
	ctx, cancel := context.WithTimeoutCause(context.Background(), e.Patience, errNoPatience)
	defer cancel()
	e.mu.Lock()
	processes, terminals := slices.Clone(e.processes), slices.Clone(e.terminals)
	e.mu.Unlock()
	for _, t := range terminals {
		if err := t.Close(ctx); err != nil {
			e.errorf("terminal %s, after the case: %w", t.Name(), err)
		}
	}
	for _, p := range processes {
		p.Terminate(errCaseOver)
	}
	for _, p := range processes {
		if err := p.WaitEmpty(ctx); err != nil {
			e.errorf("range %s, after the case: %w", p.Name(), err)
		}
	}
	if e.Close != nil {
		if err := e.Close(ctx, e.sp); err != nil {
			e.errorf("close, after the case: %w", err)
		}
	}
}
