//go:build unix

package fallback

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// Group launches each target as the leader of a session of its own, and owns
// what stays in it: on Linux the session with all its process groups, elsewhere
// the leader's process group.
//
// Make it with [NewGroup]; copies share what they look at.
type Group struct {
	// Reason says why nothing stronger is used, for those who ask.
	Reason string

	table *table
}

// NewGroup returns a launcher.
func NewGroup() Group { return Group{table: new(table)} }

var _ owner.Launcher = Group{}

// Containment implements [owner.Launcher].
func (g Group) Containment() seam.Containment {
	return seam.Containment{Kind: seam.KindGroup, Escapes: groupEscapes(), Reason: g.Reason}
}

var errStillForking = errors.New("members forked faster than they could be signalled")

// group owns one session.
type group struct {
	leader  leader
	session session

	// mu is held while signalling, so that no signal follows the proof.
	mu     sync.Mutex
	proved bool
}

var (
	_ owner.Owner    = (*group)(nil)
	_ owner.Observer = (*group)(nil)
)

// leader is what group needs to know of its direct process.
type leader interface {
	PID() int
	// Lost: someone else reaped it, and its id no longer pins the group's.
	Lost() bool
}

// session is the platform's view of a session.
type session interface {
	// members lists the processes that live, with the leader. Zombies do not.
	members() ([]member, error)
	// last is the number that was given last to a process, and missed reports
	// whether a look that began then may have missed a member that was forked
	// since, where the platform tells.
	last() (int, error)
	missed(last int) (bool, error)
	// signalGroup signals the leader's process group, atomically.
	signalGroup(owner.Signal) error
	// inGroup reports whether signalGroup reaches m.
	inGroup(m member) bool
}

// maxPasses bounds how often a signal goes looking for members that it has not
// reached. A member that was sent KILL forks no more, so passes converge unless
// something forks out of the process group as fast as it is found.
const maxPasses = 64

// Signal implements [owner.Owner].
func (g *group) Signal(sig owner.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.proved {
		return nil
	}
	var errs []error
	if !g.leader.Lost() {
		errs = append(errs, g.session.signalGroup(sig))
	}
	reached := make(map[identity]bool)
	for range maxPasses {
		members, err := g.session.members()
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		fresh := false
		for _, m := range members {
			if reached[m.identity] {
				continue
			}
			reached[m.identity] = true
			if g.session.inGroup(m) && !g.leader.Lost() {
				continue
			}
			fresh = true
			if err := m.signal(sig); err != nil {
				errs = append(errs, fmt.Errorf("signal process %d: %w", m.pid, err))
			}
		}
		if !fresh || sig == owner.Terminate {
			return errors.Join(errs...)
		}
	}
	return errors.Join(append(errs, errStillForking)...)
}

// WaitEmpty implements [owner.Owner]. As long as something lives, one of what
// lives is watched; and it is looked again now and then, because a member can
// leave without ending (setsid), of which there is no event.
func (g *group) WaitEmpty(ctx context.Context) error {
	pause := firstLook
	var disturbed time.Time // since when every look that found nothing was
	for found := 0; found < 2; {
		members, still, err := g.look()
		switch {
		case err != nil:
			return err
		case len(members) > 0:
			found, disturbed = 0, time.Time{}
			if err := watchOne(ctx, members[0], pause); err != nil {
				return err
			}
			pause = min(2*pause, lastLook)
		case still:
			found, disturbed = found+1, time.Time{}
		case disturbed.IsZero():
			disturbed = time.Now()
		case time.Since(disturbed) > disturbedFor:
			return errStillForking
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
	g.mu.Lock()
	g.proved = true
	g.mu.Unlock()
	return nil
}

// look lists the members, and reports whether it has surely missed nobody: a process that forks and ends before its turn comes
// is in no list, however often that is made.
func (g *group) look() (members []member, still bool, err error) {
	last, err := g.session.last()
	if err != nil {
		return nil, false, err
	}
	if members, err = g.session.members(); err != nil || len(members) > 0 {
		return members, false, err
	}
	missed, err := g.session.missed(last)
	return nil, !missed, err
}

// watchOne waits for the end of m, at most as long as pause.
func watchOne(ctx context.Context, m member, pause time.Duration) error {
	watch, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	err := m.waitExit(watch)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case watch.Err() != nil:
		return nil // it is time to look again
	}
	return err
}

// disturbedFor is how long looks may be disturbed by forks, of whomever, before
// it can't be told whether one of them is a member.
const disturbedFor = 2 * time.Second

// How long one member is watched before it is looked again.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = time.Second
)

// Members implements [owner.Owner].
func (g *group) Members(ctx context.Context) ([]seam.Member, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	found, err := g.session.members()
	if err != nil {
		return nil, err
	}
	var members []seam.Member
	for _, m := range found {
		if m.pid == g.leader.PID() {
			continue
		}
		if described, alive := m.describe(); alive {
			members = append(members, described)
		}
	}
	return members, nil
}

// Observe implements [owner.Observer]: who is found now is known when it has
// lost its parents.
func (g *group) Observe() { _, _ = g.session.members() }

// Close implements [owner.Owner]. A group leaves nothing behind.
func (g *group) Close() error { return nil }

// identity is a process, not a number that another may get.
type identity struct {
	pid     int
	started uint64 // in the platform's own unit; the same for one process always
}
