package seamtest

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/corral-world/corral/seam"
)

// streamCases check standard streams that are not collected, and stdin.
var streamCases = []subprocessCase{
	{
		name: "stdin-null", rule: "stdin of mode Null is the null device itself",
		run: func(e *processEnv) {
			if _, out := e.run(e.spec("cat")); out != "" {
				e.errorf("cat read %q", out)
			}
			if _, out := e.run(e.spec("stdin-kind")); out != "null\n" {
				e.errorf("stdin is %q, want the null device", out)
			}
		},
	},
	{
		name: "stdin-data", rule: "stdin of mode Data is the data and then the end",
		run: func(e *processEnv) {
			for _, data := range []string{"", "x", "no newline\x00\xff", strings.Repeat("0123456789abcde\n", 40_000)} {
				spec := e.spec("cat")
				spec.Stdin = seam.Stdin{Mode: seam.Data, Data: []byte(data)}
				outcome, out := e.run(spec)
				e.wantExit(outcome, 0)
				if out != data {
					e.errorf("cat of %d bytes gave %d, or others", len(data), len(out))
				}
			}
		},
	},
	{
		name: "stdin-data-ignored", rule: "a program that does not read its data is not at fault",
		run: func(e *processEnv) {
			spec := e.spec("exit", "0")
			spec.Stdin = seam.Stdin{Mode: seam.Data, Data: make([]byte, 4<<20)}
			outcome, _ := e.run(spec)
			e.wantExit(outcome, 0)
		},
	},
	{
		name: "stdin-pipe", rule: "stdin of mode Pipe is the caller's to write and to close",
		run: func(e *processEnv) {
			p := e.cat()
			e.echo(p, "more")
			if err := p.Stdin().Close(); err != nil {
				e.errorf("close stdin: %w", err)
			}
			rest, err := io.ReadAll(p.Stdout())
			if len(rest) > 0 || err != nil {
				e.errorf("after the end of stdin: %q, %v", rest, err)
			}
			e.wantExit(e.wait(p), 0)
		},
	},
	{
		name: "streams-nil", rule: "Stdin, Stdout and Stderr are nil unless piped, and Output is nil unless collected",
		run: func(e *processEnv) {
			spec := e.spec("exit", "0")
			spec.Stdout = collect(1, 0)
			p := e.spawn(spec)
			if p.Stdin() != nil || p.Stdout() != nil || p.Stderr() != nil {
				e.errorf("streams %v, %v, %v of modes Null, Collect and Null, want nil", p.Stdin(), p.Stdout(), p.Stderr())
			}
			if p.Output(seam.Stdout) == nil || p.Output(seam.Stderr) != nil {
				e.errorf("outputs %v and %v, want the first alone", p.Output(seam.Stdout), p.Output(seam.Stderr))
			}
		},
	},
	{
		name: "output-null", rule: "output of mode Null goes nowhere and holds nothing up",
		run: func(e *processEnv) {
			e.wantExit(e.wait(e.spawn(e.spec("flood", "200000", "4096"))), 0)
		},
	},
	{
		name: "output-pipe", rule: "piped output is the caller's: Wait ignores it, and it can be read to its end afterwards",
		run: func(e *processEnv) {
			spec := e.spec("print", "to stdout", "to stderr")
			spec.Stdout.Mode, spec.Stderr.Mode = seam.Pipe, seam.Pipe
			p := e.spawn(spec)
			e.wantExit(e.wait(p), 0)
			e.waitEmpty(p)
			out, err := io.ReadAll(p.Stdout())
			errOut, err2 := io.ReadAll(p.Stderr())
			if string(out) != "to stdout" || string(errOut) != "to stderr" || err != nil || err2 != nil {
				e.errorf("read %q (%v) and %q (%v)", out, err, errOut, err2)
			}
			if err := errors.Join(p.Stdout().Close(), p.Stderr().Close()); err != nil {
				e.errorf("close: %w", err)
			}
		},
	},
	{
		name: "output-pipe-held", rule: "Wait returns at the direct exit where nothing is collected, also while a piped stream is held open",
		run: func(e *processEnv) {
			p, member := e.startMember(e.spec("hold-pipe"))
			e.wantExit(e.wait(p), 0)
			if ids := e.memberIDs(p); len(ids) != 1 || ids[0] != member {
				e.errorf("survivors %v, want %d, which holds the pipe", ids, member)
			}
			e.terminate(p)
			if rest, err := io.ReadAll(p.Stdout()); len(rest) > 0 || err != nil {
				e.errorf("the stream of an ended range: %q, %v; want its end", rest, err)
			}
		},
	},
	{
		name: "inherit", rule: "Inherit is this process's stream, or CodeUnsupported where the world is not on its host",
		run: func(e *processEnv) {
			spec := e.spec("exit", "0")
			spec.Stdin.Mode, spec.Stdout.Mode, spec.Stderr.Mode = seam.Inherit, seam.Inherit, seam.Inherit
			p, err := e.trySpawn(spec)
			if err != nil {
				e.wantRefused("Spawn", err, seam.CodeUnsupported, errors.ErrUnsupported)
				return
			}
			e.wantExit(e.wait(p), 0)
		},
	},
}

// flooded is what the verb flood writes.
func flooded(n int) []byte {
	text := make([]byte, 0, n+8)
	for i := 0; len(text) < n; i++ {
		text = append(text, '0', '0', '0', '0', '0', '0', '0', '\n')
		for digit, rest := len(text)-2, i; rest > 0; digit, rest = digit-1, rest/10 {
			text[digit] += byte(rest % 10)
		}
	}
	return text[:n]
}

// wantBytes compares long streams without printing them.
func (e *processEnv) wantBytes(what string, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	near := func(b []byte) []byte { return b[min(at, len(b)):min(at+24, len(b))] }
	e.errorf("%s: %d bytes, want %d; from byte %d on: %q, want %q", what, len(got), len(want), at, near(got), near(want))
}
