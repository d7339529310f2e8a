package seam

import (
	"context"
	"io"
	"time"
)

// A TerminalSpec says everything about a launch on a terminal.
// Fields that [Spec] also has mean the same.
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

// Terminal is a command on a terminal of its own, and the range it started.
//
// Its methods are those of a terminal and those of a range; no consumer of it
// can do with fewer.
type Terminal interface {
	// PID is the direct process. It is needed for identity and foreground
	// inspection and is not to be signalled.
	PID() int

	Name() string
	Containment() Containment

	// Read returns terminal output, every byte of it, before it returns io.EOF.
	// Write types.
	io.ReadWriter

	Resize(cols, rows uint16) error

	// Foreground says which process group owns the terminal.
	Foreground(ctx context.Context) (Foreground, error)

	// SignalForeground signals the foreground process group and returns it.
	SignalForeground(ctx context.Context, name string) (pgid int, err error)

	// Wait returns the direct process's result.
	Wait(ctx context.Context) (Outcome, error)

	// Close is the one awaited ending: TERM, grace, KILL, and quiescence of
	// every member that the owner knows. ctx bounds the waiting, never the
	// ending.
	Close(ctx context.Context) error
}

// Foreground is who owns a terminal, and what they let it do.
type Foreground struct {
	// PGID is the foreground process group.
	PGID int

	// Argv is what a process of the group, its leader where that lives, says of
	// itself; it may lie, and it is nil where the system does not say.
	Argv []string

	// WaitsForInput: a thread of that group provably waits to read the
	// terminal. It means something only where InputKnown.
	WaitsForInput bool

	// InputKnown: the system showed what every thread of the group waits for.
	InputKnown bool

	// Canonical and Echo are the line discipline's: input arrives by lines that
	// the terminal edits, and is shown as it is typed. Without both a secret is
	// being asked for, or a program edits and shows by itself.
	Canonical, Echo bool
}
