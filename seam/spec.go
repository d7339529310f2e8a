package seam

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Spec says everything about a launch. The provider adds nothing but the
// world's scrubbed base environment.
type Spec struct {
	// Argv is the program and its arguments, never interpreted by a shell.
	// A bare Argv[0] is searched on the PATH of the resulting environment; one
	// with a separator is taken from Dir.
	Argv []string

	// Dir is the working directory: absolute, in the world's own syntax.
	Dir string

	// Env overrides the world's base environment.
	Env Env

	Stdin          Stdin
	Stdout, Stderr Output

	// Grace is the time between TERM and KILL, nothing else. Greater than 0.
	Grace time.Duration

	// Drain bounds, after the direct process has ended, the wait for the range
	// to empty and collected streams to end. At least 0. See [Process.Wait].
	Drain time.Duration

	// Name is the range's name, unique among the world's live ranges. Letters,
	// digits, ".", "_" and "-", at most 64, beginning with a letter or digit.
	// Empty: the provider makes one.
	Name string

	// Limits are enforced or the launch is refused.
	Limits Limits

	// Require refuses the launch where less containment is to be had.
	Require Completeness

	// Detach lets the range outlive its runtime. Streams must be Null, and Name is
	// unique among all detached ranges of the user. As long as the runtime lives
	// the process is one like any other. Closing the runtime leaves the range
	// alone, unless it was asked to end: from then on Wait answers EndLost and
	// WaitEmpty an error that matches ErrUnproven and ErrClosed.
	Detach bool
}

// Limits bound a range. Zero fields do not. A limit that the launch's
// containment can't enforce refuses the launch with [CodeUnsupported], naming
// the field.
type Limits struct {
	MemoryBytes int64
	Pids        int     // processes and threads
	CPUs        float64 // processor time per time: 1.5 is one and a half processors
}

// Set returns the names of the fields that bound something.
func (l Limits) Set() []string {
	var fields []string
	if l.MemoryBytes != 0 {
		fields = append(fields, "Limits.MemoryBytes")
	}
	if l.Pids != 0 {
		fields = append(fields, "Limits.Pids")
	}
	if l.CPUs != 0 {
		fields = append(fields, "Limits.CPUs")
	}
	return fields
}

// MaxNameBytes is the longest [Spec.Name].
const MaxNameBytes = 64

// Validate checks everything that can be judged without a host: it is every
// provider's first act, before any side effect. isAbs is the world's test for
// an absolute path. The error is an [OpError] that holds a [FieldError].
func (s *Spec) Validate(isAbs func(string) bool) error {
	return refuseField("spawn", s.Argv, s.invalidField(isAbs))
}

// refuseField is the error of a request whose field is wrong; nil where field is.
func refuseField(op string, argv []string, field *FieldError) error {
	if field == nil {
		return nil
	}
	refusal := &OpError{Op: op, Code: CodeInvalid, Err: field}
	if len(argv) > 0 {
		refusal.Argv0 = argv[0]
	}
	return refusal
}

func (s *Spec) invalidField(isAbs func(string) bool) *FieldError {
	checks := []*FieldError{
		invalidArgv(s.Argv),
		invalidDir(s.Dir, isAbs),
		s.Env.validate(),
		s.Stdin.validate(),
		s.Stdout.validate("Stdout"),
		s.Stderr.validate("Stderr"),
		invalidName(s.Name),
		s.Limits.validate(),
	}
	for _, bad := range checks {
		if bad != nil {
			return bad
		}
	}
	switch {
	case s.Grace <= 0:
		return &FieldError{"Grace", fmt.Sprintf("is %v, and must be greater than 0", s.Grace)}
	case s.Drain < 0:
		return &FieldError{"Drain", fmt.Sprintf("is %v, and must not be negative", s.Drain)}
	case s.Require > CompleteContainment:
		return &FieldError{"Require", fmt.Sprintf("is %d, which is no requirement", s.Require)}
	case s.Detach && (s.Stdin.Mode != Null || s.Stdout.Mode != Null || s.Stderr.Mode != Null):
		return &FieldError{"Detach", "needs every stream to be Null"}
	}
	return nil
}

func invalidArgv(argv []string) *FieldError {
	if len(argv) == 0 {
		return &FieldError{"Argv", "is empty"}
	}
	if argv[0] == "" {
		return &FieldError{"Argv[0]", "is empty"}
	}
	for i, arg := range argv {
		if strings.IndexByte(arg, 0) >= 0 {
			return &FieldError{fmt.Sprintf("Argv[%d]", i), "contains a NUL byte"}
		}
	}
	return nil
}

func invalidDir(dir string, isAbs func(string) bool) *FieldError {
	switch {
	case dir == "":
		return &FieldError{"Dir", "is empty"}
	case strings.IndexByte(dir, 0) >= 0:
		return &FieldError{"Dir", "contains a NUL byte"}
	case !isAbs(dir):
		return &FieldError{"Dir", fmt.Sprintf("is not absolute: %s", strconv.Quote(dir))}
	}
	return nil
}

func invalidName(name string) *FieldError {
	if len(name) > MaxNameBytes {
		return &FieldError{"Name", fmt.Sprintf("is longer than %d bytes", MaxNameBytes)}
	}
	for i, r := range name {
		alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alphanumeric && (i == 0 || !strings.ContainsRune("._-", r)) {
			return &FieldError{"Name", fmt.Sprintf("may not hold %q at byte %d", r, i)}
		}
	}
	return nil
}

func (s Stdin) validate() *FieldError {
	switch {
	case s.Mode == Collect || s.Mode > Collect:
		return &FieldError{"Stdin.Mode", fmt.Sprintf("is %d, which is no disposition of an input", s.Mode)}
	case s.Mode != Data && s.Data != nil:
		return &FieldError{"Stdin.Data", "is set, and Stdin.Mode is not Data"}
	}
	return nil
}

func (o Output) validate(field string) *FieldError {
	switch {
	case o.Mode == Data || o.Mode > Collect:
		return &FieldError{field + ".Mode", fmt.Sprintf("is %d, which is no disposition of an output", o.Mode)}
	case o.Mode == Collect && o.MaxBytes < 1:
		return &FieldError{field + ".MaxBytes", fmt.Sprintf("is %d, and must be at least 1", o.MaxBytes)}
	case o.SpillMaxBytes < 0:
		return &FieldError{field + ".SpillMaxBytes", "is negative"}
	case o.Mode != Collect && (o.MaxBytes != 0 || o.SpillMaxBytes != 0):
		return &FieldError{field + ".MaxBytes", "is set, and the stream is not collected"}
	}
	return nil
}

func (l Limits) validate() *FieldError {
	switch {
	case l.MemoryBytes < 0:
		return &FieldError{"Limits.MemoryBytes", "is negative"}
	case l.Pids < 0:
		return &FieldError{"Limits.Pids", "is negative"}
	case l.CPUs < 0 || math.IsNaN(l.CPUs) || math.IsInf(l.CPUs, 0):
		return &FieldError{"Limits.CPUs", "is not a positive number"}
	}
	return nil
}

// quoteArg quotes s for a message where it could be misread.
func quoteArg(s string) string {
	const maxBytes = 256
	if len(s) > maxBytes {
		return strconv.Quote(s[:maxBytes]) + "…"
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
