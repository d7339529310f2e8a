package runner

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/owner"
)

// What the two sides of a bootstrap say to each other, record by record. That
// they say it to each other is shown where scopes are.

var requests = map[string]owner.Request{
	"least":    {Path: "x", Argv: []string{""}},
	"terminal": {Path: "/bin/sh", Dir: "/", Argv: []string{"sh"}, Terminal: true},
	"typical":  {Path: "/bin/sh", Dir: "/tmp", Argv: []string{"sh", "-c", "exit 7"}, Env: []string{"A=b", "PATH=/bin"}},
	"bytes": {Path: "/\xff\xfe", Dir: "/a\nb", Argv: []string{"\x80", "", "a\x00b", "=", "\u6f22"},
		Env: []string{"no name", "=", "\xc3\x28=\xff", "CORRAL_RUNNER=bootstrap", ""}},
	"large": {Path: "/x", Dir: "/", Argv: []string{strings.Repeat("x", 1<<20)}, Env: make([]string, 1<<16)},
}

func TestRequestRoundTrip(t *testing.T) {
	for name, want := range requests {
		t.Run(name, func(t *testing.T) {
			var wire bytes.Buffer
			if err := WriteRequest(&wire, want); err != nil {
				t.Fatal(err)
			}
			if got := requestBytes(want); got != wire.Len() {
				t.Errorf("announced %d bytes, wrote %d", got, wire.Len())
			}
			got, err := readWholeRequest(&wire)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+.200v, %v", got, err)
			}
		})
	}
}

func encode(t testing.TB, r owner.Request) []byte {
	t.Helper()
	var wire bytes.Buffer
	if err := WriteRequest(&wire, r); err != nil {
		t.Fatal(err)
	}
	return wire.Bytes()
}

// lists encodes lists of strings as WriteRequest does its own.
func lists(all ...[]string) (wire []byte) {
	for _, list := range all {
		wire = binary.LittleEndian.AppendUint32(wire, uint32(len(list)))
		for _, s := range list {
			wire = binary.LittleEndian.AppendUint32(wire, uint32(len(s)))
			wire = append(wire, s...)
		}
	}
	return wire
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	whole := encode(t, requests["typical"])
	for n := range whole {
		if got, err := readWholeRequest(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("the first %d of %d bytes are %+v", n, len(whole), got)
		}
	}
	for name, wire := range map[string][]byte{
		"nothing":             nil,
		"a byte more":         append(bytes.Clone(whole), 0),
		"a list more":         append(bytes.Clone(whole), lists([]string{"x"})...),
		"no arguments":        lists([]string{"/x", "/"}, nil, nil),
		"no path":             lists([]string{"", "/"}, []string{"x"}, nil),
		"no directory":        lists([]string{"/x"}, []string{"x"}, nil),
		"a third head":        lists([]string{"/x", "/", "/"}, []string{"x"}, nil),
		"a fourth head":       lists([]string{"/x", "/", wordTerminal, wordTerminal}, []string{"x"}, nil),
		"a string too long":   binary.LittleEndian.AppendUint32(lists([]string{"/x"})[:4], maxRequestBytes+1),
		"a list too long":     binary.LittleEndian.AppendUint32(nil, maxRequestBytes+1),
		"more than announced": lists([]string{"/x", "/"}, []string{"x"}, []string{strings.Repeat("x", maxRequestBytes)}),
	} {
		if got, err := readWholeRequest(bytes.NewReader(wire)); err == nil {
			t.Errorf("%s: got %+.100v", name, got)
		}
	}
}

