package seamtest

import (
	"errors"
	"io"
	iofs "io/fs"
	"sync"

	"github.com/corral-world/corral/internal/managed"
)

// memPipeBytes is what a pipe holds before writers wait.
const memPipeBytes = 64 << 10

// errBrokenPipe is what a writer gets that has no readers any more.
var errBrokenPipe = errors.New("broken pipe")

// A memPipe is a pipe: it ends for readers when its last write end is closed.
type memPipe struct {
	mu      sync.Mutex
	data    []byte
	ends    [2]int        // open ends, by memSide
	changed chan struct{} // closed, and replaced, by each change
}

// A memSide is one side of a pipe.
type memSide int

const (
	readSide memSide = iota
	writeSide
)

func newMemPipe() (reader, writer *memEnd) {
	p := &memPipe{changed: make(chan struct{})}
	return p.open(readSide), p.open(writeSide)
}

func (p *memPipe) open(side memSide) *memEnd {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends[side]++
	return &memEnd{pipe: p, side: side, closed: make(chan struct{}), interrupted: make(chan struct{})}
}

// change wakes everyone who waits. p.mu is held.
func (p *memPipe) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// A memEnd is one holder's open end of a pipe.
type memEnd struct {
	pipe        *memPipe
	side        memSide
	close       sync.Once
	closed      chan struct{}
	interrupt   sync.Once
	interrupted chan struct{}
}

var (
	_ io.ReadWriteCloser = (*memEnd)(nil)
	_ managed.Source     = (*memEnd)(nil)
)

// dup opens the same end again, for another holder.
func (e *memEnd) dup() *memEnd { return e.pipe.open(e.side) }

// errStopped: stop was closed while a read or write waited.
var errStopped = errors.New("stopped")

// do waits until try, which is called with the pipe's lock held, is done. It
// ends with an error when the end is closed or stop is.
func (e *memEnd) do(stop <-chan struct{}, try func(p *memPipe) (done bool)) error {
	p := e.pipe
	for {
		p.mu.Lock()
		select {
		case <-e.closed:
			p.mu.Unlock()
			return iofs.ErrClosed
		case <-stop:
			p.mu.Unlock()
			return errStopped
		default:
		}
		done, changed := try(p), p.changed
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-e.closed:
		case <-stop:
		}
	}
}

func (e *memEnd) read(stop <-chan struct{}, b []byte) (n int, err error) {
	err = e.do(stop, func(p *memPipe) bool {
		if n = copy(b, p.data); n > 0 {
			p.data = p.data[n:]
			p.change()
		}
		return n > 0 || p.ends[writeSide] == 0 || len(b) == 0
	})
	if err == nil && n == 0 && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

// readNow reads what is there.
func (e *memEnd) readNow(b []byte) (n int) {
	p := e.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	n = copy(b, p.data)
	p.data = p.data[n:]
	p.change()
	return n
}

// write calls taken, where it is not nil, with each part that the pipe takes.
func (e *memEnd) write(stop <-chan struct{}, b []byte, taken func(part []byte)) (n int, err error) {
	broken := false
	err = e.do(stop, func(p *memPipe) bool {
		if p.ends[readSide] == 0 {
			broken = true
			return true
		}
		part := b[n:min(len(b), n+max(memPipeBytes-len(p.data), 0))]
		p.data = append(p.data, part...)
		n += len(part)
		if len(part) > 0 {
			if taken != nil {
				taken(part)
			}
			p.change()
		}
		return n == len(b)
	})
	if broken {
		err = errBrokenPipe
	}
	return n, err
}

// Read and Write are for the caller of the world; programs can be killed in
// them and have their own.
func (e *memEnd) Read(b []byte) (int, error)  { return e.read(nil, b) }
func (e *memEnd) Write(b []byte) (int, error) { return e.write(nil, b, nil) }

// Close closes the end. Closing it again gives fs.ErrClosed.
func (e *memEnd) Close() error {
	err := iofs.ErrClosed
	e.close.Do(func() {
		err = nil
		e.pipe.mu.Lock()
		defer e.pipe.mu.Unlock()
		close(e.closed)
		e.pipe.ends[e.side]--
		e.pipe.change()
	})
	return err
}

// ReadAll implements [managed.Source].
func (e *memEnd) ReadAll(consume func([]byte)) (atEOF bool) {
	buf := make([]byte, memPipeBytes)
	for {
		n, err := e.read(e.interrupted, buf)
		consume(buf[:n])
		switch {
		case errors.Is(err, errStopped):
			return e.takeRest(consume)
		case err != nil:
			return errors.Is(err, io.EOF)
		}
	}
}

// takeRest reads what the pipe holds at an interruption.
func (e *memEnd) takeRest(consume func([]byte)) (atEOF bool) {
	e.pipe.mu.Lock()
	defer e.pipe.mu.Unlock()
	consume(e.pipe.data)
	e.pipe.data = nil
	return e.pipe.ends[writeSide] == 0
}

// Interrupt implements [managed.Source].
func (e *memEnd) Interrupt() { e.interrupt.Do(func() { close(e.interrupted) }) }
