package ptyshell

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/corral-world/corral/seam"
)

// Marks are what the shell tells of itself: escape sequences OSC 133 with a
// nonce that only the session and its shell know. It is a shell variable, never
// in an argument or an environment, so a program can't print one unless the
// shell's user shows it how.
type markKind byte

const (
	markPrompt       markKind = 'A' // the prompt begins
	markReady        markKind = 'B' // the prompt has ended, and the shell reads a command: status
	markCommand      markKind = 'C' // a command was read and begins
	markDone         markKind = 'D' // the last command has ended: status and directory
	markMore         markKind = 'E' // the prompt of an unfinished command begins
	markContinuation markKind = 'F' // and has ended
	markSetUp        markKind = 'R' // the marks were put in place: the status until then
)

type mark struct {
	kind      markKind
	status    int
	hasStatus bool
	dir       string
}

// prompt is what the shell shows, and continuation for an unfinished command.
const (
	prompt       = "corral> "
	continuation = "> "
)

func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

// parseMark reads the data of an OSC sequence.
func parseMark(data []byte, nonce string) (mark, bool) {
	rest, ok := strings.CutPrefix(string(data), "133;")
	if !ok || len(rest) < 1 {
		return mark{}, false
	}
	m := mark{kind: markKind(rest[0])}
	if rest, ok = strings.CutPrefix(rest[1:], ";"+nonce); !ok {
		return mark{}, false
	}
	if rest, ok = strings.CutPrefix(rest, ";"); ok {
		status, dir, _ := strings.Cut(rest, ";")
		n, err := strconv.Atoi(status)
		m.status, m.hasStatus, m.dir = n, err == nil, dir
	}
	return m, true
}

// setup is a line for the shell that has it print marks. Everything stays on one
// line of less than 4,096 bytes, so that it can be typed before the shell reads.
//
// The marks of ends go to /dev/tty, wherever the shell's own streams go; those
// of prompts go where the prompts do. PROMPT_COMMAND puts the prompts back each
// time. The groups' redirections hide what set -x and a DEBUG trap would show.
func setup(nonce string) string {
	osc := func(kind markKind) string { return fmt.Sprintf(`\e]133;%c;%s\a`, kind, nonce) }
	// Not set anew where it is as it should be: bash 5.2 goes on to use the old
	// value of PS0 after a syntax error in eval, and prints what is there by then.
	keep := func(name, value string) string {
		return fmt.Sprintf(`[[ ${%s-} == %s ]] || %s=%s;`, name, quote(value), name, quote(value))
	}
	promptCommand := fmt.Sprintf(
		`{ printf "\033]133;%c;%s;%%s;%%s\a" "$?" "${PWD+${PWD##*[[:cntrl:]]*}}" >/dev/tty || :; %s %s %s } >/dev/null 2>&1`,
		markDone, nonce,
		keep("PS0", osc(markCommand)),
		keep("PS1", `\[`+osc(markPrompt)+`\]`+prompt+`\[`+strings.Replace(osc(markReady), `\a`, `;$?\a`, 1)+`\]`),
		keep("PS2", `\[`+osc(markMore)+`\]`+continuation+`\[`+osc(markContinuation)+`\]`),
	)
	return fmt.Sprintf(
		` { __corral=$?; PROMPT_COMMAND=%s; set +H; bind 'set enable-bracketed-paste on'; bind 'set enable-active-region off';`+
			` export -n PS0 PS1 PS2 PROMPT_COMMAND INPUTRC HISTFILE; printf '\033]133;%c;%s;%%s\a' "$__corral" >/dev/tty || :;`+
			` unset __corral; } >/dev/null 2>&1`,
		quote(promptCommand), markSetUp, nonce)
}

// quote makes one word of s for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// sessionEnv keeps programs from being more than a session can show, and a
// person's settings from a shell that nobody sits at.
func sessionEnv(term string) seam.Env {
	return seam.Env{
		seam.Set("NO_COLOR", "1"),
		seam.Set("TERM", term),
		seam.Set("PAGER", "cat"),
		seam.Set("GIT_PAGER", "cat"),
		seam.Set("BASH_SILENCE_DEPRECATION_WARNING", "1"),
		// Read and written by nobody; empty is not the same as unset.
		seam.Set("HISTFILE", ""),
		seam.Set("INPUTRC", "/dev/null"),
		seam.Unset("PS0"),
		seam.Unset("PS1"),
		seam.Unset("PS2"),
		seam.Unset("PROMPT_COMMAND"),
		seam.Unset("BASH_ENV"),
		seam.Unset("ENV"),
		seam.Unset("SHELLOPTS"),
		seam.Unset("BASHOPTS"),
		seam.Unset("BASH_XTRACEFD"),
		seam.Unset("POSIXLY_CORRECT"),
		seam.Unset("CDPATH"),
		seam.Unset("GLOBIGNORE"),
		seam.Unset("TMOUT"),
		seam.Unset("MAIL"),
		seam.Unset("MAILPATH"),
	}
}
