package ptyshell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corral-world/corral/seam"
)

// A Reason says what let a send settle: the evidence, not an opinion.
type Reason string

// Reasons.
const (
	// ReasonPrompt: the shell showed its prompt after what was sent, and owns
	// the terminal.
	ReasonPrompt Reason = "prompt"

	// ReasonContinuation: the shell showed the prompt of an unfinished command,
	// a here-document or a quote, say. More text finishes it; SIGINT gives it up.
	ReasonContinuation Reason = "continuation"

	// ReasonStdinRead: the system shows that who owns the terminal waits for
	// input from it. Result.Foreground says who that is.
	ReasonStdinRead Reason = "stdin_read"

	// ReasonInferredIdle: nothing was printed for a while, and nothing else is
	// known. It is no evidence that anything has ended.
	ReasonInferredIdle Reason = "inferred_idle"

	// ReasonTimeout: the time was up. What runs goes on.
	ReasonTimeout Reason = "timeout"

	// ReasonSessionExit: the shell has ended. Result.Exit says how.
	ReasonSessionExit Reason = "session_exit"
)

// A Request is what is typed, if anything.
type Request struct {
	// Text is typed as it is, apart from a newline at its end that Submit takes
	// the place of. A line editor that wants pastes bracketed gets it as one
	// paste, in which nothing is a key and no line is run before the last. No
	// NUL byte.
	//
	// Without Text and Submit nothing is typed, and the send waits for the
	// readiness that is there already or comes.
	Text string

	// Submit presses return after Text.
	Submit bool

	// Force types also where a program other than the shell owns the terminal,
	// and is to read the text.
	Force bool

	// Timeout bounds the send from its reservation on. 0: Config.Timeout.
	Timeout time.Duration

	// setup: Text has the shell print marks, and nobody is to see it.
	setup bool
}

func (r Request) types() bool { return r.Text != "" || r.Submit }

// endOfPaste is what ends a bracketed paste; in a text it would make keys of
// what follows it.
const (
	beginOfPaste = "\x1b[200~"
	endOfPaste   = "\x1b[201~"
)

func (r Request) validate() *seam.FieldError {
	switch {
	case strings.IndexByte(r.Text, 0) >= 0:
		return &seam.FieldError{Field: "Text", Problem: "contains a NUL byte"}
	case strings.Contains(r.Text, endOfPaste):
		return &seam.FieldError{Field: "Text", Problem: "contains the end of a paste"}
	case r.Timeout < 0:
		return &seam.FieldError{Field: "Timeout", Problem: fmt.Sprintf("is %v, and must not be negative", r.Timeout)}
	}
	return nil
}

// A Result is how a send settled. That it did says nothing of what runs but what
// the reason says.
type Result struct {
	Reason Reason

	// Output is what was printed since the result before, in lines and without
	// what was typed at the prompt and the prompt; its end where that is more
	// than Config.MaxReadBytes. Truncated: it lacks its beginning.
	Output    string
	Truncated bool

	// Exit is how the shell ended; nil while it lives.
	Exit *seam.Outcome

	// Status is the exit status of the last command that ended since the text
	// was typed; nil where the shell did not tell of one. Dir is where the shell
	// was when it last told.
	Status *int
	Dir    string

	// Foreground is the program that owned the terminal when it was last looked
	// at; nil where that was the shell, or is not known.
	Foreground *Program

	// EchoOff: what is typed is not shown, because a secret is asked for.
	EchoOff bool

	// AlternateScreen: a full-screen program shows itself on the terminal.
	AlternateScreen bool

	// Canceled: the send was canceled, and what it started was interrupted.
	Canceled bool
}

// Send starts a send and waits until it has settled. When ctx ends the send is
// canceled, and after it has settled the error is ctx's cause beside the result.
//
// Errors: those of Start, and those of [Sending.Wait].
func (s *Session) Send(ctx context.Context, request Request) (Result, error) {
	x, err := s.Start(ctx, request)
	if err != nil {
		return Result{}, err
	}
	result, err := x.Wait(context.WithoutCancel(ctx))
	if err == nil && result.Canceled {
		err = context.Cause(ctx)
	}
	return result, err
}

