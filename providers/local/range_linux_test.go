package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// asHarness runs the calling test again, from its top, in a process of its own,
// prepared by prepare, where inside reports true.
func asHarness(t *testing.T, prepare func(*exec.Cmd)) string {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(executable, "-test.run=^"+test+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	prepare(cmd)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("harness: %v\n%s", err, output)
	}
	return string(output)
}

const insideVariable = "TEST_INSIDE_HARNESS"

func inside() bool { return os.Getenv(insideVariable) != "" }

// Targets get descriptors 0 to 2, default dispositions and an empty mask,
// whatever the harness was started with.
func TestTargetStartsClean(t *testing.T) {
	const kindVariable = "TEST_CLEAN_KIND"
	if inside() {
		reportState(t, seam.Kind(os.Getenv(kindVariable)))
		return
	}
	for _, kind := range kindsHere(t, seam.KindScope, seam.KindCgroup, seam.KindReaper, seam.KindGroup) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			output := asHarness(t, func(cmd *exec.Cmd) {
				cmd.Env = append(cmd.Env, kindVariable+"="+string(kind))
				cmd.ExtraFiles = []*os.File{os.Stdin, os.Stdout} // stray: 3 and 4
				script := `trap "" HUP INT TSTP; exec "$@"`
				cmd.Args = append([]string{"sh", "-c", script, "sh", cmd.Path}, cmd.Args[1:]...)
				cmd.Path = "/bin/sh"
				blockUSR1(t)
			})
			for _, want := range []string{
				"descriptors 0 1 2 3\n", // sh's own directory is 3
				"SigBlk:\t0000000000000000",
				"SigIgn:\t0000000000000000",
			} {
				if !strings.Contains(output, want) {
					t.Errorf("got %q, want %q", output, want)
				}
			}
			var pid, group, session, tty int
			_, rest, _ := strings.Cut(output, "session ")
			if _, err := fmt.Sscan(rest, &pid, &group, &session, &tty); err != nil {
				t.Fatal(err)
			}
			if pid != group || pid != session || tty != 0 {
				t.Errorf("process %d: group %d, session %d, terminal %d; want its own, and none", pid, group, session, tty)
			}
		})
	}
}

// reportState prints what a target of this process gets.
func reportState(t *testing.T, kind seam.Kind) {
	if err := local.Main(); err != nil {
		t.Fatal(err)
	}
	if !local.Ignores(syscall.SIGHUP) || local.Ignores(syscall.SIGTERM) {
		t.Error("Ignores does not tell what this process was started with")
	}
	// A descriptor that a C library might have opened since.
	if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
		t.Fatal(err)
	}
	r := openRuntime(t, local.Config{Containment: kind})
	_, descriptors := run(t, r, "sh", "-c", "cd /proc/self/fd && echo *")
	_, status := run(t, r, "grep", "-E", "^(Sig|Shd)(Blk|Ign|Pnd):", "/proc/self/status")
	_, session := run(t, r, "sh", "-c", "cut -d' ' -f1,5,6,7 /proc/$$/stat")
	fmt.Printf("descriptors %s\nstatus %s\nsession %s\n", descriptors, status, session)
}

// blockUSR1 blocks a signal on the thread that will fork the harness, which
// takes it over.
func blockUSR1(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	set, old := new(unix.Sigset_t), new(unix.Sigset_t)
	set.Val[0] = 1 << (unix.SIGUSR1 - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, set, old); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, old, nil) })
}

// bash -i without a terminal must neither stop nor be stopped.
func TestInteractiveShellDoesNotStop(t *testing.T) {
	end, output := run(t, openRuntime(t, local.Config{}), "bash", "--norc", "-ic", "echo ok")
	if !end.Outcome.Success() || !strings.Contains(output, "ok\n") {
		t.Errorf("got %+v, %q", end.Outcome, output)
	}
}

