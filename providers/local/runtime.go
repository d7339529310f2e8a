// Package local is this host's subprocess half of an execution world: it starts
// commands in owned ranges, collects what they print, and ends what is left of
// them.
//
// # Concurrency
//
// All methods of [Runtime] may be called concurrently. A runtime runs one
// goroutine for each live range, one more for a limited scope, one for each
// stream that it collects or feeds, and one for each termination under way. All of them have ended when Close
// returns nil.
package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/corral-world/corral/internal/control"
	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// Config configures a [Runtime].
type Config struct {
	// WorldID names the world that this half belongs to. Required.
	WorldID string

	// Logger gets the containment warning and failures of cleaning up.
	// Nil: nobody does.
	Logger *slog.Logger

	// Containment forces a kind; launches are refused where it is not to be
	// had. Empty: the strongest that is.
	Containment seam.Kind

	// Environ is what the base environment is made of. Nil: os.Environ, as it
	// is when New is called.
	Environ []string

	// Scrub is the rule by which it is made.
	Scrub seam.Scrub

	Spill SpillConfig

	// KeepInheritable leaves this process's descriptors and ignored signals
	// alone at a launch. Targets then inherit them.
	KeepInheritable bool
}

// Runtime is this host's subprocess half. Make it with [New], end it with
// [Runtime.Close].
type Runtime struct {
	config    Config
	logger    *slog.Logger
	selection *selection
	base      []string // the scrubbed environment
	dropped   []string // names of what was scrubbed
	spill     *privateDir

	keeps bool // it is that of a detached range's keeper

	warn  sync.Once // the containment warning
	sweep sync.Once // of dead runtimes' spill directories

	starting sync.WaitGroup // launches between admission and publication

	mu     sync.Mutex
	closed bool
	names  map[string]struct{}           // of ranges that start or live
	live   map[*managed.Process]struct{} // until everything that worked for them has been joined
	pipes  map[*callerPipe]struct{}      // streams that callers have not closed
	answer sync.Once                     // the start of server
	server *control.Server               // nil where nobody can ask for the ranges
}

var _ seam.Subprocess = (*Runtime)(nil)

// New checks config and returns a runtime. It acquires nothing.
func New(config Config) (*Runtime, error) {
	refuse := func(field *seam.FieldError) (*Runtime, error) {
		return nil, &seam.OpError{Op: "new local runtime", Code: seam.CodeInvalid, Err: field}
	}
	if config.WorldID == "" {
		return refuse(&seam.FieldError{Field: "WorldID", Problem: "is empty"})
	}
	var field *seam.FieldError
	if err := config.Scrub.Validate(); errors.As(err, &field) {
		return refuse(&seam.FieldError{Field: "Scrub." + field.Field, Problem: field.Problem})
	}
	if field := config.Spill.validate(); field != nil {
		return refuse(field)
	}
	r := &Runtime{
		config: config,
		logger: config.Logger,
		spill:  &privateDir{config: config.Spill},
		names:  make(map[string]struct{}),
		live:   make(map[*managed.Process]struct{}),
		pipes:  make(map[*callerPipe]struct{}),
	}
	if r.logger == nil {
		r.logger = slog.New(slog.DiscardHandler)
	}
	selection, err := newSelection(config.Containment, r.spill)
	if err != nil {
		return nil, err
	}
	r.selection = selection
	environ := config.Environ
	if environ == nil {
		environ = os.Environ()
	}
	r.base, r.dropped = config.Scrub.Apply(environ)
	return r, nil
}

// WorldID implements [seam.Subprocess].
func (r *Runtime) WorldID() string { return r.config.WorldID }

// DroppedEnv returns the names, not the values, of the variables that the base
// environment was scrubbed of.
func (r *Runtime) DroppedEnv() []string { return slices.Clone(r.dropped) }

// Containment implements [seam.Subprocess].
func (r *Runtime) Containment(ctx context.Context) (seam.Containment, error) {
	if ctx.Err() != nil {
		return seam.Containment{}, seam.Aborted(ctx, "containment", "")
	}
	launcher, err := r.selection.choose(ctx)
	if err != nil {
		return seam.Containment{}, err
	}
	return launcher.Containment(), nil
}

// Attempts returns the ways to own launches that the last choice tried, the
// strongest first, and why they are not used. It is what Containment's Reason
// says, for programs.
func (r *Runtime) Attempts() []Attempt { return r.selection.last() }

// Start removes what runtimes that died have left on this host. The first
// launch does it too, where Start was not called.
func (r *Runtime) Start(context.Context) error {
	r.sweep.Do(func() {
		if err := r.spill.sweep(); err != nil {
			r.logger.Warn("spill of dead runtimes was not removed", "err", err)
		}
	})
	return nil
}

