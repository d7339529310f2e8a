package seamtest_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/corral-world/corral/seam"
)

// A screen is a terminal with something about it broken.
type screen struct {
	seam.Terminal
	name       func() string
	contain    func() seam.Containment
	read       func([]byte) (int, error)
	write      func([]byte) (int, error)
	resize     func(cols, rows uint16) error
	foreground func(context.Context) (seam.Foreground, error)
	signal     func(context.Context, string) (int, error)
	wait       func(context.Context) (seam.Outcome, error)
	close      func(context.Context) error
}

func (s *screen) Name() string {
	if s.name == nil {
		return s.Terminal.Name()
	}
	return s.name()
}

func (s *screen) Containment() seam.Containment {
	if s.contain == nil {
		return s.Terminal.Containment()
	}
	return s.contain()
}

func (s *screen) Read(b []byte) (int, error) {
	if s.read == nil {
		return s.Terminal.Read(b)
	}
	return s.read(b)
}

func (s *screen) Write(b []byte) (int, error) {
	if s.write == nil {
		return s.Terminal.Write(b)
	}
	return s.write(b)
}

func (s *screen) Resize(cols, rows uint16) error {
	if s.resize == nil {
		return s.Terminal.Resize(cols, rows)
	}
	return s.resize(cols, rows)
}

func (s *screen) Foreground(ctx context.Context) (seam.Foreground, error) {
	if s.foreground == nil {
		return s.Terminal.Foreground(ctx)
	}
	return s.foreground(ctx)
}

func (s *screen) SignalForeground(ctx context.Context, name string) (int, error) {
	if s.signal == nil {
		return s.Terminal.SignalForeground(ctx, name)
	}
	return s.signal(ctx, name)
}

func (s *screen) Wait(ctx context.Context) (seam.Outcome, error) {
	if s.wait == nil {
		return s.Terminal.Wait(ctx)
	}
	return s.wait(ctx)
}

func (s *screen) Close(ctx context.Context) error {
	if s.close == nil {
		return s.Terminal.Close(ctx)
	}
	return s.close(ctx)
}

// opened breaks a terminal.
func opened(change func(s *screen)) func() *half {
	return func() *half {
		return &half{spawnTerminal: func(h *half, ctx context.Context, spec seam.TerminalSpec) (seam.Terminal, error) {
			t, err := h.MemWorld.SpawnTerminal(ctx, spec)
			if err != nil {
				return nil, err
			}
			broken := &screen{Terminal: t}
			change(broken)
			return broken, nil
		}}
	}
}

// seen has every terminal say something else of its foreground.
func seen(change func(f *seam.Foreground)) func() *half {
	return opened(func(s *screen) {
		s.foreground = func(ctx context.Context) (seam.Foreground, error) {
			f, err := s.Terminal.Foreground(ctx)
			change(&f)
			return f, err
		}
	})
}

// wanted breaks what is asked for.
func wanted(change func(spec *seam.TerminalSpec)) func() *half {
	return func() *half {
		return &half{spawnTerminal: func(h *half, ctx context.Context, spec seam.TerminalSpec) (seam.Terminal, error) {
			change(&spec)
			return h.MemWorld.SpawnTerminal(ctx, spec)
		}}
	}
}

// denied breaks how it is refused.
func denied(change func(error) error) func() *half {
	return func() *half {
		return &half{spawnTerminal: func(h *half, ctx context.Context, spec seam.TerminalSpec) (seam.Terminal, error) {
			t, err := h.MemWorld.SpawnTerminal(ctx, spec)
			if err != nil {
				return nil, change(err)
			}
			return t, nil
		}}
	}
}