// Restore has a shell print marks again that lost them: PROMPT_COMMAND was set,
// say. It returns the exit status of the last command, which nothing had told of.
//
// Errors: [ErrNotShell], where what reads the terminal is not the shell at its
// prompt or may not be; [ErrStart], where the marks did not come; those of Send.
func (s *Session) Restore(ctx context.Context) (status int, err error) {
	result, err := s.Send(ctx, Request{Text: setup(s.nonce), Submit: true, setup: true})
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if result.Reason != ReasonPrompt && result.Reason != ReasonStdinRead || s.restored == nil {
		return 0, errNotReady(result)
	}
	return *s.restored, nil
}

// Start reserves the session for a send. When ctx ends the send is canceled.
//
// Errors: CodeInvalid, CodeAborted for a context that had ended, [ErrSendActive],
// [ErrClosing], [*ExitedError], and what ended the session otherwise.
func (s *Session) Start(ctx context.Context, request Request) (*Sending, error) {
	if bad := request.validate(); bad != nil {
		return nil, &seam.OpError{Op: "send", Code: seam.CodeInvalid, Err: bad}
	}
	if ctx.Err() != nil {
		return nil, seam.Aborted(ctx, "send", "")
	}
	if request.Timeout == 0 {
		request.Timeout = s.config.Timeout
	}
	x := &Sending{
		s: s, request: request,
		wake:     make(chan struct{}, 1),
		settled:  make(chan struct{}),
		released: make(chan struct{}),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if other := s.active; other != nil {
		return nil, fmt.Errorf("send: %w%s", ErrSendActive, other.doing)
	}
	if request.Submit {
		x.request.Text = strings.TrimSuffix(request.Text, "\n")
	}
	s.active = x
	x.begin = s.consumed
	x.deadline = time.NewTimer(request.Timeout)
	stop := context.AfterFunc(ctx, func() { x.Cancel() })
	// It ends when the slot is free; close joins it.
	s.work.Go(func() {
		defer stop()
		defer x.release()
		x.run()
	})
	return x, nil
}

// A Sending is a send under way. All methods may be called concurrently.
type Sending struct {
	s        *Session
	request  Request
	deadline *time.Timer
	wake     chan struct{} // has one where something is new
	settled  chan struct{} // closed with result and err
	released chan struct{} // closed when the session can take another send

	// Of the goroutine that runs it.
	late        string    // output from before it was typed
	since       time.Time // it was typed, or interrupted, or begun
	ran         bool      // the foreground was seen not to wait for input since
	typed       bool
	atPrompt    bool // it was typed where the shell showed its prompt
	interrupted int  // the process group that was interrupted last; 0: none
	forked      bool // it was one that the shell had only just forked
	first       look // before it was typed
	looked      look // the last one

	// Guarded by s.mu.
	begin    int64  // where its output begins
	doing    string // what holds the slot, beside the waiting
	canceled bool
	done     bool // settled
	result   Result
	err      error
}

// A look is one at the foreground.
type look struct {
	foreground seam.Foreground
	known      bool // there is one
	asks       bool // for input, provably
	waits      bool // so, and what it printed before is read
	at         time.Time
	printed    uint64
}

// Settled is closed when the send has settled. The session can take another one
// a little later: when what is in flight of this one has ended.
func (x *Sending) Settled() <-chan struct{} { return x.settled }

// Released is closed when the session can take another send.
func (x *Sending) Released() <-chan struct{} { return x.released }

// Wait waits until the send has settled and the session can take another one, or
// for what holds it no longer than Config.SampleMax. ctx bounds the waiting, and
// its cause is the error then.
//
// Errors: [*OccupiedError] and CodeInvalid, where nothing was typed for it; what
// the terminal answered where that failed.
func (x *Sending) Wait(ctx context.Context) (Result, error) {
	select {
	case <-x.settled:
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	// A result in hand, the caller may send at once, unless a call is stuck.
	stuck := time.NewTimer(x.s.config.SampleMax)
	defer stuck.Stop()
	select {
	case <-x.released:
	case <-stuck.C:
	}
	return x.result, x.err
}

// Cancel interrupts what the send started: text that was not typed yet never is;
// otherwise, when it was, the foreground gets a SIGINT. The send then settles by
// what comes of it, and not later than by its timeout. False: it had settled.
func (x *Sending) Cancel() bool {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.done {
		return false
	}
	x.canceled = true
	x.s.wake()
	return true
}

// run holds the session's slot.
func (x *Sending) run() {
	if x.typeText() {
		x.watch()
	}
}

func (x *Sending) release() {
	x.deadline.Stop()
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.s.active = nil
	close(x.released)
}

// call makes a call of the terminal, which may take as long as it likes, and
// settles the send meanwhile where something does. what names it for those who
// find the slot taken.
func (x *Sending) call(what string, f func()) {
	s := x.s
	s.mu.Lock()
	x.doing = what
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { // joined here
		defer close(done)
		f()
	}()
	ended := s.ended
	for {
		select {
		case <-done:
			s.mu.Lock()
			x.doing = ""
			s.mu.Unlock()
			return
		case <-x.deadline.C:
			x.timeOut()
		case <-ended:
			x.settleEnd()
			ended = nil
		}
	}
}

// timeOut settles the send because its time is up. One whose session is being
// closed waits for the end, which is bounded.
func (x *Sending) timeOut() {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if !x.s.closing {
		x.settleLocked(ReasonTimeout)
	}
}

// look looks at the foreground. The error is nil where the world has none.
func (x *Sending) look() (look, error) {
	s := x.s
	s.mu.Lock()
	l := look{at: time.Now(), printed: s.printed}
	s.mu.Unlock()
	var err error
	x.call("", func() { l.foreground, err = s.terminal.Foreground(s.life) })
	if errors.Is(err, errors.ErrUnsupported) {
		return l, nil
	}
	l.known = err == nil
	l.asks = l.known && l.foreground.InputKnown && l.foreground.WaitsForInput
	l.waits = l.asks && !l.foreground.UnreadOutput
	return l, err
}

// typeText types the text. It returns whether there is something to watch.
func (x *Sending) typeText() bool {
	s := x.s
	if x.request.setup && s.shellGroup == 0 {
		// The shell is not up yet, and nobody else is there.
		x.looked = look{at: time.Now()}
	} else {
		l, err := x.look()
		if err != nil && !x.goesOn() {
			return !x.over()
		}
		if err != nil {
			return x.refuse(fmt.Errorf("send: %w", err))
		}
		x.first, x.looked = l, l
	}

	s.mu.Lock()
	if x.done || s.exit != nil || s.failure != nil {
		s.mu.Unlock()
		x.settleEnd()
		return false
	}
	x.begins()
	if x.canceled || !x.request.types() {
		s.mu.Unlock()
		return true
	}
	if err := x.mayType(); err != nil {
		s.mu.Unlock()
		return x.refuse(err)
	}
	keys := x.prepare()
	x.begins()
	s.mu.Unlock()

	var err error
	x.call(" and types", func() { _, err = s.terminal.Write(keys) })
	x.typed = true
	if err == nil {
		s.mu.Lock()
		x.since = time.Now()
		s.stirred = x.since
		s.mu.Unlock()
		return !x.over()
	}
	if x.goesOn() {
		s.fail(fmt.Errorf("type: %w", err))
		x.settleEnd()
	}
	return !x.over()
}

// begins notes what evidence has to be newer than. s.mu is held.
func (x *Sending) begins() {
	x.since, x.ran = time.Now(), false
}

// mayType says why the text can't be typed. s.mu is held.
func (x *Sending) mayType() error {
	l := x.looked
	if x.request.setup && x.s.shellGroup != 0 {
		return x.mayRestore()
	}
	if !l.known {
		return nil
	}
	if !x.request.Force && x.s.shellGroup != 0 && l.foreground.PGID != x.s.shellGroup {
		return fmt.Errorf("send: %w", &OccupiedError{Program{l.foreground.PGID, l.foreground.Argv}})
	}
	if l.foreground.Canonical && longestLine(x.request.Text) > maxCanonicalBytes {
		return invalid("send", "Text", fmt.Sprintf("has a line of more than %d bytes, of which the terminal drops the rest", maxCanonicalBytes))
	}
	return nil
}

// mayRestore says why the marks can't be put back. s.mu is held.
func (x *Sending) mayRestore() error {
	l := x.looked
	switch {
	case !l.known || !l.asks || l.foreground.Canonical:
		return fmt.Errorf("%w: it is not known to read a command", ErrNotShell)
	case l.foreground.PGID != x.s.shellGroup || !slices.Equal(l.foreground.Argv, x.s.shellArgv):
		return fmt.Errorf("%w: it is %v", ErrNotShell, Program{l.foreground.PGID, l.foreground.Argv})
	}
	x.s.restored = nil
	return nil
}

// maxCanonicalBytes is what Linux keeps of a line while a terminal edits lines:
// N_TTY_BUF_SIZE, less the newline.
const maxCanonicalBytes = 4095

func longestLine(text string) int {
	longest := 0
	for line := range strings.Lines(text) {
		longest = max(longest, len(line))
	}
	return longest
}

// prepare discards what was evidence, and returns what is to be typed. s.mu is held.
func (x *Sending) prepare() []byte {
	s, r := x.s, x.request
	x.atPrompt = s.shown != shownNone
	if x.atPrompt {
		// What came since the last result ends before the prompt.
		text, truncated := s.text.tail(s.consumed, s.promptStart, s.config.MaxReadBytes)
		x.late, x.result.Truncated = text, truncated
		x.begin = s.text.end()
	}
	shown := r.Text
	if r.setup {
		shown = ""
	}
	switch {
	case x.atPrompt:
		s.echo = &echo{start: s.text.end(), text: shown, feeds: s.output.feeds}
	case s.echo != nil: // typed on, on the same line
		s.echo.text += shown
	}
	s.forget()
	text := r.Text
	if s.paste && text != "" {
		text = beginOfPaste + text + endOfPaste
	}
	if r.Submit {
		text += "\r"
	}
	return []byte(text)
}

// refuse has the send fail; the session goes on.
func (x *Sending) refuse(err error) bool {
	x.reject(err)
	return false
}

// goesOn waits a moment for the shell's end, which is what a call that failed may
// be about, and returns whether there is none.
func (x *Sending) goesOn() bool {
	soon := time.NewTimer(x.s.config.Drain)
	defer soon.Stop()
	select {
	case <-x.s.ended:
		x.settleEnd()
		return false
	case <-soon.C:
		return true
	}
}

// over returns whether the send has settled.
func (x *Sending) over() bool {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	return x.done
}

// settle has the send settle with what is known now, unless it has.
func (x *Sending) settle(reason Reason) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.settleLocked(reason)
}

func (x *Sending) settleLocked(reason Reason) {
	s := x.s
	if x.done {
		return
	}
	x.done = true
	r := &x.result
	r.Reason = reason
	r.Canceled = x.canceled
	r.Exit = s.exit
	r.Dir = s.dir
	r.AlternateScreen = s.alternate
	if s.done != nil && s.done.hasStatus {
		status := s.done.status
		r.Status = &status
	}
	if l := x.looked; l.known && s.exit == nil {
		if s.shellGroup != 0 && l.foreground.PGID != s.shellGroup && reason != ReasonPrompt && reason != ReasonContinuation {
			r.Foreground = &Program{l.foreground.PGID, l.foreground.Argv}
		}
		r.EchoOff = l.foreground.Canonical && !l.foreground.Echo
	}
	end := s.text.end()
	if s.shown != shownNone {
		end = s.promptStart
	}
	text, truncated := s.text.tail(x.begin, end, s.config.MaxReadBytes)
	if len(x.late)+len(text) > s.config.MaxReadBytes {
		x.late, truncated = "", true
	}
	r.Output = s.reveal(x.late + text)
	r.Truncated = r.Truncated || truncated
	s.consumed = s.text.end()
	close(x.settled)
}

// settleEnd settles or rejects a send whose session has ended.
func (x *Sending) settleEnd() {
	x.s.mu.Lock()
	exit, failure := x.s.exit, x.s.failure
	x.s.mu.Unlock()
	switch {
	case exit != nil:
		x.settle(ReasonSessionExit)
	case failure != nil:
		x.reject(failure)
	}
}

// reject has the send fail, unless it has settled.
func (x *Sending) reject(err error) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.done {
		return
	}
	x.done, x.err = true, err
	x.result.Canceled = x.canceled
	close(x.settled)
}
