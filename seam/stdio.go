package seam

import (
	"context"
	"unicode/utf8"
)

// A Mode is what becomes of a standard stream.
type Mode uint8

// Dispositions of standard streams.
const (
	Null    Mode = iota // the null device itself
	Pipe                // a pipe whose other end is the caller's, who reads or writes it and closes it
	Inherit             // this process's stream; CodeUnsupported where the world is not this process's host
	Data                // stdin only: Stdin.Data is written, then the stream is closed
	Collect             // stdout and stderr only: kept by the provider, read through Process.Output
)

// Stdin is the disposition of standard input. The zero value is the null device.
type Stdin struct {
	Mode Mode   // Null, Pipe, Inherit or Data
	Data []byte // with Data. The provider reads it until the stream is closed; do not change it
}

// Output is the disposition of standard output or error. The zero value is the
// null device.
type Output struct {
	Mode Mode // Null, Pipe, Inherit or Collect

	// MaxBytes, with Collect, is how much of the end of the stream is kept in
	// memory, exactly. At least 1.
	MaxBytes int64

	// SpillMaxBytes, with Collect, is the size up to which the complete stream
	// is written to a private file once it exceeds MaxBytes. A stream that
	// grows beyond it has its file withdrawn: a spill is complete or absent.
	// Zero: never a file.
	SpillMaxBytes int64
}

// A Stream is a standard output stream.
type Stream uint8

// Output streams.
const (
	Stdout Stream = iota
	Stderr
)

func (s Stream) String() string {
	if s == Stdout {
		return "stdout"
	}
	return "stderr"
}

// An OutputReader reads a collected stream by cursor. Reading consumes nothing:
// any number of readers see the same bytes, before and after the end.
type OutputReader interface {
	// ReadFrom returns what is kept of the stream from offset on, a byte
	// position in the whole stream. It never blocks. An offset beyond the end
	// gives an empty window at the end.
	ReadFrom(offset int64) Window

	// WaitEnd returns nil once nothing more is collected: the stream ended, or
	// was cut off because a process outside the range held it open (which
	// Window.Cut says).
	WaitEnd(ctx context.Context) error

	// Spill tells of the stream's file.
	Spill() Spill
}

// A Discarder is an [OutputReader] whose output can be given up before its world
// ends. Providers that keep files implement it.
type Discarder interface {
	// Discard forgets what is kept of the stream and removes its file, once the
	// stream has ended; before, it does nothing. Offsets stay as they were.
	Discard()
}

// A Spill tells where a complete stream can be read, or why it can't.
type Spill struct {
	// Path is the file that holds the stream from byte 0 to its present end;
	// a path of the world. "" where there is none.
	Path string
	// Withdrawn says why a file that had been begun, or was due, is absent;
	// nil where Path is set or no file was needed.
	Withdrawn error
}

// A Window is a run of consecutive bytes of a stream.
type Window struct {
	Data   []byte // the caller's own copy
	Offset int64  // of Data[0] in the whole stream
	Lost   int64  // bytes between the requested offset and Offset that are no longer kept
	Ended  bool   // Data reaches to the final end of the stream
	Cut    bool   // Ended, by cutting off a stream that was still open
}

// Next is the offset of the byte after the window: where to read on.
func (w Window) Next() int64 { return w.Offset + int64(len(w.Data)) }

// WholeRunes narrows w so that it neither begins nor ends inside a UTF-8
// character. At the front, the rest of a character whose beginning was lost is
// dropped and added to Lost. At the back, the beginning of a character is held
// for the next read, unless the stream has ended. Bytes that are not UTF-8 stay
// as they are.
func (w Window) WholeRunes() Window {
	if w.Lost > 0 {
		n := 0
		for n < len(w.Data) && n < utf8.UTFMax-1 && !utf8.RuneStart(w.Data[n]) {
			n++
		}
		// Three continuation bytes or fewer can be the rest of a cut
		// character; where a fourth follows it was never UTF-8.
		if n == len(w.Data) || utf8.RuneStart(w.Data[n]) {
			w.Data, w.Offset, w.Lost = w.Data[n:], w.Offset+int64(n), w.Lost+int64(n)
		}
	}
	if w.Ended {
		return w
	}
	for i := len(w.Data) - 1; i >= 0 && i >= len(w.Data)-(utf8.UTFMax-1); i-- {
		if utf8.RuneStart(w.Data[i]) {
			if !utf8.FullRune(w.Data[i:]) {
				w.Data = w.Data[:i]
			}
			break
		}
	}
	return w
}
