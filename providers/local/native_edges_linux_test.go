package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/systemd"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// leftovers are what Corral has left on this host, once every runtime is
// closed: units of any state, cgroups and processes.
func leftovers(t testing.TB) (found []string) {
	t.Helper()
	if flag, ok := managerFlag(); ok {
		out, err := exec.Command("systemctl", flag, "list-units", "--all", "--plain", "--no-legend", "corral*").CombinedOutput()
		if err != nil {
			t.Fatalf("systemctl: %v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			found = append(found, "unit "+strings.TrimSpace(line))
		}
	}
	root := cgroupDir(t, "/")
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(entry.Name(), "corral-") {
			found = append(found, "cgroup "+path)
		}
		return nil // a cgroup that is gone by now, or another user's
	})
	for _, process := range alive(t, "corral-runner") {
		found = append(found, "process "+process)
	}
	return found
}

// managerFlag is how systemctl reaches the manager that Corral asks here.
func managerFlag() (string, bool) {
	if _, err := systemd.UserBus(); err == nil {
		return "--user", true
	}
	_, err := systemd.SystemBus()
	return "--system", err == nil && os.Getuid() == 0
}

// checkClean fails if a closed runtime has left something. It is for tests that
// own the host while they run.
func checkClean(t *testing.T) {
	t.Helper()
	if _, ok := here(t); !ok {
		return // others may run on this host
	}
	if found := leftovers(t); len(found) > 0 {
		t.Errorf("left: %s", strings.Join(found, "\n"))
	}
}

// counter is a file to which every run of its script adds a line.
type counter string

func newCounter(t *testing.T) counter { return counter(filepath.Join(t.TempDir(), "runs")) }

// spec is a launch of a script that begins by counting.
func (c counter) spec(script string) seam.Spec {
	return seam.Spec{
		Argv: []string{"sh", "-c", "echo run >> " + string(c) + "; " + script}, Dir: "/", Grace: 100 * time.Millisecond,
	}
}

func (c counter) runs(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile(string(c))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(data, []byte("\n"))
}

