package fsworld

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/corral-world/corral/seam"
)

// readChunk is how much ReadBytes reads between two looks at its context.
const readChunk = 256 << 10

// OpenText implements [seam.Reader].
func (f *FS) OpenText(ctx context.Context, t seam.Target) (io.ReadCloser, error) {
	const op = "open text"
	text, err := do(ctx, op, t.Display, func() (*textReader, error) {
		file, _, err := f.openRegular(t)
		if err != nil {
			return nil, err
		}
		return newTextReader(ctx, file, t.Display), nil
	})
	if err != nil {
		if text != nil { // opened, then found aborted
			_ = text.Close()
		}
		return nil, err
	}
	return text, nil
}

// ReadBytes implements [seam.Reader]. A negative maxBytes is CodeInvalid.
func (f *FS) ReadBytes(ctx context.Context, t seam.Target, maxBytes int64) ([]byte, error) {
	const op = "read bytes"
	data, err := do(ctx, op, t.Display, func() ([]byte, error) {
		if maxBytes < 0 {
			return nil, invalid("maxBytes", "is negative")
		}
		file, size, err := f.openRegular(t)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		defer interruptOn(ctx, file)()
		if size > maxBytes {
			return nil, tooLarge(maxBytes)
		}
		return readAtMost(ctx, file, size, maxBytes)
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// readAtMost reads file to its end. The size is a hint: files grow, and those
// of /proc have none.
func readAtMost(ctx context.Context, file io.Reader, size, maxBytes int64) ([]byte, error) {
	// One byte over the bound is asked for, which tells a file that ends there
	// from one that goes on.
	bounded := file
	if maxBytes < math.MaxInt64 {
		bounded = io.LimitReader(file, maxBytes+1)
	}
	data := make([]byte, 0, min(size, readChunk)+1)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			grown := make([]byte, len(data), 2*cap(data)+512)
			copy(grown, data)
			data = grown
		}
		n, err := bounded.Read(data[len(data):min(cap(data), len(data)+readChunk)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > maxBytes:
			return nil, tooLarge(maxBytes)
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		}
	}
}

func tooLarge(maxBytes int64) error {
	return &seam.OpError{Code: seam.CodeTooLarge, Err: fmt.Errorf("larger than %d bytes", maxBytes)}
}

// openRegular opens t for reading without ever blocking, and returns its size.
func (f *FS) openRegular(t seam.Target) (*os.File, int64, error) {
	path, err := f.path(t)
	if err != nil {
		return nil, 0, err
	}
	// Opening is itself an act for some devices (a tape rewinds), so look
	// first; then look at what was opened, which may be another file.
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &seam.OpError{Code: seam.CodeNotRegular}
	}
	file, err := openFile(path)
	if err != nil {
		return nil, 0, err
	}
	info, err = file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &seam.OpError{Code: seam.CodeNotRegular}
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// interruptOn makes reads of file fail once ctx ends, if they can block at
// all: among regular files only some of the kernel's do, such as /proc/kmsg.
// What it starts at ctx's end sets a deadline and is over; it is not joined,
// and may find file closed.
func interruptOn(ctx context.Context, file *os.File) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
}
