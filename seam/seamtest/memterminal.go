package seamtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// A MemCall names a method of [seam.Terminal].
type MemCall string

// Calls that a [MemTerminal] can intercept.
const (
	CallRead             MemCall = "Read"
	CallWrite            MemCall = "Write"
	CallResize           MemCall = "Resize"
	CallForeground       MemCall = "Foreground"
	CallSignalForeground MemCall = "SignalForeground"
	CallWait             MemCall = "Wait"
	CallClose            MemCall = "Close"
)

// A MemTerminal is a terminal of a [MemWorld] from its other side: what the
// programs on it have. A test reaches it by [MemConfig].Terminal, a program by
// [MemProc].Terminal. All methods may be called concurrently.
//
// It has no line discipline. A signal for the foreground ends the process whose
// number the foreground has, unless Signals was called; SIGTSTP and SIGCONT do
// nothing.
type MemTerminal struct {
	spec   seam.TerminalSpec
	direct *MemProc
	in     *memEnd // to the programs
	out    *memEnd // from them

	// The programs' ends, until the direct process has them.
	stdin, stdout *memEnd

	ctx    context.Context // ends with the direct process
	exited context.CancelFunc

	reading sync.Mutex // held during a Read

	mu         sync.Mutex
	typed      []byte // everything that was
	cols, rows uint16
	resized    chan struct{}
	foreground *seam.Foreground // nil for what is true
	readers    map[int]int      // how many reads of input wait, by process
	signalled  []string
	signals    chan string // nil where they act by themselves
	before     map[MemCall]func(context.Context) error
}

// errEndOfTerminal is the cause of an interceptor's context that ends with the command.
var errEndOfTerminal = errors.New("the command has ended")

func newMemTerminal(spec seam.TerminalSpec) *MemTerminal {
	t := &MemTerminal{
		spec:    spec,
		cols:    spec.Cols,
		rows:    spec.Rows,
		resized: make(chan struct{}, 1),
		readers: make(map[int]int),
		before:  make(map[MemCall]func(context.Context) error),
	}
	t.ctx, t.exited = context.WithCancel(context.Background())
	return t
}

// Spec is what the terminal was asked for with.
func (t *MemTerminal) Spec() seam.TerminalSpec { return t.spec }

// Feed makes text output of the terminal, as a program's writing does. It does
// not wait for a reader.
func (t *MemTerminal) Feed(text string) {
	p := t.out.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = append(p.data, text...)
	p.change()
}

// Typed is everything that was written to the terminal.
func (t *MemTerminal) Typed() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.typed)
}

// Size is the terminal's size.
func (t *MemTerminal) Size() (cols, rows uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cols, t.rows
}

// Resized receives when the size has changed. Changes that come together arrive
// as one.
func (t *MemTerminal) Resized() <-chan struct{} { return t.resized }

// SetForeground makes f what Foreground says. Nil, as at the beginning, has it
// say what is true: the direct process has the foreground, and whether it reads
// input is known.
func (t *MemTerminal) SetForeground(f *seam.Foreground) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.foreground = f
}

// Signalled lists the signals that were sent to the foreground.
func (t *MemTerminal) Signalled() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.signalled)
}

// Signals makes signals for the foreground, but SIGKILL, arrive on the channel
// that it returns from now on, and do nothing else. Some that come together and
// are not received may be dropped.
func (t *MemTerminal) Signals() <-chan string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.signals == nil {
		t.signals = make(chan string, 16)
	}
	return t.signals
}

// Exit ends the direct process, which has been started, with an exit code,
// wherever its program is. It does not wait for that.
func (t *MemTerminal) Exit(code int) { t.direct.leave(code) }

// Intercept has before run at the beginning of every further call of a method:
// to block until ctx ends, which it does with the call's own context and, for
// all but Wait and Close, with the direct process; or to fail, with the error
// that the call then returns. What it returns of a call whose direct process
// has ended is not heeded. Nil intercepts no more.
func (t *MemTerminal) Intercept(call MemCall, before func(ctx context.Context) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before[call] = before
}

