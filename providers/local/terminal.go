package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// SpawnTerminal implements [seam.Subprocess]. The target is launched as every
// other is, into the same ranges, with a terminal for its standard streams that
// controls its session.
func (r *Runtime) SpawnTerminal(ctx context.Context, spec seam.TerminalSpec) (seam.Terminal, error) {
	if !hasTerminals {
		refused := &seam.OpError{Op: "spawn terminal", Code: seam.CodeUnsupported, Err: errors.ErrUnsupported}
		if len(spec.Argv) > 0 {
			refused.Argv0 = spec.Argv[0]
		}
		return nil, refused
	}
	if err := spec.Validate(filepath.IsAbs); err != nil {
		return nil, err
	}
	t := &terminal{argv0: spec.Argv[0], exited: make(chan struct{})}
	common := spec.Spec()
	p, err := r.start(ctx, &common, func() (stdio, error) {
		ours, target, err := openTTY(spec.Cols, spec.Rows)
		if err != nil {
			return nil, fmt.Errorf("open terminal: %w", err)
		}
		t.tty, t.target = ours, target
		return t, nil
	})
	if err != nil {
		var refused *seam.OpError
		if errors.As(err, &refused) && refused.Op == "spawn" {
			refused.Op = "spawn terminal"
		}
		return nil, err
	}
	t.process = p
	return t, nil
}

// terminal is a launched command on a terminal. It runs no goroutine of its
// own: Read reads the terminal itself, so what nobody reads is held by the
// system, whose bound makes the writers wait.
type terminal struct {
	argv0   string
	process *managed.Process
	tty     *tty
	target  *os.File // the target's end, until the launch is over
	pid     int
	direct  owner.Direct
	owner   owner.Owner
	leader  leader

	exited chan struct{} // closed once the direct process has ended

	// calls is held shared by every call that uses the terminal, and exclusively
	// while it is closed: then none is in flight. The direct process has ended
	// by then, which has unblocked them.
	calls   sync.RWMutex
	closed  bool       // guarded by calls
	reading sync.Mutex // held during a Read: output has one order
	rest    []byte     // what was unread at the end; guarded by reading
}

var (
	_ seam.Terminal = (*terminal)(nil)
	_ stdio         = (*terminal)(nil)
)

// PID implements [seam.Terminal].
func (t *terminal) PID() int { return t.pid }

// Name implements [seam.Terminal].
func (t *terminal) Name() string { return t.process.Name() }

// Containment implements [seam.Terminal].
func (t *terminal) Containment() seam.Containment { return t.process.Containment() }

func (t *terminal) files() (target [3]*os.File, isTerminal bool) {
	return [3]*os.File{t.target, t.target, t.target}, true
}

func (t *terminal) closeTarget() { _ = t.target.Close() } // a descriptor that nothing was written through

func (t *terminal) closeOurs() { _ = t.tty.Close() } // likewise

// hand implements [stdio].
func (t *terminal) hand(r *Runtime, _ *seam.Spec, params *managed.Params) {
	t.direct, t.owner, t.pid = params.Direct, params.Owner, params.Direct.PID()
	t.leader = findLeader(t.pid)
	params.Exited = t.directExited
	params.Insist = t.hangUp
	proved := params.Proved
	var closeErr error
	params.Proved = func() {
		closeErr = t.finish()
		proved()
	}
	params.Released = func(p *managed.Process, err error) { r.released(p, errors.Join(err, closeErr)) }
}

// directExited unblocks every call: there is nobody left to read what is
// written, and output that is still to come is not waited for.
func (t *terminal) directExited() {
	close(t.exited)
	t.tty.unblock()
}

func (t *terminal) hasExited() bool {
	select {
	case <-t.exited:
		return true
	default:
		return false
	}
}

// finish closes the terminal of an empty range, and keeps what it still holds.
// It returns when no call is in flight, before anyone learns that the range is
// empty.
func (t *terminal) finish() error {
	t.calls.Lock()
	defer t.calls.Unlock()
	t.rest = t.tty.drain()
	t.closed = true
	return t.tty.Close()
}

