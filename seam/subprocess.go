package seam

import (
	"context"
	"io"
	"time"
)

// Subprocess is the process half of one execution world. All methods may be
// called concurrently.
//
// It has more methods than an interface should: each asks the world something
// that no other answers, and a world without one of them is not a world.
type Subprocess interface {
	WorldID() string

	// LookPath finds the executable that a bare name denotes on the PATH of the
	// base environment with env applied, or checks an absolute path. Relative
	// and empty PATH entries are skipped, and a relative name with a separator
	// is refused: both depend on a directory that is not given. Directories and
	// files that may not be executed are passed over.
	//
	// Errors: CodeInvalid, CodeAborted, CodeExecutableNotFound, CodeNotExecutable.
	LookPath(ctx context.Context, name string, env Env) (string, error)

	// Spawn starts a command in a new range. ctx bounds the starting only;
	// bind a range to a context with [TerminateOn].
	//
	// A failed Spawn has left nothing alive, unless its code is CodeUncertain:
	// then the range stays in the runtime's live set until it is proven empty.
	Spawn(ctx context.Context, spec Spec) (Process, error)

	// SpawnTerminal starts a command on a terminal of its own. A world without
	// terminals answers CodeUnsupported.
	SpawnTerminal(ctx context.Context, spec TerminalSpec) (Terminal, error)

	// Containment says what the next launch would get.
	Containment(ctx context.Context) (Containment, error)
}

// Process is one launched command and its range. All methods may be called
// concurrently, and after the end.
//
// There is no process id: an id does not name a range. The interface is as wide
// as what can be asked of a range, and every provider answers all of it.
type Process interface {
	// Name is the range's name: Spec.Name or one that the provider made.
	Name() string

	// Containment is what owns this launch.
	Containment() Containment

	// Stdin, Stdout and Stderr are the caller's ends of streams whose mode is
	// Pipe, and nil otherwise. The caller closes them; closing the runtime
	// closes what is still open.
	Stdin() io.WriteCloser
	Stdout() io.ReadCloser
	Stderr() io.ReadCloser

	// Output reads a stream whose mode is Collect; nil otherwise.
	Output(Stream) OutputReader

	// Wait returns the direct process's result. Where a stream is collected it
	// first gives the range and the collected streams time to end by
	// themselves: until the range is empty and the streams have ended, at most
	// Spec.Drain after the direct process did. Otherwise it returns as soon as
	// the direct process has ended; piped streams are the caller's to drain.
	//
	// The error is ctx's cause, and says nothing about the process.
	Wait(ctx context.Context) (Outcome, error)

	// Terminate asks the range to end: TERM to every member, and KILL to what
	// is left after Spec.Grace, whether or not the direct process has ended.
	// It never blocks. The first cause wins and is kept verbatim; later calls,
	// and calls on an empty range, do nothing. A nil cause is kept as
	// [context.Canceled].
	Terminate(cause error)

	// WaitEmpty returns nil only with proof that nothing lives in the range, as
	// its containment defines it. Otherwise it returns ctx's cause, or an error
	// that matches [ErrUnproven] with the owner's reason; a later call asks
	// anew. Proof, once had, is kept.
	WaitEmpty(ctx context.Context) error

	// Survivors lists the members that live now, other than the direct process.
	Survivors(ctx context.Context) ([]Member, error)
}

// A Member is a process of a range, as it was seen.
type Member struct {
	PID     int
	Argv    []string  // what the process says of itself; it may lie, and it may be empty
	Started time.Time // when the system says that it started
}

// An EndKind says who ended a direct process.
//
// A limit ended it, as far as can be told, where it did not succeed, this world
// did not end it, and the kernel has counted for its range that the limit was
// reached: that a process was killed for want of memory, or a fork refused. The
// exit code or signal are the process's own all the same. A command that copes,
// and succeeds, is EndExited. CPUs have no such end: what has used its share
// waits.
type EndKind string

// Who ended a direct process.
const (
	EndExited      EndKind = "exited"       // it ended itself
	EndSignaled    EndKind = "signaled"     // a signal that this world did not send
	EndTerminated  EndKind = "terminated"   // Terminate, or the runtime's end
	EndLimitMemory EndKind = "limit-memory" // it failed, and the range has reached Limits.MemoryBytes
	EndLimitPids   EndKind = "limit-pids"   // it failed, and the range has reached Limits.Pids
	EndLost        EndKind = "lost"         // who could tell how it ended is gone: someone else in this process reaped it, or its supervisor was killed
)

// An Outcome is the result of a direct process. A non-zero exit is an outcome,
// not an error.
type Outcome struct {
	// ExitCode is -1 unless the process exited.
	ExitCode int
	// Signal ended the process; the zero Signal unless one did.
	Signal Signal
	// End says who ended it. A process that Terminate had asked to stop is
	// EndTerminated even if it then exited with code 0.
	End EndKind
	// Cause is the cause given to Terminate, verbatim; nil unless EndTerminated.
	Cause error
	// Usage of the direct process and the descendants it waited for; nil where
	// the system does not say.
	Usage *Usage
	// Duration from start to end.
	Duration time.Duration
}

// Success reports whether the command ended itself with exit code 0.
func (o Outcome) Success() bool { return o.End == EndExited && o.ExitCode == 0 }

// A Signal is a signal of the world's system, by both its name and its number:
// numbers differ between systems.
type Signal struct {
	Name   string // "SIGKILL"
	Number int
}

// Usage is what a process consumed.
type Usage struct {
	UserCPU      time.Duration
	SystemCPU    time.Duration
	MaxRSSBytes  int64 // the largest resident size of any one process
	PeakMemBytes int64 // of the whole range; 0 where the system does not say
}