// Spawn implements [seam.Subprocess].
func (r *Runtime) Spawn(ctx context.Context, spec seam.Spec) (seam.Process, error) {
	if err := spec.Validate(filepath.IsAbs); err != nil {
		return nil, err
	}
	p, err := r.start(ctx, &spec, func() (stdio, error) { return openStreams(&spec) })
	if err != nil {
		return nil, err
	}
	return p, nil
}

// start launches what a valid spec asks for, on what open opens.
func (r *Runtime) start(ctx context.Context, spec *seam.Spec, open func() (stdio, error)) (*managed.Process, error) {
	argv0 := spec.Argv[0]
	if ctx.Err() != nil {
		return nil, seam.Aborted(ctx, "spawn", argv0)
	}
	launcher, err := r.selection.choose(ctx)
	if err != nil {
		return nil, err
	}
	if err := permits(launcher.Containment(), spec); err != nil {
		return nil, err
	}
	name, refused := r.admit(spec.Name)
	if refused != nil {
		refused.Argv0 = argv0
		return nil, refused
	}
	defer r.starting.Done()
	var p *managed.Process
	var launchErr error
	if spec.Detach {
		p, launchErr = r.launchDetached(ctx, launcher, name, spec)
	} else {
		p, launchErr = r.launch(ctx, launcher, name, spec, open)
	}
	if launchErr != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.names, name)
		return nil, launchErr
	}
	r.publish(p)
	return p, nil
}

// publish puts a process that was launched into the live set.
func (r *Runtime) publish(p *managed.Process) {
	r.mu.Lock()
	r.live[p] = struct{}{}
	r.mu.Unlock()
	p.Run() // which ends in released, so only now
}

// permits refuses what a containment can't do.
func permits(containment seam.Containment, spec *seam.Spec) error {
	refuse := func(code seam.Code, err error) error {
		return &seam.OpError{Op: "spawn", Argv0: spec.Argv[0], Code: code, Err: err}
	}
	if spec.Require == seam.CompleteContainment && !containment.Complete {
		return refuse(seam.CodeContainment, &seam.FieldError{Field: "Require", Problem: fmt.Sprintf(
			"is complete containment, and this host gives %q (%s)", containment.Kind, containment.Reason)})
	}
	// The others learn from the kernel what they can enforce, at the launch.
	limitless := containment.Kind != seam.KindScope && containment.Kind != seam.KindCgroup
	if limits := spec.Limits.Set(); len(limits) > 0 && limitless {
		return refuse(seam.CodeUnsupported, refusedLimit(limits[0], containment.Kind, errNoController))
	}
	if spec.Detach && !keepable(containment.Kind) {
		return refuse(seam.CodeUnsupported, &seam.FieldError{Field: "Detach", Problem: fmt.Sprintf(
			"can't be had with containment %q: nothing could tell what of it still lives, or end it", containment.Kind)})
	}
	return nil
}

// errNoController is why most kinds enforce no limit.
var errNoController = errors.New("it has no resource controllers")

func refusedLimit(field string, kind seam.Kind, reason error) *seam.FieldError {
	return &seam.FieldError{Field: field, Problem: fmt.Sprintf("can't be enforced by containment %q: %v", kind, reason)}
}

// admit reserves a name, and counts a launch under way.
func (r *Runtime) admit(name string) (string, *seam.OpError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return "", &seam.OpError{Op: "spawn", Code: seam.CodeClosed, Err: seam.ErrClosed}
	}
	if name == "" {
		name = "run-" + strings.ToLower(rand.Text()[:10])
	}
	if _, taken := r.names[name]; taken {
		return "", &seam.OpError{Op: "spawn", Code: seam.CodeNameInUse,
			Err: &seam.FieldError{Field: "Name", Problem: fmt.Sprintf("is in use by a live range: %q", name)}}
	}
	r.names[name] = struct{}{}
	r.starting.Add(1)
	return name, nil
}

// proved frees the name of an empty range.
func (r *Runtime) proved(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.names, name)
}

// released takes an empty range out of the live set.
func (r *Runtime) released(p *managed.Process, err error) {
	if err != nil {
		r.logger.Error("range was not released", "name", p.Name(), "err", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, p)
}

// launch starts the target.
func (r *Runtime) launch(ctx context.Context, launcher owner.Launcher, name string, spec *seam.Spec, open func() (stdio, error)) (*managed.Process, error) {
	request, err := r.resolve(ctx, spec)
	if err != nil {
		return nil, err
	}
	return r.launchRequest(ctx, launcher, name, spec, request, open)
}

// launchRequest starts a target of which everything is known.
func (r *Runtime) launchRequest(ctx context.Context, launcher owner.Launcher, name string, spec *seam.Spec, request owner.Request, open func() (stdio, error)) (*managed.Process, error) {
	if err := r.prepare(ctx, launcher.Containment()); err != nil {
		return nil, &seam.OpError{Op: "spawn", Argv0: spec.Argv[0], Code: seam.CodeIO, Err: err}
	}
	streams, err := open()
	if err != nil {
		code := seam.CodeIO
		if errors.Is(err, errors.ErrUnsupported) {
			code = seam.CodeUnsupported
		}
		return nil, &seam.OpError{Op: "spawn", Argv0: spec.Argv[0], Code: code, Err: err}
	}
	request.Stdio, request.Terminal = streams.files()
	request.Limits = spec.Limits
	direct, own, err := launcher.Launch(ctx, request)
	if script, ok := asScript(request, err); ok {
		direct, own, err = launcher.Launch(ctx, script)
	}
	streams.closeTarget()
	if err != nil {
		streams.closeOurs()
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return nil, seam.Aborted(ctx, "spawn", spec.Argv[0])
		}
		return nil, explain(err, request)
	}

	params := managed.Params{
		Name:        name,
		Argv:        spec.Argv,
		Containment: launcher.Containment(),
		Grace:       spec.Grace,
		Drain:       spec.Drain,
		Direct:      direct,
		Owner:       own,
		Data:        spec.Stdin.Data,
		Proved:      func() { r.proved(name) },
		Released:    r.released,
	}
	streams.hand(r, spec, &params)
	return managed.New(params), nil
}