func TestRecords(t *testing.T) {
	missing := errorRecord(stepExec, syscall.ENOENT)
	noDir := errorRecord(stepChdir, &os.PathError{Op: "chdir", Path: "/x", Err: syscall.EACCES})
	join := func(records ...[]byte) []byte { return bytes.Join(records, nil) }
	exec := []byte{recordExec}
	for _, c := range []struct {
		name    string
		records []byte
		want    error // nil where the target started
	}{
		{"exec, end", exec, nil},
		{"end", nil, ErrLost},
		{"error", missing, syscall.ENOENT},
		{"an error wins over exec", join(exec, missing), syscall.ENOENT},
		{"error of the directory", noDir, syscall.EACCES},
		{"exec twice", join(exec, exec), ErrLost},
		{"exec after an error", join(missing, exec), ErrLost},
		{"two errors", join(missing, noDir), ErrLost},
		{"half an error", missing[:4], ErrLost},
		{"exec, half an error", join(exec, missing[:2]), ErrLost},
		{"an error of no step", errorRecord('?', syscall.ENOENT), ErrLost},
		{"an error without a number", errorRecord(stepExec, io.ErrUnexpectedEOF), ErrLost},
		{"garbage", []byte("Xhello"), ErrLost},
		{"more garbage", []byte{0}, ErrLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := readRecords(c.records)
			if !errors.Is(err, c.want) || errors.Is(err, ErrLost) != errors.Is(c.want, ErrLost) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	var path *os.PathError
	if err := readRecords(noDir); !errors.As(err, &path) || path.Op != "chdir" {
		t.Errorf("got %v, which does not say that it is the directory's", err)
	}
	if err := readRecords(missing); errors.As(err, &path) {
		t.Errorf("got %v, which says that it is a path's", err)
	}
}

// become plays a bootstrap that does what peer does with its end.
func become(ctx context.Context, t *testing.T, r owner.Request, peer func(net *os.File)) error {
	t.Helper()
	held, theirs := heldPair(t)
	done := make(chan struct{})
	go func() { // joined below
		defer close(done)
		defer theirs.Close()
		peer(theirs)
	}()
	err := held.Become(ctx, r)
	<-done
	return err
}

func TestBecome(t *testing.T) {
	r := requests["typical"]
	read := func(f *os.File) {
		if got, err := readWholeRequest(f); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	for _, c := range []struct {
		name string
		peer func(f *os.File)
		want error
	}{
		{"starts", func(f *os.File) { read(f); _, _ = f.Write([]byte{recordExec}) }, nil},
		{"is ready, and starts", func(f *os.File) {
			_, _ = f.Write([]byte{recordReady})
			read(f)
			_, _ = f.Write([]byte{recordExec})
		}, nil},
		{"is ready twice", func(f *os.File) {
			_, _ = f.Write([]byte{recordReady})
			read(f)
			_, _ = f.Write([]byte{recordReady, recordExec})
		}, ErrLost},
		{"fails", func(f *os.File) { read(f); _, _ = f.Write(errorRecord(stepExec, syscall.EACCES)) }, syscall.EACCES},
		{"ends without a word", read, ErrLost},
		{"ends before it has read", func(*os.File) {}, ErrLost},
		{"talks without end", func(f *os.File) {
			read(f)
			for {
				if _, err := f.Write([]byte("XXXXXXXXXXXXXXXX")); err != nil {
					return
				}
			}
		}, ErrLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := become(t.Context(), t, r, c.peer); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	t.Run("hangs", func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, cause)
		defer cancel()
		if err := become(ctx, t, r, func(*os.File) { <-ctx.Done() }); !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("too long", func(t *testing.T) {
		long := owner.Request{Path: "x", Argv: []string{strings.Repeat("x", maxRequestBytes)}}
		if err := become(t.Context(), t, long, func(*os.File) {}); !errors.Is(err, syscall.E2BIG) {
			t.Errorf("got %v", err)
		}
	})
}

func TestWaitReady(t *testing.T) {
	for _, c := range []struct {
		name, says string
		want       error
	}{
		{"ready", "R", nil},
		{"another word", "X", ErrLost},
		{"the end", "", ErrLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			held, theirs := heldPair(t)
			_, _ = theirs.WriteString(c.says)
			_ = theirs.Close()
			if err := held.WaitReady(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	held, theirs := heldPair(t)
	defer theirs.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := held.WaitReady(ctx); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}

func heldPair(t *testing.T) (held *Held, theirs *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	held = &Held{control: os.NewFile(uintptr(fds[0]), "ours")}
	t.Cleanup(func() { _ = held.control.Close() })
	return held, os.NewFile(uintptr(fds[1]), "theirs")
}

func FuzzReadRequest(f *testing.F) {
	for _, r := range requests {
		if wire := encode(f, r); len(wire) < 1000 {
			f.Add(wire)
		}
	}
	f.Add(lists([]string{"/x"}, nil, []string{"y"}))
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, err := readWholeRequest(bytes.NewReader(wire))
		if err != nil {
			return
		}
		// What is accepted is exactly what would have been written.
		if again := encode(t, r); !bytes.Equal(again, wire) {
			t.Errorf("%q was read as %+v", wire, r)
		}
	})
}

func FuzzReadRecords(f *testing.F) {
	f.Add([]byte{recordExec})
	f.Add(append([]byte{recordExec}, errorRecord(stepExec, syscall.ENOENT)...))
	f.Fuzz(func(t *testing.T, records []byte) {
		// Only one word says that the target started.
		if err := readRecords(records); (err == nil) != bytes.Equal(records, []byte{recordExec}) {
			t.Errorf("%q: %v", records, err)
		}
	})
}
