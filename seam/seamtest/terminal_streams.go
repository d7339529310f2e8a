package seamtest

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/corral-world/corral/seam"
)

// floodText is what the verb flood prints.
func floodText(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.String()[:n]
}

// terminalStreamCases check what is read and typed.
var terminalStreamCases = []subprocessCase{
	{
		name: "terminal-output", rule: "every byte of output is read before io.EOF, which comes again and again",
		run: func(e *processEnv) {
			const n = 20_000
			for range 5 {
				t := e.terminal(e.terminalSpec("flood", fmt.Sprint(n), "1000"))
				e.wantRest("a flood", t, floodText(n))
				if n, err := t.Read(make([]byte, 10)); n != 0 || err != io.EOF { //nolint:errorlint // it is itself
					e.errorf("Read after io.EOF: %d bytes, %w", n, err)
				}
				e.wantExit(e.waitTerminal(t), 0)
			}
		},
	},
	{
		name: "terminal-silent", rule: "Read waits as long as the direct process lives",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("sleep"))
			e.wantBlocked("Read", e.inFlight(func() { _, _ = t.Read(make([]byte, 1)) }))
		},
	},
	{
		name: "terminal-unread", rule: "what is unread when the range has ended can be read after Close",
		run: func(e *processEnv) {
			const n = 2000
			t := e.terminal(e.terminalSpec("flood", fmt.Sprint(n), "100"))
			e.wantExit(e.waitTerminal(t), 0)
			e.closeTerminal(t)
			e.wantRest("after Close", t, floodText(n))
		},
	},
	{
		name: "terminal-backpressure", rule: "unread output makes its writers wait, and is not dropped",
		run: func(e *processEnv) {
			const n = 1 << 20
			t := e.terminal(e.terminalSpec("flood", fmt.Sprint(n), "1000"))
			e.wantBlocked("Wait", e.inFlight(func() { _, _ = t.Wait(e.ctx) }))
			e.wantRest("a flood", t, floodText(n))
			e.wantExit(e.waitTerminal(t), 0)
		},
	},
	{
		name: "terminal-eof-held", rule: "io.EOF comes when the direct process has ended, also where a member lives on that holds the terminal",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("late"))
			if _, err := io.ReadAll(t); err != nil {
				e.errorf("read to the end: %w", err)
			}
			e.wantExit(e.waitTerminal(t), 0)
			e.wantTaken(t.Name())
		},
	},
	{
		name: "terminal-late", rule: "what members write after io.EOF is read by a later Read",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("late"))
			var got []byte
			e.until("the member's output", func() bool {
				part, err := io.ReadAll(t)
				if err != nil {
					e.fatalf("read to the end: %w", err)
				}
				got = append(got, part...)
				return len(got) > 0
			})
			if text := strings.TrimRight(string(got), "\r\n"); text != "late" {
				e.errorf("read %q, want what the member wrote", text)
			}
		},
	},
	{
		name: "terminal-write", rule: "what is written is typed",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("lines"))
			for _, text := range []string{"hello", "two words", "ünï-code 漢字", strings.Repeat("x", 3000)} {
				e.typeIn(t, text+"\n")
				e.wantLine(t, fmt.Sprintf("got %q", text))
			}
		},
	},
	{
		name: "terminal-read-settled", rule: "Close ends a Read that waits, with io.EOF",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("sleep"))
			var err error
			returned := e.inFlight(func() { _, err = io.ReadAll(t) })
			e.wantBlocked("Read", returned)
			e.closeTerminal(t)
			e.wantReturned("Read", returned)
			if err != nil {
				e.errorf("Read: %w, want io.EOF", err)
			}
		},
	},
	{
		name: "terminal-write-settled", rule: "a program that does not read makes Write wait, and Close ends that",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("sleep"))
			typed := slices.Repeat([]byte("a line\n"), 1<<17)
			var n int
			var err error
			returned := e.inFlight(func() { n, err = t.Write(typed) })
			e.wantBlocked("Write", returned)
			e.closeTerminal(t)
			e.wantReturned("Write", returned)
			if n >= len(typed) || seam.CodeOf(err) != seam.CodeEnded {
				e.errorf("Write of %d bytes: %d, %w; want less, and that the command has ended", len(typed), n, err)
			}
		},
	},
}