// What leaves the leader's process group stays in the range.
func TestJobControlEscapesNothing(t *testing.T) {
	r := openRuntime(t, local.Config{Containment: seam.KindGroup})
	end, _ := run(t, r, "bash", "-c", "set -m; sleep 600 & sleep 601 & true")
	if len(end.Survivors) != 2 {
		t.Errorf("got survivors %+v, want both", end.Survivors)
	}
	if end.Empty != nil {
		t.Error(end.Empty)
	}
}

// The output of a process substitution is not lost to the end of its range.
func TestTeeLosesNothing(t *testing.T) {
	r := openRuntime(t, local.Config{Containment: seam.KindGroup})
	dir := t.TempDir()
	var runs sync.WaitGroup
	slots := make(chan struct{}, 10)
	for i := range 100 {
		runs.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			file := filepath.Join(dir, fmt.Sprint(i))
			end, output := run(t, r, "bash", "-c", "exec > >(tee "+file+") 2>&1; echo done; sleep 300 &")
			if output != "done\n" || end.Empty != nil || !end.Outcome.Success() {
				t.Errorf("run %d: %+v, output %q", i, end, output)
			}
			if copied, err := os.ReadFile(file); err != nil || string(copied) != "done\n" {
				t.Errorf("run %d: file %q, %v", i, copied, err)
			}
		})
	}
	runs.Wait()
}

