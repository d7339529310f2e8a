package ptyshell

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/corral-world/corral/seam"
)

// Config configures [Shells]. There are no hidden defaults: [DefaultConfig] has
// some to begin with.
type Config struct {
	// Shell is bash: a bare name that the world looks up, or an absolute path.
	Shell string

	// Args are the shell's arguments. It has to become interactive by them, and
	// to read commands from its terminal.
	Args []string

	// Dir is where sessions begin that name no other directory. Absolute.
	Dir string

	// Term is TERM of what runs in a session.
	Term string

	// Cols and Rows are a terminal's first size.
	Cols, Rows uint16

	// ScrollbackLines and ScrollbackMaxBytes bound what is kept of a session's
	// output; the oldest goes first. MaxReadBytes bounds what one result or one
	// page holds of it, and is at most ScrollbackMaxBytes.
	ScrollbackLines    int
	ScrollbackMaxBytes int
	MaxReadBytes       int

	// SampleMin and SampleMax bound the pause between two looks at the
	// foreground while a send waits; it doubles from the one to the other.
	SampleMin, SampleMax time.Duration

	// ExactAfter is how long after typing the shell is believed to wait for more
	// of a line, and a prompt that nothing confirms to be true. Four times as
	// long a program that waits for input is believed to have read what was
	// typed, where neither its running nor its printing showed that.
	ExactAfter time.Duration

	// IdleSilence is how long nothing is printed before readiness is inferred
	// from that alone; HandoffGrace is added where the shell's marks were seen.
	// HandoffGrace is at least SampleMin.
	IdleSilence, HandoffGrace time.Duration

	// Timeout bounds a send that names no other bound, and the start of a session.
	Timeout time.Duration

	// Drain is how long output is waited for after the shell has ended.
	Drain time.Duration

	// Grace, Require and Limits are those of [seam.TerminalSpec].
	Grace   time.Duration
	Require seam.Completeness
	Limits  seam.Limits

	// Environ is the environment that nothing displaces, for an owner. Nil: none.
	Environ func(ctx context.Context, owner string) (seam.Env, error)

	// Confine returns what to run in place of a shell's argv. Its error keeps
	// the shell from being started. Nil: the shell runs as it is.
	Confine func(ctx context.Context, owner string, argv []string) ([]string, error)
}

// DefaultConfig is a Config that lacks only Dir.
func DefaultConfig() Config {
	return Config{
		Shell:              "bash",
		Args:               []string{"--noprofile", "--norc", "+H", "-i"},
		Term:               "dumb",
		Cols:               160,
		Rows:               40,
		ScrollbackLines:    10_000,
		ScrollbackMaxBytes: 4 << 20,
		MaxReadBytes:       256 << 10,
		SampleMin:          5 * time.Millisecond,
		SampleMax:          250 * time.Millisecond,
		ExactAfter:         150 * time.Millisecond,
		IdleSilence:        3 * time.Second,
		HandoffGrace:       500 * time.Millisecond,
		Timeout:            30 * time.Second,
		Drain:              500 * time.Millisecond,
		Grace:              3 * time.Second,
	}
}

func (c Config) validate() *seam.FieldError {
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"SampleMin", c.SampleMin}, {"SampleMax", c.SampleMax}, {"ExactAfter", c.ExactAfter}, {"IdleSilence", c.IdleSilence},
		{"HandoffGrace", c.HandoffGrace}, {"Timeout", c.Timeout}, {"Drain", c.Drain}, {"Grace", c.Grace},
	} {
		if d.value <= 0 {
			return &seam.FieldError{Field: d.field, Problem: fmt.Sprintf("is %v, and must be greater than 0", d.value)}
		}
	}
	for _, n := range []struct {
		field string
		value int
	}{
		{"Cols", int(c.Cols)}, {"Rows", int(c.Rows)}, {"ScrollbackLines", c.ScrollbackLines},
		{"ScrollbackMaxBytes", c.ScrollbackMaxBytes}, {"MaxReadBytes", c.MaxReadBytes},
	} {
		if n.value < 1 {
			return &seam.FieldError{Field: n.field, Problem: fmt.Sprintf("is %d, and must be at least 1", n.value)}
		}
	}
	switch {
	case c.Shell == "":
		return &seam.FieldError{Field: "Shell", Problem: "is empty"}
	case c.Dir == "":
		return &seam.FieldError{Field: "Dir", Problem: "is empty"}
	case c.Term == "" || strings.IndexByte(c.Term, 0) >= 0:
		return &seam.FieldError{Field: "Term", Problem: "is empty or contains a NUL byte"}
	case c.MaxReadBytes > c.ScrollbackMaxBytes:
		return &seam.FieldError{Field: "MaxReadBytes", Problem: "is more than ScrollbackMaxBytes"}
	case c.SampleMax < c.SampleMin:
		return &seam.FieldError{Field: "SampleMax", Problem: "is less than SampleMin"}
	case c.HandoffGrace < c.SampleMin:
		return &seam.FieldError{Field: "HandoffGrace", Problem: "is less than SampleMin"}
	}
	return nil
}