// intercept runs what was put before a call.
func (t *MemTerminal) intercept(ctx context.Context, call MemCall) error {
	t.mu.Lock()
	before := t.before[call]
	t.mu.Unlock()
	if before == nil {
		return nil
	}
	if call == CallWait || call == CallClose {
		return before(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(t.ctx, func() { cancel(errEndOfTerminal) })
	defer stop()
	err := before(ctx)
	if t.ctx.Err() != nil {
		return nil
	}
	return err
}

// reads notes a read of input until the function that it returns is called.
func (t *MemTerminal) reads(pid int) (done func()) {
	add := func(n int) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.readers[pid] += n
	}
	add(1)
	return func() { add(-1) }
}

func (t *MemTerminal) currentForeground() seam.Foreground {
	unread := func(end *memEnd) bool {
		end.pipe.mu.Lock()
		defer end.pipe.mu.Unlock()
		return len(end.pipe.data) > 0
	}
	typed, printed := unread(t.in), unread(t.stdout)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.foreground != nil {
		f := *t.foreground
		f.Argv = slices.Clone(f.Argv)
		return f
	}
	return seam.Foreground{
		PGID:          t.direct.PID,
		Argv:          slices.Clone(t.direct.Argv),
		WaitsForInput: t.readers[t.direct.PID] > 0 && !typed,
		InputKnown:    true,
		UnreadOutput:  printed,
	}
}

// signal sends a signal to the foreground.
func (t *MemTerminal) signal(pgid int, name string) {
	t.mu.Lock()
	t.signalled = append(t.signalled, name)
	signals := t.signals
	t.mu.Unlock()
	if signals != nil && name != "SIGKILL" {
		select {
		case signals <- name:
		default:
		}
		return
	}
	t.direct.members.signal(pgid, name)
}

// SpawnTerminal implements [seam.Subprocess].
func (m *MemWorld) SpawnTerminal(ctx context.Context, spec seam.TerminalSpec) (seam.Terminal, error) {
	if err := spec.Validate(path.IsAbs); err != nil {
		return nil, err
	}
	t := newMemTerminal(spec)
	common := spec.Spec()
	if hook := m.config.Terminal; hook != nil && ctx.Err() == nil {
		// Its streams are there before the program is.
		t.connect()
		if err := hook(ctx, t); err != nil {
			t.exited()
			if ctx.Err() != nil {
				return nil, seam.Aborted(ctx, "spawn terminal", spec.Argv[0])
			}
			return nil, &seam.OpError{Op: "spawn terminal", Argv0: spec.Argv[0], Code: seam.CodeIO, Err: err}
		}
	}
	p, err := m.start(ctx, &common, t.open)
	if err != nil {
		t.exited()
		var refused *seam.OpError
		if errors.As(err, &refused) && refused.Op == "spawn" {
			refused.Op = "spawn terminal"
		}
		return nil, err
	}
	return &memTerminal{t: t, process: p}, nil
}

// connect makes the streams, once.
func (t *MemTerminal) connect() {
	if t.in == nil {
		t.stdin, t.in = newMemPipe()
		t.out, t.stdout = newMemPipe()
	}
}

// open is the memOpen of a terminal.
func (t *MemTerminal) open(_ *seam.Spec, direct *MemProc, params *managed.Params) {
	t.connect()
	t.direct = direct
	direct.Terminal = t
	direct.StdinMode = seam.Pipe
	direct.ends = [3]*memEnd{t.stdin, t.stdout, t.stdout.dup()}
	params.Exited = t.exited
}

// memTerminal is the terminal as its caller has it.
type memTerminal struct {
	t       *MemTerminal
	process *managed.Process
}

var _ seam.Terminal = (*memTerminal)(nil)

func (c *memTerminal) PID() int                      { return c.t.direct.PID }
func (c *memTerminal) Name() string                  { return c.process.Name() }
func (c *memTerminal) Containment() seam.Containment { return c.process.Containment() }

func (c *memTerminal) fail(op string, code seam.Code, err error) error {
	return &seam.OpError{Op: op, Argv0: c.t.spec.Argv[0], Code: code, Err: err}
}

// use checks what every call needs that needs the direct process.
func (c *memTerminal) use(ctx context.Context, op string, call MemCall) error {
	err := c.t.intercept(ctx, call)
	switch {
	case c.t.ctx.Err() != nil:
		return c.fail(op, seam.CodeEnded, os.ErrProcessDone)
	case err == nil && ctx.Err() != nil:
		return seam.Aborted(ctx, op, c.t.spec.Argv[0])
	}
	return err
}

// Read implements [seam.Terminal].
func (c *memTerminal) Read(b []byte) (int, error) {
	t := c.t
	if err := t.intercept(context.Background(), CallRead); err != nil {
		return 0, err
	}
	t.reading.Lock()
	defer t.reading.Unlock()
	n, err := t.out.read(t.ctx.Done(), b)
	if errors.Is(err, errStopped) {
		n = t.out.readNow(b)
		err = nil
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, err
}

// Write implements [seam.Terminal].
func (c *memTerminal) Write(b []byte) (int, error) {
	const op = "write terminal"
	t := c.t
	if err := c.use(context.Background(), op, CallWrite); err != nil {
		return 0, err
	}
	// Noted before anyone can read it: who sees it read sees it typed.
	n, err := t.in.write(t.ctx.Done(), b, func(part []byte) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.typed = append(t.typed, part...)
	})
	if err != nil {
		err = c.fail(op, seam.CodeEnded, os.ErrProcessDone)
	}
	return n, err
}

// Resize implements [seam.Terminal].
func (c *memTerminal) Resize(cols, rows uint16) error {
	if err := seam.ValidateSize(cols, rows); err != nil {
		return err
	}
	if err := c.use(context.Background(), "resize terminal", CallResize); err != nil {
		return err
	}
	t := c.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cols == cols && t.rows == rows {
		return nil
	}
	t.cols, t.rows = cols, rows
	select {
	case t.resized <- struct{}{}:
	default:
	}
	return nil
}

// Foreground implements [seam.Terminal].
func (c *memTerminal) Foreground(ctx context.Context) (seam.Foreground, error) {
	if err := c.use(ctx, "inspect foreground", CallForeground); err != nil {
		return seam.Foreground{}, err
	}
	return c.t.currentForeground(), nil
}

// SignalForeground implements [seam.Terminal].
func (c *memTerminal) SignalForeground(ctx context.Context, name string) (int, error) {
	const op = "signal foreground"
	if err := seam.CheckForegroundSignal(name); err != nil {
		return 0, err
	}
	if err := c.use(ctx, op, CallSignalForeground); err != nil {
		return 0, err
	}
	pgid := c.t.currentForeground().PGID
	if name == "SIGKILL" && pgid == c.PID() {
		return 0, c.fail(op, seam.CodeInvalid, &seam.FieldError{Field: "name", Problem: "is SIGKILL, and the command itself has the foreground: Close ends it"})
	}
	c.t.signal(pgid, name)
	return pgid, nil
}

// Wait implements [seam.Terminal].
func (c *memTerminal) Wait(ctx context.Context) (seam.Outcome, error) {
	if err := c.t.intercept(ctx, CallWait); err != nil {
		return seam.Outcome{}, err
	}
	return c.process.Wait(ctx)
}

// Close implements [seam.Terminal].
func (c *memTerminal) Close(ctx context.Context) error {
	if err := c.t.intercept(ctx, CallClose); err != nil {
		return err
	}
	c.process.Terminate(seam.ErrTerminalClosed)
	if err := c.process.WaitEmpty(ctx); err != nil {
		return fmt.Errorf("close terminal: %w", err)
	}
	return nil
}

// signal ends the members that have a number, as a signal does by default.
func (r *memRange) signal(pid int, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.members {
		switch {
		case p.PID != pid || name == "SIGTSTP" || name == "SIGCONT":
		case name == "SIGTERM":
			p.signal(owner.Terminate)
		default:
			p.die(seam.Signal{Name: name, Number: memSignals[name]})
		}
	}
}
