package local

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/godbus/dbus/v5"

	"github.com/corral-world/corral/internal/cgroup"
	"github.com/corral-world/corral/internal/runner"
	"github.com/corral-world/corral/internal/systemd"
)

// guardian is a small process of this program, the main process of a delegated
// unit: the unit, and every range in it, ends with it, and it ends when this
// process does, of whatever, or closes the pipe between them.
type guardian struct {
	unit string
	dir  string   // the unit's cgroup, which is ours to divide
	pipe *os.File // the end that this process holds open
}

// startGuardian starts a guardian in a service of its own.
func startGuardian(ctx context.Context, b *bus, hierarchy cgroup.Hierarchy) (*guardian, error) {
	if !runner.Linked() {
		return nil, runner.ErrNotLinked
	}
	manager, err := b.manager(ctx)
	if err != nil {
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	g := &guardian{unit: newUnitName() + ".service", pipe: ours}
	// The magic link is this program even when its file was replaced.
	program := fmt.Sprintf("/proc/%d/exe", os.Getpid())
	type execStart struct {
		Path          string
		Argv          []string
		IgnoreFailure bool
	}
	properties := []systemd.Property{
		{Name: "Description", Value: "Corral: guardian of a harness"},
		{Name: "Type", Value: "exec"},
		{Name: "ExecStart", Value: []execStart{{program, []string{"corral-runner"}, false}}},
		{Name: "Environment", Value: []string{runner.Select(runner.Guardian)}},
		{Name: "StandardInputFileDescriptor", Value: dbus.UnixFD(theirs.Fd())},
		{Name: "Delegate", Value: true},
		{Name: "DefaultDependencies", Value: false},
		{Name: "CollectMode", Value: "inactive-or-failed"},
		{Name: "KillMode", Value: "control-group"},
		{Name: "KillSignal", Value: int32(9)},
		{Name: "SendSIGKILL", Value: true},
		{Name: "OOMPolicy", Value: "continue"},
	}
	if err := manager.StartTransient(ctx, g.unit, properties); err != nil {
		b.forget(g.unit)
		return nil, errors.Join(err, ours.Close())
	}
	path, err := manager.ControlGroup(ctx, g.unit)
	if err == nil {
		g.dir, err = hierarchy.Dir(path)
	}
	if err != nil {
		return nil, errors.Join(err, g.stop(ctx, b))
	}
	return g, nil
}

// stop ends the guardian, with all that is left in its unit, and returns once
// the unit is gone.
func (g *guardian) stop(ctx context.Context, b *bus) error {
	return errors.Join(g.pipe.Close(), b.stop(ctx, g.unit))
}

// alive reports whether the unit is there.
func (g *guardian) alive() bool {
	_, err := os.Stat(g.dir)
	return err == nil
}

// subtreeGuardian is a pair of small processes of this program that end the
// ranges in a directory which no manager knows. They are children of this
// process. There are two, so that whoever kills this process and one of them
// leaves nothing alive.
type subtreeGuardian struct {
	base, prefix string
	pair         [2]*runner.Direct // nil where one was not started
	pipe         *os.File          // the end that this process holds open
}

func startSubtreeGuardian(base, prefix string) (*subtreeGuardian, error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	g := &subtreeGuardian{base: base, prefix: prefix, pipe: ours}
	for i := range g.pair {
		if g.pair[i], err = runner.StartSubtreeGuardian(theirs, base, prefix); err != nil {
			return nil, errors.Join(err, g.stop())
		}
	}
	return g, nil
}

// alive reports whether both guardians, and the directory, are there.
func (g *subtreeGuardian) alive() bool {
	for _, direct := range g.pair {
		if _, ended := direct.Exited(); ended {
			return false
		}
	}
	_, err := os.Stat(g.base)
	return err == nil
}

// stop ends the guardians, and joins them. They are killed, so that they do not
// take the ranges that live for those of a dead harness.
func (g *subtreeGuardian) stop() error {
	var errs []error
	for _, direct := range g.pair {
		if direct == nil {
			continue
		}
		errs = append(errs, direct.Kill())
		direct.Wait()
		errs = append(errs, direct.Release())
	}
	return errors.Join(append(errs, g.pipe.Close())...)
}
