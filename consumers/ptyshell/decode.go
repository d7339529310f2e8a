package ptyshell

import (
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"
)

// maxSequenceBytes is how much of an escape sequence is looked at. What is
// longer is no mark, and is dropped up to its end without being kept.
const maxSequenceBytes = 8 << 10

// decoder makes lines of a terminal's output: text without escape sequences and
// control characters, in whole characters, its lines ended by a newline. It
// keeps no more than maxSequenceBytes of what is not complete.
//
// The states are those of x/ansi's table. Text is decoded here and not there:
// the parser that goes with the table takes an escape sequence that follows an
// incomplete character for a part of it, and a character of a title that holds
// the byte 0x9c for the title's end.
type decoder struct {
	text func([]byte)              // a run of text; newlines come alone
	osc  func([]byte)              // the data of an OSC sequence
	mode func(number int, on bool) // a private mode was set or reset

	state   parser.State
	data    []byte // of the sequence
	long    bool   // data is not all of it
	private bool   // CSI ?
	params  []int
	held    [utf8.UTFMax]byte // of a character that is not complete
	heldLen int
	cr      bool // a CR was read, and what follows it was not
	column0 bool // nothing was printed on the line
	feeds   int  // counts line feeds
}

var newline = []byte{'\n'}

// feed decodes p.
func (d *decoder) feed(p []byte) {
	for d.heldLen > 0 && len(p) > 0 {
		// One byte at a time: what was held may turn out to be no character.
		d.held[d.heldLen] = p[0]
		rest := append([]byte(nil), d.held[:d.heldLen+1]...)
		p, d.heldLen = p[1:], 0
		d.run(rest)
	}
	d.run(p)
}

func (d *decoder) run(p []byte) {
	for len(p) > 0 {
		if d.state == parser.GroundState {
			p = p[d.ground(p):]
			continue
		}
		b := p[0]
		if b >= utf8.RuneSelf && !d.inString() {
			// Not of the sequence, which ends here without a meaning.
			d.state = parser.GroundState
			continue
		}
		p = p[1:]
		if b >= utf8.RuneSelf {
			d.put(b)
			continue
		}
		d.advance(b)
	}
}

// ground decodes text up to an escape sequence, and returns how much it took.
func (d *decoder) ground(p []byte) int {
	start := 0
	flush := func(end int) {
		if end > start {
			d.print(p[start:end])
		}
	}
	for i := 0; i < len(p); {
		c := p[i]
		switch {
		case c >= ' ' && c < 0x7f || c == '\t':
			i++
			continue
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(p[i:])
			if r == utf8.RuneError && size == 1 && !utf8.FullRune(p[i:]) {
				flush(i)
				d.heldLen = copy(d.held[:], p[i:])
				return len(p)
			}
			if !unicode.IsControl(r) && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
			flush(i)
			if r == utf8.RuneError {
				d.print([]byte("\uFFFD"))
			}
			i += size
		default:
			flush(i)
			i++
			if c == 0x1b {
				d.advance(c)
				return i
			}
			d.control(c)
		}
		start = i
	}
	flush(len(p))
	return len(p)
}

func (d *decoder) print(p []byte) {
	if d.cr && !d.column0 {
		d.text(newline)
	}
	d.cr, d.column0 = false, false
	d.text(p)
}

func (d *decoder) control(c byte) {
	switch c {
	case '\n':
		d.cr, d.column0 = false, true
		d.feeds++
		d.text(newline)
	case '\r':
		d.cr = true
	}
}

func (d *decoder) inString() bool {
	switch d.state {
	case parser.OscStringState, parser.DcsStringState, parser.SosStringState, parser.PmStringState, parser.ApcStringState:
		return true
	}
	return false
}

func (d *decoder) put(b byte) {
	if len(d.data) >= maxSequenceBytes {
		d.long = true
		return
	}
	d.data = append(d.data, b)
}

// advance takes one ASCII byte.
func (d *decoder) advance(b byte) {
	before := d.state
	after, action := parser.Table.Transition(before, b)
	if b == 0x1b && before == parser.DcsEntryState {
		// The table has a sequence begin there that holds what is to come.
		after, action = parser.EscapeState, parser.ClearAction
	}
	d.state = after
	switch action {
	case parser.ClearAction, parser.StartAction:
		d.begin()
	case parser.PutAction:
		d.put(b)
	case parser.PrefixAction:
		d.private = b == '?'
	case parser.ParamAction:
		d.param(b)
	case parser.ExecuteAction:
		d.control(b)
	case parser.DispatchAction:
		d.dispatch(before, b)
	}
}

func (d *decoder) begin() {
	d.data, d.long, d.private, d.params = d.data[:0], false, false, d.params[:0]
}

// maxParams and maxParam bound what a sequence can say.
const (
	maxParams = 32
	maxParam  = 1 << 20
)

func (d *decoder) param(b byte) {
	if b == ';' || b == ':' || len(d.params) == 0 {
		if len(d.params) < maxParams {
			d.params = append(d.params, 0)
		}
	}
	if b >= '0' && b <= '9' {
		last := &d.params[len(d.params)-1]
		*last = min(*last*10+int(b-'0'), maxParam)
	}
}

func (d *decoder) dispatch(state parser.State, b byte) {
	switch state {
	case parser.OscStringState:
		if !d.long {
			d.osc(d.data)
		}
		// Longer ones are rare, and their room is not kept for the next.
		if cap(d.data) > 1<<10 {
			d.data = nil
		}
	case parser.CsiEntryState, parser.CsiParamState:
		if d.private && (b == 'h' || b == 'l') {
			for _, n := range d.params {
				d.mode(n, b == 'h')
			}
		}
	}
}
