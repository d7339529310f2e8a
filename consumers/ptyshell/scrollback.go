package ptyshell

import (
	"bytes"
	"unicode/utf8"
)

// scrollback keeps the end of a text, bounded by lines and bytes, in whole
// characters. Places in it are counted in bytes from the beginning of the text,
// also of what is no longer there.
type scrollback struct {
	maxLines, maxBytes int

	buf   []byte
	first int   // where the text begins in buf
	base  int64 // the place of buf[first]
	lines int   // newlines in buf[first:]
	gone  int   // newlines before it
}

// end is the place after the last byte.
func (s *scrollback) end() int64 { return s.base + int64(len(s.buf)-s.first) }

func (s *scrollback) append(p []byte) {
	if len(p) > s.maxBytes {
		// As if it had come in parts.
		s.append(p[:len(p)-s.maxBytes])
		p = p[len(p)-s.maxBytes:]
	}
	if s.first > s.maxBytes {
		s.buf = s.buf[:copy(s.buf, s.buf[s.first:])]
		s.first = 0
	}
	s.buf = append(s.buf, p...)
	s.lines += bytes.Count(p, newline)
	if over := len(s.buf) - s.first - s.maxBytes; over > 0 {
		for over < len(s.buf)-s.first && !utf8.RuneStart(s.buf[s.first+over]) {
			over++
		}
		s.drop(over)
	}
	// The last line may lack its newline.
	for s.lines > s.maxLines || s.lines == s.maxLines && !s.atLineStart() {
		s.drop(bytes.IndexByte(s.buf[s.first:], '\n') + 1)
	}
}

func (s *scrollback) atLineStart() bool {
	return len(s.buf) == s.first || s.buf[len(s.buf)-1] == '\n'
}

// drop drops n bytes at the beginning.
func (s *scrollback) drop(n int) {
	lines := bytes.Count(s.buf[s.first:s.first+n], newline)
	s.lines -= lines
	s.gone += lines
	s.first += n
	s.base += int64(n)
}

// rewind takes back what follows place.
func (s *scrollback) rewind(place int64) {
	keep := s.first + int(max(place-s.base, 0))
	if keep >= len(s.buf) {
		return
	}
	s.lines -= bytes.Count(s.buf[keep:], newline)
	s.buf = s.buf[:keep]
}

// tail returns at most maxBytes of the end of what lies between two places, and
// whether that is not all of it.
func (s *scrollback) tail(from, to int64, maxBytes int) (text string, truncated bool) {
	begin := max(from, s.base)
	to = min(to, s.end())
	if begin >= to {
		return "", from < s.base && from < to
	}
	p := s.buf[s.first+int(begin-s.base) : s.first+int(to-s.base)]
	truncated = from < s.base
	if over := len(p) - maxBytes; over > 0 {
		for over < len(p) && !utf8.RuneStart(p[over]) {
			over++
		}
		p, truncated = p[over:], true
	}
	return string(p), truncated
}

// A Page is a part of a session's scrollback.
type Page struct {
	Text string

	// Total is how many lines the session has printed. Text begins with the
	// line Begin and ends before the line End, both counted from 0; a last line
	// that has no newline yet counts.
	Total, Begin, End int

	// Truncated: Text lacks lines that were asked for, because they are no
	// longer kept or because one page can't hold them.
	Truncated bool
}

// page returns count lines, of which offset more recent ones are skipped, in at
// most maxBytes, the most recent first to be kept.
func (s *scrollback) page(offset, count, maxBytes int) Page {
	total := s.lines
	if !s.atLineStart() {
		total++
	}
	end := max(total-offset, 0)
	begin := max(end-count, 0)
	p := s.buf[s.first:]
	from, to := lineStart(p, begin), lineStart(p, end)
	page := Page{Total: s.gone + total, Begin: s.gone + begin, End: s.gone + end,
		Truncated: s.gone > 0 && begin == 0 && end-begin < count}
	text := p[from:to]
	if over := len(text) - maxBytes; over > 0 {
		for over < len(text) && !utf8.RuneStart(text[over]) {
			over++
		}
		page.Begin += bytes.Count(text[:over], newline)
		text, page.Truncated = text[over:], true
	}
	page.Text = string(text)
	return page
}

// lineStart is where the line n of p begins; its end if it has not so many.
func lineStart(p []byte, n int) int {
	at := 0
	for ; n > 0; n-- {
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			return len(p)
		}
		at += i + 1
	}
	return at
}