// Read implements [seam.Terminal].
func (t *terminal) Read(b []byte) (int, error) {
	t.calls.RLock()
	defer t.calls.RUnlock()
	t.reading.Lock()
	defer t.reading.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	if !t.hasExited() {
		n, err := t.tty.read(b, t.hasExited)
		if n > 0 {
			return n, nil
		}
		if !t.hasExited() {
			return 0, t.fail("read terminal", seam.CodeIO, err)
		}
	}
	n := 0
	if t.closed {
		n = copy(b, t.rest)
		t.rest = t.rest[n:]
	} else {
		n = t.tty.readNow(b)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write implements [seam.Terminal].
func (t *terminal) Write(b []byte) (n int, err error) {
	const op = "write terminal"
	err = t.use(op, func() error {
		n, err = t.tty.write(b)
		return err
	})
	return n, err
}

// Resize implements [seam.Terminal].
func (t *terminal) Resize(cols, rows uint16) error {
	if err := seam.ValidateSize(cols, rows); err != nil {
		return err
	}
	return t.use("resize terminal", func() error { return t.tty.resize(cols, rows) })
}

// Foreground implements [seam.Terminal].
func (t *terminal) Foreground(ctx context.Context) (f seam.Foreground, err error) {
	const op = "inspect foreground"
	if ctx.Err() != nil {
		return f, seam.Aborted(ctx, op, t.argv0)
	}
	err = t.use(op, func() error {
		if observer, ok := t.owner.(owner.Observer); ok {
			observer.Observe()
		}
		if f, err = t.tty.foreground(); err == nil {
			f.UnreadOutput, err = t.tty.unread()
		}
		return err
	})
	return f, err
}

// SignalForeground implements [seam.Terminal].
func (t *terminal) SignalForeground(ctx context.Context, name string) (pgid int, err error) {
	const op = "signal foreground"
	if err := seam.CheckForegroundSignal(name); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, seam.Aborted(ctx, op, t.argv0)
	}
	err = t.use(op, func() error {
		if pgid, err = t.tty.owner(); err != nil {
			return err
		}
		if name == "SIGKILL" && pgid == t.pid {
			return t.fail(op, seam.CodeInvalid, &seam.FieldError{Field: "name", Problem: "is SIGKILL, and the command itself has the foreground: Close ends it"})
		}
		return t.tty.signal(pgid, name)
	})
	if err != nil {
		return 0, err
	}
	return pgid, nil
}

// errNoForeground: the terminal is no session's, or its foreground is none.
var errNoForeground = errors.New("no process group has the foreground")

// use has do use the terminal, as long as the direct process lives.
func (t *terminal) use(op string, do func() error) error {
	t.calls.RLock()
	defer t.calls.RUnlock()
	if t.hasEnded() {
		return t.fail(op, seam.CodeEnded, os.ErrProcessDone)
	}
	err := do()
	var refused *seam.OpError
	switch {
	case err == nil || errors.As(err, &refused):
		return err
	case t.hasEnded() || t.leader.gone():
		return t.fail(op, seam.CodeEnded, os.ErrProcessDone)
	case errors.Is(err, os.ErrPermission):
		return t.fail(op, seam.CodePermission, err)
	case errors.Is(err, errors.ErrUnsupported):
		return t.fail(op, seam.CodeUnsupported, err)
	}
	return t.fail(op, seam.CodeIO, err)
}

func (t *terminal) fail(op string, code seam.Code, err error) error {
	return &seam.OpError{Op: op, Argv0: t.argv0, Code: code, Err: err}
}

// hasEnded asks the system where nobody was told yet.
func (t *terminal) hasEnded() bool {
	if t.hasExited() {
		return true
	}
	_, ended := t.direct.Exited()
	return ended
}

// Wait implements [seam.Terminal].
func (t *terminal) Wait(ctx context.Context) (seam.Outcome, error) { return t.process.Wait(ctx) }

// Close implements [seam.Terminal].
func (t *terminal) Close(ctx context.Context) error {
	t.process.Terminate(seam.ErrTerminalClosed)
	// The proof comes after finish.
	if err := t.process.WaitEmpty(ctx); err != nil {
		return fmt.Errorf("close terminal: %w", err)
	}
	select {
	case <-t.process.Done():
	case <-ctx.Done(): // the proof is had, and that is what is asked for
	}
	return nil
}
