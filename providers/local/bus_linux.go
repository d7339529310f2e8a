package local

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/corral-world/corral/internal/systemd"
	"github.com/corral-world/corral/seam"
)

// bus is the one connection of a runtime to its manager, made again when lost.
type bus struct {
	socket  string
	dialing chan struct{}  // holds a token for who dials
	late    sync.WaitGroup // units that are being forgotten; joined by Close

	mu      sync.Mutex
	current *systemd.Manager // nil before the first use and after Close
	closed  bool
}

func newBus(socket string) *bus { return &bus{socket: socket, dialing: make(chan struct{}, 1)} }

// manager returns the live connection.
func (b *bus) manager(ctx context.Context) (*systemd.Manager, error) {
	if m, err := b.live(); m != nil || err != nil {
		return m, err
	}
	select {
	case b.dialing <- struct{}{}:
		defer func() { <-b.dialing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if m, err := b.live(); m != nil || err != nil {
		return m, err
	}
	m, err := systemd.Dial(ctx, b.socket)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		m.Close()
		return nil, seam.ErrClosed
	}
	b.current = m
	return m, nil
}

// live returns the connection, or nil where there is none that lives.
func (b *bus) live() (*systemd.Manager, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, seam.ErrClosed
	}
	if b.current == nil {
		return nil, nil
	}
	select {
	case <-b.current.Lost():
		b.current.Close()
		b.current = nil
	default:
	}
	return b.current, nil
}

// connected reports whether there is a live connection.
func (b *bus) connected() bool {
	m, err := b.live()
	return m != nil && err == nil
}

const (
	// collectTime is what a manager may take to collect a unit that ran empty.
	// It does in a few milliseconds, or never.
	collectTime = 5 * time.Second

	// stopTime is what a manager may take to stop a unit.
	stopTime = 5 * time.Second

	// maxReconnects bounds how often one unit is stopped anew because the
	// connection was lost meanwhile.
	maxReconnects = 3
)

// stop stops a unit and returns once the manager has forgotten it, or is no
// more: its units have ended with it.
func (b *bus) stop(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	var err error
	for range maxReconnects {
		var m *systemd.Manager
		if m, err = b.manager(ctx); err == nil {
			err = m.Stop(ctx, unit)
		}
		switch {
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
			return nil // there is no manager any more
		case !errors.Is(err, systemd.ErrLost):
			return err
		}
	}
	return err
}

// release returns once the manager has collected a unit that ran empty, which
// m has started. One that it does not collect is stopped.
func (b *bus) release(ctx context.Context, m *systemd.Manager, unit string) error {
	collect, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	if m.WaitGone(collect, unit) == nil {
		return nil
	}
	return b.stop(ctx, unit)
}

// forget stops, in the background, a unit whose start failed.
func (b *bus) forget(unit string) {
	b.late.Go(func() {
		// Nobody is left to be told: nothing of ours is in it.
		_ = b.stop(context.Background(), unit)
	})
}

// Close waits for units that are being forgotten, and ends the connection.
func (b *bus) Close() {
	b.late.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.current != nil {
		b.current.Close()
		b.current = nil
	}
}
