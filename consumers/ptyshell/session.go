package ptyshell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/corral-world/corral/seam"
)

// A Session is a shell on a terminal of its own. It is made by [Shells.Open] and
// belongs to its owner. All methods may be called concurrently, and after the end.
type Session struct {
	id, name, owner string
	config          *Config
	terminal        seam.Terminal
	nonce           string

	life  context.Context // ends when nothing of the session is to wait any longer
	end   context.CancelFunc
	read  chan struct{} // closed when the output has ended
	ended chan struct{} // closed with exit or failure
	work  sync.WaitGroup

	mu     sync.Mutex
	text   scrollback
	output decoder

	// What the shell shows; it is none again as soon as anything else is
	// printed or typed. Since something was typed or signalled: whether a
	// command was begun, and how the last one ended.
	shown   shown
	command bool
	done    *mark

	stirred    time.Time // when something was typed or signalled last
	stirredEnd int64     // text.end() then

	printed   uint64    // counts what came from the terminal
	printedAt time.Time // when it last did
	marked    bool      // marks of prompts came since something was typed

	paste       bool  // the line editor wants pastes bracketed
	alternate   bool  // the alternate screen is shown
	promptStart int64 // where the prompt begins that is shown
	prompting   bool  // nothing was typed or told since it began
	consumed    int64 // what results have told of
	echo        *echo // of what was typed at the prompt; nil when it is over
	shellGroup  int   // the shell's process group; 0 until the first prompt
	shellArgv   []string
	dir         string
	restored    *int // the status that a new setup found

	starting bool
	active   *Sending
	closing  bool
	exit     *seam.Outcome // of the shell
	failure  error         // what ended the session otherwise; the first wins
}

// shown is what the end of the output shows.
type shown int

const (
	shownNone shown = iota
	shownPrompt
	shownContinuation
)

// echo is what the line editor shows of what is typed. It is cut to the width of
// the terminal, so the text itself takes its place.
type echo struct {
	start int64
	text  string
	feeds int // output.feeds then
}

func newSession(config *Config, id, name, owner string, terminal seam.Terminal) *Session {
	s := &Session{
		id: id, name: name, owner: owner,
		config:   config,
		terminal: terminal,
		nonce:    newNonce(),
		read:     make(chan struct{}),
		ended:    make(chan struct{}),
		text:     scrollback{maxLines: config.ScrollbackLines, maxBytes: config.ScrollbackMaxBytes},
		starting: true,
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.output = decoder{text: s.print, osc: s.osc, mode: s.mode, column0: true}
	// Both end with the terminal; close joins them.
	s.work.Go(s.readOutput)
	s.work.Go(s.awaitExit)
	return s
}

// ID names the session among those of its [Shells].
func (s *Session) ID() string { return s.id }

// Info are the facts of a session.
type Info struct {
	ID, Name, Owner string
	// Range is the name of the terminal's range.
	Range       string
	Containment seam.Containment
	// Dir is where the shell was when it last told; "" where it never did.
	Dir string
	// Sending: a send has not been released.
	Sending bool
	// Exit is how the shell ended; nil while it lives.
	Exit *seam.Outcome
	// Err is what ended the session otherwise.
	Err error
}

// Info returns the facts as they are now.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Info{
		ID: s.id, Name: s.name, Owner: s.owner,
		Range: s.terminal.Name(), Containment: s.terminal.Containment(),
		Dir: s.dir, Sending: s.active != nil, Exit: s.exit, Err: s.failure,
	}
}

// Read returns count lines of the scrollback, of which the offset most recent
// ones are skipped, and at most Config.MaxReadBytes of them.
func (s *Session) Read(offset, count int) (Page, error) {
	switch {
	case offset < 0:
		return Page{}, invalid("read session", "offset", "is negative")
	case count < 1:
		return Page{}, invalid("read session", "count", "must be at least 1")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	page := s.text.page(offset, count, s.config.MaxReadBytes)
	page.Text = s.reveal(page.Text)
	return page, nil
}

// Resize changes the size of the terminal.
//
// Errors: those of [seam.Terminal].
func (s *Session) Resize(cols, rows uint16) error { return s.terminal.Resize(cols, rows) }

// Signal sends a signal to whoever owns the terminal, and returns the process
// group that got it. It is the way out of a program that waits and of a command
// that is not finished.
//
// Errors: [ErrClosing], [*ExitedError], those of [seam.Terminal].
func (s *Session) Signal(ctx context.Context, name string) (pgid int, err error) {
	s.mu.Lock()
	err = s.usable()
	if err == nil && name == "SIGINT" {
		s.forget()
	}
	s.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("signal session: %w", err)
	}
	pgid, err = s.terminal.SignalForeground(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("signal session: %w", err)
	}
	return pgid, nil
}

// usable says why nothing can be done with the session; nil where it can. s.mu
// is held.
func (s *Session) usable() error {
	switch {
	case s.exit != nil:
		return &ExitedError{Outcome: *s.exit}
	case s.failure != nil:
		return s.failure
	case s.closing:
		return ErrClosing
	}
	return nil
}

// forget discards what was evidence until now: something is about to be typed or
// signalled. s.mu is held.
func (s *Session) forget() {
	s.shown, s.command, s.done, s.marked, s.prompting = shownNone, false, nil, false, false
	s.stirred, s.stirredEnd = time.Now(), s.text.end()
}

// readOutput reads until the terminal's output ends.
func (s *Session) readOutput() {
	defer close(s.read)
	buf := make([]byte, 32<<10)
	for {
		n, err := s.terminal.Read(buf)
		if n > 0 {
			s.mu.Lock()
			s.printed++
			s.printedAt = time.Now()
			s.output.feed(buf[:n])
			s.wake()
			s.mu.Unlock()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.fail(fmt.Errorf("read the terminal: %w", err))
			}
			return
		}
	}
}

