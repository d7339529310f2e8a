package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/seam"
)

// A Range is a cgroup with everything below it, whose members were put there
// before they ran.
type Range struct {
	dir     string // absolute, where the cgroup is seen
	leader  int    // the direct process, which is no survivor
	release func(context.Context) error

	controls Controls // of limits, and of what is counted
	limits   seam.Limits
	accounts *accounts // nil unless someone else removes the cgroup of a limited range

	// mu is held while signalling, so that no signal follows the proof.
	mu     sync.Mutex
	proved bool
}

var _ owner.Owner = (*Range)(nil)

// NewRange owns the cgroup at dir, in which the direct process leader runs: its
// membership was verified. release, where it is not nil, is called once the
// cgroup is empty and must remove it; nil removes it by rmdir.
func NewRange(dir string, leader int, release func(context.Context) error) *Range {
	return &Range{dir: dir, leader: leader, release: release, controls: ControlsAt(dir)}
}

// Signal implements [owner.Owner].
func (r *Range) Signal(sig owner.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proved {
		return nil
	}
	if sig == owner.Kill {
		return Kill(r.dir)
	}
	pids, err := members(r.dir)
	errs := []error{err}
	for _, pid := range pids {
		errs = append(errs, r.terminate(pid))
	}
	return errors.Join(errs...)
}

// Kill ends everything in the cgroup at dir, atomically. That there is no such
// cgroup is no error: it was empty.
func Kill(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if gone(err) {
		return nil
	}
	return err
}

// terminate sends TERM, then CONT for who is stopped. The number is fenced by a
// pidfd before it is looked at again.
func (r *Range) terminate(pid int) error {
	p, err := process.Open(pid)
	if p == nil || err != nil {
		return err
	}
	defer p.Close()
	if !r.holds(pid) {
		return nil // it ended, and its number is a stranger's
	}
	for _, n := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		if err := p.Signal(n); err != nil {
			return fmt.Errorf("signal process %d: %w", pid, err)
		}
	}
	return nil
}

// holds reports whether a process is in the cgroup or below it.
func (r *Range) holds(pid int) bool {
	cgroup, err := Of(pid)
	// The path in the hierarchy ends as the directory does: both were made from
	// one, and only the mount differs.
	name := filepath.Base(r.dir)
	return err == nil && (strings.HasSuffix(cgroup, "/"+name) || strings.Contains(cgroup, "/"+name+"/"))
}

// Members implements [owner.Owner].
func (r *Range) Members(ctx context.Context) ([]seam.Member, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	pids, err := members(r.dir)
	if err != nil {
		return nil, err
	}
	var list []seam.Member
	for _, pid := range pids {
		if m, ok := process.Describe(pid); ok && pid != r.leader {
			list = append(list, m)
		}
	}
	return list, nil
}

// WaitEmpty implements [owner.Owner]. The proof is the kernel's "populated 0",
// or that the cgroup is gone. As long as something lives it waits for events,
// those of a member that lives among them.
func (r *Range) WaitEmpty(ctx context.Context) error {
	if empty, err := r.prove(populated(r.dir)); empty || err != nil {
		return err
	}
	w, err := newWatch(r.dir)
	if gone(err) {
		_, err := r.prove(false, nil)
		return err
	}
	if err != nil {
		return err
	}
	defer w.close()
	for pause := firstPause; ; {
		if empty, err := r.prove(w.populated()); empty || err != nil {
			return err
		}
		pids, err := members(r.dir)
		if err != nil {
			return err
		}
		watched, err := r.waitOne(ctx, w, pids)
		if err != nil {
			return err
		}
		if watched {
			pause = firstPause
			continue
		}
		// Populated, and nobody to watch: the last one is on its way out, or
		// belongs to a pid namespace that is not ours.
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, lastPause)
	}
}

// prove notes the proof, where there is one, so that no signal follows it.
func (r *Range) prove(populated bool, err error) (empty bool, _ error) {
	if populated || err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proved = true
	return true, nil
}

