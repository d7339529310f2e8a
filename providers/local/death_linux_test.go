package local_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

const (
	doomedKind   = "TEST_DOOMED_KIND"
	doomedMarker = "TEST_DOOMED_MARKER"
	doomedCount  = "TEST_DOOMED_COUNT"
	doomedOnTTYs = "TEST_DOOMED_ON_TERMINALS"
	doomedRanges = 10
)

// Whoever of those that own ranges is killed, the ranges end: nobody is left
// that a user would have to find.
func TestKilledOwnersLeaveNothing(t *testing.T) {
	if kind := os.Getenv(doomedKind); kind != "" {
		beDoomed(t, seam.Kind(kind), os.Getenv(doomedMarker))
		return
	}
	native := []seam.Kind{seam.KindScope, seam.KindCgroup}
	harness := func(d *doomed) []int { return []int{d.pid} }
	guardian := func(d *doomed) []int { return d.guardians()[:1] }
	nursery := func(d *doomed) []int { return d.runners(d.pid) }
	supervisor := func(d *doomed) []int { return d.runners(d.runners(d.pid)...)[:1] }
	supervisors := func(d *doomed) []int { return d.runners(d.runners(d.pid)...) }
	for _, c := range []struct {
		name  string
		kinds []seam.Kind
		kill  []func(*doomed) []int
		left  int  // of doomedRanges that go on, as they should
		ttys  bool // the ranges are those of terminals

		stop func(*doomed) []int // whom a payload has stopped; nil for nobody
	}{
		{"the harness", []seam.Kind{seam.KindScope, seam.KindCgroup, seam.KindReaper}, []func(*doomed) []int{harness}, 0, false, nil},
		{"the harness of terminals", []seam.Kind{seam.KindScope, seam.KindCgroup, seam.KindReaper}, []func(*doomed) []int{harness}, 0, true, nil},
		{"the harness and its guardian", native, []func(*doomed) []int{harness, guardian}, 0, false, nil},
		{"the guardian and its harness", native, []func(*doomed) []int{guardian, harness}, 0, false, nil},
		{"the nursery", []seam.Kind{seam.KindReaper}, []func(*doomed) []int{nursery}, 0, false, nil},
		{"one supervisor", []seam.Kind{seam.KindReaper}, []func(*doomed) []int{supervisor}, doomedRanges - 1, false, nil},
		{"every supervisor", []seam.Kind{seam.KindReaper}, []func(*doomed) []int{supervisors}, 0, false, nil},
		{"the harness and the nursery", []seam.Kind{seam.KindReaper}, []func(*doomed) []int{harness, nursery}, 0, false, nil},
		{"the harness and every supervisor", []seam.Kind{seam.KindReaper}, []func(*doomed) []int{harness, supervisors}, 0, false, nil},
		{"the harness of stopped supervisors", []seam.Kind{seam.KindReaper}, []func(*doomed) []int{harness}, 0, false, supervisors},
	} {
		for _, kind := range kindsHere(t, c.kinds...) {
			t.Run(c.name+"/"+string(kind), func(t *testing.T) {
				need(t, kind)
				d := startDoomed(t, kind, doomedRanges, c.ttys)
				var victims []int
				for _, choose := range c.kill {
					victims = append(victims, choose(d)...)
				}
				if len(victims) == 0 {
					t.Fatal("nobody to kill")
				}
				if c.stop != nil {
					for _, pid := range c.stop(d) {
						signalProcess(t, pid, syscall.SIGSTOP)
					}
				}
				for _, pid := range victims {
					// The end of the first can be faster than we are with the next.
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
						t.Fatal(err)
					}
				}
				d.waitFor(t, c.left)
			})
		}
	}
}

// beDoomed starts ranges that ignore TERM in sessions of their own, says so, and
// waits to be killed.
func beDoomed(t *testing.T, kind seam.Kind, marker string) {
	r, err := local.New(local.Config{WorldID: "doomed", Containment: kind})
	if err != nil {
		t.Fatal(err)
	}
	ranges, err := strconv.Atoi(os.Getenv(doomedCount))
	if err != nil {
		t.Fatal(err)
	}
	for range ranges {
		argv := []string{"sh", "-c", `trap "" TERM HUP; setsid sh -c 'trap "" TERM HUP; echo up; exec sleep ` + marker + `' & wait`}
		line, err := bufio.NewReader(startDoomedRange(t, r, argv)).ReadString('\n')
		if err != nil {
			t.Fatalf("%q, %v", line, err)
		}
	}
	fmt.Println("ready")
	<-t.Context().Done()
}

