package ptyshell

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// decoded is what a decoder makes of chunks.
func decoded(chunks ...string) (text, other string, d *decoder) {
	var lines, rest strings.Builder
	d = &decoder{
		column0: true,
		text:    func(p []byte) { lines.Write(p) },
		osc:     func(p []byte) { fmt.Fprintf(&rest, "<%s>", p) },
		mode:    func(n int, on bool) { fmt.Fprintf(&rest, "<%d %v>", n, on) },
	}
	for _, chunk := range chunks {
		d.feed([]byte(chunk))
	}
	return lines.String(), rest.String(), d
}

func bytewise(s string) []string {
	chunks := make([]string, 0, len(s))
	for i := range len(s) {
		chunks = append(chunks, s[i:i+1])
	}
	return chunks
}

func TestDecode(t *testing.T) {
	for _, test := range []struct {
		name, in, text, other string
	}{
		{"text", "a\tb\nc", "a\tb\nc", ""},
		{"characters", "é漢👍🏽", "é漢👍🏽", ""},
		{"not UTF-8", "a\xffb\xc3(\xe6\xbc", "a\uFFFDb\uFFFD(", ""},
		{"an incomplete character at the end is held", "a\xe6\xbc", "a", ""},
		{"C0", "a\x00\x01\x07\x08\x0e\x7fb", "ab", ""},
		{"C1, as characters and as bytes", "a\u009bb\x9bc", "ab\uFFFDc", ""},
		{"CRLF", "a\r\nb\r\r\nc\r\n", "a\nb\nc\n", ""},
		{"CR", "10%\r20%\rdone\n", "10%\n20%\ndone\n", ""},
		{"CR where nothing is", "a\n\rb\r", "a\nb", ""},
		{"CSI", "\x1b[1;31mred\x1b[0m\x1b[2Kx\x1b[3 q", "redx", ""},
		{"CSI with a newline inside", "\x1b[1\n;31mred", "\nred", ""},
		{"modes", "\x1b[?2004h\x1b[?1049;25la", "a", "<2004 true><1049 false><25 false>"},
		{"modes of another kind", "\x1b[4h\x1b[>1h", "", ""},
		{"OSC to BEL and ST", "\x1b]0;t\aa\x1b]1;u\x1b\\b", "ab", "<0;t><1;u>"},
		{"OSC with 0x9c in a character", "\x1b]0;✓x\aa", "a", "<0;✓x>"},
		{"OSC that is given up", "\x1b]0;t\x18a", "a", ""},
		{"OSC cut off by another", "\x1b]0;t\x1b]1;u\aa", "a", "<0;t><1;u>"},
		{"DCS, APC, PM, SOS", "\x1bPq1\x1b\\a\x1b_x\x1b\\b\x1b^y\x1b\\c\x1bXz\x1b\\d", "abcd", ""},
		{"two-byte escapes", "\x1bMa\x1b7b\x1b(Bc", "abc", ""},
		{"escape behind an incomplete character", "\xe2\x1b]1;u\aa", "\uFFFDa", "<1;u>"},
		{"escape behind the beginning of a DCS", "\x1bP\x1b]1;u\aa", "a", "<1;u>"},
		{"escape behind escapes", "\x1b\x1b\x1b]1;u\aa", "a", "<1;u>"},
		{"a character in a CSI", "\x1b[1éb", "éb", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i, chunks := range [][]string{{test.in}, bytewise(test.in)} {
				text, other, _ := decoded(chunks...)
				if text != test.text || other != test.other {
					t.Errorf("%d: got %q and %q, want %q and %q", i, text, other, test.text, test.other)
				}
			}
		})
	}
}

// What has no end is not kept, and what follows its end is.
func TestDecodeIsBounded(t *testing.T) {
	for _, begin := range []string{"\x1b]0;", "\x1bP", "\x1b_", "\x1b["} {
		text, other, d := decoded(begin, strings.Repeat("1;", 1<<20), "\x1b\\", "after")
		if text != "after" || other != "" {
			t.Errorf("%q: got %.20q and %.20q", begin, text, other)
		}
		if cap(d.data) > 2*maxSequenceBytes || cap(d.params) > 2*maxParams {
			t.Errorf("%q: kept %d bytes and %d parameters", begin, cap(d.data), cap(d.params))
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"a\r\nb", "\x1b]133;B;0\a", "\x1b[?2004h", "é\xe2\x1b[1m", "\x1bP\x1b]1\a", "\x1b[1\n;2m\x9b"} {
		f.Add(seed, 1)
	}
	f.Fuzz(func(t *testing.T, in string, cut int) {
		cut = min(max(cut, 0), len(in))
		text, other, _ := decoded(in)
		for _, chunks := range [][]string{{in[:cut], in[cut:]}, bytewise(in)} {
			if t2, o2, _ := decoded(chunks...); t2 != text || o2 != other {
				t.Errorf("in chunks %q and %q, at once %q and %q", t2, o2, text, other)
			}
		}
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x07\x08\r\x1b\x7f\u0080\u009b") {
			t.Errorf("got %q", text)
		}
		// Whatever came before, a mark is seen.
		if _, other, _ := decoded(in, "\x1b]133;x\a"); !strings.HasSuffix(other, "<133;x>") {
			t.Errorf("a mark behind it is lost: %q", other)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	chunk := []byte(strings.Repeat("2026-01-01 some line of a build log, \x1b[32mok\x1b[0m\r\n", 600))
	s := scrollback{maxLines: 10_000, maxBytes: 4 << 20}
	d := decoder{text: s.append, osc: func([]byte) {}, mode: func(int, bool) {}}
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		d.feed(chunk)
	}
}