// prepare is done before each launch, and before any part of it.
func (r *Runtime) prepare(ctx context.Context, c seam.Containment) error {
	if err := r.Start(ctx); err != nil {
		return err
	}
	r.answer.Do(r.listen)
	if !c.Complete {
		r.warn.Do(func() {
			facts := []any{"containment", c.Kind, "escapes", strings.Join(c.Escapes, "; ")}
			if c.Reason != "" {
				facts = append(facts, "reason", c.Reason)
			}
			r.logger.Warn("commands can leave processes behind", facts...)
		})
	}
	if r.config.KeepInheritable {
		return nil
	}
	return cleanInheritable()
}

// Close ends the runtime: it refuses further launches, terminates every live
// range, and waits until all of them are proven empty and everything that
// worked for them has been joined. Detached ranges that were not asked to end
// live on, and are not this runtime's any more. Streams that callers have left open are
// closed, and the spill directory is removed.
//
// When ctx ends, or had ended before, the remaining ranges are killed without
// further grace, and Close goes on to wait for the proof. Its error names the
// ranges that could not be proven empty, as far as the ladder bounds the wait;
// they stay in the live set, and Close may be called again.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.starting.Wait() // after this the live set only shrinks

	var live []*managed.Process
	for _, p := range r.liveRanges() {
		if p.Detached() && p.Abandon() {
			continue
		}
		p.Terminate(seam.ErrClosed)
		live = append(live, p)
	}
	// KillAll may still be running when Close returns; a range that is proven
	// empty gets no signal from it.
	calm := context.AfterFunc(ctx, r.KillAll)
	defer calm()

	errs := make([]error, len(live))
	var joined sync.WaitGroup
	for i, p := range live {
		joined.Go(func() { errs[i] = join(p) })
	}
	joined.Wait()
	for _, pipe := range r.openPipes() {
		_ = pipe.Close()
	}
	// Also where something could not be proven: nothing is launched any more,
	// and the end of a guardian is one more way to end what is left.
	errs = append(errs, r.selection.Close(ctx), r.spill.Close(), r.stopListening())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close local runtime: %w", err)
	}
	return nil
}

// join waits for the end of a range that was terminated. The ladder bounds it:
// what KILL does not end is reported by WaitEmpty.
func join(p *managed.Process) error {
	p.Hurry()
	if err := p.WaitEmpty(context.Background()); err != nil {
		return fmt.Errorf("range %s: %w", p.Name(), err)
	}
	<-p.Done()
	return nil
}

// KillAll sends KILL to every live range and returns when it was sent. It waits
// for nothing, and claims nothing about what lives: it is for a harness that
// has no time left. Close is the proof.
func (r *Runtime) KillAll() {
	for _, p := range r.liveRanges() {
		if p.Detached() && !p.Terminated() {
			continue
		}
		if err := p.Kill(seam.ErrClosed); err != nil {
			r.logger.Error("kill", "name", p.Name(), "err", err)
		}
	}
}

func (r *Runtime) liveRanges() []*managed.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.live))
}

func (r *Runtime) openPipes() []*callerPipe {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.pipes))
}

// A callerPipe is our end of a pipe that a caller reads or writes and closes.
type callerPipe struct {
	*os.File
	runtime *Runtime
}

var (
	_ io.ReadCloser  = (*callerPipe)(nil)
	_ io.WriteCloser = (*callerPipe)(nil)
)

// handOut remembers f until the caller closes it.
func (r *Runtime) handOut(f *os.File) *callerPipe {
	pipe := &callerPipe{File: f, runtime: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pipes[pipe] = struct{}{}
	return pipe
}

// Close closes the stream. Closing it again gives os.ErrClosed.
func (p *callerPipe) Close() error {
	p.runtime.mu.Lock()
	delete(p.runtime.pipes, p)
	p.runtime.mu.Unlock()
	return p.File.Close()
}
