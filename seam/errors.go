package seam

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
)

// A Code classifies an [OpError] for callers that branch or that cross a wire.
// The text is stable.
type Code string

// Codes of both halves.
const (
	CodeInvalid     Code = "invalid"      // the request names a bad field; nothing was done. Matches fs.ErrInvalid
	CodeAborted     Code = "aborted"      // the context had ended; matches its cause
	CodePermission  Code = "permission"   // the system denied it. Matches fs.ErrPermission
	CodeUnsupported Code = "unsupported"  // this world cannot do it. Matches errors.ErrUnsupported
	CodeIO          Code = "io"           // the system failed; Err says how
	CodeNotFound    Code = "not_found"    // the file is absent. Matches fs.ErrNotExist
	CodeNotDir      Code = "not_dir"      // a directory was needed
	CodeNotRegular  Code = "not_regular"  // a regular file was needed
	CodeNotText     Code = "not_text"     // the file is not UTF-8 text
	CodeTooLarge    Code = "too_large"    // the caller's bound was exceeded; nothing was truncated
	CodeForeignPath Code = "foreign_path" // the target belongs to another filesystem
)

// Codes of the subprocess half.
const (
	CodeDirNotFound         Code = "dir_not_found"         // Spec.Dir is absent. Matches fs.ErrNotExist
	CodeExecutableNotFound  Code = "executable_not_found"  // no such executable. Matches fs.ErrNotExist
	CodeInterpreterNotFound Code = "interpreter_not_found" // the executable's interpreter is absent. Matches fs.ErrNotExist
	CodeNotExecutable       Code = "not_executable"        // found, and may not or cannot be executed
	CodeTooLong             Code = "too_long"              // argv and environment exceed what the system takes
	CodeContainment         Code = "containment"           // less than Spec.Require, a forced kind that is not to be had, or what was to own the launch failed
	CodeNameInUse           Code = "name_in_use"           // a live range has that name
	CodeClosed              Code = "closed"                // the runtime was closed. Matches ErrClosed
	CodeEnded               Code = "ended"                 // the direct process of a terminal has ended. Matches os.ErrProcessDone
	CodeUncertain           Code = "uncertain"             // the start failed and something of it may live; it stays owned
)

// Sentinels for conditions that callers branch on.
var (
	// ErrUnproven is matched by the error of a [Process.WaitEmpty] that could
	// not be answered: the range may live, and the error says why it is not known.
	ErrUnproven = errors.New("range not proven empty")

	// ErrClosed is matched by operations on a closed runtime.
	ErrClosed = errors.New("runtime closed")

	// ErrTerminalClosed is the cause given to ranges that [Terminal.Close] ends.
	ErrTerminalClosed = errors.New("terminal closed")

	// ErrSurvivors is the cause given to ranges that are ended because members
	// outlived the direct process.
	ErrSurvivors = errors.New("members outlived the command")
)

// An OpError is a failed operation of either half.
//
// errors.Is matches the standard library's sentinel that Code implies, as well
// as whatever Err matches.
type OpError struct {
	Op    string // "spawn", "resolve", …
	Path  string // the path, for operations on one
	Argv0 string // the program, for operations on one
	Code  Code
	Err   error // the reason; may be nil
}

func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if subject := e.Path + e.Argv0; subject != "" {
		b.WriteString(" ")
		b.WriteString(quoteArg(subject))
	}
	b.WriteString(": ")
	if e.Err == nil {
		b.WriteString(strings.ReplaceAll(string(e.Code), "_", " "))
	} else {
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }

// Is matches the sentinel that Code implies.
func (e *OpError) Is(target error) bool {
	switch target {
	case fs.ErrInvalid:
		return e.Code == CodeInvalid
	case fs.ErrNotExist:
		switch e.Code {
		case CodeNotFound, CodeDirNotFound, CodeExecutableNotFound, CodeInterpreterNotFound:
			return true
		}
	case fs.ErrPermission:
		return e.Code == CodePermission
	case errors.ErrUnsupported:
		return e.Code == CodeUnsupported
	case ErrClosed:
		return e.Code == CodeClosed
	case os.ErrProcessDone:
		return e.Code == CodeEnded
	}
	return false
}

// CodeOf returns the code of the first [OpError] in err's tree, or "".
func CodeOf(err error) Code {
	var op *OpError
	if errors.As(err, &op) {
		return op.Code
	}
	return ""
}

// Aborted is the error of an operation that found its context ended: code
// [CodeAborted] around the context's cause.
func Aborted(ctx context.Context, op, subject string) *OpError {
	return &OpError{Op: op, Argv0: subject, Code: CodeAborted, Err: context.Cause(ctx)}
}

// A FieldError names the field of a request that is wrong, and how. It is
// always inside an [OpError], and nothing had been done when it was made.
type FieldError struct {
	Field   string // as a Go selector: "Argv[2]", "Env[0].Name", "Grace"
	Problem string // completes the sentence that Field begins: "contains a NUL byte"
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// An UnprovenError is a range whose emptiness could not be established.
// It matches [ErrUnproven].
type UnprovenError struct {
	Reason error // the owner's reason
}

func (e *UnprovenError) Error() string { return ErrUnproven.Error() + ": " + e.Reason.Error() }

// Unwrap returns ErrUnproven and the reason.
func (e *UnprovenError) Unwrap() []error { return []error{ErrUnproven, e.Reason} }