// A live child costs no thread, and an ended one nothing.
func TestLiveChildrenCostNoThreads(t *testing.T) {
	r := openRuntime(t, local.Config{Containment: seam.KindGroup})
	run(t, r, "true")
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	const children = 300
	processes := make([]seam.Process, children)
	for i := range processes {
		p, err := r.Spawn(t.Context(), seam.Spec{
			Argv: []string{"sleep", "600"}, Dir: "/", Grace: time.Second,
			Stdout: seam.Output{Mode: seam.Collect, MaxBytes: 1024},
		})
		if err != nil {
			t.Fatal(err)
		}
		processes[i] = p
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d threads with %d live children", len(tasks), children)
	if len(tasks) > 50 {
		t.Errorf("%d threads with %d live children", len(tasks), children)
	}
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		outcome, err := p.Wait(t.Context())
		if err != nil || outcome.End != seam.EndTerminated || !errors.Is(outcome.Cause, seam.ErrClosed) {
			t.Fatalf("got %+v, %v", outcome, err)
		}
	}
	// A goroutine that has closed its channel may still be on its last line.
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
		}
	}
	if got := openDescriptors(t); got > descriptors {
		t.Errorf("%d descriptors, %d before", got, descriptors)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// In a namespace where numbers come round again and again, no signal reaches a
// stranger.
func TestSignalsReachNoStranger(t *testing.T) {
	if inside() {
		spawnAndKillAround(t)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("making a pid namespace takes root")
	}
	asHarness(t, func(cmd *exec.Cmd) {
		// bash is the namespace's first process, and reaps what is orphaned.
		cmd.Args = append([]string{"unshare", "--pid", "--fork", "--mount-proc",
			"bash", "-c", `"$0" "$@"; exit $?`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = lookPath(t, "unshare")
	})
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func spawnAndKillAround(t *testing.T) {
	// The namespace's own since Linux 6.14, the machine's before: left alone there.
	const smallest = "1200"
	var version unix.Utsname
	var major, minor int
	if err := unix.Uname(&version); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Sscanf(unix.ByteSliceToString(version.Release[:]), "%d.%d", &major, &minor)
	if major > 6 || major == 6 && minor >= 14 {
		if err := os.WriteFile("/proc/sys/kernel/pid_max", []byte(smallest), 0); err != nil {
			t.Fatal(err)
		}
	}
	canary := exec.Command("sleep", "999")
	canary.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := canary.Start(); err != nil {
		t.Fatal(err)
	}
	r := openRuntime(t, local.Config{Containment: seam.KindGroup})
	for range 5 {
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				p, err := r.Spawn(t.Context(), seam.Spec{
					Argv: []string{"sh", "-c", "sleep 600 & exit 0"}, Dir: "/", Grace: time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				p.Terminate(errors.New("enough"))
				if err := p.WaitEmpty(t.Context()); err != nil {
					t.Error(err)
				}
				p.Terminate(errors.New("again"))
			})
		}
		all.Wait()
	}
	if err := canary.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("canary: %v", err)
	}
	_ = canary.Process.Kill()
	if err := canary.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("canary ended before we killed it: %v", err)
	}
}

// A member that leaves its session while it is watched is no member any more.
func TestWhoLeavesIsNotWaitedFor(t *testing.T) {
	r := openRuntime(t, local.Config{Containment: seam.KindGroup})
	file := filepath.Join(t.TempDir(), "pid")
	p, err := r.Spawn(t.Context(), seam.Spec{
		Argv:  []string{"sh", "-c", `sh -c 'sleep 0.3; echo $$ >` + file + `; exec setsid sleep 600' & exit 0`},
		Dir:   "/",
		Grace: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := p.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(started); took > time.Minute {
		t.Errorf("waited %v for a process that had left", took)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var escaped int
	if _, err := fmt.Sscan(string(text), &escaped); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(escaped, syscall.SIGKILL); err != nil {
		t.Errorf("the process that left had ended: %v", err)
	}
}

// What forks a child and ends, again and again, is never in a list of processes
// that was read before; it is not taken for nothing.
func TestForkChainIsNotTakenForNothing(t *testing.T) {
	chain := `import os, sys, time
end = time.time() + 60
while time.time() < end:
    if os.fork(): os._exit(0)
`
	for _, kind := range kindsHere(t, seam.KindGroup, seam.KindReaper) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			r := openRuntime(t, local.Config{Containment: kind})
			const drain = 200 * time.Millisecond
			p, err := r.Spawn(t.Context(), seam.Spec{
				Argv: []string{"python3", "-c", chain}, Dir: "/", Grace: 200 * time.Millisecond, Drain: drain})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			soon, cancel := context.WithTimeout(t.Context(), drain)
			defer cancel()
			if err := p.WaitEmpty(soon); err == nil {
				t.Fatal("proven empty while it forks")
			}
			end, err := seam.Settle(t.Context(), p, 0, seam.KillSurvivors)
			if err != nil || end.Empty != nil {
				t.Errorf("%+v, %v", end, err)
			}
		})
	}
}

// A payload that stops or kills who owns it is ended all the same.
func TestSupervisorUnderAttack(t *testing.T) {
	need(t, seam.KindReaper)
	for _, c := range []struct {
		name, script string
		end          seam.EndKind
	}{
		// Not before the supervisor has said that it started: see runner's startSilence.
		{"stopped", "sleep 0.3; kill -STOP $PPID; exec sleep 600", seam.EndTerminated},
		{"killed", "sleep 0.3; kill -KILL $PPID; exec sleep 600", seam.EndLost},
		{"its nursery stopped", "read -r _ _ _ nursery _ </proc/$PPID/stat; kill -STOP $nursery; exec sleep 600", seam.EndTerminated},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := openRuntime(t, local.Config{Containment: seam.KindReaper})
			p, err := r.Spawn(t.Context(), seam.Spec{
				Argv: []string{"sh", "-c", c.script}, Dir: "/", Grace: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, errors.New("enough"))
			defer cancel()
			end, err := seam.Settle(ctx, p, 0, seam.KillSurvivors)
			if err != nil || end.Empty != nil || end.Outcome.End != c.end {
				t.Errorf("%+v, %v, want it %s", end, err, c.end)
			}
			// The runtime goes on.
			if end, _ := run(t, r, "true"); !end.Outcome.Success() {
				t.Errorf("the next command: %+v", end)
			}
		})
	}
}
