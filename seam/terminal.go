package seam

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A TerminalSpec says everything about a launch on a terminal.
// Fields that [Spec] also has mean the same. What programs are to think of the
// terminal (TERM, and the like) is the caller's to say, in Env.
type TerminalSpec struct {
	Argv       []string
	Dir        string
	Env        Env
	Cols, Rows uint16 // at least 1
	Grace      time.Duration
	Name       string
	Limits     Limits
	Require    Completeness
}

// Spec is what a launch of s has in common with every other: all of it but the
// terminal.
func (s *TerminalSpec) Spec() Spec {
	return Spec{Argv: s.Argv, Dir: s.Dir, Env: s.Env, Grace: s.Grace, Name: s.Name, Limits: s.Limits, Require: s.Require}
}

// Validate is [Spec.Validate] for a terminal.
func (s *TerminalSpec) Validate(isAbs func(string) bool) error {
	spec := s.Spec()
	field := spec.invalidField(isAbs)
	if field == nil {
		field = invalidSize(s.Cols, s.Rows)
	}
	return refuseField("spawn terminal", s.Argv, field)
}

// ValidateSize refuses a size that no terminal has. The error is an [OpError]
// that holds a [FieldError].
func ValidateSize(cols, rows uint16) error {
	return refuseField("resize terminal", nil, invalidSize(cols, rows))
}

func invalidSize(cols, rows uint16) *FieldError {
	switch {
	case cols == 0:
		return &FieldError{"Cols", "is 0, and must be at least 1"}
	case rows == 0:
		return &FieldError{"Rows", "is 0, and must be at least 1"}
	}
	return nil
}

// Terminal is a command on a terminal of its own, and the range it started. It
// is the leader of its session, and the terminal is the session's: job control,
// /dev/tty and hangups are as on any other.
//
// Its methods are those of a terminal and those of a range; no consumer of it
// can do with fewer. All may be called concurrently, and after the end: what
// needs the direct process then fails with [CodeEnded].
type Terminal interface {
	// PID is the direct process. It is needed for identity and foreground
	// inspection and is not to be signalled.
	PID() int

	Name() string
	Containment() Containment

	// Read returns terminal output, every byte of it and in its order. It waits
	// for output as long as the direct process lives, and returns io.EOF when
	// that has ended and what had been written by then was read: also where
	// members live on that hold the terminal.
	//
	// A Read after io.EOF does not wait. It returns what such members have
	// written since, or io.EOF again. Nobody's output is dropped: unread output
	// makes its writers wait, and what is unread when the range has ended is
	// kept, so that it can be read after Close. That does not hold for what
	// escaped from the range and writes while it ends.
	//
	// Write types. It returns when everything was taken or the direct process
	// has ended; a program that does not read makes it wait.
	io.ReadWriter

	// Resize changes the size, which the foreground is told of (SIGWINCH) where
	// it is another than before. Neither may be 0: CodeInvalid.
	Resize(cols, rows uint16) error

	// Foreground says which process group owns the terminal, and what of it can
	// be seen. The parts of the answer are taken one after the other: of a
	// foreground that changes meanwhile they are not of one moment.
	Foreground(ctx context.Context) (Foreground, error)

	// SignalForeground signals the foreground process group and returns it.
	// [ForegroundSignals] are known; another name is CodeInvalid and the error
	// names them. SIGKILL for the direct process's own group is refused with
	// CodeInvalid: that is Close's. CodeUnsupported is what a system answers
	// that can't send such a signal. Programs that turned the terminal's signal
	// keys off get it all the same.
	SignalForeground(ctx context.Context, name string) (pgid int, err error)

	// Wait returns the direct process's result.
	Wait(ctx context.Context) (Outcome, error)

	// Close is the one awaited ending: TERM, grace, KILL, and quiescence of
	// every member that the owner knows. Between TERM and KILL a direct process
	// that goes on to wait for input, as interactive shells do, is hung up. Where
	// the direct process still lived its outcome is EndTerminated, with
	// [ErrTerminalClosed] as its cause.
	//
	// It returns nil with the proof that the range is empty; by then no other
	// call is in flight. ctx bounds the waiting, never the ending: its cause is
	// the error, and the ending goes on. Another error says why emptiness can't
	// be proven ([ErrUnproven]). Close may be called again: after an error it
	// asks anew, and after nil it does nothing.
	Close(ctx context.Context) error
}

// ForegroundSignals are the names that [Terminal.SignalForeground] knows.
func ForegroundSignals() []string {
	return []string{"SIGINT", "SIGQUIT", "SIGTSTP", "SIGCONT", "SIGHUP", "SIGTERM", "SIGKILL"}
}

// CheckForegroundSignal refuses a name that is not one of [ForegroundSignals].
// The error is an [OpError] that holds a [FieldError].
func CheckForegroundSignal(name string) error {
	if slices.Contains(ForegroundSignals(), name) {
		return nil
	}
	return refuseField("signal foreground", nil, &FieldError{"name", fmt.Sprintf("is %q; known are %s", name, strings.Join(ForegroundSignals(), ", "))})
}

// Foreground is who owns a terminal, and what they let it do.
type Foreground struct {
	// PGID is the foreground process group.
	PGID int

	// Argv is what a process of the group, its leader where that lives, says of
	// itself; it may lie, and it is nil where the system does not say.
	Argv []string

	// WaitsForInput: a thread of that group provably waits to read the
	// terminal, and no signal is about to wake it. What was typed a moment ago
	// may be on its way to it. It means something only where InputKnown.
	WaitsForInput bool

	// InputKnown: the system showed what every thread of the group waits for,
	// or at least that one waits for input.
	InputKnown bool

	// UnreadOutput: after the foreground was looked at, the terminal held output
	// that no Read had taken. What a process printed before it waited is read
	// where it waits and this is false.
	UnreadOutput bool

	// Canonical and Echo are the line discipline's: input arrives by lines that
	// the terminal edits, and is shown as it is typed. Canonical without Echo: a
	// secret is being asked for. Neither: a program edits and shows by itself.
	Canonical, Echo bool
}