// brokenTerminalSpawns are broken in what they start.
var brokenTerminalSpawns = []brokenHalf{
	{what: "wrong fields are mended", fails: []string{"terminal-validate"}, half: wanted(func(spec *seam.TerminalSpec) {
		if spec.Validate(func(dir string) bool { return strings.HasPrefix(dir, "/") }) != nil {
			*spec = seam.TerminalSpec{Argv: memArgv("exit", "0"), Dir: "/work", Cols: 1, Rows: 1, Grace: time.Second}
		}
	})},
	{what: "no size is taken for one", fails: []string{"terminal-validate", "terminal-controls"}, half: wanted(func(spec *seam.TerminalSpec) {
		spec.Cols, spec.Rows = 80, 24
	})},
	{what: "errors are bare", fails: []string{
		"terminal-validate", "terminal-context", "terminal-no-program", "terminal-name", "terminal-containment", "terminal-limits", "terminal-runtime-close",
	}, containment: incomplete, half: denied(func(error) error { return errBare })},
	{what: "ended contexts are ignored", fails: []string{"terminal-context"}, half: func() *half {
		return &half{spawnTerminal: func(h *half, ctx context.Context, spec seam.TerminalSpec) (seam.Terminal, error) {
			return h.MemWorld.SpawnTerminal(context.WithoutCancel(ctx), spec)
		}}
	}},
	{what: "the context of SpawnTerminal bounds the life", fails: []string{"terminal-spawn-context"}, half: func() *half {
		return &half{spawnTerminal: func(h *half, ctx context.Context, spec seam.TerminalSpec) (seam.Terminal, error) {
			t, err := h.MemWorld.SpawnTerminal(ctx, spec)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = t.Close(context.Background()) })
			}
			return t, err
		}}
	}},
	{what: "names are not taken", fails: []string{"terminal-name"}, half: wanted(func(spec *seam.TerminalSpec) { spec.Name = "" })},
	{what: "requirements are ignored", fails: []string{"terminal-containment"}, containment: incomplete, half: wanted(func(spec *seam.TerminalSpec) {
		spec.Require = seam.AnyContainment
	})},
	{what: "terminals have another containment", fails: []string{"terminal-containment"}, half: opened(func(s *screen) {
		s.contain = func() seam.Containment { return seam.Containment{Kind: seam.KindTree} }
	})},
	{what: "limits are ignored", fails: []string{"terminal-limits"}, half: wanted(func(spec *seam.TerminalSpec) { spec.Limits = seam.Limits{} })},
	{what: "the environment is the consumer's alone", fails: []string{"terminal-env"}, half: wanted(func(spec *seam.TerminalSpec) {
		spec.Env = seam.Env{seam.Set("TERM", "xterm")}
	})},
}

