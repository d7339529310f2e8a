package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/cgroup"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/runner"
	"github.com/corral-world/corral/internal/systemd"
	"github.com/corral-world/corral/providers/fallback"
	"github.com/corral-world/corral/seam"
)

// selection chooses the owner of each launch, before any side effect of the
// target. What was found to work is kept as long as a cheap look says that it
// still does; what was found not to is tried again at the next launch.
type selection struct {
	forced  seam.Kind    // "" for the strongest
	choices atomic.Int64 // how often one was made

	turn     chan struct{} // holds a token for who reads or changes what follows
	closed   bool
	chosen   owner.Launcher // nil until something worked
	usable   func() bool    // whether chosen still is
	resort   owner.Launcher // what the last choice came to where nothing worked that is kept
	refusal  error          // likewise
	attempts []Attempt      // of the last choice
	bus      *bus           // nil where no manager was looked for yet
	guardian *guardian      // nil where none was started
	subtree  *subtreeGuardian

	keeps   bool // it chooses for a detached range's keeper
	ownUnit bool // likewise, whose cgroup is a delegated unit of its own

	reaper  *fallback.Reaper
	group   fallback.Group // what is left where nothing else is to be had
	private *privateDir
}

func newSelection(forced seam.Kind, private *privateDir) (*selection, error) {
	if err := checkKind(forced); err != nil {
		return nil, err
	}
	return &selection{forced: forced, turn: make(chan struct{}, 1), reaper: fallback.NewReaper(), group: fallback.NewGroup(), private: private}, nil
}

// tryTimeout bounds one try: a manager that hangs is none. One on a host that is
// short of processors can take seconds to start a unit.
const tryTimeout = 15 * time.Second

// An option is one way to own launches.
type option struct {
	kind  seam.Kind
	where string
	try   func(context.Context) (launcher owner.Launcher, usable func() bool, err error)
}

// choose returns the launcher of the next launch.
func (s *selection) choose(ctx context.Context) (owner.Launcher, error) {
	before := s.choices.Load()
	select {
	case s.turn <- struct{}{}:
		defer s.done()
	case <-ctx.Done(): // who chooses may wait for a manager that hangs
		return nil, seam.Aborted(ctx, "select containment", "")
	}
	if s.closed {
		return nil, &seam.OpError{Op: "select containment", Code: seam.CodeClosed, Err: seam.ErrClosed}
	}
	if s.chosen != nil && s.usable() {
		return s.chosen, nil
	}
	if s.chosen == nil && s.choices.Load() != before {
		// Someone has just found that nothing better is to be had.
		return s.resort, s.refusal
	}
	s.chosen, s.attempts = nil, nil
	launcher, err := s.try(ctx)
	if seam.CodeOf(err) != seam.CodeAborted {
		s.choices.Add(1)
		s.resort, s.refusal = launcher, err
	}
	return launcher, err
}

// try tries the options in their order.
func (s *selection) try(ctx context.Context) (owner.Launcher, error) {
	var reasons []string
	for _, o := range s.options() {
		if s.forced != "" && s.forced != o.kind {
			continue
		}
		launcher, usable, err := o.try(ctx)
		if errors.Is(err, systemd.ErrLost) {
			launcher, usable, err = o.try(ctx) // the next connection may live longer
		}
		if ctx.Err() != nil {
			// What failed may have failed for that: it is no reason for less.
			return nil, seam.Aborted(ctx, "select containment", "")
		}
		s.attempts = append(s.attempts, Attempt{Kind: o.kind, Where: o.where, Err: err})
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("%s (%s): %v", o.kind, o.where, err))
			continue
		}
		if reaper, ok := launcher.(*fallback.Reaper); ok {
			reaper.Explain(strings.Join(reasons, "; "))
			return reaper, nil // not kept either: something stronger may be had next time
		}
		if group, ok := launcher.(fallback.Group); ok {
			group.Reason = strings.Join(reasons, "; ")
			return group, nil // not kept: something stronger may be had next time
		}
		s.chosen, s.usable = launcher, usable
		return launcher, nil
	}
	if len(reasons) == 0 {
		reasons = []string{noOwner}
	}
	return nil, notToBeHad(s.forced, strings.Join(reasons, "; "))
}

func (s *selection) done() { <-s.turn }

