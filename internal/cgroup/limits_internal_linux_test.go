package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// The texts are what kernels write.
func TestReached(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		v1    bool // the memory controller
		want  owner.Account
	}{
		{name: "nothing is counted"},
		{name: "quiet", files: map[string]string{
			"memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
			"memory.peak":   "4366336\n",
			"pids.events":   "max 0\n",
		}, want: owner.Account{PeakMemBytes: 4366336}},
		{name: "a limit that reclaim has kept", files: map[string]string{
			"memory.events": "low 0\nhigh 0\nmax 1243\noom 0\noom_kill 0\noom_group_kill 0\n",
			"memory.peak":   "67108864\n",
		}, want: owner.Account{PeakMemBytes: 67108864}},
		{name: "killed for the limit", files: map[string]string{
			"memory.events": "low 0\nhigh 0\nmax 84\noom 1\noom_kill 1\noom_group_kill 0\n",
			"memory.peak":   "67108864\n",
		}, want: owner.Account{ReachedMemory: true, PeakMemBytes: 67108864}},
		{name: "killed as a group, with a newer kernel's lines", files: map[string]string{
			"memory.events": "low 0\nhigh 0\nmax 84\noom 1\noom_kill 3\noom_group_kill 1\nsock_throttled 0\n",
		}, want: owner.Account{ReachedMemory: true}},
		{name: "an older kernel without groups", files: map[string]string{
			"memory.events": "low 0\nhigh 0\nmax 84\noom 1\noom_kill 1\n",
		}, want: owner.Account{ReachedMemory: true}},
		{name: "killed for the host's memory, not the limit", files: map[string]string{
			"memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n",
		}},
		{name: "an allocation that failed, and nobody killed", files: map[string]string{
			"memory.events": "low 0\nhigh 0\nmax 84\noom 2\noom_kill 0\noom_group_kill 0\n",
		}},
		{name: "v1, quiet", v1: true, files: map[string]string{
			"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", "memory.failcnt": "37\n",
			"memory.max_usage_in_bytes": "33554432\n", "memory.peak": "1\n",
		}, want: owner.Account{PeakMemBytes: 33554432}},
		{name: "v1, killed for the limit", v1: true, files: map[string]string{
			"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "memory.failcnt": "37\n",
		}, want: owner.Account{ReachedMemory: true}},
		{name: "v1, killed for the host's memory", v1: true, files: map[string]string{
			"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "memory.failcnt": "0\n",
		}},
		{name: "v1 before Linux 4.13", v1: true, files: map[string]string{
			"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n", "memory.failcnt": "37\n",
		}},
		{name: "a fork refused", files: map[string]string{"pids.events": "max 7\n"}, want: owner.Account{ReachedPids: true}},
		{name: "not what a kernel writes", files: map[string]string{
			"memory.events": "oom\noom_kill many\nmax 1 2\n", "pids.events": "maximum 3\n", "memory.peak": "max\n",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			controls := ControlsAt(dir)
			controls.memory.v1 = c.v1
			r := NewRange(dir, 0, nil)
			r.Limit(controls, seam.Limits{MemoryBytes: 1, Pids: 1})
			fill(t, dir, c.files)
			if got := r.Account(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			// What has no limit has reached none.
			r.Limit(controls, seam.Limits{})
			if got, want := r.Account(), (owner.Account{PeakMemBytes: c.want.PeakMemBytes}); got != want {
				t.Errorf("without limits: got %+v, want %+v", got, want)
			}
		})
	}
}

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	fill(t, dir, files)
	return dir
}

