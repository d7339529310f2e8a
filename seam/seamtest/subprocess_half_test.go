package seamtest_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// A half is a memory world's subprocess half with something about it broken.
// Nil fields are not.
type half struct {
	*seamtest.MemWorld
	spawn         func(h *half, ctx context.Context, spec seam.Spec) (seam.Process, error)
	lookPath      func(h *half, ctx context.Context, name string, env seam.Env) (string, error)
	spawnTerminal func(h *half, ctx context.Context, spec seam.TerminalSpec) (seam.Terminal, error)
	contain       func() seam.Containment
	close         func() error
	worldID       string

	mu   sync.Mutex
	seen map[string]bool // names, for whom they interest
}

func (h *half) Spawn(ctx context.Context, spec seam.Spec) (seam.Process, error) {
	if h.spawn == nil {
		return h.MemWorld.Spawn(ctx, spec)
	}
	return h.spawn(h, ctx, spec)
}

func (h *half) LookPath(ctx context.Context, name string, env seam.Env) (string, error) {
	if h.lookPath == nil {
		return h.MemWorld.LookPath(ctx, name, env)
	}
	return h.lookPath(h, ctx, name, env)
}

func (h *half) SpawnTerminal(ctx context.Context, spec seam.TerminalSpec) (seam.Terminal, error) {
	if h.spawnTerminal == nil {
		return h.MemWorld.SpawnTerminal(ctx, spec)
	}
	return h.spawnTerminal(h, ctx, spec)
}

func (h *half) Containment(ctx context.Context) (seam.Containment, error) {
	if h.contain == nil {
		return h.MemWorld.Containment(ctx)
	}
	return h.contain(), nil
}

func (h *half) WorldID() string { return h.MemWorld.WorldID() + h.worldID }

func (h *half) Close(ctx context.Context) error {
	if h.close == nil {
		return h.MemWorld.Close(ctx)
	}
	return h.close()
}

// A process is one with something about it broken.
type process struct {
	seam.Process
	name      func() string
	stdin     func() io.WriteCloser
	output    func(seam.Stream) seam.OutputReader
	wait      func(context.Context) (seam.Outcome, error)
	terminate func(error)
	waitEmpty func(context.Context) error
	survivors func(context.Context) ([]seam.Member, error)
}

func (p *process) Name() string {
	if p.name == nil {
		return p.Process.Name()
	}
	return p.name()
}

func (p *process) Stdin() io.WriteCloser {
	if p.stdin == nil {
		return p.Process.Stdin()
	}
	return p.stdin()
}

func (p *process) Output(s seam.Stream) seam.OutputReader {
	if p.output == nil {
		return p.Process.Output(s)
	}
	return p.output(s)
}

func (p *process) Wait(ctx context.Context) (seam.Outcome, error) {
	if p.wait == nil {
		return p.Process.Wait(ctx)
	}
	return p.wait(ctx)
}

func (p *process) Terminate(cause error) {
	if p.terminate == nil {
		p.Process.Terminate(cause)
		return
	}
	p.terminate(cause)
}

func (p *process) WaitEmpty(ctx context.Context) error {
	if p.waitEmpty == nil {
		return p.Process.WaitEmpty(ctx)
	}
	return p.waitEmpty(ctx)
}

func (p *process) Survivors(ctx context.Context) ([]seam.Member, error) {
	if p.survivors == nil {
		return p.Process.Survivors(ctx)
	}
	return p.survivors(ctx)
}

// output is a collected stream with something about it broken.
type output struct {
	seam.OutputReader
	readFrom func(int64) seam.Window
	spill    func() seam.Spill
}

func (o *output) ReadFrom(offset int64) seam.Window {
	if o.readFrom == nil {
		return o.OutputReader.ReadFrom(offset)
	}
	return o.readFrom(offset)
}

func (o *output) Spill() seam.Spill {
	if o.spill == nil {
		return o.OutputReader.Spill()
	}
	return o.spill()
}

// asked breaks what is asked for.
func asked(change func(spec *seam.Spec)) *half {
	return &half{spawn: func(h *half, ctx context.Context, spec seam.Spec) (seam.Process, error) {
		change(&spec)
		return h.MemWorld.Spawn(ctx, spec)
	}}
}

