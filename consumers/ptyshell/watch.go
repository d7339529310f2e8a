package ptyshell

import (
	"fmt"
	"slices"
	"time"

	"github.com/corral-world/corral/seam"
)

// watch waits for evidence of readiness, and settles the send.
//
// Marks are events: they are looked at when they come. The foreground is looked
// at when a mark has to be confirmed, and otherwise in pauses that double; output
// shortens a pause, because what printed may wait now.
func (x *Sending) watch() {
	s := x.s
	pause := s.config.SampleMin
	next := time.Now().Add(pause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	interrupts := 0
	var refuted uint64 // s.printed when a mark was shown that was none of the shell's

	for {
		s.mu.Lock()
		var (
			over, ended    = x.done, s.exit != nil || s.failure != nil
			closing        = s.closing
			interrupt      = x.canceled && interrupts == 0
			marks          = s.shown != shownNone && s.printed != refuted && (s.command || !x.typed)
			printed, quiet = s.printed, s.quietUntil(x.since, s.config)
		)
		s.mu.Unlock()
		if x.request.setup {
			quiet = next
		}
		switch {
		case over:
			return
		case ended:
			x.settleEnd()
			return
		case interrupt && !closing:
			interrupts++
			if !x.interruptForeground() {
				return
			}
			pause = s.config.SampleMin
			next = time.Now().Add(pause)
			continue
		}

		if closing {
			select {
			case <-s.ended:
			case <-x.settled: // rejected, because the close failed
			}
			continue
		}
		if due := earlier(next, quiet); !marks && time.Now().Before(due) {
			timer.Reset(time.Until(due))
			select {
			case <-timer.C:
			case <-x.deadline.C:
				x.timeOut()
			case <-x.wake:
				// What printed may wait now; what prints all the time is not
				// looked at all the time.
				soon := time.Now().Add(s.config.SampleMin)
				if last := x.looked.at.Add(10 * s.config.SampleMin); last.After(soon) {
					soon = last
				}
				next = earlier(next, soon)
			}
			continue
		}

		before := x.looked
		l, err := x.look()
		if err != nil {
			if x.goesOn() {
				s.fail(fmt.Errorf("look at the foreground: %w", err))
			}
			x.settleEnd()
			return
		}
		x.looked = l
		if x.missed(l) && interrupts < maxInterrupts {
			interrupts++
			if !x.interruptForeground() {
				return
			}
			continue
		}
		if x.judge(before, l) {
			return
		}
		refuted = printed
		if l.waits && (!before.waits || before.printed != l.printed) {
			// Wants to be seen twice.
			next = time.Now().Add(s.config.SampleMin)
			continue
		}
		next = time.Now().Add(pause)
		pause = min(2*pause, s.config.SampleMax)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// quietUntil is when silence becomes a reason. s.mu is held.
func (s *Session) quietUntil(since time.Time, config *Config) time.Time {
	if s.printedAt.After(since) {
		since = s.printedAt
	}
	since = since.Add(config.IdleSilence)
	if s.marked {
		since = since.Add(config.HandoffGrace)
	}
	return since
}

// maxInterrupts is how often the foreground is interrupted for one cancel.
const maxInterrupts = 3

// missed: the interrupt reached the shell alone, while it was starting what has
// the foreground now, or what the shell had forked and was not yet that program,
// which takes no notice of it.
func (x *Sending) missed(l look) bool {
	if x.interrupted == 0 || !l.known || l.foreground.PGID == x.s.shellGroup {
		return false
	}
	return x.interrupted == x.s.shellGroup ||
		x.forked && x.interrupted == l.foreground.PGID && !slices.Equal(l.foreground.Argv, x.s.shellArgv)
}

// interruptForeground signals the foreground, if there is something of the send's to
// interrupt. False: there is nothing to watch any more.
func (x *Sending) interruptForeground() bool {
	s := x.s
	if x.request.types() && !x.typed {
		return true
	}
	s.mu.Lock()
	s.forget()
	s.mu.Unlock()
	var before seam.Foreground
	var err error
	x.call(" and interrupts", func() {
		before, _ = s.terminal.Foreground(s.life) // where it can't be told there is nothing to miss
		x.interrupted, err = s.terminal.SignalForeground(s.life, "SIGINT")
	})
	x.forked = before.PGID != s.shellGroup && before.PGID == x.interrupted && slices.Equal(before.Argv, s.shellArgv)
	s.mu.Lock()
	x.begins()
	x.typed, x.atPrompt = true, false
	s.mu.Unlock()
	if err == nil {
		return true
	}
	if x.goesOn() {
		s.fail(fmt.Errorf("interrupt: %w", err))
		x.settleEnd()
	}
	return false
}

// judge weighs a look and the one before it, and settles the send where that is
// evidence enough.
func (x *Sending) judge(before, l look) (settled bool) {
	s := x.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.done || s.exit != nil || s.failure != nil || s.closing {
		return false
	}
	now := time.Now()
	shell := !l.known || s.shellGroup == 0 || l.foreground.PGID == s.shellGroup
	// Twice in a row, without a sign of life between: what waits has seen all
	// that was typed. The once could fall between the typing and the waking.
	waits := l.waits && before.waits && before.foreground.PGID == l.foreground.PGID &&
		before.printed == s.printed && before.at.After(x.since)
	unseen := !l.known || !l.foreground.InputKnown
	x.ran = x.ran || !unseen && !l.asks && l.at.After(x.since)

	reason := Reason("")
	switch {
	case l.printed != s.printed: // while it was looked
	case s.shown != shownNone && shell:
		// A prompt after a command that was begun is the command's end. Others
		// may be of something before, and of a paste that goes on.
		quiet := now.Sub(s.printedAt) >= s.config.ExactAfter
		if s.shown == shownPrompt && (s.command || !x.typed) || waits || unseen && quiet {
			reason = ReasonPrompt
			if s.shown == shownContinuation {
				reason = ReasonContinuation
			}
		}
	case x.request.setup:
		// The marks are there, and a prompt that goes elsewhere can't be seen.
		if waits && shell && s.restored != nil {
			reason = ReasonStdinRead
		}
	case waits && x.hasRead(now, shell):
		reason = ReasonStdinRead
	}
	if reason == "" && !x.request.setup && !s.quietUntil(x.since, s.config).After(now) {
		reason = ReasonInferredIdle
	}
	if reason == "" {
		return false
	}
	if s.shellGroup == 0 && l.known {
		s.shellGroup, s.shellArgv = l.foreground.PGID, l.foreground.Argv
	}
	x.settleLocked(reason)
	return true
}

// hasRead: who waits for input has read what was typed, or heard of the signal. On
// a busy machine it may be seen waiting before it is woken; that it ran, or printed
// something, an echo at least, shows that it was. s.mu is held.
func (x *Sending) hasRead(now time.Time, shell bool) bool {
	s := x.s
	since, patience := s.stirred, 4*s.config.ExactAfter
	switch printed := s.text.end() != s.stirredEnd; {
	case since.IsZero(), !x.ran && !printed:
	case shell && x.atPrompt:
		// Its line editor has. Then a mark is to come of what it waits for, and
		// output can be later than what is seen of processes.
		patience = s.config.ExactAfter
		if s.printedAt.After(since) {
			since = s.printedAt
		}
	case !x.ran && x.first.asks && x.first.foreground.PGID == x.looked.foreground.PGID:
		// What it printed may be of something before, and read late.
		patience = s.config.ExactAfter / 4
	default:
		return true
	}
	return now.Sub(since) >= patience
}

// errNotReady is why a start failed by the reason it settled with.
func errNotReady(result Result) error {
	switch result.Reason {
	case ReasonSessionExit:
		return fmt.Errorf("%w: exited during startup: %s", ErrStart, describe(*result.Exit))
	case ReasonTimeout:
		return fmt.Errorf("%w: did not reach readiness in time", ErrStart)
	}
	return fmt.Errorf("%w: %s", ErrStart, result.Reason)
}
