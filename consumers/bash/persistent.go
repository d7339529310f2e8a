package bash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/seam"
)

// PersistentConfig configures a [Persistent]. There are no hidden defaults:
// [DefaultPersistentConfig] has them all.
type PersistentConfig struct {
	// Timeout bounds a command that names no other bound. Greater than 0.
	Timeout time.Duration

	// MaxOutputBytes is how much of the beginning of a command's output is
	// returned. At least 1.
	MaxOutputBytes int
}

// DefaultPersistentConfig has what a model's tool begins with.
func DefaultPersistentConfig() PersistentConfig {
	return PersistentConfig{Timeout: 5 * time.Minute, MaxOutputBytes: 16_000}
}

// Persistent runs commands in a shell that each owner has to itself and that
// keeps its state from one to the next: directory, variables, functions, options,
// jobs. The shell is opened by the first command and again by the one after its
// end.
//
// Commands of one owner run one after the other. All methods may be called
// concurrently.
type Persistent struct {
	shells *ptyshell.Shells
	config PersistentConfig

	mu     sync.Mutex
	owners map[string]*shellOf
}

// shellOf is an owner's shell.
type shellOf struct {
	turn    chan struct{} // has one while nobody uses the shell
	session *ptyshell.Session
	users   int // who has the turn or waits for it; guarded by Persistent.mu
}

// NewPersistent returns a Persistent on shells. It acquires nothing. Ownership:
// shells are whoever made them, and their end is the end of all that runs here.
func NewPersistent(shells *ptyshell.Shells, config PersistentConfig) (*Persistent, error) {
	bad := (*seam.FieldError)(nil)
	switch {
	case config.Timeout <= 0:
		bad = &seam.FieldError{Field: "Timeout", Problem: fmt.Sprintf("is %v, and must be greater than 0", config.Timeout)}
	case config.MaxOutputBytes < 1:
		bad = &seam.FieldError{Field: "MaxOutputBytes", Problem: "must be at least 1"}
	}
	if bad != nil {
		return nil, &seam.OpError{Op: "new persistent bash", Code: seam.CodeInvalid, Err: bad}
	}
	return &Persistent{shells: shells, config: config, owners: make(map[string]*shellOf)}, nil
}

// A Command is one for a shell that keeps its state.
type Command struct {
	Owner string

	// Script is evaluated by the shell, whole: what is not finished in it is a
	// syntax error and not the beginning of the next. Not blank, no NUL byte.
	Script string

	// Input types Script, and return, for the program that a command before
	// left waiting for input, and sees that command on.
	Input bool

	// Timeout: 0 is PersistentConfig.Timeout.
	Timeout time.Duration
}

// A Report is what became of a command.
type Report struct {
	// Output is the beginning of what was printed, at most
	// PersistentConfig.MaxOutputBytes of it. Clipped: its end is missing.
	// LostPrefix: so is its beginning, because there was too much of it to keep.
	Output     string
	Clipped    bool
	LostPrefix bool

	// Status is the exit status of the command; nil where it has not ended, or
	// ended the shell.
	Status *int
	Dir    string // where the shell was when it last told

	// Waiting: a program reads the terminal, so the command has not ended and
	// may not by itself. Foreground is that program, nil where the shell itself
	// reads. EchoOff: it asks for a secret.
	Waiting    bool
	Foreground *ptyshell.Program
	EchoOff    bool

	// TimedOut: the time was up, and the shell was ended.
	TimedOut bool
	Timeout  time.Duration

	// Exit is how the shell ended, where the command ended it.
	Exit *seam.Outcome

	// Reset: the shell is gone, with its state, and the next command gets a new
	// one.
	Reset bool
}