// refused breaks how it is refused.
func refused(change func(error) error) *half {
	return &half{spawn: func(h *half, ctx context.Context, spec seam.Spec) (seam.Process, error) {
		p, err := h.MemWorld.Spawn(ctx, spec)
		if err != nil {
			return nil, change(err)
		}
		return p, nil
	}}
}

// started breaks what was started.
func started(change func(p *process)) *half {
	return &half{spawn: func(h *half, ctx context.Context, spec seam.Spec) (seam.Process, error) {
		p, err := h.MemWorld.Spawn(ctx, spec)
		if err != nil {
			return nil, err
		}
		broken := &process{Process: p}
		change(broken)
		return broken, nil
	}}
}

// ended breaks the direct result.
func ended(change func(outcome *seam.Outcome) error) *half {
	return started(func(p *process) {
		p.wait = func(ctx context.Context) (seam.Outcome, error) {
			outcome, err := p.Process.Wait(ctx)
			if err == nil {
				err = change(&outcome)
			}
			return outcome, err
		}
	})
}

// collected breaks collected streams.
func collected(change func(p *process, o *output)) *half {
	return started(func(p *process) {
		var mu sync.Mutex
		outputs := make(map[seam.Stream]*output)
		p.output = func(s seam.Stream) seam.OutputReader {
			mu.Lock()
			defer mu.Unlock()
			reader := p.Process.Output(s)
			if reader == nil {
				return nil
			}
			if outputs[s] == nil {
				outputs[s] = &output{OutputReader: reader}
				change(p, outputs[s])
			}
			return outputs[s]
		}
	})
}

// windows breaks what is read of them.
func windows(change func(w *seam.Window)) *half {
	return collected(func(_ *process, o *output) {
		o.readFrom = func(offset int64) seam.Window {
			w := o.OutputReader.ReadFrom(offset)
			change(&w)
			return w
		}
	})
}

// hasExited asks without waiting.
func hasExited(p seam.Process) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.Wait(ctx)
	return err == nil
}

// forever is longer than a case waits.
const forever = 500 * time.Hour

// A brokenHalf fails the cases that are named.
type brokenHalf struct {
	what        string
	fails       []string
	containment seam.Containment
	half        func() *half
}

func TestBrokenSubprocess(t *testing.T) {
	testBroken(t, slices.Concat(brokenSpawns, brokenStreams, brokenEndings, brokenRanges), seamtest.SubprocessCases(), seamtest.CheckSubprocess)
}

func TestBrokenTerminal(t *testing.T) {
	testBroken(t, slices.Concat(brokenTerminalSpawns, brokenTerminals), seamtest.TerminalCases(), seamtest.CheckTerminal)
}

// testBroken sees to it that every one of the cases fails for something.
func testBroken(t *testing.T, halves []brokenHalf, cases []string, run func(seamtest.SubprocessConfig) []seamtest.Violation) {
	caught := make(map[string]bool)
	for _, b := range halves {
		for _, name := range b.fails {
			caught[name] = true
		}
		t.Run(strings.ReplaceAll(b.what, " ", "-"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				check(t, b, cases, run)
				time.Sleep(2 * lifetime) // what was abandoned ends; the clock is fake
			})
		})
	}
	for _, name := range cases {
		if !caught[name] {
			t.Errorf("no broken half fails %q: what does it check?", name)
		}
	}
}

// check runs the cases that b has to fail.
func check(t *testing.T, b brokenHalf, cases []string, run func(seamtest.SubprocessConfig) []seamtest.Violation) {
	cfg := memSubprocess(b.containment)
	conforming := cfg.New
	cfg.New = func() (seam.Subprocess, error) {
		s, err := conforming()
		h := b.half()
		h.MemWorld, h.seen = s.(*seamtest.MemWorld), make(map[string]bool)
		return h, err
	}
	cfg.Close = func(ctx context.Context, s seam.Subprocess) error { return s.(*half).Close(ctx) }
	cfg.Omit = make(map[string]string)
	for _, name := range cases {
		if !slices.Contains(b.fails, name) {
			cfg.Omit[name] = "it says nothing about " + b.what
		}
	}
	failed := make(map[string]bool)
	for _, violation := range run(cfg) {
		failed[violation.Case] = true
		t.Logf("%v", violation)
		if violation.Rule == "" {
			t.Errorf("%s names no rule", violation.Case)
		}
	}
	for _, name := range b.fails {
		if !failed[name] {
			t.Errorf("%s passes, and should not", name)
		}
	}
}

var errBare = errors.New("it did not work")