// options are in the order in which they are tried.
func (s *selection) options() []option {
	if s.keeps {
		options := []option{
			{seam.KindCgroup, "inside the Corral range that this process is in", s.tryNested},
			{seam.KindCgroup, "this process's own cgroup", s.tryOwn},
			{seam.KindReaper, "a supervisor for each launch", s.tryReaper},
		}
		if s.ownUnit {
			options[0] = option{seam.KindCgroup, "the unit of this process", s.tryOwnUnit}
		}
		return options
	}
	return []option{
		{seam.KindCgroup, "inside the Corral range that this process is in", s.tryNested},
		{seam.KindCgroup, "a delegated unit of the systemd manager", s.tryDelegated},
		{seam.KindScope, "a transient scope of the systemd manager", s.tryScope},
		{seam.KindCgroup, "this process's own cgroup", s.tryOwn},
		{seam.KindReaper, "a supervisor for each launch", s.tryReaper},
		{seam.KindGroup, "a session", func(context.Context) (owner.Launcher, func() bool, error) {
			return s.group, nil, s.group.Try()
		}},
	}
}

// last returns the attempts of the last choice.
func (s *selection) last() []Attempt {
	s.turn <- struct{}{}
	defer s.done()
	return append([]Attempt(nil), s.attempts...)
}

// Close ends what the selection started. Every range is empty by then.
func (s *selection) Close(ctx context.Context) error {
	s.turn <- struct{}{}
	defer s.done()
	s.closed = true
	err := s.dropGuardian(ctx)
	err = errors.Join(err, s.reaper.Close(ctx))
	if s.subtree != nil {
		err = errors.Join(err, s.subtree.stop())
		s.subtree = nil
	}
	if s.bus != nil {
		s.bus.Close()
	}
	return err
}

// ownCgroup is where this process is.
func ownCgroup() (hierarchy cgroup.Hierarchy, path, dir string, err error) {
	if hierarchy, err = cgroup.Find(); err != nil {
		return
	}
	if path, err = cgroup.Of(0); err != nil {
		return
	}
	dir, err = hierarchy.Dir(path)
	return
}

// tryNested: an outer range has to hold the inner ones, or its end would miss
// them.
func (s *selection) tryNested(context.Context) (owner.Launcher, func() bool, error) {
	_, own, dir, err := ownCgroup()
	if err != nil {
		return nil, nil, err
	}
	if !strings.Contains(own, "/"+unitPrefix) {
		return nil, nil, errors.New("this process is in no Corral range")
	}
	return s.inSubtree(dir)
}

// tryOwnUnit: this process is the main process of a unit that ends with it, so
// that no guardian has to.
func (s *selection) tryOwnUnit(context.Context) (owner.Launcher, func() bool, error) {
	_, _, dir, err := ownCgroup()
	if err != nil {
		return nil, nil, err
	}
	if err := tryCgroup(dir); err != nil {
		return nil, nil, err
	}
	vacate := func() error { return cgroup.Vacate(dir, "keeper") }
	return &cgroupLauncher{base: dir, prefix: unitPrefix, vacate: vacate}, func() bool { return true }, nil
}

// tryOwn: this process's own cgroup, where it is this process's to divide.
func (s *selection) tryOwn(context.Context) (owner.Launcher, func() bool, error) {
	hierarchy, own, dir, err := ownCgroup()
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(path.Join(dir, "cgroup.type")); err != nil {
		return nil, nil, errors.New("it is the root of the hierarchy, which is the machine's")
	}
	if err := delegated(hierarchy, own); err != nil {
		return nil, nil, err
	}
	return s.inSubtree(dir)
}

// delegated returns nil where a cgroup that we may write to is ours to divide. A
// manager marks what it gives away (xattr user.delegate or trusted.delegate,
// systemd 251). What a user's own manager has not marked is the manager's,
// though the user may write to it; outside of that a user can write only to
// what was given to them, and root to everything.
func delegated(hierarchy cgroup.Hierarchy, own string) error {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil // no systemd to share with
	}
	for ; own != "/" && own != "."; own = path.Dir(own) {
		if strings.HasPrefix(path.Base(own), "user@") {
			return errors.New("the user's systemd manager has not delegated it")
		}
		if marked(hierarchy, own) {
			return nil
		}
	}
	if os.Getuid() == 0 {
		return errors.New("systemd has not delegated it")
	}
	return nil
}

