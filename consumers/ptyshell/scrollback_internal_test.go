package ptyshell

import (
	"fmt"
	"strings"
	"testing"
)

func TestScrollback(t *testing.T) {
	for _, test := range []struct {
		name          string
		lines, bytes  int
		parts         []string
		offset, count int
		max           int
		want          Page
	}{
		{"nothing", 9, 99, nil, 0, 9, 99, Page{}},
		{"lines", 9, 99, []string{"a\nb\n", "c"}, 0, 9, 99, Page{"a\nb\nc", 3, 0, 3, false}},
		{"the last", 9, 99, []string{"a\nb\nc\n"}, 0, 1, 99, Page{"c\n", 3, 2, 3, false}},
		{"before the last", 9, 99, []string{"a\nb\nc\n"}, 1, 1, 99, Page{"b\n", 3, 1, 2, false}},
		{"before the first", 9, 99, []string{"a\nb\n"}, 5, 3, 99, Page{"", 2, 0, 0, false}},
		{"too many lines", 2, 99, []string{"a\nb\n", "c\nd"}, 0, 9, 99, Page{"c\nd", 4, 2, 4, true}},
		{"too many lines that are complete", 2, 99, []string{"a\nb\nc\n"}, 0, 2, 99, Page{"b\nc\n", 3, 1, 3, false}},
		{"too many bytes", 9, 5, []string{"aaa\nbbb\n"}, 0, 9, 99, Page{"\nbbb\n"[0:5], 2, 0, 2, false}},
		{"whole characters", 9, 4, []string{"é漢é"}, 0, 9, 99, Page{"é", 1, 0, 1, false}},
		{"too much for a page", 9, 99, []string{"aaa\nbbb\nccc\n"}, 0, 9, 6, Page{"b\nccc\n", 3, 1, 3, true}},
		{"one long part", 9, 5, []string{strings.Repeat("x\n", 100)}, 0, 1, 99, Page{"x\n", 100, 99, 100, false}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := scrollback{maxLines: test.lines, maxBytes: test.bytes}
			for _, part := range test.parts {
				s.append([]byte(part))
			}
			if got := s.page(test.offset, test.count, test.max); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// The bounds hold at every moment, and places stay what they are.
func TestScrollbackBounds(t *testing.T) {
	s := scrollback{maxLines: 50, maxBytes: 1000}
	var all strings.Builder
	for i := range 2000 {
		line := fmt.Sprintf("line %d é\n", i)
		from := s.end()
		s.append([]byte(line))
		all.WriteString(line)
		if got, truncated := s.tail(from, s.end(), 99); got != line || truncated {
			t.Fatalf("line %d: %q, %v", i, got, truncated)
		}
		if len(s.buf)-s.first > s.maxBytes || s.lines > s.maxLines || cap(s.buf) > 4*s.maxBytes {
			t.Fatalf("line %d: %d bytes, %d lines, room for %d", i, len(s.buf)-s.first, s.lines, cap(s.buf))
		}
	}
	if s.end() != int64(all.Len()) || s.gone+s.lines != 2000 {
		t.Errorf("end %d, lines %d", s.end(), s.gone+s.lines)
	}
	place := s.end()
	s.append([]byte("echo\nmore\n"))
	s.rewind(place)
	if s.end() != place || s.gone+s.lines != 2000 {
		t.Errorf("after rewinding: end %d, lines %d", s.end(), s.gone+s.lines)
	}
	if got, truncated := s.tail(0, s.end(), 10_000); !truncated || !strings.HasSuffix(all.String(), got) {
		t.Errorf("tail %q, %v", got, truncated)
	}
}