// Files of a cgroup.
const (
	eventsFile = "cgroup.events"
	procsFile  = "cgroup.procs"
)

const (
	firstPause = 200 * time.Microsecond
	lastPause  = 20 * time.Millisecond
)

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitOne waits for an event, the end of one that lives among them, and reports
// whether there was one that lives.
func (r *Range) waitOne(ctx context.Context, w *watch, pids []int) (bool, error) {
	for _, pid := range pids {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return false, os.NewSyscallError("pidfd_open", err)
		}
		if !r.holds(pid) { // it ended, and its number is a stranger's
			_ = unix.Close(pidfd)
			continue
		}
		err = w.wait(ctx, pidfd)
		_ = unix.Close(pidfd)
		return true, err
	}
	return false, nil
}

// Close implements [owner.Owner].
func (r *Range) Close() error {
	if r.accounts != nil {
		r.accounts.close()
	}
	if r.release != nil {
		return r.release(context.Background())
	}
	return Remove(r.dir)
}

// Remove removes an empty cgroup and those below it, depth first.
func Remove(dir string) error {
	// Mostly there is nothing below, and a member that has just ended can keep
	// the directory busy for a moment.
	for pause := firstPause; ; pause *= 2 {
		err := unix.Rmdir(dir)
		if err == nil || gone(err) {
			return nil
		}
		if err != unix.EBUSY || pause > time.Second {
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		if err := removeBelow(dir); err != nil {
			return err
		}
		time.Sleep(pause) //nolint:forbidigo // the kernel tells nobody when a directory stops being busy
	}
}

// removeBelow removes what is below dir, as far as it is not busy.
func removeBelow(dir string) error {
	return inEach(dir, func(parent *os.Root, name string) error {
		err := parent.Remove(name)
		if gone(err) || errors.Is(err, unix.EBUSY) {
			return nil
		}
		return err
	})
}

// members lists the processes in the cgroup at dir and below it. Process 0 is
// one of a pid namespace that is not ours, and left out.
func members(dir string) ([]int, error) {
	var pids []int
	collect := func(data []byte, err error) error {
		// A threaded cgroup does not list: its processes are its domain's.
		if err != nil && !gone(err) && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
		for field := range bytes.FieldsSeq(data) {
			if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	}
	if err := collect(os.ReadFile(filepath.Join(dir, procsFile))); err != nil {
		return nil, err
	}
	err := inEach(dir, func(parent *os.Root, name string) error {
		return collect(parent.ReadFile(filepath.Join(name, procsFile)))
	})
	return pids, err
}

// inEach calls do for each cgroup below dir, depth first. The cgroups are the
// payload's to make: their paths may be longer than what the system takes in
// one piece, so each is named from its parent.
func inEach(dir string, do func(parent *os.Root, name string) error) error {
	root, err := os.OpenRoot(dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return inEachOf(root, do)
}

func inEachOf(parent *os.Root, do func(parent *os.Root, name string) error) error {
	list, err := parent.Open(".")
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := list.ReadDir(-1)
	_ = list.Close()
	if err != nil && !gone(err) {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		child, err := parent.OpenRoot(entry.Name())
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = inEachOf(child, do)
		_ = child.Close()
		if err == nil {
			err = do(parent, entry.Name())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// populated reports whether something lives in the cgroup at dir or below it.
func populated(dir string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(dir, eventsFile))
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return parsePopulated(data)
}

// parsePopulated reads what cgroup.events says.
func parsePopulated(data []byte) (bool, error) {
	for line := range bytes.Lines(data) {
		switch value, ok := bytes.CutPrefix(line, []byte("populated ")); {
		case !ok:
		case bytes.Equal(value, []byte("0\n")):
			return false, nil
		case bytes.Equal(value, []byte("1\n")):
			return true, nil
		}
	}
	return false, fmt.Errorf("%s does not say whether something lives: %q", eventsFile, data)
}

// gone reports whether err says that a cgroup is no more: its directory, or,
// through a descriptor that was open, its content.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
