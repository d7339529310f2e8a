package seamtest_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// brokenSpawns are broken in what they start.
var brokenSpawns = []brokenHalf{
	{what: "wrong fields are mended", fails: []string{"validate-fields"}, half: func() *half {
		return asked(func(spec *seam.Spec) {
			if spec.Validate(func(dir string) bool { return strings.HasPrefix(dir, "/") }) != nil {
				*spec = seam.Spec{Argv: memArgv("exit", "0"), Dir: "/work", Grace: time.Second}
			}
		})
	}},
	{what: "a wrong field is not named", fails: []string{"validate-fields", "limits", "detach"}, half: func() *half {
		return refused(func(err error) error { return &seam.OpError{Op: "spawn", Code: seam.CodeOf(err), Err: errBare} })
	}},
	{what: "a refused launch holds its name", fails: []string{"validate-fields", "name-freed"}, half: func() *half {
		return &half{spawn: func(h *half, ctx context.Context, spec seam.Spec) (seam.Process, error) {
			h.mu.Lock()
			taken := h.seen[spec.Name]
			h.seen[spec.Name] = spec.Name != ""
			h.mu.Unlock()
			if err := spec.Validate(func(dir string) bool { return strings.HasPrefix(dir, "/") }); err != nil {
				return nil, err
			}
			if taken {
				return nil, &seam.OpError{Op: "spawn", Code: seam.CodeNameInUse}
			}
			return h.MemWorld.Spawn(ctx, spec)
		}}
	}},
	{what: "errors are bare", fails: []string{
		"validate-fields", "validate-context", "spawn-no-dir", "spawn-no-program", "name-taken", "require-complete", "limits", "detach", "inherit", "close-refuses",
	}, containment: incomplete, half: func() *half { return refused(func(error) error { return errBare }) }},
	{what: "ended contexts are ignored", fails: []string{"validate-context", "look-context"}, half: func() *half {
		return &half{
			spawn: func(h *half, ctx context.Context, spec seam.Spec) (seam.Process, error) {
				return h.MemWorld.Spawn(context.WithoutCancel(ctx), spec)
			},
			lookPath: func(h *half, ctx context.Context, name string, env seam.Env) (string, error) {
				return h.MemWorld.LookPath(context.WithoutCancel(ctx), name, env)
			},
		}
	}},
	{what: "the context of Spawn bounds the life", fails: []string{"spawn-context"}, half: func() *half {
		return &half{spawn: func(h *half, ctx context.Context, spec seam.Spec) (seam.Process, error) {
			p, err := h.MemWorld.Spawn(ctx, spec)
			if err == nil {
				seam.TerminateOn(ctx, p)
			}
			return p, err
		}}
	}},
	{what: "arguments are split like words", fails: []string{"spawn-argv"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Argv = strings.Fields(strings.Join(spec.Argv, " ")) })
	}},
	{what: "the directory is ignored", fails: []string{"spawn-dir", "spawn-no-dir"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Dir = "/" })
	}},
	{what: "relative programs are taken from elsewhere", fails: []string{"spawn-bare-name"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Argv[0] = strings.Replace(spec.Argv[0], "./", "/", 1) })
	}},
	{what: "the environment is not scrubbed", fails: []string{"env-scrub"}, half: func() *half {
		return asked(func(spec *seam.Spec) {
			for _, entry := range seamtest.Environ() {
				name, value, _ := strings.Cut(entry, "=")
				spec.Env = append(seam.Env{seam.Set(name, value)}, spec.Env...)
			}
		})
	}},
	{what: "overrides are scrubbed", fails: []string{"env-deliberate"}, half: func() *half {
		return asked(func(spec *seam.Spec) {
			spec.Env = slices.DeleteFunc(spec.Env, func(v seam.EnvVar) bool { return strings.Contains(v.Name, "TOKEN") })
		})
	}},
	{what: "the first override wins", fails: []string{"env-override"}, half: func() *half {
		return asked(func(spec *seam.Spec) { slices.Reverse(spec.Env) })
	}},
	{what: "unset variables are passed empty", fails: []string{"env-override", "env-unset"}, half: func() *half {
		return asked(func(spec *seam.Spec) {
			for i := range spec.Env {
				spec.Env[i].Unset = false
			}
		})
	}},
	{what: "LookPath takes what it finds", fails: []string{"look-absolute", "look-search"}, half: func() *half {
		return &half{lookPath: func(h *half, ctx context.Context, name string, env seam.Env) (string, error) {
			path, err := h.MemWorld.LookPath(ctx, name, env)
			if seam.CodeOf(err) == seam.CodeNotExecutable {
				return name, nil
			}
			return path, err
		}}
	}},
	{what: "LookPath takes relative names", fails: []string{"look-invalid"}, half: func() *half {
		return &half{lookPath: func(h *half, ctx context.Context, name string, env seam.Env) (string, error) {
			return h.MemWorld.LookPath(ctx, strings.TrimPrefix(name, "./"), env)
		}}
	}},
	{what: "names are not taken", fails: []string{"name-given", "name-taken"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Name = "" })
	}},
	{what: "names are not made", fails: []string{"name-made"}, half: func() *half {
		return started(func(p *process) { p.name = func() string { return "" } })
	}},
	{what: "the world has another name", fails: []string{"world-id"}, half: func() *half { return &half{worldID: "2"} }},
	{what: "escapes are not named", fails: []string{"containment"}, half: func() *half {
		return &half{contain: func() seam.Containment { return seam.Containment{Kind: seam.KindGroup} }}
	}},
	{what: "requirements are ignored", fails: []string{"require-complete"}, containment: incomplete, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Require = seam.AnyContainment })
	}},
	{what: "limits are ignored", fails: []string{"limits"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Limits = seam.Limits{} })
	}},
	{what: "terminals fail", fails: []string{"terminal"}, half: func() *half {
		return &half{spawnTerminal: func(*half, context.Context, seam.TerminalSpec) (seam.Terminal, error) { return nil, errBare }}
	}},
	{what: "Close does nothing", fails: []string{"close-refuses", "close-ends", "close-ended-context", "close-pipes"}, half: func() *half {
		return &half{close: func() error { return nil }}
	}},
}