// Run runs a command in the shell of its owner and waits until it has ended, or
// reads the terminal. When ctx ends, the shell is ended with everything in it,
// and the error matches ctx's cause.
//
// Errors: CodeInvalid, CodeAborted, [ptyshell.ErrOccupied] where a command before
// still runs, and what keeps a shell from being opened.
func (p *Persistent) Run(ctx context.Context, command Command) (Report, error) {
	if bad := command.validate(); bad != nil {
		return Report{}, &seam.OpError{Op: "run in persistent bash", Code: seam.CodeInvalid, Err: bad}
	}
	if command.Timeout == 0 {
		command.Timeout = p.config.Timeout
	}
	sh, err := p.acquire(ctx, command.Owner)
	if err != nil {
		return Report{}, err
	}
	defer p.release(command.Owner, sh)
	if sh.session == nil {
		if sh.session, err = p.shells.Open(ctx, ptyshell.Open{Owner: command.Owner}); err != nil {
			return Report{}, fmt.Errorf("run in persistent bash: %w", err)
		}
	}
	report, err := p.run(ctx, sh, command)
	if err != nil {
		return report, fmt.Errorf("run in persistent bash: %w", err)
	}
	return report, nil
}

func (c Command) validate() *seam.FieldError {
	switch {
	case strings.TrimSpace(c.Script) == "" && !c.Input:
		return &seam.FieldError{Field: "Script", Problem: "is blank"}
	case strings.IndexByte(c.Script, 0) >= 0:
		return &seam.FieldError{Field: "Script", Problem: "contains a NUL byte"}
	case c.Timeout < 0:
		return &seam.FieldError{Field: "Timeout", Problem: fmt.Sprintf("is %v, and must not be negative", c.Timeout)}
	}
	return nil
}

// Reset ends the shell of owner and everything that was started in it, after the
// command that runs in it. The next command gets a new one.
func (p *Persistent) Reset(ctx context.Context, owner string) error {
	sh, err := p.acquire(ctx, owner)
	if err != nil {
		return err
	}
	defer p.release(owner, sh)
	return p.reset(ctx, sh, owner)
}

// acquire waits for the turn of an owner's command.
func (p *Persistent) acquire(ctx context.Context, owner string) (*shellOf, error) {
	p.mu.Lock()
	sh := p.owners[owner]
	if sh == nil {
		sh = &shellOf{turn: make(chan struct{}, 1)}
		sh.turn <- struct{}{}
		p.owners[owner] = sh
	}
	sh.users++
	p.mu.Unlock()
	select {
	case <-sh.turn:
		return sh, nil
	case <-ctx.Done():
		p.forget(owner, sh)
		return nil, seam.Aborted(ctx, "run in persistent bash", "")
	}
}

func (p *Persistent) release(owner string, sh *shellOf) {
	sh.turn <- struct{}{}
	p.forget(owner, sh)
}

// forget leaves nothing behind of an owner that has no shell.
func (p *Persistent) forget(owner string, sh *shellOf) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sh.users--; sh.users == 0 && sh.session == nil {
		delete(p.owners, owner)
	}
}

// reset ends the shell. The caller has the turn.
func (p *Persistent) reset(ctx context.Context, sh *shellOf, owner string) error {
	if sh.session == nil {
		return nil
	}
	// Ended by someone else, with its owner say, is ended as well.
	_, err := p.shells.CloseSession(ctx, owner, sh.session.ID())
	if err != nil && !errors.Is(err, ptyshell.ErrNotFound) {
		return err
	}
	sh.session = nil
	return nil
}