// brokenTerminals are broken in what can be done with them.
var brokenTerminals = []brokenHalf{
	{what: "the last byte is lost", fails: []string{"terminal-output"}, half: opened(func(s *screen) {
		var held []byte // what was read last, and is lost if nothing follows
		s.read = func(b []byte) (int, error) {
			for {
				n, err := s.Terminal.Read(b[:len(b)-1])
				if n == 0 {
					return 0, err
				}
				all := append(held, b[:n]...)
				held = slices.Clone(all[len(all)-1:])
				if n = copy(b, all[:len(all)-1]); n > 0 {
					return n, err
				}
			}
		}
	})},
	{what: "the end of output comes once", fails: []string{"terminal-output"}, half: opened(func(s *screen) {
		var ended bool
		s.read = func(b []byte) (int, error) {
			n, err := s.Terminal.Read(b)
			if err != nil && ended {
				return n, errBare
			}
			ended = err != nil
			return n, err
		}
	})},
	{what: "Read does not wait", fails: []string{"terminal-silent", "terminal-read-settled"}, half: opened(func(s *screen) {
		ready := false
		s.read = func(b []byte) (int, error) {
			if ready {
				return 0, io.EOF
			}
			n, err := s.Terminal.Read(b)
			ready = n > 0 && b[0] == '\n'
			return n, err
		}
	})},
	{what: "closing drops what is unread", fails: []string{"terminal-unread", "terminal-close-term"}, half: opened(func(s *screen) {
		closed := false
		s.close = func(ctx context.Context) error {
			closed = true
			return s.Terminal.Close(ctx)
		}
		s.read = func(b []byte) (int, error) {
			if closed {
				return 0, io.EOF
			}
			return s.Terminal.Read(b)
		}
	})},
	{what: "output is kept without bound", fails: []string{"terminal-backpressure"}, half: opened(func(s *screen) {
		var kept []byte
		read := make(chan struct{})
		go func() { // it ends with the terminal
			defer close(read)
			kept, _ = io.ReadAll(s.Terminal)
		}()
		s.read = func(b []byte) (int, error) {
			<-read
			n := copy(b, kept)
			kept = kept[n:]
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		}
	})},
	{what: "Read waits for members", fails: []string{"terminal-eof-held", "terminal-late"}, half: opened(func(s *screen) {
		s.read = func(b []byte) (int, error) {
			n, err := s.Terminal.Read(b)
			if err != nil {
				time.Sleep(forever)
			}
			return n, err
		}
	})},
	{what: "the end of output is final", fails: []string{"terminal-late"}, half: opened(func(s *screen) {
		ended := false
		s.read = func(b []byte) (int, error) {
			if ended {
				return 0, io.EOF
			}
			n, err := s.Terminal.Read(b)
			ended = err != nil
			return n, err
		}
	})},
	{what: "members end with the command", fails: []string{"terminal-eof-held", "terminal-close-members"}, half: opened(func(s *screen) {
		s.wait = func(ctx context.Context) (seam.Outcome, error) {
			outcome, err := s.Terminal.Wait(ctx)
			if err == nil {
				err = s.Terminal.Close(ctx)
			}
			return outcome, err
		}
	})},
	{what: "typing is lossy", fails: []string{"terminal-write"}, half: opened(func(s *screen) {
		s.write = func(b []byte) (int, error) {
			_, err := s.Terminal.Write([]byte(strings.ToValidUTF8(strings.Map(func(r rune) rune {
				if r > 0x7f {
					return -1
				}
				return r
			}, string(b)), "")))
			return len(b), err
		}
	})},
	{what: "Write drops what is not read", fails: []string{"terminal-write-settled"}, half: opened(func(s *screen) {
		s.write = func(b []byte) (int, error) {
			_, err := s.Terminal.Write(b[:min(len(b), 4096)])
			return len(b), err
		}
	})},
	{what: "Close leaves calls in flight", fails: []string{"terminal-read-settled", "terminal-write-settled"}, half: opened(func(s *screen) {
		s.read = func(b []byte) (int, error) {
			n, err := s.Terminal.Read(b)
			if n == 0 && err != nil {
				time.Sleep(forever)
			}
			return n, err
		}
		s.write = func(b []byte) (int, error) {
			n, err := s.Terminal.Write(b)
			if err != nil {
				time.Sleep(forever)
			}
			return n, err
		}
	})},
	{what: "nobody is told of a size", fails: []string{"terminal-resize"}, half: opened(func(s *screen) {
		s.resize = func(cols, rows uint16) error {
			if cols == 0 || rows == 0 {
				return s.Terminal.Resize(cols, rows)
			}
			return nil
		}
	})},
	{what: "columns are rows", fails: []string{"terminal-resize"}, half: opened(func(s *screen) {
		s.resize = func(cols, rows uint16) error { return s.Terminal.Resize(rows, cols) }
	})},
	{what: "any size will do", fails: []string{"terminal-resize-invalid"}, half: opened(func(s *screen) {
		s.resize = func(cols, rows uint16) error { return s.Terminal.Resize(max(cols, 1), max(rows, 1)) }
	})},
	{what: "the foreground is another's", fails: []string{"terminal-foreground"}, half: seen(func(f *seam.Foreground) {
		f.PGID++
		f.Argv = []string{"sh"}
	})},
	{what: "sleeping is taken for waiting", fails: []string{"terminal-foreground-input"}, half: seen(func(f *seam.Foreground) { f.WaitsForInput, f.InputKnown = true, true })},
	{what: "reading is not seen", fails: []string{"terminal-foreground-input"}, half: seen(func(f *seam.Foreground) { f.WaitsForInput = false })},
	{what: "unread output is not looked at", fails: []string{"terminal-foreground-unread"}, half: seen(func(f *seam.Foreground) { f.UnreadOutput = false })},
	{what: "output is always unread", fails: []string{"terminal-foreground-unread"}, half: seen(func(f *seam.Foreground) { f.UnreadOutput = true })},
	{what: "contexts of inspections are ignored", fails: []string{"terminal-foreground-context"}, half: opened(func(s *screen) {
		s.foreground = func(context.Context) (seam.Foreground, error) { return s.Terminal.Foreground(context.Background()) }
		s.signal = func(_ context.Context, name string) (int, error) {
			return s.Terminal.SignalForeground(context.Background(), name)
		}
	})},
	{what: "every signal is SIGINT", fails: []string{"terminal-signal", "terminal-signal-ends", "terminal-signal-refused"}, half: opened(func(s *screen) {
		s.signal = func(ctx context.Context, _ string) (int, error) { return s.Terminal.SignalForeground(ctx, "SIGINT") }
	})},
	{what: "it is not said who was signalled", fails: []string{"terminal-signal"}, half: opened(func(s *screen) {
		s.signal = func(ctx context.Context, name string) (int, error) {
			_, err := s.Terminal.SignalForeground(ctx, name)
			return 0, err
		}
	})},
	{what: "the command can be killed as the foreground", fails: []string{"terminal-signal-refused"}, half: opened(func(s *screen) {
		s.signal = func(ctx context.Context, name string) (int, error) {
			if name == "SIGKILL" {
				return s.Terminal.PID(), s.Terminal.Close(ctx)
			}
			return s.Terminal.SignalForeground(ctx, name)
		}
	})},
	{what: "the known signals are not named", fails: []string{"terminal-signal-refused"}, half: opened(func(s *screen) {
		s.signal = func(ctx context.Context, name string) (int, error) {
			n, err := s.Terminal.SignalForeground(ctx, name)
			if err != nil {
				err = &seam.OpError{Op: "signal", Code: seam.CodeOf(err), Err: &seam.FieldError{Field: "name", Problem: "is unknown"}}
			}
			return n, err
		}
	})},
	{what: "exit codes are lost", fails: []string{"terminal-wait", "terminal-close-term"}, half: opened(func(s *screen) {
		s.wait = func(ctx context.Context) (seam.Outcome, error) {
			outcome, err := s.Terminal.Wait(ctx)
			outcome.ExitCode = min(outcome.ExitCode, 0)
			return outcome, err
		}
	})},
	{what: "ended terminals take calls", fails: []string{"terminal-ended"}, half: opened(func(s *screen) {
		s.write = func(b []byte) (int, error) {
			n, err := s.Terminal.Write(b)
			if seam.CodeOf(err) == seam.CodeEnded {
				return len(b), nil
			}
			return n, err
		}
	})},
	{what: "closed terminals are closed files", fails: []string{"terminal-ended"}, half: opened(func(s *screen) {
		s.foreground = func(ctx context.Context) (seam.Foreground, error) {
			f, err := s.Terminal.Foreground(ctx)
			if seam.CodeOf(err) == seam.CodeEnded {
				err = io.ErrClosedPipe
			}
			return f, err
		}
	})},
	{what: "Close gives no cause", fails: []string{"terminal-close", "terminal-close-term", "terminal-close-context"}, half: opened(func(s *screen) {
		s.wait = func(ctx context.Context) (seam.Outcome, error) {
			outcome, err := s.Terminal.Wait(ctx)
			if errors.Is(outcome.Cause, seam.ErrTerminalClosed) {
				outcome.Cause = context.Canceled
			}
			return outcome, err
		}
	})},
	{what: "Close does not wait for the proof", fails: []string{"terminal-close-kill"}, half: opened(func(s *screen) {
		s.close = func(context.Context) error {
			go func() { _ = s.Terminal.Close(context.Background()) }() // it ends with the terminal
			return nil
		}
	})},
	{what: "Close kills at once", fails: []string{"terminal-close-kill"}, half: func() *half {
		return &half{spawnTerminal: func(h *half, ctx context.Context, spec seam.TerminalSpec) (seam.Terminal, error) {
			spec.Grace = 1
			return h.MemWorld.SpawnTerminal(ctx, spec)
		}}
	}},
	{what: "the context of Close bounds the ending", fails: []string{"terminal-close-context"}, half: opened(func(s *screen) {
		s.close = func(ctx context.Context) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return s.Terminal.Close(ctx)
		}
	})},
	{what: "Close forgets that it is closed", fails: []string{"terminal-close-again", "terminal-runtime-close"}, half: opened(func(s *screen) {
		s.close = func(ctx context.Context) error {
			if err := s.Terminal.Close(ctx); err != nil {
				return err
			}
			return context.Cause(ctx)
		}
	})},
	{what: "a runtime forgets its terminals", fails: []string{"terminal-runtime-close"}, half: func() *half {
		return &half{close: func() error { return nil }}
	}},
}
