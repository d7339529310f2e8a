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

	// mu is held while signalling, so that no signal follows the proof.
	mu     sync.Mutex
	proved bool
}

var _ owner.Owner = (*Range)(nil)

// NewRange owns the cgroup at dir, in which the direct process leader runs: its
// membership was verified. release, where it is not nil, is called once the
// cgroup is empty and must remove it; nil removes it by rmdir.
func NewRange(dir string, leader int, release func(context.Context) error) *Range {
	return &Range{dir: dir, leader: leader, release: release}
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
// or that the cgroup is gone. It waits on the exits of members: as long as
// something lives, something that lives is watched. Notifications of the file
// itself come at most once in 10 to 16 ms, and can be lost with the directory.
func (r *Range) WaitEmpty(ctx context.Context) error {
	pause := firstPause
	for {
		populated, err := populated(r.dir)
		if err != nil {
			return err
		}
		if !populated {
			r.mu.Lock()
			r.proved = true
			r.mu.Unlock()
			return nil
		}
		pids, err := members(r.dir)
		if err != nil {
			return err
		}
		watched, err := waitOne(ctx, pids)
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

// waitOne waits for the end of one that lives, and reports whether there was one.
func waitOne(ctx context.Context, pids []int) (bool, error) {
	for _, pid := range pids {
		if pid == 0 {
			continue // of a pid namespace that is not ours
		}
		p, err := process.Open(pid)
		if err != nil {
			return false, err
		}
		if p == nil {
			continue
		}
		err = p.WaitExit(ctx)
		p.Close()
		return true, err
	}
	return false, nil
}

// Close implements [owner.Owner].
func (r *Range) Close() error {
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
		subdirs, listErr := below(dir)
		if listErr != nil {
			return listErr
		}
		for _, sub := range subdirs {
			if err := Remove(sub); err != nil {
				return err
			}
		}
		if len(subdirs) == 0 {
			time.Sleep(pause) //nolint:forbidigo // the kernel tells nobody when a directory stops being busy
		}
	}
}

// members lists the processes in the cgroup at dir and below it.
func members(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	// A threaded cgroup does not list: its processes are its domain's.
	if err != nil && !gone(err) && !errors.Is(err, unix.EOPNOTSUPP) {
		return nil, err
	}
	var pids []int
	for field := range bytes.FieldsSeq(data) {
		if pid, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, pid)
		}
	}
	subdirs, err := below(dir)
	if err != nil {
		return nil, err
	}
	for _, sub := range subdirs {
		more, err := members(sub)
		if err != nil {
			return nil, err
		}
		pids = append(pids, more...)
	}
	return pids, nil
}

func below(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !gone(err) {
		return nil, err
	}
	var subdirs []string
	for _, entry := range entries {
		if entry.IsDir() {
			subdirs = append(subdirs, filepath.Join(dir, entry.Name()))
		}
	}
	return subdirs, nil
}

// populated reports whether something lives in the cgroup at dir or below it.
func populated(dir string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(data) {
		if value, ok := bytes.CutPrefix(line, []byte("populated ")); ok {
			return !bytes.Equal(bytes.TrimSpace(value), []byte("0")), nil
		}
	}
	return false, fmt.Errorf("%s/cgroup.events does not say whether it is populated", dir)
}

// gone reports whether err says that a cgroup is no more: its directory, or,
// through a descriptor that was open, its content.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
