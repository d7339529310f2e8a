package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// A LimitError says why a limit can't be enforced.
type LimitError struct {
	Field  string // of a [seam.Spec]
	Reason error
}

func (e *LimitError) Error() string { return e.Field + ": " + e.Reason.Error() }

// Unwrap returns the reason.
func (e *LimitError) Unwrap() error { return e.Reason }

// controllers of the kernel, by the fields that they enforce, in their order.
var controllers = []struct{ field, name string }{
	{"Limits.MemoryBytes", "memory"},
	{"Limits.Pids", "pids"},
	{"Limits.CPUs", "cpu"},
}

// needed calls do for the controller of each limit that is set, until one fails.
func needed(limits seam.Limits, do func(controller string) error) error {
	set := limits.Set()
	for _, c := range controllers {
		if !slices.Contains(set, c.field) {
			continue
		}
		if err := do(c.name); err != nil {
			return &LimitError{Field: c.field, Reason: err}
		}
	}
	return nil
}

// Enable makes the controllers that limits need available in the cgroups below
// dir. vacate, where it is not nil, is called before the first one is: no
// process may live in dir itself. The error is a [LimitError].
func Enable(dir string, limits seam.Limits, vacate func() error) error {
	return needed(limits, func(controller string) error {
		if has(filepath.Join(dir, "cgroup.subtree_control"), controller) {
			return nil
		}
		if !has(filepath.Join(dir, "cgroup.controllers"), controller) {
			return fmt.Errorf("its part of cgroup v2 has no %s controller", controller)
		}
		if vacate != nil {
			if err := vacate(); err != nil {
				return err
			}
		}
		err := write(dir, "cgroup.subtree_control", "+"+controller)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("the %s controller can't be given to cgroups below %s while processes live in it, this one among them", controller, dir)
		}
		return err
	})
}

// has reports whether a file is a list that holds word.
func has(path, word string) bool {
	list, _ := os.ReadFile(path) // what is not there holds nothing
	return slices.Contains(strings.Fields(string(list)), word)
}

