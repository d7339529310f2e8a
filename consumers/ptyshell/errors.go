package ptyshell

import (
	"errors"
	"fmt"
	"strings"

	"github.com/corral-world/corral/seam"
)

// Sentinels for conditions that callers branch on.
var (
	// ErrNotFound is matched for an id that names no session of the owner.
	ErrNotFound = errors.New("no such session")

	// ErrNameInUse is matched where the owner has a session of that name, or
	// one that is being started.
	ErrNameInUse = errors.New("session name in use")

	// ErrSendActive is matched where another send has the session.
	ErrSendActive = errors.New("another send is active")

	// ErrClosing is matched where the session is being closed.
	ErrClosing = errors.New("session is being closed")

	// ErrExited is matched where the shell has ended; the error is an
	// [*ExitedError].
	ErrExited = errors.New("shell has exited")

	// ErrOccupied is matched where another program than the shell owns the
	// terminal; the error is an [*OccupiedError].
	ErrOccupied = errors.New("another program owns the terminal")

	// ErrStart is matched where a shell was started and did not become ready.
	ErrStart = errors.New("shell did not become ready")

	// ErrNotShell is matched where something is for the shell at its prompt only.
	ErrNotShell = errors.New("the terminal is not the shell's")

	// ErrClosed is matched by operations on closed Shells, and is the cause of
	// starts that their end ended.
	ErrClosed = errors.New("shells closed")

	// ErrOwnerClosed is the cause of starts that were ended with their owner.
	ErrOwnerClosed = errors.New("owner of the session closed")
)

// An ExitedError is what a session answers whose shell has ended: nothing was
// done. It matches [ErrExited].
type ExitedError struct{ Outcome seam.Outcome }

func (e *ExitedError) Error() string { return ErrExited.Error() + ": " + describe(e.Outcome) }

// Unwrap returns ErrExited.
func (e *ExitedError) Unwrap() error { return ErrExited }

// describe says how a shell ended.
func describe(o seam.Outcome) string {
	switch {
	case o.Signal != seam.Signal{}:
		return "killed by signal " + o.Signal.Name
	case o.End == seam.EndLost:
		return "exit status lost"
	}
	return fmt.Sprintf("exit code %d", o.ExitCode)
}

// An OccupiedError is a command that was not typed, because a program other than
// the shell would have read it. It matches [ErrOccupied].
type OccupiedError struct{ Program Program }

func (e *OccupiedError) Error() string {
	return fmt.Sprintf("%v: %v", ErrOccupied, e.Program)
}

// Unwrap returns ErrOccupied.
func (e *OccupiedError) Unwrap() error { return ErrOccupied }

// A Program is who owns a terminal.
type Program struct {
	PGID int
	Argv []string // what it says of itself; nil where the system does not say
}

func (p Program) String() string {
	if len(p.Argv) == 0 {
		return fmt.Sprintf("process group %d", p.PGID)
	}
	return fmt.Sprintf("%s (process group %d)", oneLine(strings.Join(p.Argv, " ")), p.PGID)
}

// A CleanupError is an operation that failed, and whose rollback failed too: its
// session may live, and is ended with its owner or with the [Shells].
type CleanupError struct {
	Err     error // of the operation
	Cleanup error // of the rollback
}

func (e *CleanupError) Error() string {
	return fmt.Sprintf("%v; and in rolling back: %v", e.Err, e.Cleanup)
}

// Unwrap returns both errors.
func (e *CleanupError) Unwrap() []error { return []error{e.Err, e.Cleanup} }
