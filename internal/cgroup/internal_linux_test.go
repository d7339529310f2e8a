package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/owner"
)

func TestParseMounts(t *testing.T) {
	for _, c := range []struct {
		name, mountinfo string
		want            Hierarchy
	}{
		{"v2 alone", `
22 28 0:20 / /proc rw,nosuid - proc proc rw
26 20 0:23 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate`,
			Hierarchy{"/sys/fs/cgroup", "/"}},
		{"beside v1", `
30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd`,
			Hierarchy{"/sys/fs/cgroup/unified", "/"}},
		{"a container without a cgroup namespace", `
40 39 0:23 /docker/0123 /sys/fs/cgroup ro - cgroup2 cgroup rw`,
			Hierarchy{"/sys/fs/cgroup", "/docker/0123"}},
		{"a container whose host is mounted, too", `
40 39 0:23 / /host/cgroup ro - cgroup2 cgroup rw
41 39 0:23 /docker/0123 /sys/fs/cgroup rw - cgroup2 cgroup rw`,
			Hierarchy{"/host/cgroup", "/"}},
		{"one mount above another", `
40 39 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup rw
41 39 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup rw`,
			Hierarchy{"/sys/fs/cgroup", "/"}},
		{"optional fields, and names that are escaped", `
40 39 0:23 /a\040b /c\011d\134040 rw,relatime shared:1 master:2 unbindable - cgroup2 cgroup rw`,
			Hierarchy{"/c\td\\040", "/a b"}},
		{"a separator in a name", `
40 39 0:23 / /x\040-\040y rw - cgroup2 cgroup rw`,
			Hierarchy{"/x - y", "/"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseMounts(strings.NewReader(strings.TrimPrefix(c.mountinfo, "\n")))
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
	for name, mountinfo := range map[string]string{
		"nothing":   "",
		"v1 alone":  "32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n",
		"cut":       "40 39 0:23 / /sys/fs/cgroup rw\n",
		"no fields": " - \n - cgroup2\n",
	} {
		if got, err := parseMounts(strings.NewReader(mountinfo)); !errors.Is(err, ErrNoHierarchy) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestDir(t *testing.T) {
	whole, part := Hierarchy{"/sys/fs/cgroup", "/"}, Hierarchy{"/sys/fs/cgroup", "/docker/0123"}
	for _, c := range []struct {
		h            Hierarchy
		cgroup, want string // "" where it can't be seen
	}{
		{whole, "/", "/sys/fs/cgroup"},
		{whole, "/user.slice/a", "/sys/fs/cgroup/user.slice/a"},
		{whole, "/..", ""},
		{whole, "/../other", ""},
		{whole, "/..hidden", "/sys/fs/cgroup/..hidden"},
		{part, "/docker/0123", "/sys/fs/cgroup"},
		{part, "/docker/0123/a/b", "/sys/fs/cgroup/a/b"},
		{part, "/docker/01234", ""},
		{part, "/docker", ""},
		{part, "/other", ""},
	} {
		got, err := c.h.Dir(c.cgroup)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %s is %q, %v, want %q", c.h, c.cgroup, got, err, c.want)
		}
	}
}

func TestParseCgroup(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"v2 alone", "0::/user.slice/a\n", "/user.slice/a"},
		{"beside v1", "9:name=systemd:/x\n8:pids:/y\n0::/z\n", "/z"},
		{"removed", "0::/z (deleted)\n", "/z"},
		{"a name like the mark of another", "0::/0::/z\n", "/0::/z"},
		{"no newline", "0::/z", "/z"},
		{"v1 alone", "9:name=systemd:/x\n10::/y\n", ""},
		{"nothing", "", ""},
	} {
		got, err := parseCgroup(c.data)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestParsePopulated(t *testing.T) {
	for data, want := range map[string]string{
		"populated 0\nfrozen 0\n": "empty",
		"frozen 1\npopulated 1\n": "populated",
		"populated 1":             "unknown", // a line that may have been cut
		"populated 10\n":          "unknown",
		"populated \n":            "unknown",
		"frozen 0\n":              "unknown",
		"":                        "unknown",
	} {
		populated, err := parsePopulated([]byte(data))
		got := map[bool]string{true: "populated", false: "empty"}[populated]
		if err != nil {
			got = "unknown"
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", data, got, want)
		}
	}
}

// A directory that can't be read is no proof, and one that is gone is.
func TestProof(t *testing.T) {
	gone := NewRange(filepath.Join(t.TempDir(), "gone"), 1, nil)
	if err := gone.WaitEmpty(t.Context()); err != nil {
		t.Errorf("a cgroup that is gone: %v", err)
	}
	if members, err := gone.Members(t.Context()); err != nil || len(members) > 0 {
		t.Errorf("its members: %v, %v", members, err)
	}
	for _, sig := range []owner.Signal{owner.Terminate, owner.Kill} {
		if err := gone.Signal(sig); err != nil {
			t.Errorf("signalling it: %v", err)
		}
	}
	if err := gone.Close(); err != nil {
		t.Errorf("closing it: %v", err)
	}

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, eventsFile), []byte("frozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewRange(dir, 1, nil).WaitEmpty(t.Context()); err == nil {
		t.Error("a file that does not say is a proof")
	}
	if err := os.Remove(filepath.Join(dir, eventsFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, eventsFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := NewRange(dir, 1, nil).WaitEmpty(t.Context()); err == nil {
		t.Error("a file that can't be read is a proof")
	}
}

// After the proof nothing is signalled, whoever is in the directory by then.
func TestNoSignalAfterProof(t *testing.T) {
	dir := t.TempDir()
	write := func(file, content string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(eventsFile, "populated 0\n")
	write("cgroup.kill", "")
	write(procsFile, "")
	r := NewRange(dir, 1, nil)
	if err := r.Signal(owner.Kill); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "cgroup.kill")); err != nil || string(got) != "1" {
		t.Fatalf("got %q, %v", got, err)
	}
	if err := r.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	write("cgroup.kill", "")
	write(eventsFile, "populated 1\n")
	for _, sig := range []owner.Signal{owner.Terminate, owner.Kill} {
		if err := r.Signal(sig); err != nil {
			t.Error(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "cgroup.kill")); err != nil || len(got) > 0 {
		t.Errorf("after the proof cgroup.kill was given %q, %v", got, err)
	}
}

// A process that is listed and is not in the cgroup, as one whose number was
// given to another, is neither signalled nor waited for.
func TestStrangersAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	stranger := "1\n" // the first process: it is in no cgroup of this name
	if err := os.WriteFile(filepath.Join(dir, procsFile), []byte(stranger), 0o600); err != nil {
		t.Fatal(err)
	}
	r := NewRange(dir, 2, nil)
	if r.holds(1) {
		t.Fatal("process 1 is taken for a member")
	}
	if err := r.Signal(owner.Terminate); err != nil {
		t.Error(err)
	}
	pids, err := members(dir)
	if err != nil || len(pids) != 1 {
		t.Fatalf("got %v, %v", pids, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if watched, err := r.waitOne(ctx, nil, pids); watched || err != nil {
		t.Errorf("waited for a stranger: %v, %v", watched, err)
	}
}

// Directories of the payload's can be deeper than a path may be long.
func TestDeepDirectories(t *testing.T) {
	base := t.TempDir()
	root, err := os.OpenRoot(base)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 250)
	const depth = 40 // 10,000 bytes
	for range depth {
		if err := root.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot(name)
		_ = root.Close()
		if err != nil {
			t.Fatal(err)
		}
		root = next
	}
	if err := root.WriteFile(procsFile, []byte("7\n0\nx\n8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := members(base)
	if err != nil || len(got) != 2 || got[0] != 7 || got[1] != 8 {
		t.Errorf("got %v, %v", got, err)
	}
	if err := root.Remove(procsFile); err != nil {
		t.Fatal(err)
	}
	_ = root.Close()
	if err := Remove(filepath.Join(base, name)); err != nil && !strings.Contains(err.Error(), "not empty") {
		t.Error(err)
	}
	if err := removeBelow(base); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(base); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
