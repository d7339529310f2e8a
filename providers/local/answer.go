package local

import (
	"context"
	"fmt"

	"github.com/corral-world/corral/internal/control"
	"github.com/corral-world/corral/internal/managed"
)

// A StopError is the cause of a range's end that another process of this user
// asked for.
type StopError struct {
	// PID asked, as this process's pid namespace numbers it; 0 where it does not.
	PID int
}

func (e *StopError) Error() string {
	if e.PID == 0 {
		return "stopped at another process's request"
	}
	return fmt.Sprintf("stopped at the request of process %d", e.PID)
}

// answers answers for a runtime whoever asks for its ranges.
type answers struct{ *Runtime }

var _ control.Backend = answers{}

// Ranges implements [control.Backend].
func (a answers) Ranges(ctx context.Context) []control.Range {
	var list []control.Range
	for _, p := range a.liveRanges() {
		if p.Detached() {
			continue // its keeper answers
		}
		list = append(list, a.describe(ctx, p))
	}
	return list
}

func (a answers) describe(ctx context.Context, p *managed.Process) control.Range {
	c := p.Containment()
	r := control.Range{
		Name:     p.Name(),
		Argv:     p.Argv,
		Kind:     c.Kind,
		Complete: c.Complete,
		Escapes:  c.Escapes,
		Started:  p.Started(),
		Detached: a.keeps,
		Exited:   p.Ended(),
	}
	if !r.Exited {
		if m, alive := describeProcess(p.Direct.PID()); alive {
			r.Members = append(r.Members, control.Member(m))
		}
	}
	members, err := p.Survivors(ctx)
	if err != nil {
		r.MembersError = err.Error()
	}
	for _, m := range members {
		r.Members = append(r.Members, control.Member(m))
	}
	return r
}

// Stop implements [control.Backend].
func (a answers) Stop(ctx context.Context, name string, force bool, peer int) error {
	for _, p := range a.liveRanges() {
		if p.Name() != name || p.Detached() {
			continue
		}
		cause := &StopError{PID: peer}
		p.Terminate(cause)
		var killErr error
		if force {
			killErr = p.Kill(cause)
		}
		if err := p.WaitEmpty(ctx); err != nil {
			if killErr != nil {
				return fmt.Errorf("%w; kill: %w", err, killErr)
			}
			return err
		}
		return nil
	}
	return fmt.Errorf("%w: %q", control.ErrNoRange, name)
}
