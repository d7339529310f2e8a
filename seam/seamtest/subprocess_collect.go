package seamtest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/corral-world/corral/seam"
)

const (
	ruleTail  = "what is kept of a collected stream is its last MaxBytes bytes, exactly, whatever the writes"
	ruleSpill = "a spill is complete or absent"
)

// collectCases check collected output.
var collectCases = []subprocessCase{
	{
		name: "collect-both", rule: "stdout and stderr are collected apart, each with its own bound",
		run: func(e *processEnv) {
			spec := e.spec("print", "on stdout, in pieces", "on stderr, in others")
			spec.Stdout, spec.Stderr = collect(ample, 0), collect(6, 0)
			p := e.spawn(spec)
			e.wantExit(e.wait(p), 0)
			if out := e.all(p, seam.Stdout); out != "on stdout, in pieces" {
				e.errorf("stdout is %q", out)
			}
			if w := e.ended(p, seam.Stderr).ReadFrom(0); string(w.Data) != "others" {
				e.errorf("stderr is %q of %s", w.Data, describe(w))
			}
		},
	},
	{
		name: "collect-tail", rule: ruleTail,
		run: func(e *processEnv) {
			const keep = 1000
			for _, n := range []int{0, 1, keep - 1, keep, keep + 1, 3*keep + 7} {
				for _, chunk := range []int{7, keep - 1, keep, 4 * keep} {
					what := fmt.Sprintf("%d bytes in writes of %d", n, chunk)
					spec := e.spec("flood", fmt.Sprint(n), fmt.Sprint(chunk))
					spec.Stdout = collect(keep, 0)
					p := e.spawn(spec)
					e.wantExit(e.wait(p), 0)
					w := e.ended(p, seam.Stdout).ReadFrom(0)
					lost := max(n-keep, 0)
					e.wantBytes(what, w.Data, flooded(n)[lost:])
					if w.Lost != int64(lost) || w.Offset != int64(lost) || w.Next() != int64(n) || !w.Ended || w.Cut {
						e.errorf("%s: %s, want lost %d, ended", what, describe(w), lost)
					}
				}
			}
		},
	},
	{
		name: "collect-cursor", rule: "ReadFrom consumes nothing, says what is lost, and gives an empty window at the end for an offset beyond it",
		run: func(e *processEnv) {
			const n, keep = 5000, 1000
			spec := e.spec("flood", fmt.Sprint(n), "100")
			spec.Stdout = collect(keep, 0)
			p := e.spawn(spec)
			e.wait(p)
			output, text := e.ended(p, seam.Stdout), flooded(n)
			for range 2 { // a second reader sees the same
				for _, offset := range []int64{0, 1, n - keep - 1, n - keep, n - keep + 1, n - 1, n, n + 5} {
					w := output.ReadFrom(offset)
					from := min(max(offset, n-keep), n)
					e.wantBytes(fmt.Sprintf("from %d", offset), w.Data, text[from:])
					if w.Offset != from || w.Lost != max(from-offset, 0) || !w.Ended {
						e.errorf("from %d: %s, want it at %d", offset, describe(w), from)
					}
				}
			}
			clear(output.ReadFrom(0).Data)
			e.wantBytes("after the caller changed its window", output.ReadFrom(0).Data, text[n-keep:])
		},
	},
	{
		name: "collect-live", rule: "ReadFrom never blocks, sees what has been written before the end, and says Ended only then",
		run: func(e *processEnv) {
			p, output := e.collectedCat(ample)
			if w := output.ReadFrom(0); len(w.Data) > 0 || w.Ended {
				e.errorf("before anything was written: %s", describe(w))
			}
			next := int64(0)
			for _, part := range []string{"one", "two"} {
				e.feed(p, part)
				e.until("output of "+part, func() bool { return output.ReadFrom(next).Next() == next+3 })
				w := output.ReadFrom(next)
				if string(w.Data) != part || w.Ended {
					e.errorf("after %q was written: %q of %s", part, w.Data, describe(w))
				}
				next = w.Next()
			}
			if err := output.WaitEnd(endedContext()); !errors.Is(err, errCause) {
				e.errorf("WaitEnd of a live stream with an ended context: %v, want its cause", err)
			}
			_ = p.Stdin().Close()
			e.wait(p)
			if out := e.all(p, seam.Stdout); out != "onetwo" {
				e.errorf("the stream is %q", out)
			}
		},
	},
	{
		name: "collect-runes", rule: "a window of WholeRunes divides no character, whatever the writes and the bound",
		run: func(e *processEnv) {
			const keep = 20 // not a multiple of the characters' three bytes
			p, output := e.collectedCat(keep)
			text := strings.Repeat("€", 30)
			var got strings.Builder
			next, total := int64(0), int64(0)
			for part := range chunks(text, 7) {
				e.feed(p, part)
				total += int64(len(part))
				e.until("output", func() bool { return output.ReadFrom(total).Next() == total })
				w := output.ReadFrom(next).WholeRunes()
				got.Write(w.Data)
				next = w.Next()
				e.wantRunes(output.ReadFrom(0).WholeRunes(), keep)
			}
			_ = p.Stdin().Close()
			e.wait(p)
			got.Write(e.ended(p, seam.Stdout).ReadFrom(next).WholeRunes().Data)
			if got.String() != text {
				e.errorf("read by cursor: %q, want %q", got.String(), text)
			}
			e.wantRunes(output.ReadFrom(0).WholeRunes(), keep)
		},
	},
	{
		name: "collect-held", rule: "a collected stream ends when its last writer has, and is cut off only where that is outside the range",
		run: func(e *processEnv) {
			spec := e.spec("hold-pipe")
			spec.Stdout, spec.Drain = collect(ample, 0), 0
			p := e.spawn(spec)
			e.wantExit(e.wait(p), 0)
			e.until("output", func() bool { return strings.HasSuffix(string(p.Output(seam.Stdout).ReadFrom(0).Data), "\n") })
			if w := p.Output(seam.Stdout).ReadFrom(0); w.Ended {
				e.errorf("while a member holds the stream: %s", describe(w))
			}
			e.terminate(p)
			if w := e.ended(p, seam.Stdout).ReadFrom(0); !w.Ended || w.Cut {
				e.errorf("after the member's end: %s, want ended and not cut", describe(w))
			}
		},
	},
	{
		name: "spill-none", rule: ruleSpill + ": there is none where the stream fits, and none without SpillMaxBytes",
		run: func(e *processEnv) {
			for _, c := range []struct{ n, keep, spill int64 }{{100, 100, 1000}, {101, 100, 0}} {
				if got := e.spill(c.n, c.keep, c.spill); got.Path != "" || got.Withdrawn != nil {
					e.errorf("%d bytes, %d kept, spill up to %d: %+v, want none", c.n, c.keep, c.spill, got)
				}
			}
		},
	},
	{
		name: "spill-complete", rule: ruleSpill + ": up to SpillMaxBytes the file is the stream from its first byte", needs: needFS,
		run: func(e *processEnv) {
			const keep, limit = 100, 20_000
			for _, n := range []int64{keep + 1, 5000, limit} {
				got := e.spill(n, keep, limit)
				if got.Path == "" || got.Withdrawn != nil {
					e.errorf("%d bytes, %d kept, spill up to %d: %+v, want a file", n, keep, limit, got)
					continue
				}
				e.wantBytes(fmt.Sprintf("the file of %d bytes", n), e.readFile(got.Path), flooded(int(n)))
			}
		},
	},
	{
		name: "spill-withdrawn", rule: ruleSpill + ": a stream that outgrows SpillMaxBytes has its file withdrawn, and keeps its tail",
		run: func(e *processEnv) {
			const keep, limit = 100, 20_000
			for _, n := range []int64{limit + 1, 3 * limit} {
				if got := e.spill(n, keep, limit); got.Path != "" || got.Withdrawn == nil {
					e.errorf("%d bytes, spill up to %d: %+v, want it withdrawn, with the reason", n, limit, got)
				}
			}
		},
	},
}