// bootstraps lists the children of this process that are about to become targets.
func bootstraps(t *testing.T) (pids []int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		children, _ := os.ReadFile(task) // a thread that has ended
		for field := range bytes.FieldsSeq(children) {
			var pid int
			if _, err := fmt.Sscan(string(field), &pid); err == nil && bytes.HasPrefix(cmdline(pid), []byte("corral-runner")) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// TestKilledWhileStarting: a bootstrap that is killed, at whatever moment, is a
// failed launch whose target never ran, or a launch like any other; and nothing
// is left of it.
func TestKilledWhileStarting(t *testing.T) {
	need(t, seam.KindScope)
	const launches = 200
	r := openRuntime(t, local.Config{Containment: seam.KindScope})
	if _, err := r.Containment(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range launches {
		count := newCounter(t)
		type result struct {
			p   seam.Process
			err error
		}
		results := make(chan result, 1)
		go func() { // joined by the receive below
			p, err := r.Spawn(t.Context(), count.spec("exec sleep 600"))
			results <- result{p, err}
		}()
		var victims []int
		for len(victims) == 0 && len(results) == 0 {
			victims = bootstraps(t)
		}
		time.Sleep(rand.N(time.Microsecond << rand.IntN(16))) // the moment is what varies
		for _, pid := range victims {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended; its number is pinned until Spawn returns
		}
		got := <-results
		switch {
		case got.err != nil:
			failed++
			if code := seam.CodeOf(got.err); code != seam.CodeContainment {
				t.Errorf("got %q: %v", code, got.err)
			}
			if n := count.runs(t); n != 0 {
				t.Errorf("the launch failed (%v), and its target ran %d times", got.err, n)
			}
		default:
			got.p.Terminate(errEnough)
			if err := got.p.WaitEmpty(t.Context()); err != nil {
				t.Error(err)
			}
			if n := count.runs(t); n > 1 {
				t.Errorf("the target ran %d times", n)
			}
		}
	}
	t.Logf("%d of %d launches failed", failed, launches)
	closeRuntime(t, r)
	checkClean(t)
}

// TestContextEndsWhileStarting: a context that ends during a launch aborts it,
// and then nothing of it ran or runs; or it comes too late.
func TestContextEndsWhileStarting(t *testing.T) {
	forEachNative(t, func(t *testing.T, kind seam.Kind) {
		r := openRuntime(t, local.Config{Containment: kind})
		if _, err := r.Containment(t.Context()); err != nil {
			t.Fatal(err)
		}
		aborted := 0
		for range 100 {
			ctx, cancel := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(time.Duration(rand.IntN(8000))*time.Microsecond, func() { cancel(errEnough) })
			spec, marker := adversarySpec("plain")
			p, err := r.Spawn(ctx, spec)
			timer.Stop()
			if err != nil {
				aborted++
				if seam.CodeOf(err) != seam.CodeAborted || !errors.Is(err, errEnough) {
					t.Errorf("got %q: %v", seam.CodeOf(err), err)
				}
			} else {
				p.Terminate(errEnough)
				if err := p.WaitEmpty(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if left := alive(t, marker); len(left) > 0 {
				t.Errorf("alive: %s", left)
			}
			cancel(nil)
		}
		t.Logf("%d aborted", aborted)
		closeRuntime(t, r)
		checkClean(t)
	})
}

// TestFirstLaunchIsAborted: a context that ends while the owner is being chosen
// is no reason to take a weaker one.
func TestFirstLaunchIsAborted(t *testing.T) {
	for range 20 {
		r := openRuntime(t, local.Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(time.Duration(rand.IntN(10_000))*time.Microsecond, func() { cancel(errEnough) })
		p, err := r.Spawn(ctx, seam.Spec{Argv: []string{"true"}, Dir: "/", Grace: time.Second})
		timer.Stop()
		cancel(nil)
		if err != nil {
			if seam.CodeOf(err) != seam.CodeAborted {
				t.Errorf("got %q: %v", seam.CodeOf(err), err)
			}
		} else if want, ok := here(t); ok && p.Containment().Kind != want.auto {
			t.Errorf("got %s, want %s", p.Containment().Kind, want.auto)
		}
		closeRuntime(t, r)
	}
	checkClean(t)
}

// managerPID is the process of the user's manager.
func managerPID(t *testing.T) int {
	t.Helper()
	flag, ok := managerFlag()
	if !ok || flag != "--user" {
		t.Skip("needs a manager of the user's own")
	}
	var pid int
	out, err := exec.Command("systemctl", "show", "-P", "MainPID", fmt.Sprintf("user@%d.service", os.Getuid())).CombinedOutput()
	if _, scanErr := fmt.Sscan(string(out), &pid); err != nil || scanErr != nil || pid < 2 {
		t.Fatalf("no manager: %v %v\n%s", err, scanErr, out)
	}
	return pid
}

func signalProcess(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// TestManagerHangs: a launch that a manager does not answer is given up in its
// context's time, and what the manager carries out later is undone.
func TestManagerHangs(t *testing.T) {
	need(t, seam.KindScope)
	pid := managerPID(t)
	r := openRuntime(t, local.Config{Containment: seam.KindScope})
	if _, err := r.Containment(t.Context()); err != nil {
		t.Fatal(err)
	}
	live := startAdversary(t, r, "plain")
	count := newCounter(t)
	signalProcess(t, pid, syscall.SIGSTOP)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errEnough)
	defer cancel()
	began := time.Now()
	_, err := r.Spawn(ctx, count.spec("exec sleep 600"))
	took := time.Since(began)
	// Ranges that live don't need the manager to end.
	live.Terminate(errEnough)
	emptyErr := live.WaitEmpty(t.Context())
	signalProcess(t, pid, syscall.SIGCONT)

	if seam.CodeOf(err) != seam.CodeAborted || !errors.Is(err, errEnough) {
		t.Errorf("got %v", err)
	}
	if took > 2*time.Second {
		t.Errorf("the launch was given up after %v", took)
	}
	if emptyErr != nil {
		t.Error(emptyErr)
	}
	live.checkEmpty(t, true)
	closeRuntime(t, r)
	if n := count.runs(t); n != 0 {
		t.Errorf("the target ran %d times", n)
	}
	checkClean(t)
}

// TestConnectionLost: the bus is not needed to end a range, and the next launch
// finds it again.
func TestConnectionLost(t *testing.T) {
	flag, ok := managerFlag()
	if !ok {
		t.Skip("no systemd manager")
	}
	forEachNative(t, func(t *testing.T, kind seam.Kind) {
		r := openRuntime(t, local.Config{Containment: kind})
		a := startAdversary(t, r, "setsid")
		loseConnections(t, flag)
		a.Terminate(errEnough)
		if err := a.WaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
		a.checkEmpty(t, true)

		const concurrent = 40
		count := newCounter(t)
		var launches sync.WaitGroup
		var failed atomic.Int32
		for range concurrent {
			launches.Go(func() {
				p, err := r.Spawn(t.Context(), count.spec("exit 0"))
				if err != nil {
					failed.Add(1)
					if code := seam.CodeOf(err); code != seam.CodeContainment {
						t.Errorf("got %q: %v", code, err)
					}
					return
				}
				if err := p.WaitEmpty(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		for range 5 {
			time.Sleep(5 * time.Millisecond) // some have started, and some have not
			loseConnections(t, flag)
		}
		launches.Wait()
		if runs := count.runs(t) + int(failed.Load()); runs != concurrent {
			t.Errorf("%d launches, %d failed, and the targets ran %d times", concurrent, failed.Load(), count.runs(t))
		}
		loseConnections(t, flag)
		p, err := r.Spawn(t.Context(), count.spec("exit 0"))
		if err != nil { // it found out; the next one knows
			p, err = r.Spawn(t.Context(), count.spec("exit 0"))
		}
		if err != nil {
			t.Fatalf("the launch after: %v", err)
		}
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
		loseConnections(t, flag) // Close finds it again, too
		closeRuntime(t, r)
		checkClean(t)
	})
}

// loseConnections ends every connection of this process to the bus, as the end
// of the bus would.
func loseConnections(t *testing.T, flag string) {
	t.Helper()
	socket, err := systemd.UserBus()
	if flag != "--user" {
		socket, err = systemd.SystemBus()
	}
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		var fd int
		if _, err := fmt.Sscan(entry.Name(), &fd); err != nil {
			t.Fatal(err)
		}
		if peer, err := unix.Getpeername(fd); err == nil {
			if address, ok := peer.(*unix.SockaddrUnix); ok && address.Name == socket {
				_ = unix.Shutdown(fd, unix.SHUT_RDWR) // it may have been closed meanwhile
			}
		}
	}
}

// TestSpendBusKilled: the same with the bus itself, which the manager starts
// again. systemd 252 may take the bus that has just died for a running one, and
// then waits for its answer, and answers nobody, for a minute and a half.
func TestSpendBusKilled(t *testing.T) {
	spendHost(t)
	managerPID(t)
	r := openRuntime(t, local.Config{Containment: seam.KindScope})
	a := startAdversary(t, r, "setsid")
	// systemctl reaches the manager by its private socket.
	if out, err := exec.Command("systemctl", "--user", "kill", "-s", "KILL", "dbus.service").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(alive(t, a.marker)) == 0 {
		t.Error("the range ended with the bus")
	}
	a.Terminate(errEnough)
	if err := a.WaitEmpty(t.Context()); err != nil {
		t.Error(err)
	}
	a.checkEmpty(t, true)

	count := newCounter(t)
	// The manager may be waiting for the very bus that it has to start.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	launched := 0
	for launched == 0 && ctx.Err() == nil {
		p, err := r.Spawn(ctx, count.spec("exit 0"))
		switch code := seam.CodeOf(err); {
		case err == nil:
			launched++
			if err := p.WaitEmpty(t.Context()); err != nil {
				t.Error(err)
			}
		case code != seam.CodeContainment && code != seam.CodeAborted:
			t.Errorf("got %q: %v", code, err)
		}
	}
	t.Logf("%d launches on the bus that was started again", launched)
	if n := count.runs(t); n != launched {
		t.Errorf("%d launches, and the target ran %d times", launched, n)
	}
	if err := r.Close(context.Background()); err != nil && launched > 0 {
		t.Error(err)
	}
}

// TestReexec: a manager that executes itself anew keeps its ranges.
func TestReexec(t *testing.T) {
	flag, ok := managerFlag()
	if !ok {
		t.Skip("no systemd manager")
	}
	forEachNative(t, func(t *testing.T, kind seam.Kind) {
		r := openRuntime(t, local.Config{Containment: kind})
		before := startAdversary(t, r, "setsid")
		if out, err := exec.Command("systemctl", flag, "daemon-reexec").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		after := startAdversary(t, r, "setsid")
		if len(alive(t, before.marker)) == 0 {
			t.Error("the range did not survive")
		}
		for _, a := range []*adversary{before, after} {
			a.Terminate(errEnough)
			if err := a.WaitEmpty(t.Context()); err != nil {
				t.Error(err)
			}
			a.checkEmpty(t, true)
		}
		closeRuntime(t, r)
		checkClean(t)
	})
}

// spendHost skips a test that leaves its host without a manager, unless the
// host was booted for it.
func spendHost(t *testing.T) {
	t.Helper()
	if os.Getenv("TEST_SPEND_HOST") == "" {
		t.Skip("it leaves the host without a manager; the stage owners runs it in a host of its own")
	}
}

// TestSpendManagerKilled and TestSpendManagerExits: the ranges end with their
// manager, this process learns it, and the next launch is owned by what is left.
func TestSpendManagerKilled(t *testing.T) {
	testManagerEnds(t, func(pid int) { signalProcess(t, pid, syscall.SIGKILL) })
}

func TestSpendManagerExits(t *testing.T) {
	testManagerEnds(t, func(int) {
		if out, err := exec.Command("systemctl", "--user", "exit").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}

func testManagerEnds(t *testing.T, end func(pid int)) {
	spendHost(t)
	need(t, seam.KindScope)
	pid := managerPID(t)
	r := openRuntime(t, local.Config{})
	a := startAdversary(t, r, "ignore-term")
	end(pid)
	outcome, err := a.Wait(t.Context())
	if err != nil || outcome.End != seam.EndSignaled {
		t.Errorf("outcome %+v, %v", outcome, err)
	}
	if err := a.WaitEmpty(t.Context()); err != nil {
		t.Error(err)
	}
	a.checkEmpty(t, true)

	handle, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		fds := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 60_000); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
		_ = unix.Close(handle)
	} else if !errors.Is(err, unix.ESRCH) {
		t.Fatal(err)
	}
	// The runtime hears of it when the connection and the guardian have ended, too.
	var got seam.Containment
	err = nil
	for began := time.Now(); got.Kind != weakest && err == nil && time.Since(began) < time.Minute; {
		got, err = r.Containment(t.Context())
	}
	if err != nil || got.Kind != weakest {
		t.Errorf("after the manager's end: %+v, %v", got, err)
	}
	end2, _ := run(t, r, "true")
	if !end2.Outcome.Success() || end2.Empty != nil {
		t.Errorf("the next launch: %+v", end2)
	}
	spec := seam.Spec{Argv: []string{"true"}, Dir: "/", Grace: time.Second, Require: seam.CompleteContainment}
	if _, err := r.Spawn(t.Context(), spec); seam.CodeOf(err) != seam.CodeContainment {
		t.Errorf("complete containment was required: %v", err)
	}
	closeRuntime(t, r)
}

// TestSpendNoSystemBus: a manager that can't take in a process from outside is
// found out before any target is started.
func TestSpendNoSystemBus(t *testing.T) {
	spendHost(t)
	managerPID := func() bool { flag, ok := managerFlag(); return ok && flag == "--user" }
	if !managerPID() {
		t.Fatal("no user's manager")
	}
	r := openRuntime(t, local.Config{})
	got, err := r.Containment(t.Context())
	if err != nil || got.Kind != weakest || !strings.Contains(got.Reason, "job failed") {
		t.Errorf("got %+v, %v", got, err)
	}
	count := newCounter(t)
	p, err := r.Spawn(t.Context(), count.spec("exit 0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitEmpty(t.Context()); err != nil {
		t.Error(err)
	}
	closeRuntime(t, r)
	if n := count.runs(t); n != 1 {
		t.Errorf("the target ran %d times", n)
	}
	if found := leftovers(t); len(found) > 0 {
		t.Errorf("left: %s", found)
	}
}

// TestForeignNamespace: the numbers that this process knows its children by are
// others' to a manager of another pid namespace, which is not asked.
func TestForeignNamespace(t *testing.T) {
	if inside() {
		r := openRuntime(t, local.Config{Containment: seam.KindScope})
		if got, err := r.Containment(t.Context()); !errors.Is(err, systemd.ErrForeign) && !strings.Contains(fmt.Sprint(err), systemd.ErrForeign.Error()) {
			t.Errorf("got %+v, %v", got, err)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("making a pid namespace takes root")
	}
	if _, ok := managerFlag(); !ok {
		t.Skip("no systemd manager")
	}
	asHarness(t, func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"unshare", "--pid", "--fork", "--mount-proc", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = lookPath(t, "unshare")
	})
}

// TestNestedHarness: the end of an outer range takes the ranges of a harness
// that runs in it.
func TestNestedHarness(t *testing.T) {
	if inside() {
		r, err := local.New(local.Config{WorldID: "inner"})
		if err != nil {
			t.Fatal(err)
		}
		if kind, err := r.Containment(t.Context()); err != nil || kind.Kind != seam.KindCgroup {
			t.Fatalf("inside a range: %+v, %v", kind, err)
		}
		a := startAdversary(t, r, "setsid")
		fmt.Println("inner", a.marker, a.cgroup)
		<-t.Context().Done() // until it is killed
		return
	}
	forEachNative(t, func(t *testing.T, kind seam.Kind) {
		r := openRuntime(t, local.Config{Containment: kind})
		executable, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Spawn(t.Context(), seam.Spec{
			Argv: []string{executable, "-test.run=^TestNestedHarness$", "-test.count=1", "-test.v"}, Dir: dir,
			Env: seam.Env{seam.Set(insideVariable, "1")}, Grace: time.Millisecond, // there is no time for the inner one
			Stdout: seam.Output{Mode: seam.Pipe}, Stderr: seam.Output{Mode: seam.Inherit},
		})
		if err != nil {
			t.Fatal(err)
		}
		inner := readInner(t, p)
		if len(alive(t, inner.marker)) == 0 {
			t.Fatal("the inner range does not live")
		}
		p.Terminate(errEnough)
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
		inner.checkEmpty(t, true)
		closeRuntime(t, r)
		inner.checkClosed(t)
		checkClean(t)
	})
}

// readInner reads what the inner harness says of its range.
func readInner(t *testing.T, p seam.Process) *adversary {
	t.Helper()
	for lines := bufio.NewScanner(p.Stdout()); lines.Scan(); {
		var inner adversary
		if n, _ := fmt.Sscanf(lines.Text(), "inner %s %s", &inner.marker, &inner.cgroup); n == 2 {
			return &inner
		}
		t.Log(lines.Text())
	}
	t.Fatal("the inner harness did not get ready")
	return nil
}

// TestMovedAway: what writes its number into another cgroup is outside of its
// range, as the containment says, and the range is proven empty without it.
func TestMovedAway(t *testing.T) {
	forEachNative(t, func(t *testing.T, kind seam.Kind) {
		r := openRuntime(t, local.Config{Containment: kind})
		marker := fmt.Sprintf("600.%09d", rand.IntN(1e9))
		goFile := filepath.Join(t.TempDir(), "go")
		if err := unix.Mkfifo(goFile, 0o600); err != nil {
			t.Fatal(err)
		}
		// The member has been watched for a while when it leaves.
		script := `(read x < ` + goFile + `; echo 0 > "$1/cgroup.procs" && exec sleep ` + marker + `) & echo up`
		p, err := r.Spawn(t.Context(), seam.Spec{
			Argv: []string{"sh", "-c", `sh -c "$1" sh "$(dirname "$2$(sed -n s/^0:://p /proc/self/cgroup)")"`, "sh", script, strings.TrimSuffix(cgroupDir(t, "/"), "/")},
			Dir:  "/", Grace: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		if outcome, err := p.Wait(t.Context()); err != nil || !outcome.Success() {
			t.Fatalf("%+v, %v", outcome, err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errEnough)
		defer cancel()
		if err := p.WaitEmpty(ctx); !errors.Is(err, errEnough) {
			t.Fatalf("before it left: %v", err)
		}
		if err := os.WriteFile(goFile, []byte("\n"), 0); err != nil {
			t.Fatal(err)
		}
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
		// It may not have become sleep yet.
		for deadline := time.Now().Add(10 * time.Second); len(alive(t, marker)) != 1 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		endEscapees(t, marker)
		closeRuntime(t, r)
		checkClean(t)
	})
}