func fill(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What was refused to who becomes the target is not the target's.
func TestCountsFromTheTargetOn(t *testing.T) {
	dir := writeFiles(t, map[string]string{pidsEvents: "max 3\n"})
	r := NewRange(dir, 0, nil)
	r.Limit(ControlsAt(dir), seam.Limits{Pids: 1})
	if r.Account().ReachedPids {
		t.Error("reached at the start")
	}
	fill(t, dir, map[string]string{pidsEvents: "max 4\n"})
	if !r.Account().ReachedPids {
		t.Error("not reached by one more")
	}
}

// v1 tells nobody: it is read again and again.
func TestKeepReading(t *testing.T) {
	dir := writeFiles(t, map[string]string{pidsEvents: "max 0\n"})
	controls := ControlsAt(dir)
	controls.pids.v1 = true
	a, err := newAccounts(controls, seam.Limits{Pids: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	fill(t, dir, map[string]string{pidsEvents: "max 1\n"})
	for deadline := time.Now().Add(10 * time.Second); !a.last().ReachedPids; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was not read")
		}
	}
}

// What a watch has seen is not forgotten with the cgroup.
func TestAccountOutlivesCgroup(t *testing.T) {
	r := NewRange(filepath.Join(t.TempDir(), "gone"), 0, nil)
	r.Limit(r.controls, seam.Limits{Pids: 1})
	want := owner.Account{ReachedPids: true, PeakMemBytes: 5}
	r.accounts = &accounts{seen: want}
	if got := r.Account(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestVerify(t *testing.T) {
	limits := seam.Limits{MemoryBytes: 64 << 20, Pids: 20, CPUs: 1.5}
	good := map[string]string{"memory.max": "67108864\n", "pids.max": "20\n", "cpu.max": "150000 100000\n"}
	v1 := map[string]string{"memory.limit_in_bytes": "67108864\n", "pids.max": "20\n", "cpu.cfs_quota_us": "15000\n", "cpu.cfs_period_us": "10000\n"}
	for _, c := range []struct {
		name  string
		files map[string]string
		v1    bool
		file  string // that says otherwise
		text  string
		field string // "" where the limits are enforced
	}{
		{name: "enforced", files: good},
		{name: "enforced by v1", files: v1, v1: true},
		{name: "memory in pages", files: good, file: "memory.max", text: "67104769\n"},
		{name: "no limit on memory", files: good, file: "memory.max", text: "max\n", field: "Limits.MemoryBytes"},
		{name: "another limit on memory", files: good, file: "memory.max", text: "134217728\n", field: "Limits.MemoryBytes"},
		{name: "no limit on memory by v1", files: v1, v1: true, file: "memory.limit_in_bytes", text: "9223372036854771712\n", field: "Limits.MemoryBytes"},
		{name: "no limit on processes", files: good, file: "pids.max", text: "max\n", field: "Limits.Pids"},
		{name: "another limit on processes", files: good, file: "pids.max", text: "200\n", field: "Limits.Pids"},
		{name: "no controller of processes", files: good, file: "pids.max", field: "Limits.Pids"},
		{name: "no limit on processors", files: good, file: "cpu.max", text: "max 100000\n", field: "Limits.CPUs"},
		{name: "no limit on processors by v1", files: v1, v1: true, file: "cpu.cfs_quota_us", text: "-1\n", field: "Limits.CPUs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeFiles(t, c.files)
			if c.file != "" {
				if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
					t.Fatal(err)
				}
				if c.text != "" {
					if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			controls := ControlsAt(dir)
			controls.memory.v1, controls.cpu.v1 = c.v1, c.v1
			checkLimitError(t, controls.Verify(limits), c.field)
			if err := controls.Verify(seam.Limits{}); err != nil {
				t.Errorf("without limits: %v", err)
			}
		})
	}
}

func checkLimitError(t *testing.T, err error, field string) {
	t.Helper()
	limit, ok := errors.AsType[*LimitError](err)
	switch {
	case field == "" && err != nil:
		t.Errorf("got %v", err)
	case field != "" && (!ok || limit.Field != field || limit.Reason == nil):
		t.Errorf("got %v, want a refusal of %s", err, field)
	}
}

// What is written is what verifies.
func TestSet(t *testing.T) {
	for _, limits := range []seam.Limits{
		{MemoryBytes: 1 << 30, Pids: 1, CPUs: 0.001},
		{MemoryBytes: 1 << 30, Pids: 4194304, CPUs: 0.3333},
		{MemoryBytes: 5 << 40, Pids: 100, CPUs: 96.5},
	} {
		dir := writeFiles(t, map[string]string{"memory.max": "", "memory.swap.max": "", "pids.max": "", "cpu.max": ""})
		if err := ControlsAt(dir).Set(limits); err != nil {
			t.Fatal(err)
		}
		if err := ControlsAt(dir).Verify(limits); err != nil {
			t.Error(err)
		}
		if swap, err := os.ReadFile(filepath.Join(dir, "memory.swap.max")); err != nil || string(swap) != "0" {
			t.Errorf("swap %q, %v", swap, err)
		}
	}
	dir := writeFiles(t, map[string]string{"memory.max": "", "cpu.max": ""})
	checkLimitError(t, ControlsAt(dir).Set(seam.Limits{MemoryBytes: 1 << 30}), "") // no swap
	checkLimitError(t, ControlsAt(dir).Set(seam.Limits{Pids: 1}), "Limits.Pids")
	for _, cpus := range []float64{0.0001, 1e300} {
		checkLimitError(t, ControlsAt(dir).Set(seam.Limits{CPUs: cpus}), "Limits.CPUs")
	}
}

func TestEnable(t *testing.T) {
	limits := seam.Limits{MemoryBytes: 1, Pids: 1}
	refused := errors.New("not ours to move")
	for _, c := range []struct {
		name, controllers, enabled string
		vacate                     error
		field                      string
		vacated                    int
	}{
		{name: "enabled before", controllers: "cpu memory pids", enabled: "memory pids"},
		{name: "to be enabled", controllers: "cpu memory pids", enabled: "memory", vacated: 1},
		{name: "not given", controllers: "cpu pids", enabled: "pids", field: "Limits.MemoryBytes"},
		{name: "none at all", field: "Limits.MemoryBytes"},
		{name: "inhabited", controllers: "memory pids", enabled: "memory", vacate: refused, field: "Limits.Pids", vacated: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeFiles(t, map[string]string{"cgroup.controllers": c.controllers + "\n", "cgroup.subtree_control": c.enabled + "\n"})
			vacated := 0
			err := Enable(dir, limits, func() error { vacated++; return c.vacate })
			checkLimitError(t, err, c.field)
			if vacated != c.vacated || c.vacate != nil && !errors.Is(err, refused) {
				t.Errorf("vacated %d times, and got %v", vacated, err)
			}
		})
	}
}

func TestFindControl(t *testing.T) {
	const mounts = `
30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
33 30 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct`
	const cgroups = `5:memory:/system.slice/corral-x.scope
4:cpu,cpuacct:/system.slice/corral-x.scope
3:pids:/system.slice/corral-x.scope
2:hugetlb:/
1:name=systemd:/system.slice/corral-x.scope
0::/system.slice/corral-x.scope
`
	const dir = "/sys/fs/cgroup/unified/system.slice/corral-x.scope"
	for _, c := range []struct {
		controller, name, want string
		v1                     bool
	}{
		{"pids", "corral-x.scope", "/sys/fs/cgroup/pids/system.slice/corral-x.scope", true},
		{"cpu", "corral-x.scope", "/sys/fs/cgroup/cpu,cpuacct/system.slice/corral-x.scope", true},
		{"pids", "corral-y.scope", "", true},    // in another's
		{"memory", "corral-x.scope", "", true},  // not mounted
		{"hugetlb", "corral-x.scope", "", true}, // in the root
		{"io", "corral-x.scope", dir, false},
	} {
		got := findControl(cgroups, []byte(strings.TrimPrefix(mounts, "\n")), c.controller, c.name, dir)
		if got.dir != c.want || got.v1 != c.v1 || (got.missing != nil) != (c.want == "") {
			t.Errorf("%s of %s: got %+v, want %q", c.controller, c.name, got, c.want)
		}
	}
}
