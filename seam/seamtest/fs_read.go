package seamtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"

	"github.com/corral-world/corral/seam"
)

const (
	nulSample  = 8192
	ruleText   = "OpenText reads a regular file that must be UTF-8 without NUL bytes in its first 8192; newlines are as stored"
	ruleBreak  = "reads fail with CodeNotText where the text breaks off being text, at a byte boundary of a whole character"
	ruleBlocks = "opening never blocks on a FIFO or device (CodeNotRegular)"
	ruleBound  = "ReadBytes reads a regular file of at most maxBytes; a larger one is CodeTooLarge, never truncated"
)

// fsReadCases check OpenText and ReadBytes.
var fsReadCases = []fsCase{
	{
		name: "text", rule: ruleText,
		run: func(e *fsEnv) {
			for _, data := range []string{
				"",
				"plain\n",
				"\ufeffcr lf\r\nlf\ncr\rno end",
				"\ufffd is a character like others",
				strings.Repeat("é€😀", 8000),
				"x" + strings.Repeat("€", 25_000),
				strings.Repeat("a", nulSample) + "\x00 is text, after the sample",
			} {
				e.write("file", data)
				got, err := seam.ReadText(e.ctx, e.FS, e.resolve("file"))
				if err != nil || got != data {
					e.errorf("got %s, %v; want %s", brief(got), err, brief(data))
				}
			}
		},
	},
	{
		name: "text-chunks", rule: "a character that two reads divide is none the worse for it",
		run: func(e *fsEnv) {
			for _, c := range []struct {
				repeat int
				sizes  []int
			}{
				{300, []int{1, 3, 100}},
				{10_000, []int{1021, 65536, 100_000}},
			} {
				data := "x" + strings.Repeat("é€😀", c.repeat)
				e.write("file", data)
				for _, size := range c.sizes {
					got, err := e.readText("file", size)
					if err != nil || got != data {
						e.errorf("reads of %d bytes: got %s, %v; want %s", size, brief(got), err, brief(data))
					}
				}
			}
		},
	},
	{
		name: "text-nul", rule: ruleText,
		run: func(e *fsEnv) {
			for _, text := range []string{"", "\x7fELF", strings.Repeat("a", nulSample-1), strings.Repeat("€", 2000)} {
				e.write("file", text+"\x00 and more")
				e.wantBreak("NUL", text)
			}
		},
	},
	{
		name: "text-invalid", rule: ruleBreak,
		run: func(e *fsEnv) {
			long := strings.Repeat("€", 12_000)
			for name, broken := range map[string]string{
				"stray byte":     "\xff and more",
				"latin-1":        "\xe9t\xe9",
				"surrogate":      "\xed\xa0\x80",
				"overlong":       "\xc0\xaf",
				"cut by a byte":  "\xe2\x82a",
				"cut by the end": "\xe2\x82",
				"utf-16":         "\xff\xfeh\x00i\x00",
			} {
				for _, text := range []string{"", "text\r\n", long} {
					e.write("file", text+broken)
					e.wantBreak(name, text)
				}
			}
		},
	},
	{
		name: "text-error-last", rule: "an error of a read is final",
		run: func(e *fsEnv) {
			e.write("file", "text\xff")
			text := e.open("file")
			defer text.Close()
			if got, err := io.ReadAll(text); string(got) != "text" || seam.CodeOf(err) != seam.CodeNotText {
				e.errorf("got %q, %v", got, err)
			}
			n, err := text.Read(make([]byte, 10))
			if n != 0 || seam.CodeOf(err) != seam.CodeNotText {
				e.errorf("the next read gave %d bytes, %v", n, err)
			}
		},
	},
	{
		name: "text-close", rule: "the caller closes the text; Close may be called again, and ends reading",
		run: func(e *fsEnv) {
			e.write("file", "some text")
			text := e.open("file")
			if _, err := text.Read(make([]byte, 1)); err != nil {
				e.errorf("Read: %w", err)
			}
			for range 2 {
				if err := text.Close(); err != nil {
					e.errorf("Close: %w", err)
				}
			}
			if n, err := text.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, io.EOF) {
				e.errorf("Read after Close: %d bytes, %v; want an error", n, err)
			}
		},
	},
	{
		name: "text-absent", rule: "absence is CodeNotFound",
		run: func(e *fsEnv) {
			e.wantAbsent("OpenText", e.openAndClose(e.ctx, e.resolve("missing")))
		},
	},
	{
		name: "text-links", rule: "OpenText and ReadBytes read what the target was resolved to, through links", needs: needSymlink,
		run: func(e *fsEnv) {
			e.write("file", "text")
			e.symlink("file", "link")
			if got, err := seam.ReadText(e.ctx, e.FS, e.resolve("link")); err != nil || got != "text" {
				e.errorf("ReadText: %q, %v", got, err)
			}
			if got, err := e.FS.ReadBytes(e.ctx, e.resolve("link"), 4); err != nil || string(got) != "text" {
				e.errorf("ReadBytes: %q, %v", got, err)
			}
		},
	},
	{
		name: "read-not-regular", rule: "a file that is not regular is CodeNotRegular",
		run: func(e *fsEnv) {
			e.mkdir("dir")
			t := e.resolve("dir")
			e.wantCode("OpenText of a directory", e.openAndClose(e.ctx, t), seam.CodeNotRegular)
			_, err := e.FS.ReadBytes(e.ctx, t, 10)
			e.wantCode("ReadBytes of a directory", err, seam.CodeNotRegular)
		},
	},
	{
		name: "read-fifo", rule: ruleBlocks, needs: needFIFO,
		run: func(e *fsEnv) {
			e.mkfifo("fifo")
			t := e.resolve("fifo")
			e.wantCode("OpenText of a FIFO", e.openAndClose(e.ctx, t), seam.CodeNotRegular)
			_, err := e.FS.ReadBytes(e.ctx, t, 10)
			e.wantCode("ReadBytes of a FIFO", err, seam.CodeNotRegular)
			_, err = e.FS.List(e.ctx, t)
			e.wantCode("List of a FIFO", err, seam.CodeNotDir)
		},
	},
	{
		name: "bytes", rule: "ReadBytes reads what is there, text or not",
		run: func(e *fsEnv) {
			all := make([]byte, 256)
			for i := range all {
				all[i] = byte(i)
			}
			for _, data := range [][]byte{all, bytes.Repeat(all, 1200), []byte("\r\n\x00\xff")} {
				e.write("file", string(data))
				got, err := e.FS.ReadBytes(e.ctx, e.resolve("file"), math.MaxInt64)
				if err != nil || !bytes.Equal(got, data) {
					e.errorf("got %d bytes, %v; want the %d written", len(got), err, len(data))
				}
			}
		},
	},
	{
		name: "bytes-bound", rule: ruleBound,
		run: func(e *fsEnv) {
			for _, c := range []struct {
				size     int
				maxBytes int64
				fits     bool
			}{
				{0, 0, true}, {1, 0, false},
				{10, 10, true}, {10, 11, true}, {11, 10, false},
				{300_000, 300_000, true}, {300_000, 299_999, false}, {300_000, 1, false},
			} {
				e.write("file", strings.Repeat("x", c.size))
				got, err := e.FS.ReadBytes(e.ctx, e.resolve("file"), c.maxBytes)
				switch {
				case c.fits && (err != nil || len(got) != c.size):
					e.errorf("%d bytes of at most %d: got %d, %v", c.size, c.maxBytes, len(got), err)
				case !c.fits:
					e.wantCode("ReadBytes over the bound", err, seam.CodeTooLarge)
					if len(got) > 0 {
						e.errorf("%d bytes of at most %d: got %d bytes with the error", c.size, c.maxBytes, len(got))
					}
				}
			}
		},
	},
	{
		name: "bytes-negative", rule: "a negative maxBytes is CodeInvalid",
		run: func(e *fsEnv) {
			e.write("file", "")
			_, err := e.FS.ReadBytes(e.ctx, e.resolve("file"), -1)
			e.wantCode("ReadBytes", err, seam.CodeInvalid)
		},
	},
	{
		name: "bytes-absent", rule: "absence is CodeNotFound",
		run: func(e *fsEnv) {
			_, err := e.FS.ReadBytes(e.ctx, e.resolve("missing"), 10)
			e.wantAbsent("ReadBytes", err)
		},
	},
}

