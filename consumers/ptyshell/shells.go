package ptyshell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/corral-world/corral/seam"
)

// Shells keeps sessions for their owners. Make it with [New], end it with
// [Shells.Close]. All methods may be called concurrently.
type Shells struct {
	world  *seam.World
	config Config

	mu      sync.Mutex
	closed  bool
	closing map[string]int // CloseOwner calls under way, by owner
	entries map[*entry]struct{}
	nextID  int
}

// An entry is a session from before its start to the end of its close, or one
// whose start was rolled back and whose rollback failed.
type entry struct {
	owner, name string
	abort       context.CancelCauseFunc // of its start
	started     chan struct{}           // closed when the start is over, either way

	// Guarded by Shells.mu.
	session   *Session
	published bool
	close     chan struct{} // closed when the close under way is over; nil: there is none
	closeErr  error
}

// New returns Shells on world. It acquires nothing.
//
// Errors: CodeInvalid names the field of config.
func New(world *seam.World, config Config) (*Shells, error) {
	if bad := config.validate(); bad != nil {
		return nil, &seam.OpError{Op: "new shells", Code: seam.CodeInvalid, Err: bad}
	}
	config.Args = slices.Clone(config.Args)
	return &Shells{
		world: world, config: config,
		closing: make(map[string]int),
		entries: make(map[*entry]struct{}),
	}, nil
}

// An Open asks for a session.
type Open struct {
	Owner string // "" is the owner of all that have none

	// Name, where it is not "", is the owner's for no other session.
	Name string

	// Dir is where the shell begins: absolute, or relative to Config.Dir. "":
	// Config.Dir.
	Dir string

	// Env is between the session's environment and Config.Environ.
	Env seam.Env

	// Cols and Rows replace Config's where they are not 0.
	Cols, Rows uint16

	// Range is the name of the terminal's range, as in [seam.TerminalSpec].
	Range string
}

// Open starts a shell and returns when it is ready for a command. ctx bounds the
// start; when it ends the start is rolled back and the error matches its cause,
// whatever comes of the rollback.
//
// Errors: [ErrClosed], [ErrOwnerClosed], [ErrNameInUse], [ErrStart], those of
// Config.Environ, Config.Confine and [seam.Subprocess]; a [*CleanupError] where
// the rollback failed.
func (h *Shells) Open(ctx context.Context, open Open) (*Session, error) {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	e, id, err := h.admit(open, abort)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	defer close(e.started)

	session, err := h.start(ctx, e, id, open)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		// The last moment to refuse: then the session is the owner's to close.
		if err = h.refusal(open.Owner); err == nil && ctx.Err() != nil {
			err = seam.Aborted(ctx, "open session", "")
		}
		if err == nil {
			e.published = true
			return session, nil
		}
	}
	if session != nil {
		err = h.rollBack(e, err)
	}
	if e.session == nil {
		delete(h.entries, e)
	}
	return nil, fmt.Errorf("open session: %w", err)
}

// rollBack closes a session that is not published. h.mu is held, but while it does.
func (h *Shells) rollBack(e *entry, cause error) error {
	h.mu.Unlock()
	// The ladder bounds it, and the session's own waiting has ended.
	quiescent, err := e.session.close(context.Background())
	h.mu.Lock()
	if quiescent {
		e.session = nil
		return cause
	}
	return &CleanupError{Err: cause, Cleanup: err}
}

// admit reserves a place for a session.
func (h *Shells) admit(open Open, abort context.CancelCauseFunc) (*entry, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refusal(open.Owner); err != nil {
		return nil, "", err
	}
	if open.Name != "" {
		for e := range h.entries {
			if e.owner == open.Owner && e.name == open.Name {
				return nil, "", fmt.Errorf("%w: %q", ErrNameInUse, open.Name)
			}
		}
	}
	h.nextID++
	e := &entry{owner: open.Owner, name: open.Name, abort: abort, started: make(chan struct{})}
	h.entries[e] = struct{}{}
	return e, fmt.Sprintf("pty-%d", h.nextID), nil
}

// refusal says why an owner can have no session. h.mu is held.
func (h *Shells) refusal(owner string) error {
	switch {
	case h.closed:
		return ErrClosed
	case h.closing[owner] > 0:
		return ErrOwnerClosed
	}
	return nil
}

// start starts a shell and has it ready. A session beside an error lives.
func (h *Shells) start(ctx context.Context, e *entry, id string, open Open) (*Session, error) {
	spec, err := h.spec(ctx, open)
	if err != nil {
		return nil, err
	}
	terminal, err := h.world.Subprocess().SpawnTerminal(ctx, spec)
	if err != nil {
		return nil, err
	}
	s := newSession(&h.config, id, open.Name, open.Owner, terminal)
	h.mu.Lock()
	e.session = s
	h.mu.Unlock()
	x, err := s.Start(context.WithoutCancel(ctx), Request{Text: setup(s.nonce), Submit: true, setup: true})
	if err != nil {
		return s, err
	}
	select {
	case <-x.Settled():
	case <-ctx.Done():
		// Not interrupted but ended: whatever call is stuck ends with the terminal.
		return s, seam.Aborted(ctx, "open session", "")
	}
	result, err := x.Wait(context.WithoutCancel(ctx))
	if err == nil && result.Reason != ReasonPrompt && result.Reason != ReasonStdinRead {
		err = errNotReady(result)
	}
	return s, err
}

