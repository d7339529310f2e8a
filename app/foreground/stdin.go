package foreground

import (
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