// Vacate moves the processes that live in the cgroup at dir itself to one below
// it, which it makes.
func Vacate(dir, leaf string) error {
	below := filepath.Join(dir, leaf)
	if err := os.Mkdir(below, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	// A process that forks meanwhile has put its child here, too.
	for range 10 {
		data, err := os.ReadFile(filepath.Join(dir, procsFile))
		pids := bytes.Fields(data)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := write(below, procsFile, string(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return fmt.Errorf("processes live in %s again and again", dir)
}

func write(dir, file, text string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Controls are the directories in which the kernel keeps a range's limits, and
// counts how often they were reached.
type Controls struct {
	memory, pids, cpu control

	refused int64 // forks that were refused before the target began
}

// A control is the directory of one controller.
type control struct {
	dir     string
	v1      bool
	missing error // why there is none
}

// ControlsAt are those of the cgroup v2 directory dir.
func ControlsAt(dir string) Controls {
	c := control{dir: dir}
	return Controls{memory: c, pids: c, cpu: c}
}

// ControlsOf are those of the cgroup named name that a process is in, by its
// last element: the manager of a hybrid system puts a process into one of that
// name in each hierarchy whose controller it uses. dir is its cgroup v2 directory.
func ControlsOf(pid int, name, dir string) (Controls, error) {
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return Controls{}, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Controls{}, err
	}
	of := func(controller string) control { return findControl(string(cgroups), mounts, controller, name, dir) }
	return Controls{memory: of("memory"), pids: of("pids"), cpu: of("cpu")}, nil
}

// findControl looks for a controller in /proc/PID/cgroup: one that has a v1
// hierarchy is not in v2.
func findControl(cgroups string, mounts []byte, controller, name, dir string) control {
	for line := range strings.Lines(cgroups) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || !slices.Contains(strings.Split(fields[1], ","), controller) {
			continue
		}
		if filepath.Base(fields[2]) != name {
			return control{v1: true, missing: fmt.Errorf("the range has no cgroup of its own for the %s controller", controller)}
		}
		hierarchy, err := findMount(bytes.NewReader(mounts), func(kind string, options []string) bool {
			return kind == "cgroup" && slices.Contains(options, controller)
		})
		if err != nil {
			return control{v1: true, missing: fmt.Errorf("the hierarchy of the %s controller is not mounted", controller)}
		}
		seen, err := hierarchy.Dir(fields[2])
		return control{dir: seen, v1: true, missing: err}
	}
	return control{dir: dir}
}

// Files of limits: the kernel's documentation, admin-guide/cgroup-v2 and
// admin-guide/cgroup-v1.
const (
	memoryMax, memoryMaxV1   = "memory.max", "memory.limit_in_bytes"
	memoryPeak, memoryPeakV1 = "memory.peak", "memory.max_usage_in_bytes" // v2: Linux 5.19
	memorySwapMax            = "memory.swap.max"
	memoryEvents             = "memory.events"
	memoryOOMControl         = "memory.oom_control" // v1; with a count from Linux 4.13
	memoryFailCount          = "memory.failcnt"     // v1
	pidsMax, pidsEvents      = "pids.max", "pids.events"
	cpuMax                   = "cpu.max"
	cpuQuotaV1, cpuPeriodV1  = "cpu.cfs_quota_us", "cpu.cfs_period_us"
)

// Set writes limits where cgroup v2 has them. The error is a [LimitError].
func (c Controls) Set(limits seam.Limits) error {
	return needed(limits, func(controller string) error {
		switch controller {
		case "memory":
			return c.setMemory(limits.MemoryBytes)
		case "pids":
			return write(c.pids.dir, pidsMax, strconv.Itoa(limits.Pids))
		}
		text, err := cpuQuota(limits.CPUs)
		if err != nil {
			return err
		}
		return write(c.cpu.dir, cpuMax, text)
	})
}

func (c Controls) setMemory(bytes int64) error {
	if err := write(c.memory.dir, memoryMax, strconv.FormatInt(bytes, 10)); err != nil {
		return err
	}
	// A kernel without swap has no such file.
	if err := write(c.memory.dir, memorySwapMax, "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Least and most of what cpu.max takes, in microseconds (kernel/sched/core.c).
const (
	usualPeriod   = 100_000
	longestPeriod = 1_000_000
	leastQuota    = 1_000
	mostCPUs      = 1 << 20 // more than any system has
)

// cpuQuota is what cpu.max is given.
func cpuQuota(cpus float64) (string, error) {
	period := usualPeriod
	if cpus*usualPeriod < leastQuota {
		period = longestPeriod
	}
	quota := math.Round(cpus * float64(period))
	if quota < leastQuota || cpus > mostCPUs {
		return "", fmt.Errorf("the system takes %v to %v processors", float64(leastQuota)/longestPeriod, mostCPUs)
	}
	return fmt.Sprintf("%.0f %d", quota, period), nil
}

// Verify returns nil where the kernel enforces limits, whoever has asked it to.
// The error is a [LimitError].
func (c Controls) Verify(limits seam.Limits) error {
	return needed(limits, func(controller string) error {
		switch controller {
		case "memory":
			return c.verifyMemory(limits.MemoryBytes)
		case "pids":
			got, err := c.pids.read(pidsMax)
			return enforced(got, err, "pids", got == strconv.Itoa(limits.Pids))
		}
		return c.verifyCPU(limits.CPUs)
	})
}

func (c Controls) verifyMemory(want int64) error {
	file := memoryMax
	if c.memory.v1 {
		file = memoryMaxV1
	}
	text, err := c.memory.read(file)
	got, numberErr := strconv.ParseInt(text, 10, 64)
	page := int64(os.Getpagesize()) // the kernel counts in pages
	return enforced(text, err, "memory", numberErr == nil && got > want-page && got < want+page)
}

func (c Controls) verifyCPU(want float64) error {
	var text string
	var err error
	if c.cpu.v1 {
		var period string
		text, err = c.cpu.read(cpuQuotaV1)
		if err == nil {
			period, err = c.cpu.read(cpuPeriodV1)
		}
		text += " " + period
	} else {
		text, err = c.cpu.read(cpuMax)
	}
	got, ok := parseQuota(text)
	return enforced(text, err, "cpu", ok && math.Abs(got-want) <= 0.01*want)
}

// parseQuota reads "QUOTA PERIOD", of which QUOTA is "max" or negative where
// there is none.
func parseQuota(text string) (cpus float64, ok bool) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return 0, false
	}
	quota, err := strconv.ParseInt(fields[0], 10, 64)
	period, periodErr := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || periodErr != nil || quota <= 0 || period <= 0 {
		return 0, false
	}
	return float64(quota) / float64(period), true
}

// enforced judges what a file says.
func enforced(got string, err error, controller string, ok bool) error {
	switch {
	case gone(err):
		return fmt.Errorf("the %s controller is not given to the range", controller)
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("the kernel has %q for it", got)
	}
	return nil
}

// read reads a small file of the control.
func (c control) read(file string) (string, error) {
	if c.missing != nil {
		return "", c.missing
	}
	data, err := os.ReadFile(filepath.Join(c.dir, file))
	return strings.TrimSpace(string(data)), err
}

// reachedMemory judges memory.events. An out-of-memory kill counts for whoever
// asked for it; "oom" only where the limit of the range, or one below, was it.
func reachedMemory(events []byte) bool {
	return count(events, "oom") > 0 && (count(events, "oom_kill") > 0 || count(events, "oom_group_kill") > 0)
}

// reachedMemoryV1 judges memory.oom_control and memory.failcnt, which counts how
// often the limit was hit.
func reachedMemoryV1(oomControl, failCount []byte) bool {
	hits, err := strconv.ParseInt(string(bytes.TrimSpace(failCount)), 10, 64)
	return err == nil && hits > 0 && count(oomControl, "oom_kill") > 0
}

// refusedForks is what pids.events has counted, the same in v1 and v2.
func (c Controls) refusedForks() int64 {
	text, _ := c.pids.read(pidsEvents) // a cgroup that is gone counts nothing; a watch may know more
	return count([]byte(text), "max")
}

// count finds "KEY NUMBER" among lines. What is not there did not happen.
func count(data []byte, key string) int64 {
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) == 2 && string(fields[0]) == key {
			n, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			return n
		}
	}
	return 0
}

// account reads what the kernel has counted so far against limits.
func (c Controls) account(limits seam.Limits) owner.Account {
	read := func(of control, file string) []byte {
		text, _ := of.read(file) // as above
		return []byte(text)
	}
	var a owner.Account
	if limits.Pids > 0 {
		a.ReachedPids = c.refusedForks() > c.refused
	}
	peak := memoryPeak
	if c.memory.v1 {
		peak = memoryPeakV1
	}
	if limits.MemoryBytes > 0 {
		if c.memory.v1 {
			a.ReachedMemory = reachedMemoryV1(read(c.memory, memoryOOMControl), read(c.memory, memoryFailCount))
		} else {
			a.ReachedMemory = reachedMemory(read(c.memory, memoryEvents))
		}
	}
	a.PeakMemBytes, _ = strconv.ParseInt(string(read(c.memory, peak)), 10, 64)
	return a
}