func marked(hierarchy cgroup.Hierarchy, own string) bool {
	dir, err := hierarchy.Dir(own)
	if err != nil {
		return false
	}
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// inSubtree owns launches by cgroups in a directory that no manager knows: a
// guardian of ours ends them with this process.
func (s *selection) inSubtree(base string) (owner.Launcher, func() bool, error) {
	if !runner.Linked() {
		return nil, nil, runner.ErrNotLinked
	}
	if err := tryCgroup(base); err != nil {
		return nil, nil, err
	}
	if err := s.ensureSubtree(base); err != nil {
		return nil, nil, fmt.Errorf("guardian: %w", err)
	}
	guardian := s.subtree
	return &cgroupLauncher{base: base, prefix: guardian.prefix}, guardian.alive, nil
}

// ensureSubtree starts the guardian of base, or another one where the first was
// lost: it finds by their names the ranges that live.
func (s *selection) ensureSubtree(base string) error {
	prefix := newUnitName() + "-"
	if s.subtree != nil {
		prefix = s.subtree.prefix
		if err := s.subtree.stop(); err != nil {
			return err
		}
		s.subtree = nil
	}
	if err := s.private.noteRanges(base, prefix); err != nil {
		return err
	}
	subtree, err := startSubtreeGuardian(base, prefix)
	if err != nil {
		return err
	}
	s.subtree = subtree
	return nil
}

// tryReaper: the nursery is kept from one choice to the next.
func (s *selection) tryReaper(context.Context) (owner.Launcher, func() bool, error) {
	if err := s.reaper.Try(); err != nil {
		return nil, nil, err
	}
	return s.reaper, nil, nil
}

// manager returns a connection to the manager that this process may ask.
func (s *selection) manager(ctx context.Context) (*systemd.Manager, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b, err := s.managerBus()
	s.done()
	if err != nil {
		return nil, err
	}
	return b.manager(ctx)
}

// managerBus returns the bus of the manager that this process may ask.
func (s *selection) managerBus() (*bus, error) {
	if s.bus != nil {
		return s.bus, nil
	}
	socket, err := systemd.UserBus()
	if err != nil && os.Getuid() == 0 {
		if system, systemErr := systemd.SystemBus(); systemErr == nil {
			socket, err = system, nil
		}
	}
	if err != nil {
		return nil, err
	}
	s.bus = newBus(socket)
	return s.bus, nil
}

// tryDelegated makes a unit that is ours to divide, and keeps it where this
// process may start others in it.
func (s *selection) tryDelegated(ctx context.Context) (owner.Launcher, func() bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	hierarchy, err := cgroup.Find()
	if err != nil {
		return nil, nil, err
	}
	b, err := s.managerBus()
	if err != nil {
		return nil, nil, err
	}
	g, err := s.ensureGuardian(ctx, b, hierarchy)
	if err != nil {
		return nil, nil, err
	}
	// Where it can't be used, scopes are still bound to it.
	if err := tryCgroup(g.dir); err != nil {
		if errors.Is(err, unix.EACCES) {
			err = fmt.Errorf("only processes of the manager's own units can start others in it: %w", err)
		}
		return nil, nil, err
	}
	vacate := func() error { return cgroup.Vacate(g.dir, "guardian") }
	return &cgroupLauncher{base: g.dir, prefix: unitPrefix, vacate: vacate}, g.alive, nil
}

// ensureGuardian returns the guardian that lives, and starts one where none does.
func (s *selection) ensureGuardian(ctx context.Context, b *bus, hierarchy cgroup.Hierarchy) (*guardian, error) {
	if s.guardian != nil {
		if s.guardian.alive() {
			return s.guardian, nil
		}
		_ = s.guardian.pipe.Close() // whoever read it is gone
		s.guardian = nil
	}
	g, err := startGuardian(ctx, b, hierarchy)
	if err != nil {
		return nil, fmt.Errorf("guardian: %w", err)
	}
	s.guardian = g
	return g, nil
}

func (s *selection) dropGuardian(ctx context.Context) error {
	if s.guardian == nil {
		return nil
	}
	g := s.guardian
	s.guardian = nil
	return g.stop(ctx, s.bus)
}

// tryScope: the cheap look is the connection.
func (s *selection) tryScope(ctx context.Context) (owner.Launcher, func() bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	hierarchy, err := cgroup.Find()
	if err != nil {
		return nil, nil, err
	}
	if !runner.Linked() {
		return nil, nil, runner.ErrNotLinked
	}
	b, err := s.managerBus()
	if err != nil {
		return nil, nil, err
	}
	g, err := s.ensureGuardian(ctx, b, hierarchy)
	if err != nil {
		return nil, nil, err
	}
	launcher := &scopeLauncher{hierarchy: hierarchy, bus: b, guardian: g.unit}
	if err := launcher.try(ctx); err != nil {
		return nil, nil, err
	}
	return launcher, func() bool { return b.connected() && g.alive() }, nil
}