// run runs a command. The caller has the turn.
func (p *Persistent) run(ctx context.Context, sh *shellOf, command Command) (Report, error) {
	report := Report{Timeout: command.Timeout}
	request := ptyshell.Request{Text: evalLine(command.Script), Submit: true}
	if command.Input {
		request.Text, request.Force = command.Script, true
	}
	always := context.Background() // the ladder bounds an ending
	deadline := time.Now().Add(command.Timeout)
	var output strings.Builder
	for {
		request.Timeout = max(time.Until(deadline), time.Millisecond)
		result, err := p.send(ctx, sh.session, request)
		switch {
		case ctx.Err() != nil:
			return report, errors.Join(seam.Aborted(ctx, "run in persistent bash", ""), p.reset(always, sh, command.Owner))
		case errors.Is(err, ptyshell.ErrExited), errors.Is(err, ptyshell.ErrClosing):
			// Between two commands; the next call begins anew.
			return report, errors.Join(err, p.reset(always, sh, command.Owner))
		case errors.Is(err, ptyshell.ErrOccupied), seam.CodeOf(err) == seam.CodeInvalid:
			return report, err
		case err != nil:
			return report, errors.Join(err, p.reset(always, sh, command.Owner))
		}
		output.WriteString(result.Output)
		report.LostPrefix = report.LostPrefix || result.Truncated
		report.Status, report.Dir, report.Exit = result.Status, result.Dir, result.Exit
		request = ptyshell.Request{}

		switch result.Reason {
		case ptyshell.ReasonInferredIdle:
			continue // silence is no end
		case ptyshell.ReasonPrompt, ptyshell.ReasonStdinRead:
			if result.Foreground == nil && report.Status == nil {
				// Perhaps the command took the marks away, and has ended.
				if status, err := sh.session.Restore(ctx); err == nil {
					report.Status = &status
				}
			}
			if result.Reason == ptyshell.ReasonStdinRead && (report.Status == nil || result.Foreground != nil) {
				report.Status = nil
				report.Waiting, report.Foreground, report.EchoOff = true, result.Foreground, result.EchoOff
			}
		case ptyshell.ReasonContinuation:
			// Of text that was typed for a program, and that the shell read.
			report.Waiting = true
		case ptyshell.ReasonTimeout:
			report.TimedOut, report.Reset = true, true
		case ptyshell.ReasonSessionExit:
			report.Status, report.Reset = nil, true
		}
		break
	}
	report.Output, report.Clipped = head(output.String(), p.config.MaxOutputBytes)
	if report.Reset {
		return report, p.reset(always, sh, command.Owner)
	}
	return report, nil
}

// send sends, and gives up when ctx ends: without an interrupt, because the
// session is ended then.
func (p *Persistent) send(ctx context.Context, session *ptyshell.Session, request ptyshell.Request) (ptyshell.Result, error) {
	x, err := session.Start(context.WithoutCancel(ctx), request)
	if err != nil {
		return ptyshell.Result{}, err
	}
	return x.Wait(ctx)
}

// evalLine is one physical line that evaluates script: nothing in it can be left
// open, and the shell's line editor sees no key in it.
func evalLine(script string) string {
	var b strings.Builder
	b.WriteString("eval $'")
	for i := 0; i < len(script); {
		r, size := utf8.DecodeRuneInString(script[i:])
		switch c := script[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c == 0x7f || r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, c)
			size = 1
		default:
			b.WriteString(script[i : i+size])
		}
		i += size
	}
	b.WriteByte('\'')
	return b.String()
}

// head is the beginning of text in at most maxBytes, in whole characters.
func head(text string, maxBytes int) (string, bool) {
	if len(text) <= maxBytes {
		return text, false
	}
	for maxBytes > 0 && !utf8.RuneStart(text[maxBytes]) {
		maxBytes--
	}
	return text[:maxBytes], true
}

// Render is the report as a model reads it: the output, then markers on lines of
// their own, the one of how it ended last. A command that succeeds has none.
func (r Report) Render() string {
	var b builder
	if r.LostPrefix {
		b.line("[the beginning of the output is lost]")
	}
	b.line(r.Output)
	if b.Len() == 0 {
		b.line("(no output)")
	}
	if r.Clipped {
		b.line("[output clipped]")
	}
	switch {
	case r.TimedOut:
		b.line(fmt.Sprintf("[timed out after %dms]", r.Timeout.Milliseconds()))
	case r.Exit != nil && r.Exit.Signal != seam.Signal{}:
		b.line(fmt.Sprintf("[shell killed by signal: %s]", r.Exit.Signal.Name))
	case r.Exit != nil && r.Exit.ExitCode >= 0:
		b.line(fmt.Sprintf("[shell exited: code %d]", r.Exit.ExitCode))
	case r.Exit != nil:
		b.line("[shell exited]")
	case r.Waiting:
		b.line("[" + r.waiting() + "]")
	case r.Status != nil && *r.Status != 0:
		b.line(fmt.Sprintf("[exit code: %d]", *r.Status))
	}
	if r.Reset {
		b.line("[the next command gets a new shell]")
	}
	return b.String()
}

func (r Report) waiting() string {
	who := "the shell"
	if r.Foreground != nil {
		who = r.Foreground.String()
	}
	if r.EchoOff {
		return who + " waits for a secret to be typed"
	}
	return who + " waits for input"
}