func (e *fsEnv) open(name string) io.ReadCloser {
	text, err := e.FS.OpenText(e.ctx, e.resolve(name))
	if err != nil {
		e.fatalf("OpenText %s: %w", name, err)
	}
	return text
}

// openAndClose returns the error of an OpenText that should fail.
func (e *fsEnv) openAndClose(ctx context.Context, t seam.Target) error {
	text, err := e.FS.OpenText(ctx, t)
	if err == nil {
		_ = text.Close()
	}
	return err
}

// readText reads a text by reads of at most size bytes.
func (e *fsEnv) readText(name string, size int) (string, error) {
	text := e.open(name)
	defer text.Close()
	var got bytes.Buffer
	p := make([]byte, size)
	for {
		n, err := text.Read(p)
		got.Write(p[:n])
		if errors.Is(err, io.EOF) {
			return got.String(), nil
		}
		if err != nil {
			return got.String(), err
		}
	}
}

// wantBreak checks that the planted file reads as text and is then refused.
func (e *fsEnv) wantBreak(what, text string) {
	for _, size := range []int{509, 100_000} {
		got, err := e.readText("file", size)
		e.wantCode(what+" after "+brief(text), err, seam.CodeNotText)
		if got != text {
			e.errorf("%s: before the error came %s, want %s", what, brief(got), brief(text))
		}
	}
}
