package seam_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corral-world/corral/seam"
)

func TestWholeRunes(t *testing.T) {
	for _, c := range []struct {
		name string
		in   seam.Window
		data string
		lost int64
	}{
		{"text", seam.Window{Data: []byte("a你")}, "a你", 0},
		{"empty", seam.Window{}, "", 0},
		{"held back", seam.Window{Data: []byte("a\xe4\xbd")}, "a", 0},
		{"nothing but a beginning", seam.Window{Data: []byte("\xf0\x9f\x98")}, "", 0},
		{"flushed at the end", seam.Window{Data: []byte("a\xe4\xbd"), Ended: true}, "a\xe4\xbd", 0},
		{"front of a lossy window", seam.Window{Data: []byte("\xbd\xa0你"), Lost: 10}, "你", 12},
		{"the same, not lossy", seam.Window{Data: []byte("\xbd\xa0你")}, "\xbd\xa0你", 0},
		{"both ends", seam.Window{Data: []byte("\xa0a\xe4"), Lost: 1}, "a", 2},
		{"all of it the rest of a character", seam.Window{Data: []byte("\xbd\xa0"), Lost: 1}, "", 3},
		{"bytes that never were UTF-8", seam.Window{Data: []byte("\x80\x80\x80\x80"), Lost: 1}, "\x80\x80\x80\x80", 1},
		{"an invalid byte at the back", seam.Window{Data: []byte("a\xff")}, "a\xff", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.in.WholeRunes()
			if string(got.Data) != c.data || got.Lost != c.lost {
				t.Errorf("got %q, lost %d; want %q, %d", got.Data, got.Lost, c.data, c.lost)
			}
			if moved := got.Offset - c.in.Offset; moved != got.Lost-c.in.Lost {
				t.Errorf("offset moved by %d, lost by %d", moved, got.Lost-c.in.Lost)
			}
		})
	}
}

// Whatever the reads, text that is read by cursor comes out as it went in.
func FuzzWholeRunes(f *testing.F) {
	f.Add("a你😀é", uint8(1))
	f.Add("\xff\x80x", uint8(2))
	f.Fuzz(func(t *testing.T, stream string, step uint8) {
		var got strings.Builder
		at := 0
		for end := 0; ; end += int(step) + 1 {
			end = min(end, len(stream))
			w := seam.Window{Data: []byte(stream[at:end]), Offset: int64(at), Ended: end == len(stream)}.WholeRunes()
			if utf8.ValidString(stream) && !utf8.Valid(w.Data) {
				t.Fatalf("a read of valid text gave %q", w.Data)
			}
			got.Write(w.Data)
			if at = int(w.Next()); w.Ended {
				break
			}
		}
		if got.String() != stream {
			t.Errorf("got %q, want %q", got.String(), stream)
		}
	})
}
