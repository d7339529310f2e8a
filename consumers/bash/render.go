package bash

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/corral-world/corral/seam"
)

// Render is the result as a model reads it: what the script printed on stdout
// and, behind a line [stderr], on stderr, each followed by the markers that its
// beginning is left out and that its end was cut off; then, each on a line of its
// own and in this order, what became of its background processes, that it timed
// out, and how it ended. A marker of the exit is the last line, so that it can be
// read back; a script that succeeds has none.
func (r Result) Render() string {
	var b builder
	b.section("", r.Stdout)
	b.section("[stderr]", r.Stderr)
	if b.Len() == 0 {
		b.line("(no output)")
	}
	b.survivors(r)
	switch {
	case r.Outcome.End == "" && r.Job != nil:
		b.line(fmt.Sprintf("[still running; continues as background job %s]", r.Job.ID))
		return b.String()
	case r.TimedOut:
		b.line(fmt.Sprintf("[timed out after %dms]", r.Timeout.Milliseconds()))
	case r.Aborted:
		cause := r.Outcome.Cause
		if cause == nil && r.Job != nil {
			cause = r.Job.Cause
		}
		b.line(fmt.Sprintf("[aborted: %s]", oneLine(cause)))
	}
	if r.Failure != nil {
		b.line(fmt.Sprintf("[failed: %s]", oneLine(r.Failure)))
	}
	if r.Empty != nil {
		b.line(fmt.Sprintf("[may still be running: %s]", oneLine(r.Empty)))
	}
	switch r.Outcome.End {
	case seam.EndLimitMemory:
		b.line("[reached its limit on memory]")
	case seam.EndLimitPids:
		b.line("[reached its limit on processes]")
	}
	switch {
	case r.Outcome.End == seam.EndLost:
		b.line("[exit status lost]")
	case r.Outcome.Signal != seam.Signal{}:
		b.line(fmt.Sprintf("[killed by signal: %s]", r.Outcome.Signal.Name))
	case r.Outcome.ExitCode != 0:
		b.line(fmt.Sprintf("[exit code: %d]", r.Outcome.ExitCode))
	}
	return b.String()
}

// builder joins lines, each begun on a line of its own.
type builder struct{ strings.Builder }

func (b *builder) line(s string) {
	if s == "" {
		return
	}
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(s)
}

func (b *builder) section(title string, t Text) {
	if t.Text == "" && !t.Truncated && !t.Cut {
		return
	}
	b.line(title)
	b.line(t.Text)
	if t.Truncated {
		where := "(unavailable)"
		if t.Spill.Path != "" {
			where = t.Spill.Path
		}
		b.line(fmt.Sprintf("[output truncated; full output: %s]", where))
	}
	if t.Cut {
		b.line("[output cut off: a process outside of the command's range held it open]")
	}
}

// maxListed is how many survivors are named.
const maxListed = 5

func (b *builder) survivors(r Result) {
	if len(r.Survivors) == 0 {
		return
	}
	what := "ended"
	if r.Job != nil {
		what = fmt.Sprintf("kept as background job %s", r.Job.ID)
		if !r.Job.Ended.IsZero() {
			what = fmt.Sprintf("kept until their end, %s", r.Job.Status)
		}
	}
	names := make([]string, 0, maxListed)
	for _, m := range r.Survivors[:min(len(r.Survivors), maxListed)] {
		names = append(names, fmt.Sprintf("%d %s", m.PID, oneLine(strings.Join(m.Argv, " "))))
	}
	if more := len(r.Survivors) - maxListed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	b.line(fmt.Sprintf("[background processes %s: %s]", what, strings.Join(names, "; ")))
	if r.JobErr != nil {
		b.line(fmt.Sprintf("[not kept: %s]", oneLine(r.JobErr)))
	}
}

// maxMarkerRunes is how much of a text from elsewhere goes into a marker.
const maxMarkerRunes = 200

// oneLine makes a text fit into a marker: what processes say of themselves can be
// long, and can look like another marker.
func oneLine(text any) string {
	breaks := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	s := strings.Join(strings.FieldsFunc(fmt.Sprint(text), breaks), " ")
	if runes := []rune(s); len(runes) > maxMarkerRunes {
		return string(runes[:maxMarkerRunes]) + "…"
	}
	return s
}
