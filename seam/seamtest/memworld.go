package seamtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/seam"
)

// KindMemory is the containment of a [MemWorld].
const KindMemory seam.Kind = "memory"

// A MemConfig configures a [MemWorld].
type MemConfig struct {
	// FS is the world's filesystem half. Nil: an empty one, of the world "memory".
	FS *MemFS

	// Programs by their absolute paths; NewMemWorld makes a file at each. Programs in
	// /bin are found by their names, unless Environ has another PATH.
	Programs map[string]MemProgram

	// Environ is what the base environment is made of, by the deny rule of
	// [seam.Scrub]. PATH is /bin where it is not set.
	Environ []string

	// Terminal, where it is not nil, is called by SpawnTerminal before the program
	// runs, with the other side of its terminal: a test keeps it to play what the
	// program does not. It may block. Its error is SpawnTerminal's.
	Terminal func(ctx context.Context, t *MemTerminal) error

	// Containment is what launches say that they got. Zero: complete, of kind
	// KindMemory, which is true.
	Containment seam.Containment
}

// A MemWorld is a world in memory for tests of consumers: its programs are Go
// functions, and their ranges end by the same ladder as those of a real
// provider. It passes [TestSubprocess], and works on the fake clock of
// testing/synctest when it is made inside the bubble.
//
// It is the subprocess half of the world that World returns. It can't enforce
// limits, and refuses Inherit and Detach. Its terminals are [MemTerminal]s, and
// pass [TestTerminal].
type MemWorld struct {
	config MemConfig
	base   []string // the scrubbed environment
	spill  memStore

	starting sync.WaitGroup // launches between admission and publication

	mu     sync.Mutex
	closed bool
	pids   int
	names  map[string]bool               // of ranges that start or live
	live   map[*managed.Process]struct{} // until everything that worked for them has ended
	pipes  []*memEnd                     // that were handed to callers
}

var _ seam.Subprocess = (*MemWorld)(nil)

// NewMemWorld returns a world. It panics where a program has no absolute path.
func NewMemWorld(config MemConfig) *MemWorld {
	if config.FS == nil {
		config.FS = NewMemFS("memory")
	}
	if config.Containment.Kind == "" {
		config.Containment = seam.Containment{Kind: KindMemory, Complete: true}
	}
	config.Programs = maps.Clone(config.Programs)
	for file := range config.Programs {
		if err := config.FS.WriteFile(file, nil); err != nil {
			panic(err)
		}
	}
	m := &MemWorld{
		config: config,
		spill:  memStore{fs: config.FS},
		pids:   100,
		names:  make(map[string]bool),
		live:   make(map[*managed.Process]struct{}),
	}
	m.base, _ = seam.Scrub{}.Apply(append([]string{"PATH=/bin"}, config.Environ...))
	return m
}

// World joins the two halves.
func (m *MemWorld) World() *seam.World {
	w, err := seam.NewWorld(m.config.FS, m)
	if err != nil {
		panic(err) // the ids are one
	}
	return w
}

// FS is the filesystem half.
func (m *MemWorld) FS() *MemFS { return m.config.FS }

// WorldID implements [seam.Subprocess].
func (m *MemWorld) WorldID() string { return m.config.FS.WorldID() }

// Containment implements [seam.Subprocess].
func (m *MemWorld) Containment(ctx context.Context) (seam.Containment, error) {
	if ctx.Err() != nil {
		return seam.Containment{}, seam.Aborted(ctx, "containment", "")
	}
	return m.config.Containment, nil
}

// Spawn implements [seam.Subprocess].
func (m *MemWorld) Spawn(ctx context.Context, spec seam.Spec) (seam.Process, error) {
	if err := spec.Validate(path.IsAbs); err != nil {
		return nil, err
	}
	p, err := m.start(ctx, &spec, m.open)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// start launches what a valid spec asks for, with the streams that open opens.
func (m *MemWorld) start(ctx context.Context, spec *seam.Spec, open memOpen) (*managed.Process, error) {
	refuse := func(code seam.Code, err error) (*managed.Process, error) {
		return nil, &seam.OpError{Op: "spawn", Argv0: spec.Argv[0], Code: code, Err: err}
	}
	if ctx.Err() != nil {
		return nil, seam.Aborted(ctx, "spawn", spec.Argv[0])
	}
	if field := m.unsupported(spec); field != nil {
		return refuse(seam.CodeUnsupported, field)
	}
	if spec.Require == seam.CompleteContainment && !m.config.Containment.Complete {
		return refuse(seam.CodeContainment, &seam.FieldError{Field: "Require", Problem: "is complete containment"})
	}
	env := spec.Env.Apply(append(slices.Clone(m.base), "PWD="+spec.Dir), false)
	if err := m.enter(spec.Dir); err != nil {
		return refuse(seam.CodeOf(err), err)
	}
	program, err := m.resolve(spec.Argv[0], spec.Dir, env)
	if err != nil {
		return refuse(seam.CodeOf(err), err)
	}
	name, err := m.admit(spec.Name)
	if err != nil {
		return refuse(seam.CodeOf(err), err)
	}
	defer m.starting.Done()
	return m.launch(name, spec, program, env, open), nil
}

// memOpen opens the streams of a launch.
type memOpen func(spec *seam.Spec, direct *MemProc, params *managed.Params)

// unsupported names what spec asks for and the world can't do.
func (m *MemWorld) unsupported(spec *seam.Spec) *seam.FieldError {
	field := ""
	switch limits := spec.Limits.Set(); {
	case len(limits) > 0:
		field = limits[0]
	case spec.Detach:
		field = "Detach"
	case spec.Stdin.Mode == seam.Inherit:
		field = "Stdin.Mode"
	case spec.Stdout.Mode == seam.Inherit:
		field = "Stdout.Mode"
	case spec.Stderr.Mode == seam.Inherit:
		field = "Stderr.Mode"
	default:
		return nil
	}
	return &seam.FieldError{Field: field, Problem: "can't be had in memory"}
}

// admit reserves a name and counts a launch under way.
func (m *MemWorld) admit(name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return "", &seam.OpError{Code: seam.CodeClosed, Err: seam.ErrClosed}
	}
	for n := len(m.names); name == ""; n++ {
		if made := fmt.Sprintf("run-%d", n); !m.names[made] {
			name = made
		}
	}
	if m.names[name] {
		return "", &seam.OpError{Code: seam.CodeNameInUse, Err: &seam.FieldError{Field: "Name", Problem: "is in use: " + name}}
	}
	m.names[name] = true
	m.starting.Add(1)
	return name, nil
}

