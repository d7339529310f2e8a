package managed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/corral-world/corral/seam"
)

// A Store makes spill files.
type Store interface {
	// Create makes a private, empty file that did not exist.
	Create(name string) (SpillFile, error)
}

// A SpillFile is a file being written. Its Write may fail for good reasons: a
// full disk, a quota.
type SpillFile interface {
	io.WriteCloser
	Path() string
	// Withdraw closes and removes the file.
	Withdraw() error
}

// CollectorParams say what is collected and how much of it is kept.
type CollectorParams struct {
	Source        Source
	MaxBytes      int64
	SpillMaxBytes int64 // 0: Store is not used
	SpillName     string
	Store         Store
}

// A Collector keeps the end of a stream in memory and, where asked to, the
// whole of it in a file.
//
// One goroutine runs it, joined by the Process that has it: only that
// goroutine writes the fields, under mu; any number read them.
type Collector struct {
	params CollectorParams
	ended  chan struct{} // closed when nothing more is collected

	mu    sync.Mutex
	ring  []byte // the last len(ring) bytes of the stream; grows to MaxBytes
	head  int    // of the oldest byte in ring; 0 until ring is full
	total int64
	cut   bool
	spill seam.Spill

	file SpillFile // the file being written; only the running goroutine uses it
	kept SpillFile // the complete file; nil where there is none
}

var (
	_ seam.OutputReader = (*Collector)(nil)
	_ seam.Discarder    = (*Collector)(nil)
)

// errDiscarded is why a file is gone that was complete.
var errDiscarded = errors.New("output was discarded")

// NewCollector collects once its Process runs it.
func NewCollector(params CollectorParams) *Collector {
	return &Collector{params: params, ended: make(chan struct{})}
}

// run collects until the source ends or is interrupted.
func (c *Collector) run() {
	atEOF := c.params.Source.ReadAll(c.add)
	err := c.params.Source.Close()
	if c.file != nil {
		if closeErr := c.file.Close(); closeErr != nil {
			c.withdraw(fmt.Errorf("close: %w", closeErr))
		}
		c.kept, c.file = c.file, nil
	}
	c.mu.Lock()
	c.cut = !atEOF || err != nil
	close(c.ended) // under mu: Ended and the last bytes are seen together
	c.mu.Unlock()
}

// cutOff ends the collection of a source that does not end. What it holds at
// that moment is still taken.
func (c *Collector) cutOff() { c.params.Source.Interrupt() }

// add takes the next bytes of the stream.
func (c *Collector) add(chunk []byte) {
	c.addToFile(chunk)
	c.mu.Lock()
	c.addToRing(chunk)
	c.mu.Unlock()
}

func (c *Collector) addToRing(chunk []byte) {
	c.total += int64(len(chunk))
	limit := int(c.params.MaxBytes)
	if len(chunk) >= limit {
		c.ring = append(c.ring[:0], chunk[len(chunk)-limit:]...)
		c.head = 0
		return
	}
	if room := limit - len(c.ring); room > 0 {
		n := min(room, len(chunk))
		c.ring = append(c.grown(n), chunk[:n]...)
		chunk = chunk[n:]
	}
	for len(chunk) > 0 {
		n := copy(c.ring[c.head:], chunk)
		chunk = chunk[n:]
		c.head = (c.head + n) % limit
	}
}

// grown returns ring with room for n more bytes and never more than the limit,
// which append's own growth would pass.
func (c *Collector) grown(n int) []byte {
	need := len(c.ring) + n
	if need <= cap(c.ring) {
		return c.ring
	}
	ring := make([]byte, len(c.ring), min(max(need, 2*cap(c.ring)), int(c.params.MaxBytes)))
	copy(ring, c.ring)
	return ring
}

// addToFile keeps the file complete, or withdraws it. It runs before the chunk
// enters the ring: at the first overflow the ring still holds all that came
// before.
func (c *Collector) addToFile(chunk []byte) {
	p := &c.params
	total := c.total + int64(len(chunk))
	switch {
	case p.SpillMaxBytes == 0 || total <= p.MaxBytes || c.spill.Withdrawn != nil:
		return
	case total > p.SpillMaxBytes:
		c.withdraw(fmt.Errorf("stream exceeds %d bytes", p.SpillMaxBytes))
		return
	}
	if c.file == nil {
		file, err := p.Store.Create(p.SpillName)
		if err != nil {
			c.withdraw(err)
			return
		}
		c.file = file
		if _, err := file.Write(c.ring); err != nil {
			c.withdraw(err)
			return
		}
		defer func() {
			if c.file != nil {
				c.setSpill(seam.Spill{Path: file.Path()})
			}
		}()
	}
	if _, err := c.file.Write(chunk); err != nil {
		c.withdraw(err)
	}
}

// withdraw takes the file back, and says why for good.
func (c *Collector) withdraw(reason error) {
	if c.file != nil {
		if err := c.file.Withdraw(); err != nil {
			reason = errors.Join(reason, err)
		}
		c.file = nil
	}
	c.setSpill(seam.Spill{Withdrawn: reason})
}

func (c *Collector) setSpill(s seam.Spill) {
	c.mu.Lock()
	c.spill = s
	c.mu.Unlock()
}

// ReadFrom implements [seam.OutputReader].
func (c *Collector) ReadFrom(offset int64) seam.Window {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := int64(len(c.ring))
	w := seam.Window{Offset: min(max(offset, 0), c.total), Cut: c.cut}
	if oldest := c.total - kept; w.Offset < oldest {
		w.Lost, w.Offset = oldest-w.Offset, oldest
	}
	w.Data = make([]byte, 0, c.total-w.Offset)
	skip := int(kept - (c.total - w.Offset)) // bytes of the ring before the window
	for _, part := range [][]byte{c.ring[c.head:], c.ring[:c.head]} {
		n := min(skip, len(part))
		w.Data = append(w.Data, part[n:]...)
		skip -= n
	}
	select {
	case <-c.ended:
		w.Ended = true
	default:
	}
	return w
}

// WaitEnd implements [seam.OutputReader].
func (c *Collector) WaitEnd(ctx context.Context) error {
	select {
	case <-c.ended:
		return nil
	default:
	}
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of output: %w", context.Cause(ctx))
	}
}

// Discard implements [seam.Discarder].
func (c *Collector) Discard() {
	select {
	case <-c.ended:
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring, c.head = nil, 0
	if c.kept != nil {
		_ = c.kept.Withdraw() // at the latest its runtime removes it
		c.kept = nil
		c.spill = seam.Spill{Withdrawn: errDiscarded}
	}
}

// Spill implements [seam.OutputReader].
func (c *Collector) Spill() seam.Spill {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spill
}
