// Package owner holds what the providers' owners have in common: the interfaces
// between a launched process and what signals and observes its range.
package owner

import (
	"context"
	"os"

	"github.com/corral-world/corral/seam"
)

// A Signal is what an owner can be asked to send to a range.
type Signal uint8

// Signals.
const (
	Terminate Signal = iota // ask every member to end; stopped ones are continued
	Kill                    // end every member
)

func (s Signal) String() string {
	if s == Terminate {
		return "TERM"
	}
	return "KILL"
}

// Owner signals one managed range and proves it empty. After the first proof it
// never signals again. All methods may be called concurrently.
type Owner interface {
	// Signal requests. It returns when the signal was sent to every member that
	// was found, not when they have ended. On an empty range it does nothing.
	Signal(Signal) error

	// WaitEmpty returns nil only with proof. Another error than ctx's cause
	// says why the owner can't tell; calling again tries again.
	WaitEmpty(ctx context.Context) error

	// Members lists what lives in the range, without the direct process.
	Members(ctx context.Context) ([]seam.Member, error)

	// Close releases the range's artefacts. It is called once, after the proof.
	Close() error
}

// Limited is implemented by owners whose ranges the kernel keeps accounts of.
type Limited interface {
	// Account says what was counted since the range began. It is asked at the
	// direct process's end, at once: what counts may go with the last member.
	Account() Account
}

// An Account is what a range has had of what is limited.
type Account struct {
	ReachedMemory bool  // the limit on memory was reached, and a process was ended for it
	ReachedPids   bool  // the limit on processes was reached, and a start was refused for it
	PeakMemBytes  int64 // 0: unknown
}

// Direct observes the target itself. Its methods may be called concurrently,
// Release last.
type Direct interface {
	// PID is the process. It may be another's once the process has ended and
	// something else than Release reaped it: signal nothing by it.
	PID() int
	// Wait blocks until the process has ended. It does not reap it.
	Wait() Exit

	// Exited is Wait without the blocking.
	Exited() (Exit, bool)

	// Release reaps the process, which until then pins its ids, and frees what
	// observing it took. Call it once, after the range was proven empty.
	Release() error
}

// An Exit is how a direct process ended.
type Exit struct {
	Lost   bool        // someone else reaped it; nothing else is known
	Code   int         // -1 unless it exited
	Signal seam.Signal // zero unless a signal ended it
	Usage  *seam.Usage // nil where unknown
}

// A Request is a validated launch with everything resolved.
type Request struct {
	Path  string   // the executable; relative only as Argv[0] with a separator was
	Argv  []string // as the caller gave it
	Dir   string
	Env   []string    // complete
	Stdio [3]*os.File // what the target gets; the caller closes them after the launch

	// Limits of the range, which a launcher enforces or refuses.
	Limits seam.Limits

	// Terminal: Stdio is a terminal three times, which becomes the controlling
	// terminal of the target's session. Nobody but the target keeps it open.
	Terminal bool
}

// An Observer is an [Owner] that learns of members by looking, and knows more of
// them the more often it has looked.
type Observer interface {
	// Observe looks. What it can't see it will know no better for.
	Observe()
}

// A Launcher starts targets inside ranges of one kind of containment: it owns
// the start and never attaches afterwards.
type Launcher interface {
	Containment() seam.Containment

	// Launch starts the target. ctx bounds starting. An error means that
	// nothing of the target lives, and is one of the operating system's, bare:
	// the caller knows what was asked for and explains it.
	Launch(ctx context.Context, r Request) (Direct, Owner, error)
}
