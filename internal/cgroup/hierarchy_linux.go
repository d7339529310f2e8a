package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A Hierarchy is a mounted cgroup v2 hierarchy, alone or beside v1 ones.
type Hierarchy struct {
	Mount string // where it is mounted
	Root  string // the cgroup that is seen at Mount: "/" but in cgroup namespaces and containers
}

// ErrNoHierarchy is matched where no cgroup v2 hierarchy is mounted.
var ErrNoHierarchy = errors.New("no cgroup v2 hierarchy is mounted")

// Find finds the hierarchy in the mounts of this process. It is never assumed
// to be at one place: beside v1 hierarchies it is at /sys/fs/cgroup/unified.
func Find() (Hierarchy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return Hierarchy{}, err
	}
	defer f.Close()
	return parseMounts(f)
}

// parseMounts finds the cgroup v2 hierarchy.
func parseMounts(r io.Reader) (Hierarchy, error) {
	return findMount(r, func(kind string, _ []string) bool { return kind == "cgroup2" })
}

// findMount reads mountinfo (proc_pid_mountinfo(5)). Of several mounts whose
// type and super options are wanted, the last is taken that shows the whole
// hierarchy, or else the last.
func findMount(r io.Reader, wanted func(kind string, options []string) bool) (Hierarchy, error) {
	var found Hierarchy
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, types := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(types) < 1 {
			continue
		}
		if !wanted(types[0], strings.Split(types[len(types)-1], ",")) {
			continue
		}
		h := Hierarchy{Mount: unescape(fields[4]), Root: unescape(fields[3])}
		if found.Root != "/" || h.Root == "/" {
			found = h
		}
	}
	if err := lines.Err(); err != nil {
		return Hierarchy{}, err
	}
	if found.Mount == "" {
		return Hierarchy{}, ErrNoHierarchy
	}
	return found, nil
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// Dir returns where the cgroup is seen whose path in the hierarchy is given, as
// in /proc/PID/cgroup.
func (h Hierarchy) Dir(cgroup string) (string, error) {
	rest := cgroup
	if h.Root != "/" {
		var ok bool
		if rest, ok = strings.CutPrefix(cgroup, h.Root); !ok || rest != "" && rest[0] != '/' {
			return "", fmt.Errorf("cgroup %s is outside of what is mounted, %s", cgroup, h.Root)
		}
	}
	if rest == "/.." || strings.HasPrefix(rest, "/../") {
		return "", fmt.Errorf("cgroup %s is outside of this cgroup namespace", cgroup)
	}
	return path.Join(h.Mount, rest), nil
}

// Of returns the path of a process's cgroup in the v2 hierarchy; pid 0 is this
// process.
func Of(pid int) (string, error) {
	file := "/proc/self/cgroup"
	if pid != 0 {
		file = fmt.Sprintf("/proc/%d/cgroup", pid)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return parseCgroup(string(data))
}

// parseCgroup finds the line that begins with "0::" among those of v1
// hierarchies (cgroups(7)).
func parseCgroup(data string) (string, error) {
	for line := range strings.Lines(data) {
		if cgroup, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return strings.TrimSuffix(cgroup, " (deleted)"), nil
		}
	}
	return "", ErrNoHierarchy
}

// Supported returns nil where dir, an existing cgroup, can hold ranges: it has
// cgroup.kill, may be written to, and processes may be put below it.
func Supported(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if stat.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s is no cgroup v2 directory", dir)
	}
	if stat.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("%s is mounted read-only", dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &os.PathError{Op: "write", Path: dir, Err: err}
	}
	return nil
}
