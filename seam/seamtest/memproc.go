package seamtest

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// A MemProgram is a program of a [MemWorld]. It returns its exit code.
//
// A program that is killed ends at its next use of its streams, of Sleep or of
// Go, or when it returns: a program that uses none of them has to heed
// [MemProc.Context]. One that doesn't lives on, as a process does that sleeps
// uninterruptibly, and its range is not empty.
type MemProgram func(p *MemProc) int

// A MemProc is a process of a [MemWorld], as its program sees it.
type MemProc struct {
	PID  int
	Argv []string
	Dir  string
	Env  []string // "name=value", sorted

	// Standard streams. What the launch made Null reads as empty and takes
	// everything. They may be used by several goroutines.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// StdinMode is what the launch made of stdin.
	StdinMode seam.Mode

	// Terminal is the other side of the terminal that the standard streams are;
	// nil where they are none. Input arrives as it was typed, and nothing is
	// echoed or translated.
	Terminal *MemTerminal

	world   *MemWorld
	members *memRange
	started time.Time
	ends    [3]*memEnd    // of streams that are pipes; nil otherwise
	done    chan struct{} // closed when it has ended

	ctx  context.Context // ends when a signal ends the process
	kill context.CancelFunc

	mu    sync.Mutex
	term  chan struct{} // trapped TERM goes here; nil where it is not trapped
	deaf  bool          // TERM is ignored
	death seam.Signal   // the signal that ended it
	left  *int          // the exit code that it was made to end with; nil where it was not
	exit  owner.Exit    // valid once done is closed
}

// Signals that a world sends, and a program may end itself by.
var memSignals = map[string]int{"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGKILL": 9, "SIGSEGV": 11, "SIGPIPE": 13, "SIGTERM": 15}

// Context ends when a signal ends the process.
func (p *MemProc) Context() context.Context { return p.ctx }

// Getenv returns a variable of the environment, "" where it is not set.
func (p *MemProc) Getenv(name string) string {
	for _, entry := range p.Env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// Printf prints to Stdout. That it can't be written is lost, as it is for
// programs that don't look.
func (p *MemProc) Printf(format string, args ...any) { _, _ = fmt.Fprintf(p.Stdout, format, args...) }

// IgnoreTerm ignores TERM from now on.
func (p *MemProc) IgnoreTerm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf, p.term = true, nil
}

// TrapTerm makes TERM arrive on the channel that it returns from now on,
// instead of ending the process. TERMs that come together arrive as one.
func (p *MemProc) TrapTerm() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term == nil {
		p.deaf, p.term = false, make(chan struct{}, 1)
	}
	return p.term
}

// Sleep returns after d, if the process lives then.
func (p *MemProc) Sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
		runtime.Goexit()
	}
}

// Kill ends the process by a signal, named like "SIGSEGV". It does not return.
// It panics on a name that it does not know.
func (p *MemProc) Kill(name string) {
	number, ok := memSignals[name]
	if !ok {
		panic("seamtest: no signal " + name)
	}
	p.die(seam.Signal{Name: name, Number: number})
	runtime.Goexit()
}

// A MemChild says what a child gets. The zero MemChild has its parent's Argv
// and null streams.
type MemChild struct {
	Argv    []string
	Streams bool // the parent's
}

// Go starts a child: a further member of the range, which may outlive p. It
// does not return where p has ended.
func (p *MemProc) Go(child MemChild, program MemProgram) *MemProc {
	if p.ctx.Err() != nil {
		runtime.Goexit()
	}
	c := &MemProc{Argv: p.Argv, Dir: p.Dir, Env: slices.Clone(p.Env), world: p.world, members: p.members}
	if child.Argv != nil {
		c.Argv = child.Argv
	}
	if child.Streams {
		c.StdinMode, c.Terminal = p.StdinMode, p.Terminal
		for i, end := range p.ends {
			if end != nil {
				c.ends[i] = end.dup()
			}
		}
	}
	if !c.start(program) {
		runtime.Goexit()
	}
	return c
}

// Done is closed when the process has ended.
func (p *MemProc) Done() <-chan struct{} { return p.done }

// start makes p a member and runs its program. It reports false where the
// range is empty and p is not its first member: then nothing was started.
func (p *MemProc) start(program MemProgram) bool {
	p.PID, p.started, p.done = p.world.nextPID(), time.Now(), make(chan struct{})
	p.ctx, p.kill = context.WithCancel(context.Background())
	p.Stdin, p.Stdout, p.Stderr = memReader{p}, memWriter{p, 1}, memWriter{p, 2}
	if !p.members.add(p) {
		p.kill()
		p.closeEnds()
		return false
	}
	go func() { // it ends with the program, and the range is not empty before
		code := -1
		defer func() { p.finish(code) }()
		code = program(p)
	}()
	return true
}