// startDoomedRange returns its output.
func startDoomedRange(t *testing.T, r *local.Runtime, argv []string) io.Reader {
	if os.Getenv(doomedOnTTYs) != "" {
		terminal, err := r.SpawnTerminal(t.Context(), seam.TerminalSpec{Argv: argv, Dir: "/", Cols: 80, Rows: 24, Grace: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return terminal
	}
	p, err := r.Spawn(t.Context(), seam.Spec{Argv: argv, Dir: "/", Grace: time.Minute, Stdout: seam.Output{Mode: seam.Pipe}})
	if err != nil {
		t.Fatal(err)
	}
	return p.Stdout()
}

// doomed is a harness that is about to be killed.
type doomed struct {
	pid    int
	marker string
}

func startDoomed(t testing.TB, kind seam.Kind, ranges int, ttys bool) *doomed {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &doomed{marker: fmt.Sprintf("600.%09d", rand.IntN(1e9))}
	cmd := exec.Command(executable, "-test.run=^TestKilledOwnersLeaveNothing$", "-test.count=1")
	cmd.Env = append(os.Environ(), doomedKind+"="+string(kind), doomedMarker+"="+d.marker, doomedCount+"="+strconv.Itoa(ranges))
	if ttys {
		cmd.Env = append(cmd.Env, doomedOnTTYs+"=1")
	}
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		d.waitFor(t, 0)
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if lines.Text() == "ready" {
			return d
		}
		t.Log(lines.Text())
	}
	t.Fatal("the harness did not get ready")
	return nil
}

// runners lists the processes of Corral's own among the children of parents.
func (d *doomed) runners(parents ...int) []int {
	var found []int
	for _, row := range process.Table() {
		if slices.Contains(parents, row.Parent) && bytes.HasPrefix(cmdline(row.PID), []byte("corral-runner")) {
			found = append(found, row.PID)
		}
	}
	return found
}

// guardians lists those that see the harness's end by a pipe.
func (d *doomed) guardians() []int {
	ours, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", d.pid))
	pipes := make(map[string]bool)
	for _, fd := range ours {
		if link, err := os.Readlink(fd); err == nil && strings.HasPrefix(link, "pipe:") {
			pipes[link] = true
		}
	}
	var found []int
	for _, row := range process.Table() {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", row.PID))
		if err == nil && pipes[link] && bytes.HasPrefix(cmdline(row.PID), []byte("corral-runner")) {
			found = append(found, row.PID)
		}
	}
	return found
}

// payloads are handles of the processes that live to the end of the ranges.
func (d *doomed) payloads(t testing.TB, ranges int) []int {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		var handles []int
		for _, row := range process.Table() {
			if row.Dead() || !strings.HasPrefix(string(cmdline(row.PID)), "sleep\x00"+d.marker) {
				continue // or not yet: it says that it is up before its execve
			}
			fd, err := unix.PidfdOpen(row.PID, 0)
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, fd)
		}
		if len(handles) == ranges {
			return handles
		}
		for _, fd := range handles {
			_ = unix.Close(fd)
		}
	}
	t.Fatal("the payloads did not get ready")
	return nil
}

// BenchmarkDeath is the harness's SIGKILL to the end of the last process of 50
// ranges, all of which ignore TERM, in sessions of their own.
func BenchmarkDeath(b *testing.B) {
	for _, kind := range []seam.Kind{seam.KindCgroup, seam.KindScope, seam.KindReaper} {
		b.Run(string(kind), func(b *testing.B) {
			if _, err := openRuntime(b, local.Config{Containment: kind}).Containment(b.Context()); err != nil {
				b.Skip(err)
			}
			const ranges = 50
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				d := startDoomed(b, kind, ranges, false)
				handles := d.payloads(b, ranges)
				b.StartTimer()
				took = append(took, timed(func() {
					if err := syscall.Kill(d.pid, syscall.SIGKILL); err != nil {
						b.Fatal(err)
					}
					for _, fd := range handles {
						fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
						for {
							if n, err := unix.Poll(fds, 60_000); err != unix.EINTR {
								if n != 1 {
									b.Fatalf("a payload lives: %v", err)
								}
								break
							}
						}
					}
				}))
				for _, fd := range handles {
					_ = unix.Close(fd)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
		})
	}
}

func cmdline(pid int) []byte {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // gone is empty
	return data
}

// waitFor waits until as many of the payloads live as are left, and no fewer.
func (d *doomed) waitFor(t testing.TB, left int) {
	t.Helper()
	const bound = time.Minute // what it takes is for the benchmarks; this only ends a failed test
	began := time.Now()
	for {
		alive := 0
		for _, row := range process.Table() {
			if !row.Dead() && strings.HasPrefix(string(cmdline(row.PID)), "sleep\x00"+d.marker) {
				alive++
			}
		}
		switch {
		case alive == left:
			return
		case alive < left, time.Since(began) > bound:
			t.Fatalf("%d payloads alive after %v, want %d", alive, time.Since(began), left)
		}
	}
}
