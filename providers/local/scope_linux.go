package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/corral-world/corral/internal/cgroup"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/runner"
	"github.com/corral-world/corral/internal/systemd"
	"github.com/corral-world/corral/seam"
)

// startTimeout bounds what a manager may take for one launch where the caller's
// context does not: a manager that hangs must not hang its callers.
const startTimeout = 25 * time.Second

// scopeLauncher starts each target in a transient scope of its own. The target's
// bootstrap is put there while it holds, so nothing of the target runs before.
//
// The scope is bound to the guardian's unit: when the guardian ends, for this
// process's end or its own, the manager kills the scope.
type scopeLauncher struct {
	hierarchy cgroup.Hierarchy
	bus       *bus
	guardian  string // its unit

	noOOMPolicy atomic.Bool // found out at the first launch
}

var errNoOOMPolicy = errors.New("no OOMPolicy")

var _ owner.Launcher = (*scopeLauncher)(nil)

// Containment implements [owner.Launcher].
func (l *scopeLauncher) Containment() seam.Containment {
	return seam.Containment{Kind: seam.KindScope, Complete: true, Escapes: nativeEscapes}
}

// Launch implements [owner.Launcher].
func (l *scopeLauncher) Launch(ctx context.Context, r owner.Request) (owner.Direct, owner.Owner, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	manager, err := l.bus.manager(ctx)
	if err != nil {
		return nil, nil, &ownerError{err}
	}
	held, err := runner.Hold(r)
	if err != nil {
		return nil, nil, &ownerError{err}
	}
	unit := newUnitName() + ".scope"
	if r.Limits.Pids > 0 {
		err = held.WaitReady(ctx)
	}
	var scope *cgroup.Range
	if err == nil {
		scope, err = l.enter(ctx, manager, unit, held, r)
	}
	if err != nil {
		held.Abandon()
		held.Wait()
		err = errors.Join(err, held.Release())
		// Only now: a unit that is given a dead process is not made, one that
		// is given a zombie stays for good.
		l.bus.forget(unit)
		return nil, nil, &ownerError{err}
	}
	if err := held.Become(ctx, r); err != nil {
		var errno syscall.Errno
		if errors.Is(err, runner.ErrLost) || !errors.As(err, &errno) {
			err = &ownerError{err}
		}
		return nil, nil, abandonStarted(held, scope, err)
	}
	return held.Direct, scope, nil
}

// try starts and ends a scope.
func (l *scopeLauncher) try(ctx context.Context) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	direct, scope, err := l.Launch(ctx, runner.Probe([3]*os.File{null, null, null}))
	if err != nil {
		return err
	}
	exit := direct.Wait()
	if err := scope.WaitEmpty(ctx); err != nil {
		return errors.Join(err, direct.Release())
	}
	if exit.Code != 0 {
		err = fmt.Errorf("probe ended with code %d, signal %s", exit.Code, exit.Signal.Name)
	}
	return errors.Join(err, scope.Close(), direct.Release())
}

// enter puts a held process into a scope and returns the scope as its owner,
// once the kernel says that it is in there: a job that is done is no proof.
func (l *scopeLauncher) enter(ctx context.Context, manager *systemd.Manager, unit string, held *runner.Held, r owner.Request) (*cgroup.Range, error) {
	properties := append(limitProperties(r.Limits), []systemd.Property{
		{Name: "Description", Value: describeUnit(r.Argv[0])},
		{Name: "PIDs", Value: []uint32{uint32(held.PID())}},
		{Name: "DefaultDependencies", Value: false},
		{Name: "CollectMode", Value: "inactive-or-failed"},
		{Name: "KillMode", Value: "control-group"},
		// TERM is sent by us; whoever stops the unit means it.
		{Name: "KillSignal", Value: int32(9)},
		{Name: "SendSIGKILL", Value: true},
		{Name: "BindsTo", Value: []string{l.guardian}},
		{Name: "After", Value: []string{l.guardian}},
	}...)
	err := errNoOOMPolicy
	if !l.noOOMPolicy.Load() {
		err = manager.StartTransient(ctx, unit, append(properties, systemd.Property{Name: "OOMPolicy", Value: "continue"}))
	}
	if errors.Is(err, errNoOOMPolicy) || systemd.ReadOnlyProperty(err) {
		// Old managers have none for scopes.
		l.noOOMPolicy.Store(true)
		err = manager.StartTransient(ctx, unit, properties)
	}
	if err != nil {
		return nil, err
	}
	path, err := cgroup.Of(held.PID())
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", unit, err)
	}
	if !strings.HasSuffix(path, "/"+unit) {
		return nil, fmt.Errorf("verify %s: the process is in %s", unit, path)
	}
	dir, err := l.hierarchy.Dir(path)
	if err != nil {
		return nil, err
	}
	// The manager removes the cgroup of a scope that ran empty.
	release := func(ctx context.Context) error { return l.bus.release(ctx, manager, unit) }
	scope := cgroup.NewRange(dir, held.PID(), release)
	if err := limitScope(scope, unit, dir, held, r.Limits); err != nil {
		return nil, err
	}
	return scope, nil
}

// limitProperties ask a manager for limits.
func limitProperties(limits seam.Limits) []systemd.Property {
	var list []systemd.Property
	if limits.MemoryBytes > 0 {
		list = append(list,
			systemd.Property{Name: "MemoryMax", Value: uint64(limits.MemoryBytes)},
			systemd.Property{Name: "MemorySwapMax", Value: uint64(0)})
	}
	if limits.Pids > 0 {
		list = append(list, systemd.Property{Name: "TasksMax", Value: uint64(limits.Pids)})
	}
	if limits.CPUs > 0 {
		const most = 1 << 40 // in a second, which is more than any system has
		list = append(list, systemd.Property{Name: "CPUQuotaPerSecUSec", Value: uint64(max(1, min(most, limits.CPUs*1e6)))})
	}
	return list
}

// limitScope sees whether the kernel enforces limits: the manager says that it
// does where a controller is not there, too.
func limitScope(scope *cgroup.Range, unit, dir string, held *runner.Held, limits seam.Limits) error {
	if len(limits.Set()) == 0 {
		return nil
	}
	controls, err := cgroup.ControlsOf(held.PID(), unit, dir)
	if err != nil {
		return fmt.Errorf("verify %s: %w", unit, err)
	}
	if err := controls.Verify(limits); err != nil {
		return refuseLimit(seam.KindScope, err)
	}
	scope.Limit(controls, limits)
	return scope.WatchLimits()
}

// abandonStarted ends a range whose target could not be started, and returns
// once nothing of it lives.
func abandonStarted(held *runner.Held, scope *cgroup.Range, err error) error {
	killErr := scope.Signal(owner.Kill)
	held.Wait()
	emptyErr := scope.WaitEmpty(context.Background())
	return errors.Join(err, killErr, emptyErr, scope.Close(), held.Release())
}

// describeUnit is all that a unit says of its command: the program's name, not
// its arguments, which everyone may read.
func describeUnit(argv0 string) string {
	const maxBytes = 64
	name := strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(argv0, "?"))
	if len(name) > maxBytes {
		name = strings.ToValidUTF8(name[:maxBytes], "")
	}
	return "Corral: " + name
}