// collectedCat starts a cat whose stdin is a pipe and whose stdout is collected.
func (e *processEnv) collectedCat(maxBytes int64) (seam.Process, seam.OutputReader) {
	spec := e.spec("cat")
	spec.Stdin.Mode, spec.Stdout = seam.Pipe, collect(maxBytes, 0)
	p := e.spawn(spec)
	output := p.Output(seam.Stdout)
	if p.Stdin() == nil || output == nil {
		e.fatalf("Stdin is %v and Output %v, want neither to be nil", p.Stdin(), output)
	}
	return p, output
}

func (e *processEnv) feed(p seam.Process, text string) {
	if _, err := io.WriteString(p.Stdin(), text); err != nil {
		e.fatalf("write to stdin: %w", err)
	}
}

// chunks cuts text every n bytes.
func chunks(text string, n int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			part := text[:min(n, len(text))]
			text = text[len(part):]
			if !yield(part) {
				return
			}
		}
	}
}

// wantRunes checks a window of three-byte characters that is full but for what
// had to be left out.
func (e *processEnv) wantRunes(w seam.Window, keep int) {
	if !utf8.Valid(w.Data) || len(w.Data)%3 != 0 || w.Lost > 0 && len(w.Data) < keep-4 || w.Lost != w.Offset {
		e.errorf("%q of %s is not all the whole characters", w.Data, describe(w))
	}
}

// spill floods n bytes and returns what became of the file, once the stream has
// ended and its tail was found right.
func (e *processEnv) spill(n, keep, limit int64) seam.Spill {
	spec := e.spec("flood", fmt.Sprint(n), "333")
	spec.Stdout = collect(keep, limit)
	p := e.spawn(spec)
	e.wantExit(e.wait(p), 0)
	output := e.ended(p, seam.Stdout)
	e.wantBytes("the tail", output.ReadFrom(0).Data, flooded(int(n))[max(n-keep, 0):])
	return output.Spill()
}

func (e *processEnv) readFile(path string) []byte {
	t, err := e.FS.Resolve(e.ctx, path, "")
	if err != nil {
		e.fatalf("resolve spill: %w", err)
	}
	data, err := e.FS.ReadBytes(e.ctx, t, ample)
	if err != nil {
		e.fatalf("read spill: %w", err)
	}
	return data
}