// launch starts a program that was admitted.
func (m *MemWorld) launch(name string, spec *seam.Spec, program MemProgram, env []string, open memOpen) *managed.Process {
	direct := &MemProc{Argv: slices.Clone(spec.Argv), Dir: spec.Dir, Env: env, StdinMode: spec.Stdin.Mode, world: m}
	direct.members = &memRange{direct: direct, empty: make(chan struct{})}
	params := managed.Params{
		Name:        name,
		Containment: m.config.Containment,
		Grace:       spec.Grace,
		Drain:       spec.Drain,
		Direct:      memDirect{direct},
		Owner:       direct.members,
		Data:        spec.Stdin.Data,
		Proved: func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.names, name)
		},
		Released: func(p *managed.Process, _ error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.live, p)
		},
	}
	open(spec, direct, &params)
	direct.start(program) // as the first member
	p := managed.New(params)
	m.mu.Lock()
	m.live[p] = struct{}{}
	m.mu.Unlock()
	p.Run()
	return p
}

// open opens what spec asks for.
func (m *MemWorld) open(spec *seam.Spec, direct *MemProc, params *managed.Params) {
	if mode := spec.Stdin.Mode; mode == seam.Pipe || mode == seam.Data {
		reader, writer := newMemPipe()
		direct.ends[0] = reader
		if mode == seam.Data {
			params.Feed = writer
		} else {
			params.Stdin = m.handOut(writer)
		}
	}
	for stream, output := range []seam.Output{seam.Stdout: spec.Stdout, seam.Stderr: spec.Stderr} {
		if output.Mode == seam.Null {
			continue
		}
		reader, writer := newMemPipe()
		direct.ends[stream+1] = writer
		switch {
		case output.Mode == seam.Collect:
			params.Collectors[stream] = managed.NewCollector(managed.CollectorParams{
				Source:        reader,
				MaxBytes:      output.MaxBytes,
				SpillMaxBytes: output.SpillMaxBytes,
				SpillName:     params.Name + "-" + seam.Stream(stream).String(),
				Store:         &m.spill,
			})
		case seam.Stream(stream) == seam.Stdout:
			params.Stdout = m.handOut(reader)
		default:
			params.Stderr = m.handOut(reader)
		}
	}
}

func (m *MemWorld) handOut(end *memEnd) *memEnd {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pipes = append(m.pipes, end)
	return end
}

func (m *MemWorld) nextPID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pids++
	return m.pids
}

// Close ends the world: it refuses further launches, terminates every live
// range, and waits until all are proven empty. When ctx ends, or had ended,
// what is left is killed without further grace. Streams that callers have left
// open are closed, and spill files removed. A range that can't be proven empty is an error, and Close
// may be called again.
func (m *MemWorld) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.starting.Wait() // after this the live set only shrinks

	live := m.liveRanges()
	for _, p := range live {
		p.Terminate(seam.ErrClosed)
		p.Hurry()
	}
	calm := context.AfterFunc(ctx, func() {
		for _, p := range live {
			_ = p.Kill(seam.ErrClosed) // it can't fail here
		}
	})
	defer calm()
	var errs []error
	for _, p := range live {
		if err := p.WaitEmpty(context.Background()); err != nil {
			errs = append(errs, fmt.Errorf("range %s: %w", p.Name(), err))
			continue
		}
		<-p.Done()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close memory world: %w", err)
	}
	for _, end := range m.pipes {
		_ = end.Close() // the caller may have
	}
	m.pipes = nil
	return m.spill.Close()
}

func (m *MemWorld) liveRanges() []*managed.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(m.live), func(a, b *managed.Process) int { return cmp.Compare(a.Name(), b.Name()) })
}

// LookPath implements [seam.Subprocess].
func (m *MemWorld) LookPath(ctx context.Context, name string, env seam.Env) (string, error) {
	fail := func(code seam.Code, err error) (string, error) {
		return "", &seam.OpError{Op: "look up", Argv0: name, Code: code, Err: err}
	}
	problem := ""
	switch {
	case name == "":
		problem = "is empty"
	case strings.Contains(name, "\x00"):
		problem = "contains a NUL byte"
	case strings.Contains(name, "/") && !path.IsAbs(name):
		problem = "is a relative path"
	}
	if problem != "" {
		return fail(seam.CodeInvalid, &seam.FieldError{Field: "name", Problem: problem})
	}
	if ctx.Err() != nil {
		return "", seam.Aborted(ctx, "look up", name)
	}
	file, err := m.search(name, "", env.Apply(m.base, false))
	if err != nil {
		return fail(seam.CodeOf(err), err)
	}
	return file, nil
}
