package fallback

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/runner"
	"github.com/corral-world/corral/seam"
)

// startTimeout bounds what a supervisor may take where the caller's context does
// not.
const startTimeout = 25 * time.Second

// Reaper launches each target below a supervisor of its own, which nothing that
// the target starts can leave by detaching itself. Make it with [NewReaper], end
// it with [Reaper.Close].
type Reaper struct {
	mu      sync.Mutex
	reason  string
	nursery *runner.Nursery // nil before the first launch
	closed  bool
}

var _ owner.Launcher = (*Reaper)(nil)

// NewReaper returns a launcher that has started nothing yet.
func NewReaper() *Reaper { return new(Reaper) }

// Explain says why nothing stronger is used, for those who ask.
func (r *Reaper) Explain(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reason = reason
}

// Containment implements [owner.Launcher].
func (r *Reaper) Containment() seam.Containment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return seam.Containment{
		Kind: seam.KindReaper,
		Escapes: []string{
			"a process that kills or stops both its supervisor and the nursery above it, which it may as the same user",
			"a process that changes its user id to one that may not be signalled",
			"a fork bomb that reaches the limit on processes",
		},
		Reason: r.reason,
	}
}

// Try starts what launches need, and reports whether it can.
func (r *Reaper) Try() error {
	_, err := r.live()
	return err
}

// live returns the nursery, and starts one where none lives.
func (r *Reaper) live() (*runner.Nursery, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, seam.ErrClosed
	}
	if r.nursery != nil {
		if r.nursery.Alive() {
			return r.nursery, nil
		}
		_ = r.nursery.Close(context.Background()) // it has ended, whatever ended it
		r.nursery = nil
	}
	if _, err := (&table{}).look(); err != nil {
		return nil, err // a supervisor sees its members there
	}
	nursery, err := runner.StartNursery()
	if err != nil {
		return nil, err
	}
	r.nursery = nursery
	return nursery, nil
}

// Close ends what launches needed, at once when ctx ends. Every range is empty
// by then.
func (r *Reaper) Close(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.nursery == nil {
		return nil
	}
	nursery := r.nursery
	r.nursery = nil
	return nursery.Close(ctx)
}

// Launch implements [owner.Launcher].
func (r *Reaper) Launch(ctx context.Context, request owner.Request) (owner.Direct, owner.Owner, error) {
	nursery, err := r.live()
	if err != nil {
		return nil, nil, &OwnerError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	supervised, err := nursery.Launch(ctx, request)
	switch {
	case errors.Is(err, runner.ErrSupervisor), ctx.Err() != nil && err != nil:
		return nil, nil, &OwnerError{err}
	case err != nil:
		return nil, nil, err
	}
	return supervised, &reaped{supervised: supervised}, nil
}

// reaped owns one supervisor's range.
type reaped struct{ supervised *runner.Supervised }

var _ owner.Owner = (*reaped)(nil)

// errSupervisorEnded: neither the supervisor nor its nursery said that nothing
// is left.
var errSupervisorEnded = errors.New("supervisor and nursery have ended, and did not say that nothing is left")

// Signal implements [owner.Owner]. An empty range has no supervisor left to
// signal it.
func (r *reaped) Signal(sig owner.Signal) error {
	err := r.supervised.Signal(sig)
	select {
	case <-r.supervised.Done():
		return nil
	default:
		return err
	}
}

// WaitEmpty implements [owner.Owner].
func (r *reaped) WaitEmpty(ctx context.Context) error {
	select {
	case <-r.supervised.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !r.supervised.Empty() {
		return errSupervisorEnded
	}
	return nil
}

// Members implements [owner.Owner].
func (r *reaped) Members(ctx context.Context) ([]seam.Member, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-r.supervised.Done():
		if !r.supervised.Empty() {
			return nil, errSupervisorEnded
		}
		return nil, nil
	default:
	}
	return r.supervised.Members(), nil
}

// Close implements [owner.Owner]. The supervisor has ended with its range.
func (r *reaped) Close() error { return nil }
