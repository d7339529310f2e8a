package local_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// TestForeignNeighbours: runtimes in pid namespaces of their own, which share
// their directories, leave each other alone as long as they live; what a dead
// one has left, any of them ends.
func TestForeignNeighbours(t *testing.T) {
	if inside() {
		beNeighbour(t)
		return
	}
	if _, ok := here(t); !ok || os.Getuid() != 0 {
		t.Skip("making a pid namespace, and giving its runtimes a cgroup to divide, takes root of a test host")
	}
	markDelegated(t)
	for _, sweeper := range []string{"a neighbour", "a runtime outside"} {
		t.Run("swept by "+sweeper, func(t *testing.T) {
			shared := t.TempDir()
			dead, live := startNeighbour(t, shared), startNeighbour(t, shared)
			// The one outside is a runtime of this process.
			sweepOutside := func() {
				r := openRuntime(t, local.Config{Spill: local.SpillConfig{Dir: shared}})
				if err := r.Start(t.Context()); err != nil {
					t.Error(err)
				}
			}

			dead.sweep(t)
			live.sweep(t)
			sweepOutside()
			if dirs := privateDirs(t, shared); len(dirs) != 2 {
				t.Errorf("two live, and there are %q", dirs)
			}
			dead.waitFor(t, 1)
			live.waitFor(t, 1)

			dead.die(t)
			dead.waitFor(t, 1)
			if sweeper == "a neighbour" {
				live.sweep(t)
			} else {
				sweepOutside()
			}
			dead.waitFor(t, 0)
			live.waitFor(t, 1)
			if dirs := privateDirs(t, shared); len(dirs) != 1 {
				t.Errorf("one lives, and there are %q", dirs)
			}
		})
	}
}

// markDelegated marks the test host's own cgroup as ours to divide, as a manager
// would.
func markDelegated(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(string(data), "0::")
	dir := cgroupDir(t, strings.TrimSpace(path))
	if err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Removexattr(dir, "user.delegate") })
}

// beNeighbour has a range in its own cgroup, and starts another runtime, which
// sweeps, for each line that it reads.
func beNeighbour(t *testing.T) {
	config := local.Config{WorldID: "neighbour", Containment: seam.KindCgroup, Spill: local.SpillConfig{Dir: os.Getenv("TMPDIR")}}
	r, err := local.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Spawn(t.Context(), seam.Spec{
		Argv: []string{"sleep", os.Getenv(doomedMarker)}, Dir: "/", Grace: time.Second,
	}); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	for {
		fmt.Println("done")
		if !lines.Scan() {
			break
		}
		next := openRuntime(t, config)
		if err := next.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		closeRuntime(t, next)
	}
	closeRuntime(t, r)
}

// neighbour is a harness that is not the first process of its pid namespace:
// its end is not the namespace's.
type neighbour struct {
	doomed
	stdin  io.Writer
	stdout *bufio.Scanner
}

func startNeighbour(t *testing.T, shared string) *neighbour {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &neighbour{doomed: doomed{marker: fmt.Sprintf("600.%09d", rand.IntN(1e9))}}
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
		"bash", "-c", `"$0" "$@"; sleep 600`, executable, "-test.run=^TestForeignNeighbours$", "-test.count=1")
	cmd.Env = append(os.Environ(), insideVariable+"=1", doomedMarker+"="+n.marker, "TMPDIR="+shared, "XDG_RUNTIME_DIR="+shared)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // the end that it waits for, unless it had another
		if n.pid != 0 {
			waitEnded(t, n.pid)
		}
		_ = cmd.Process.Kill() // and with it the namespace
		_ = cmd.Wait()         // killed
		n.waitFor(t, 0)
	})
	n.stdin, n.stdout = stdin, bufio.NewScanner(stdout)
	n.expectDone(t)
	// Its number here is another than it knows.
	for _, row := range process.Table() {
		if strings.HasPrefix(string(cmdline(row.PID)), executable+"\x00-test.run=^TestForeignNeighbours$") && hasMarker(row.PID, n.marker) {
			n.pid = row.PID
		}
	}
	if n.pid == 0 {
		t.Fatal("the neighbour is not found")
	}
	return n
}

func hasMarker(pid int, marker string) bool {
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // gone is empty
	return strings.Contains(string(environ), doomedMarker+"="+marker+"\x00")
}

func (n *neighbour) expectDone(t *testing.T) {
	t.Helper()
	for n.stdout.Scan() {
		if n.stdout.Text() == "done" {
			return
		}
		t.Log(n.stdout.Text())
	}
	t.Fatal("the neighbour has ended")
}

func (n *neighbour) sweep(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(n.stdin, "sweep\n"); err != nil {
		t.Fatal(err)
	}
	n.expectDone(t)
}

// die ends the harness and both of its guardians, of which none has time to end
// the ranges.
func (n *neighbour) die(t *testing.T) {
	t.Helper()
	guardians := n.guardians()
	if len(guardians) != 2 {
		t.Fatalf("guardians %v, want 2", guardians)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range append(guardians, n.pid) {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The lock is free when the last of them is gone.
	for _, pid := range append(guardians, n.pid) {
		waitEnded(t, pid)
	}
}

// waitEnded waits for the end of a process of which someone else is the parent.
func waitEnded(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 60_000)
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			t.Fatalf("process %d lives: %v", pid, err)
		}
		return
	}
}

func privateDirs(t *testing.T, root string) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(root, "corral-spill-*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}
