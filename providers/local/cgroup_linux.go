package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/cgroup"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/runner"
	"github.com/corral-world/corral/seam"
)

// unitPrefix begins the name of every cgroup and unit that holds a range.
const unitPrefix = "corral-"

// newName is a name that nothing else has had.
func newName() string { return strings.ToLower(rand.Text()) }

// newUnitName is a unit's, without its type.
func newUnitName() string { return unitPrefix + newName() }

// cgroupLauncher starts each target inside a cgroup of its own below base.
type cgroupLauncher struct {
	base   string // an existing cgroup that we may make others in
	prefix string // begins the names of those

	// vacate moves what lives in base itself out of the way of controllers; nil
	// where that is not ours to move.
	vacate   func() error
	enabling sync.Mutex // held while controllers are enabled
}

var _ owner.Launcher = (*cgroupLauncher)(nil)

// Containment implements [owner.Launcher].
func (l *cgroupLauncher) Containment() seam.Containment {
	return seam.Containment{Kind: seam.KindCgroup, Complete: true, Escapes: nativeEscapes}
}

// nativeEscapes are those that no owner of the same user can prevent.
var nativeEscapes = []string{
	"a process that asks another service to start one (systemd-run, cron, docker)",
	"a process that writes its own number into another cgroup of this user",
}

// Launch implements [owner.Launcher].
func (l *cgroupLauncher) Launch(_ context.Context, r owner.Request) (owner.Direct, owner.Owner, error) {
	if err := l.enable(r.Limits); err != nil {
		return nil, nil, refuseLimit(seam.KindCgroup, err)
	}
	dir, err := makeCgroup(l.base, l.prefix)
	if err != nil {
		return nil, nil, &ownerError{err}
	}
	defer dir.Close()
	controls := cgroup.ControlsAt(dir.Name())
	err = controls.Set(r.Limits)
	if err == nil {
		err = controls.Verify(r.Limits)
	}
	if err != nil {
		return nil, nil, errors.Join(refuseLimit(seam.KindCgroup, err), cgroup.Remove(dir.Name()))
	}
	direct, err := runner.StartIn(dir, r)
	if err == nil {
		own := cgroup.NewRange(dir.Name(), direct.PID(), nil)
		own.Limit(controls, r.Limits)
		return direct, own, nil
	}
	// What the system said may be of the cgroup or of the target: EACCES and
	// ENOENT are either's. A program that is known to be good tells.
	if probeErr := probeClone(dir); probeErr != nil {
		err = &ownerError{fmt.Errorf("start in %s: %w", dir.Name(), probeErr)}
	}
	return nil, nil, errors.Join(err, cgroup.Remove(dir.Name()))
}

// enable makes the controllers that limits need available below base, at the
// first launch that needs them.
func (l *cgroupLauncher) enable(limits seam.Limits) error {
	if len(limits.Set()) == 0 {
		return nil
	}
	l.enabling.Lock()
	defer l.enabling.Unlock()
	return cgroup.Enable(l.base, limits, l.vacate)
}

// refuseLimit names the limit that a launch was refused for.
func refuseLimit(kind seam.Kind, err error) error {
	if limit, ok := errors.AsType[*cgroup.LimitError](err); ok {
		return refusedLimit(limit.Field, kind, limit.Reason)
	}
	return &ownerError{err}
}

// makeCgroup makes a cgroup below base, and opens it.
func makeCgroup(base, prefix string) (*os.File, error) {
	path := filepath.Join(base, prefix+newName())
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	// The umask is the harness's, and may let nobody in.
	if err := os.Chmod(path, 0o755); err != nil {
		return nil, errors.Join(err, cgroup.Remove(path))
	}
	dir, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	if err != nil {
		return nil, errors.Join(err, cgroup.Remove(path))
	}
	return dir, nil
}

// probeClone starts a program that is known to be good in a cgroup, and waits
// for its end.
func probeClone(dir *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	direct, err := runner.StartIn(dir, runner.Probe([3]*os.File{null, null, null}))
	if err != nil {
		return err
	}
	exit := direct.Wait()
	if err := direct.Release(); err != nil {
		return err
	}
	if exit.Code != 0 {
		return fmt.Errorf("probe ended with code %d, signal %s", exit.Code, exit.Signal.Name)
	}
	return nil
}

// tryCgroup reports whether targets can be started in cgroups below base, by
// doing it.
func tryCgroup(base string) error {
	if err := cgroup.Supported(base); err != nil {
		return err
	}
	dir, err := makeCgroup(base, unitPrefix)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Access(filepath.Join(dir.Name(), "cgroup.kill"), unix.W_OK)
	if err != nil {
		err = fmt.Errorf("no cgroup.kill: Linux 5.14 is needed: %w", err)
	} else {
		err = probeClone(dir)
	}
	return errors.Join(err, cgroup.Remove(dir.Name()))
}
