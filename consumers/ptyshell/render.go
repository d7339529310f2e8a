package ptyshell

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/corral-world/corral/seam"
)

// Render is the result as a model reads it: the output, then lines in brackets
// with what is known of the terminal, of which the last two are the reason and
// whether the shell lives.
func (r Result) Render() string {
	var b strings.Builder
	line := func(format string, args ...any) {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, format, args...)
	}
	if r.Truncated {
		line("[earlier output is left out]\n")
	}
	b.WriteString(r.Output)
	if b.Len() == 0 {
		line("(no output)")
	}
	if r.Canceled {
		line("[canceled: what it started was interrupted]")
	}
	if r.Foreground != nil {
		line("[terminal owned by: %v]", *r.Foreground)
	}
	if r.EchoOff {
		line("[echo is off: a secret is asked for]")
	}
	if r.AlternateScreen {
		line("[a full-screen program shows itself]")
	}
	if r.Status != nil && *r.Status != 0 {
		line("[exit code: %d]", *r.Status)
	}
	if r.Reason == ReasonContinuation {
		line("[the command is not finished: send the rest of it, or SIGINT to give it up]")
	}
	line("[wait: %s]", r.Reason)
	if r.Exit == nil {
		line("[session: running]")
	} else {
		line("[session: exited%s]", exitFacts(*r.Exit))
	}
	return b.String()
}

func exitFacts(o seam.Outcome) string {
	switch {
	case o.Signal != seam.Signal{}:
		return " signal=" + o.Signal.Name
	case o.End == seam.EndLost:
		return ""
	}
	return fmt.Sprintf(" code=%d", o.ExitCode)
}

// maxNameRunes is how much is shown of what a program says of itself.
const maxNameRunes = 200

// oneLine makes a text from elsewhere fit into a line: it can be long, and can
// look like something that it is not.
func oneLine(s string) string {
	breaks := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	s = strings.Join(strings.FieldsFunc(s, breaks), " ")
	if runes := []rune(s); len(runes) > maxNameRunes {
		return string(runes[:maxNameRunes]) + "…"
	}
	return s
}