// spec is the launch of a shell.
func (h *Shells) spec(ctx context.Context, open Open) (seam.TerminalSpec, error) {
	c := h.config
	spec := seam.TerminalSpec{
		Cols: cmp.Or(open.Cols, c.Cols), Rows: cmp.Or(open.Rows, c.Rows),
		Grace: c.Grace, Name: open.Range, Limits: c.Limits, Require: c.Require,
	}
	dir, err := h.dir(ctx, open)
	if err != nil {
		return spec, err
	}
	spec.Dir = dir
	shell, err := h.world.Subprocess().LookPath(ctx, c.Shell, open.Env)
	if err != nil {
		return spec, fmt.Errorf("find the shell: %w", err)
	}
	spec.Argv = append([]string{shell}, c.Args...)
	if c.Confine != nil {
		if spec.Argv, err = c.Confine(ctx, open.Owner, spec.Argv); err != nil {
			return spec, fmt.Errorf("confine the shell: %w", err)
		}
		if len(spec.Argv) == 0 {
			return spec, invalid("confine the shell", "Argv", "is empty")
		}
	}
	spec.Env = append(sessionEnv(c.Term), open.Env...)
	if c.Environ != nil {
		managed, err := c.Environ(ctx, open.Owner)
		if err != nil {
			return spec, err
		}
		spec.Env = append(spec.Env, managed...)
	}
	return spec, nil
}

// dir resolves where a shell begins, through the world's filesystem as the file
// tools name it.
func (h *Shells) dir(ctx context.Context, open Open) (string, error) {
	dir := cmp.Or(open.Dir, h.config.Dir)
	target, err := h.world.FS().Resolve(ctx, dir, h.config.Dir)
	if seam.CodeOf(err) == seam.CodeNotFound {
		return "", &seam.OpError{Op: "open session", Path: dir, Code: seam.CodeNotDir, Err: err}
	}
	if err != nil {
		return "", fmt.Errorf("directory of the session: %w", err)
	}
	return h.world.FS().ProcessPath(target)
}

// Session returns a session of owner.
//
// Errors: [ErrNotFound], also for a session of someone else.
func (h *Shells) Session(owner, id string) (*Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.find(owner, id)
	if err != nil {
		return nil, err
	}
	return e.session, nil
}

// find finds a published session. h.mu is held.
func (h *Shells) find(owner, id string) (*entry, error) {
	for e := range h.entries {
		if e.published && e.owner == owner && e.session.id == id {
			return e, nil
		}
	}
	return nil, fmt.Errorf("%w: %q", ErrNotFound, id)
}

// List returns the sessions of owner, the oldest first.
func (h *Shells) List(owner string) []Info {
	h.mu.Lock()
	var sessions []*Session
	for e := range h.entries {
		if e.published && e.owner == owner {
			sessions = append(sessions, e.session)
		}
	}
	h.mu.Unlock()
	infos := make([]Info, 0, len(sessions))
	for _, s := range sessions {
		infos = append(infos, s.Info())
	}
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return infos
}

// Active reports whether owner has a session, one that is being started or
// closed, or one that a failed rollback may have left.
func (h *Shells) Active(owner string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := range h.entries {
		if e.owner == owner {
			return true
		}
	}
	return false
}

// CloseSession ends a session and everything that was started in it, and forgets
// it. It returns whether this call ended it: where another one is at it, that is
// waited for. ctx bounds the waiting. After an error the session is still there,
// and may be closed again, unless the error is what had ended it before.
func (h *Shells) CloseSession(ctx context.Context, owner, id string) (bool, error) {
	h.mu.Lock()
	e, err := h.find(owner, id)
	h.mu.Unlock()
	if err != nil {
		return false, err
	}
	return h.closeEntry(ctx, e)
}

func (h *Shells) closeEntry(ctx context.Context, e *entry) (bool, error) {
	h.mu.Lock()
	if under := e.close; under != nil {
		h.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		return false, e.closeErr
	}
	over := make(chan struct{})
	e.close = over
	session := e.session
	h.mu.Unlock()

	quiescent, err := session.close(ctx)

	h.mu.Lock()
	defer h.mu.Unlock()
	e.close, e.closeErr = nil, err
	close(over)
	if quiescent {
		delete(h.entries, e)
	}
	return quiescent, err
}

// CloseOwner ends what owner has: sessions that are being started, too. Others
// are not touched, and owner may open anew when it has returned. ctx bounds the
// waiting: the error then names what had not ended, and those sessions stay.
func (h *Shells) CloseOwner(ctx context.Context, owner string) error {
	h.mu.Lock()
	h.closing[owner]++
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.closing[owner]--; h.closing[owner] == 0 {
			delete(h.closing, owner)
		}
	}()
	return h.endAll(ctx, ErrOwnerClosed, func(o string) bool { return o == owner })
}

// Close ends all sessions and refuses new ones. ctx bounds the waiting, as in
// CloseOwner; without an error nothing of a session runs any more.
func (h *Shells) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	return h.endAll(ctx, ErrClosed, func(string) bool { return true })
}

// endAll ends the sessions of the chosen owners, all at once. The caller has seen
// to it that they open no others.
func (h *Shells) endAll(ctx context.Context, cause error, chosen func(owner string) bool) error {
	h.mu.Lock()
	var all []*entry
	for e := range h.entries {
		if chosen(e.owner) {
			all = append(all, e)
		}
	}
	h.mu.Unlock()
	errs := make([]error, len(all))
	var closers sync.WaitGroup
	for i, e := range all {
		closers.Go(func() { errs[i] = h.endEntry(ctx, cause, e) })
	}
	closers.Wait()
	return errors.Join(errs...)
}

func (h *Shells) endEntry(ctx context.Context, cause error, e *entry) error {
	e.abort(cause)
	select {
	case <-e.started:
	case <-ctx.Done():
		return fmt.Errorf("session being started: %w", context.Cause(ctx))
	}
	h.mu.Lock()
	_, there := h.entries[e]
	h.mu.Unlock()
	if !there {
		return nil
	}
	_, err := h.closeEntry(ctx, e)
	return err
}
