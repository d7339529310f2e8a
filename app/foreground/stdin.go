package foreground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// A Source is a file that is fed to a command.
type Source struct{ file *os.File }

// OpenSource opens path for reading. It blocks neither on a FIFO that nobody
// writes nor on a device; the command then waits for their input, and not the
// program. Directories and sockets are refused.
func OpenSource(path string) (*Source, error) {
	f, err := openNonblocking(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &os.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	}
	if err != nil {
		_ = f.Close() // nothing was read of it
		return nil, err
	}
	return &Source{file: f}, nil
}

// ReadAll reads and closes the source, which may have at most maxBytes. It returns
// ctx's cause where that ends first. What it returns is not nil without an error.
func (s *Source) ReadAll(ctx context.Context, maxBytes int64) ([]byte, error) {
	defer s.close()
	// A file that takes no deadline never blocks for long.
	unblock := context.AfterFunc(ctx, func() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) })
	defer unblock()
	var data []byte
	err := awaitWriter(s.file)
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(s.file, maxBytes+1))
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case int64(len(data)) > maxBytes:
		return nil, fmt.Errorf("there are more than %d bytes", maxBytes)
	}
	return data, nil
}

func (s *Source) close() {
	if s != nil {
		_ = s.file.Close() // it was only read
	}
}

// feed copies a source to a command's stdin. One goroutine does, which stop
// unblocks and joins.
type feed struct {
	source *Source
	stdin  io.WriteCloser
	done   chan error // receives once, when the copy has ended
}

// startFeed starts to copy. A nil source feeds nothing.
func startFeed(source *Source, stdin io.WriteCloser) *feed {
	f := &feed{source: source, stdin: stdin, done: make(chan error, 1)}
	if source == nil {
		f.done <- nil
		return f
	}
	go func() { f.done <- f.copy() }()
	return f
}

// copy ends at the end of the source, when nobody reads stdin any more, and
// when stop interrupts it.
func (f *feed) copy() error {
	defer f.stdin.Close()
	err := awaitWriter(f.source.file)
	if err == nil {
		_, err = io.Copy(f.stdin, f.source.file)
	}
	switch {
	case err == nil, isClosedPipe(err), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, os.ErrClosed):
		return nil
	}
	return fmt.Errorf("feed stdin: %w", err)
}

// stop ends the copy where it is and returns its error.
func (f *feed) stop() error {
	if f.source != nil {
		// A file that takes no deadline never blocks for long.
		_ = f.source.file.SetReadDeadline(time.Unix(1, 0))
		_ = f.stdin.Close()
	}
	return <-f.done
}