// brokenStreams are broken in what they read and write.
var brokenStreams = []brokenHalf{
	{what: "stdin is an empty pipe and not null", fails: []string{"stdin-null"}, half: func() *half {
		return asked(func(spec *seam.Spec) {
			if spec.Stdin.Mode == seam.Null {
				spec.Stdin.Mode = seam.Data
			}
		})
	}},
	{what: "data is a pipe full at most", fails: []string{"stdin-data"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Stdin.Data = spec.Stdin.Data[:min(len(spec.Stdin.Data), 64<<10)] })
	}},
	{what: "data has to be read", fails: []string{"stdin-data-ignored"}, half: func() *half {
		return &half{spawn: func(h *half, ctx context.Context, spec seam.Spec) (seam.Process, error) {
			p, err := h.MemWorld.Spawn(ctx, spec)
			return &process{Process: p, wait: func(ctx context.Context) (seam.Outcome, error) {
				outcome, _ := p.Wait(ctx)
				return outcome, fmt.Errorf("%d bytes: broken pipe", len(spec.Stdin.Data))
			}}, err
		}}
	}},
	{what: "stdin does not end", fails: []string{"stdin-pipe"}, half: func() *half {
		return started(func(p *process) { p.stdin = func() io.WriteCloser { return unclosable{p.Process.Stdin()} } })
	}},
	{what: "stdin is a nil pointer", fails: []string{"streams-nil"}, half: func() *half {
		return started(func(p *process) { p.stdin = func() io.WriteCloser { return (*io.PipeWriter)(nil) } })
	}},
	{what: "null output is a pipe", fails: []string{"output-null", "streams-nil"}, half: func() *half {
		return asked(func(spec *seam.Spec) {
			for _, o := range []*seam.Output{&spec.Stdout, &spec.Stderr} {
				if o.Mode == seam.Null {
					o.Mode = seam.Pipe
				}
			}
		})
	}},
	{what: "pipes are closed at the direct exit", fails: []string{"output-pipe", "output-pipe-held"}, half: func() *half {
		return started(func(p *process) {
			p.wait = func(ctx context.Context) (seam.Outcome, error) {
				outcome, err := p.Process.Wait(ctx)
				for _, stream := range []io.Closer{p.Stdout(), p.Stderr()} {
					if stream != nil {
						_ = stream.Close()
					}
				}
				return outcome, err
			}
		})
	}},
	{what: "output streams are exchanged", fails: []string{"collect-both"}, half: func() *half {
		return started(func(p *process) {
			p.output = func(s seam.Stream) seam.OutputReader { return p.Process.Output(1 - s) }
		})
	}},
	{what: "the tail is short by one", fails: []string{"collect-tail", "collect-cursor", "collect-both"}, half: func() *half {
		return asked(func(spec *seam.Spec) {
			for _, o := range []*seam.Output{&spec.Stdout, &spec.Stderr} {
				o.MaxBytes = max(o.MaxBytes-1, min(o.MaxBytes, 1))
			}
		})
	}},
	{what: "reading consumes", fails: []string{"collect-cursor", "collect-runes"}, half: func() *half {
		return collected(func(_ *process, o *output) {
			read := int64(0)
			o.readFrom = func(offset int64) seam.Window {
				w := o.OutputReader.ReadFrom(max(offset, read))
				read = w.Next()
				return w
			}
		})
	}},
	{what: "losses are not told", fails: []string{"collect-tail", "collect-cursor", "collect-runes"}, half: func() *half {
		return windows(func(w *seam.Window) { w.Lost = 0 })
	}},
	{what: "output comes at the end", fails: []string{"collect-live", "collect-runes", "collect-held"}, half: func() *half {
		return windows(func(w *seam.Window) {
			if !w.Ended {
				*w = seam.Window{}
			}
		})
	}},
	{what: "streams end with the direct process", fails: []string{"collect-held"}, half: func() *half {
		return collected(func(p *process, o *output) {
			o.readFrom = func(offset int64) seam.Window {
				w := o.OutputReader.ReadFrom(offset)
				if hasExited(p.Process) {
					w.Ended, w.Cut = true, true
				}
				return w
			}
		})
	}},
	{what: "every stream is spilt", fails: []string{"spill-none", "spill-withdrawn", "spill-complete"}, half: func() *half {
		return collected(func(_ *process, o *output) {
			o.spill = func() seam.Spill { return seam.Spill{Path: "/etc/plain"} }
		})
	}},
	{what: "the spill bound is too large by one", fails: []string{"spill-withdrawn"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Stdout.SpillMaxBytes += min(spec.Stdout.SpillMaxBytes, 1) })
	}},
	{what: "nothing is spilt", fails: []string{"spill-complete", "spill-withdrawn"}, half: func() *half {
		return asked(func(spec *seam.Spec) { spec.Stdout.SpillMaxBytes = 0 })
	}},
}

// unclosable is a stream that Close does not close.
type unclosable struct{ io.Writer }

func (unclosable) Close() error { return nil }
