// Package control lets the processes of one user see and stop each other's
// ranges. A runtime listens on a socket in a directory that only its user may
// enter, the registry, and answers for the ranges that it owns: whoever asks it
// to stop one gets the owner's own proof.
//
// A connection carries one [Request] and one [Response], each a JSON object on a
// line. Programs of other versions may be at the other end: unknown fields are
// ignored, and an operation that is not known is answered with an error.
package control

import (
	"context"
	"errors"
	"time"

	"github.com/corral-world/corral/seam"
)

// A Request asks a runtime for something.
type Request struct {
	Op    string `json:"op"`
	Name  string `json:"name,omitempty"`  // of stop
	Force bool   `json:"force,omitempty"` // of stop: without grace
}

// Operations.
const (
	opList = "list"
	opStop = "stop"
)

// A Response answers a request.
type Response struct {
	Ranges []Range `json:"ranges,omitempty"`
	Error  *Error  `json:"error,omitempty"`
}

// A Range is a live range, as its runtime sees it.
type Range struct {
	Name     string    `json:"name"`
	Argv     []string  `json:"argv"`
	Kind     seam.Kind `json:"kind"`
	Complete bool      `json:"complete"`
	Escapes  []string  `json:"escapes,omitempty"`
	Started  time.Time `json:"started"`
	Detached bool      `json:"detached,omitempty"`
	Exited   bool      `json:"exited,omitempty"` // the command itself has ended
	// Members are who lives, the command itself among them, by the numbers that
	// the runtime's pid namespace has for them.
	Members []Member `json:"members"`
	// MembersError says why Members may not be all.
	MembersError string `json:"members_error,omitempty"`
}

// A Member is a process of a range.
type Member struct {
	PID     int       `json:"pid"`
	Argv    []string  `json:"argv"`
	Started time.Time `json:"started"`
}

// An Error is a refusal or a failure of the other side.
type Error struct {
	Code seam.Code `json:"code"`
	Text string    `json:"text"`
}

func (e *Error) Error() string { return e.Text }

// Codes of errors that this package makes.
const (
	CodeNoRange  seam.Code = "no_range" // no live range has the name
	CodeUnproven seam.Code = "unproven" // it was ended, and is not proven empty
	codeUnknown  seam.Code = "unknown"  // no such operation
)

// ErrNoRange is matched where no live range has a name.
var ErrNoRange = errors.New("no live range of that name")

// A Backend is what a runtime answers with. Its methods may be called
// concurrently.
type Backend interface {
	// Ranges lists the live ranges.
	Ranges(ctx context.Context) []Range

	// Stop ends a range, which peer asks for, and returns nil with the proof that
	// it is empty. ctx bounds the waiting, not the ending. Where no live range has
	// the name its error matches [ErrNoRange].
	Stop(ctx context.Context, name string, force bool, peer int) error
}