// finish makes p a process that has ended. Its streams are closed first, so
// that they end with the range.
func (p *MemProc) finish(code int) {
	p.kill()
	p.closeEnds()
	p.members.remove(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left != nil {
		code = *p.left
	}
	p.exit = owner.Exit{Code: code}
	if p.death != (seam.Signal{}) {
		p.exit = owner.Exit{Code: -1, Signal: p.death}
	}
	close(p.done)
}

func (p *MemProc) closeEnds() {
	for _, end := range p.ends {
		if end != nil {
			_ = end.Close() // once only
		}
	}
}

// leave ends the process with an exit code, whatever its program does.
func (p *MemProc) leave(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		p.left = &code
	}
	p.kill()
}

func (p *MemProc) signal(sig owner.Signal) {
	if sig == owner.Kill {
		p.die(seam.Signal{Name: "SIGKILL", Number: memSignals["SIGKILL"]})
		return
	}
	p.mu.Lock()
	deaf, term := p.deaf, p.term
	p.mu.Unlock()
	switch {
	case deaf:
	case term == nil:
		p.die(seam.Signal{Name: "SIGTERM", Number: memSignals["SIGTERM"]})
	default:
		select {
		case term <- struct{}{}:
		default:
		}
	}
}

func (p *MemProc) die(sig seam.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.death == (seam.Signal{}) {
		p.death = sig
	}
	p.kill()
}

// memReader and memWriter are streams in which the process can be killed.
type memReader struct{ p *MemProc }

func (r memReader) Read(b []byte) (n int, err error) {
	if end := r.p.ends[0]; end != nil {
		if t := r.p.Terminal; t != nil {
			defer t.reads(r.p.PID)()
		}
		n, err = end.read(r.p.ctx.Done(), b)
	} else {
		err = io.EOF
	}
	if r.p.ctx.Err() != nil {
		runtime.Goexit()
	}
	return n, err
}

type memWriter struct {
	p      *MemProc
	number int // 1 or 2
}

func (w memWriter) Write(b []byte) (n int, err error) {
	if end := w.p.ends[w.number]; end != nil {
		n, err = end.write(w.p.ctx.Done(), b, nil)
	} else {
		n = len(b)
	}
	if w.p.ctx.Err() != nil {
		runtime.Goexit()
	}
	return n, err
}

// A memRange owns the processes of one launch.
type memRange struct {
	direct *MemProc

	mu      sync.Mutex
	members []*MemProc    // that live
	empty   chan struct{} // closed when the last one has ended
}

var (
	_ owner.Owner  = (*memRange)(nil)
	_ owner.Direct = memDirect{}
)

func (r *memRange) add(p *MemProc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.members) == 0 && p != r.direct {
		return false
	}
	r.members = append(r.members, p)
	return true
}

func (r *memRange) remove(p *MemProc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members = slices.DeleteFunc(r.members, func(m *MemProc) bool { return m == p })
	if len(r.members) == 0 {
		close(r.empty)
	}
}

// Signal implements [owner.Owner].
func (r *memRange) Signal(sig owner.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.members {
		p.signal(sig)
	}
	return nil
}

// WaitEmpty implements [owner.Owner].
func (r *memRange) WaitEmpty(ctx context.Context) error {
	select {
	case <-r.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Members implements [owner.Owner].
func (r *memRange) Members(context.Context) ([]seam.Member, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var members []seam.Member
	for _, p := range r.members {
		if p != r.direct {
			members = append(members, seam.Member{PID: p.PID, Argv: slices.Clone(p.Argv), Started: p.started})
		}
	}
	return members, nil
}

// Close implements [owner.Owner].
func (r *memRange) Close() error { return nil }

// memDirect observes a range's direct process.
type memDirect struct{ p *MemProc }

func (d memDirect) PID() int { return d.p.PID }

func (d memDirect) Wait() owner.Exit {
	<-d.p.done
	return d.p.exit
}

func (d memDirect) Exited() (owner.Exit, bool) {
	select {
	case <-d.p.done:
		return d.p.exit, true
	default:
		return owner.Exit{}, false
	}
}

func (d memDirect) Release() error { return nil }
