package fsworld

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"unicode/utf8"

	"github.com/corral-world/corral/seam"
)

const (
	textBufferBytes = 32 << 10
	nulSampleBytes  = 8192 // a NUL byte before this offset says that a file is not text
)

// A textReader passes on a file as long as it is text.
type textReader struct {
	ctx    context.Context // Read takes none; this one bounds the reads
	stop   func() bool     // undoes interruptOn
	file   *os.File
	path   string
	closed atomic.Bool

	// buffer[next:checked] is text, to be passed on. buffer[checked:filled] is
	// the beginning of a character of which the rest is not read yet.
	buffer                []byte
	next, checked, filled int
	offset                int64 // of buffer[checked] in the file
	err                   error // what follows buffer[next:checked]; final
}

func newTextReader(ctx context.Context, file *os.File, path string) *textReader {
	return &textReader{ctx: ctx, stop: interruptOn(ctx, file), file: file, path: path, buffer: make([]byte, textBufferBytes)}
}

// Read implements io.Reader. It may be called by one goroutine at a time.
func (r *textReader) Read(p []byte) (n int, err error) {
	const op = "read text"
	if r.ctx.Err() == nil {
		n, err = r.read(p)
	}
	switch {
	case r.ctx.Err() != nil:
		return 0, aborted(r.ctx, op, r.path)
	case err != nil && !errors.Is(err, io.EOF):
		return 0, opError(op, r.path, err)
	default:
		return n, err
	}
}

func (r *textReader) read(p []byte) (int, error) {
	if r.closed.Load() {
		return 0, os.ErrClosed
	}
	for r.next == r.checked && r.err == nil {
		r.fill()
	}
	if r.next == r.checked {
		return 0, r.err
	}
	n := copy(p, r.buffer[r.next:r.checked])
	r.next += n
	return n, nil
}

// fill reads on after everything that was checked has been passed on.
func (r *textReader) fill() {
	r.filled = copy(r.buffer, r.buffer[r.checked:r.filled])
	r.next, r.checked = 0, 0
	n, err := r.file.Read(r.buffer[r.filled:])
	r.filled += n
	r.check(err)
}

// check moves checked over what is text. The error of the read behind
// buffer[:filled] becomes final once that is over.
func (r *textReader) check(readErr error) {
	unchecked := r.buffer[:r.filled]
	problem := ""
	if sample := nulSampleBytes - r.offset; sample > 0 {
		if i := bytes.IndexByte(unchecked[:min(int64(len(unchecked)), sample)], 0); i >= 0 {
			unchecked, problem = unchecked[:i], "NUL byte"
		}
	}
	n := validPrefix(unchecked)
	r.checked = n
	r.offset += int64(n)
	rest := unchecked[n:]
	switch {
	case len(rest) > 0 && (problem != "" || errors.Is(readErr, io.EOF) || utf8.FullRune(rest)):
		problem = "invalid UTF-8"
	case problem == "":
		r.err = readErr
		return
	}
	r.err = &seam.OpError{Code: seam.CodeNotText, Err: fmt.Errorf("%s at byte %d", problem, r.offset)}
}

// validPrefix is the length of the valid UTF-8 that b begins with.
func validPrefix(b []byte) int {
	if utf8.Valid(b) { // much faster than the loop
		return len(b)
	}
	n := 0
	for n < len(b) {
		if b[n] < utf8.RuneSelf {
			n++
			continue
		}
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// Close closes the file. It may be called again, and during a Read.
func (r *textReader) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	r.stop()
	if err := r.file.Close(); err != nil {
		return opError("close text", r.path, err)
	}
	return nil
}