// awaitExit learns how the shell ended, and tells when its output has ended too.
func (s *Session) awaitExit() {
	outcome, err := s.terminal.Wait(s.life)
	if err != nil {
		if s.life.Err() == nil {
			s.fail(fmt.Errorf("wait for the shell: %w", err))
		}
		return
	}
	late := time.NewTimer(s.config.Drain)
	defer late.Stop()
	select {
	case <-s.read:
	case <-late.C:
	case <-s.life.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exit == nil && s.failure == nil { // the first cause is kept
		s.exit = &outcome
		s.announceEnd()
	}
}

// fail ends the session for a cause that is not the shell's: what is known of its
// terminal is not to be relied upon. It begins the terminal's end.
func (s *Session) fail(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil || s.exit != nil {
		return
	}
	s.failure = cause
	s.announceEnd()
	// close does this again, and hears of an error; it joins this one.
	s.work.Go(func() { _ = s.terminal.Close(s.life) })
}

// announceEnd closes ended, once. s.mu is held.
func (s *Session) announceEnd() {
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
	s.wake()
}

// wake has the active send look at what is new. s.mu is held.
func (s *Session) wake() {
	if s.active == nil {
		return
	}
	select {
	case s.active.wake <- struct{}{}:
	default:
	}
}

// close ends the session. quiescent: the terminal's range is proven empty, and
// nothing of the session runs. The error may also be the failure that had ended
// it. ctx bounds the waiting.
func (s *Session) close(ctx context.Context) (quiescent bool, err error) {
	s.mu.Lock()
	s.closing = true
	failure := s.failure
	s.wake()
	s.mu.Unlock()
	if err := s.terminal.Close(ctx); err != nil {
		err = fmt.Errorf("close session %s: %w", s.id, err)
		s.mu.Lock()
		active := s.active
		s.mu.Unlock()
		if active != nil {
			active.reject(err)
		}
		return false, err
	}
	// By the terminal's contract nothing of it is in flight any more, so what is
	// still to come, comes; ctx has nothing to bound.
	if failure == nil {
		<-s.ended
	}
	s.end()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return true, s.failure
}

// print takes text that the terminal printed. s.mu is held.
func (s *Session) print(p []byte) {
	if s.shown != shownNone && s.prompting && len(bytes.Trim(p, " ")) == 0 {
		return // the line editor clears the line
	}
	s.shown = shownNone
	s.text.append(p)
}

// mode takes a private mode. s.mu is held.
func (s *Session) mode(number int, on bool) {
	switch number {
	case 2004:
		s.paste = on
		if !on {
			s.endEcho()
		}
	case 47, 1047, 1049:
		s.alternate = on
	}
}

// endEcho puts what was typed in the place of what the line editor showed of it,
// unless something else was printed meanwhile. s.mu is held.
func (s *Session) endEcho() {
	e := s.echo
	if e == nil {
		return
	}
	s.echo = nil
	// The editor of a terminal that can't move up shows one line, and ends it.
	if s.output.feeds-e.feeds > 1+strings.Count(e.text, "\n") {
		return
	}
	s.text.rewind(e.start)
	if e.text != "" {
		s.text.append([]byte(e.text + "\n"))
	}
	s.output.cr, s.output.column0 = false, true
	s.consumed = min(s.consumed, s.text.end())
	if s.active != nil {
		s.active.begin = s.text.end()
	}
}

// redrawn takes back a prompt that is drawn anew. s.mu is held.
func (s *Session) redrawn() {
	if !s.prompting {
		return
	}
	text, _ := s.text.tail(s.promptStart, s.text.end(), s.config.MaxReadBytes)
	switch strings.TrimRight(text, "\n") {
	case prompt, continuation:
		s.text.rewind(s.promptStart)
		s.consumed = min(s.consumed, s.text.end())
		s.output.cr, s.output.column0 = false, s.text.atLineStart()
	}
}

// osc takes an OSC sequence. s.mu is held.
func (s *Session) osc(data []byte) {
	m, ok := parseMark(data, s.nonce)
	if !ok {
		return
	}
	switch m.kind {
	case markPrompt, markMore:
		if !s.paste { // else it may be shown again, in the middle of an echo
			s.endEcho()
		}
		s.redrawn()
		s.promptStart, s.prompting = s.text.end(), true
		s.marked = true
	case markReady:
		s.shown = shownPrompt
		if s.done == nil && m.hasStatus {
			s.done = &m // of a shell whose PROMPT_COMMAND is another
		}
	case markContinuation:
		s.shown = shownContinuation
	case markCommand:
		s.endEcho()
		s.shown, s.command, s.prompting = shownNone, true, false
	case markDone:
		s.shown, s.done = shownNone, &m
		s.dir, s.alternate, s.prompting = m.dir, false, false
	case markSetUp:
		// Whatever was shown before, the line that was typed has been run.
		s.restored, s.command = &m.status, true
		if s.starting {
			s.starting = false
			s.text.rewind(0)
			s.output.cr, s.output.column0 = false, true
		}
	}
}

// reveal is text as it may be shown: without lines that tell of the marks, which
// are the shell's own listings of its variables.
func (s *Session) reveal(text string) string {
	if !strings.Contains(text, s.nonce) {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	kept := lines[:0]
	for _, line := range lines {
		if !strings.Contains(line, s.nonce) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// invalid is the error of a call with a bad argument.
func invalid(op, field, problem string) error {
	return &seam.OpError{Op: op, Code: seam.CodeInvalid, Err: &seam.FieldError{Field: field, Problem: problem}}
}
