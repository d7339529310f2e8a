package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// enforcedHere are the limits that scopes of this host are known to enforce: a
// hybrid test host gives the system's manager what the machine has in v1.
func enforcedHere(t *testing.T) []string {
	t.Helper()
	if _, ok := here(t); !ok || os.Getuid() != 0 {
		return nil
	}
	var known []string
	for controller, field := range map[string]string{"pids": "Limits.Pids", "cpuacct": "Limits.CPUs"} {
		if isDir("/sys/fs/cgroup/unified") && isDir("/sys/fs/cgroup/"+controller) {
			known = append(known, field)
		}
	}
	return known
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// TestLimitsAreEnforcedOrRefused: a refusal names the field, and nothing of the
// target has run, however it was to be started.
func TestLimitsAreEnforcedOrRefused(t *testing.T) {
	type spawn func(r *local.Runtime, spec seam.Spec) (waiter, error)
	ways := map[string]spawn{
		"plain": func(r *local.Runtime, spec seam.Spec) (waiter, error) { return r.Spawn(t.Context(), spec) },
		"detached": func(r *local.Runtime, spec seam.Spec) (waiter, error) {
			spec.Detach = true
			return r.Spawn(t.Context(), spec)
		},
		"terminal": func(r *local.Runtime, spec seam.Spec) (waiter, error) {
			return r.SpawnTerminal(t.Context(), seam.TerminalSpec{
				Argv: spec.Argv, Dir: spec.Dir, Grace: spec.Grace, Limits: spec.Limits, Cols: 80, Rows: 24})
		},
	}
	forEachNative(t, func(t *testing.T, kind seam.Kind) {
		r := openRuntime(t, local.Config{Containment: kind})
		for way, spawn := range ways {
			if way == "detached" && kind == seam.KindScope {
				continue // there is none
			}
			for field, limits := range map[string]seam.Limits{
				"Limits.MemoryBytes": {MemoryBytes: 1 << 30},
				"Limits.Pids":        {Pids: 10},
				"Limits.CPUs":        {CPUs: 0.5},
			} {
				count := newCounter(t)
				spec := count.spec("exit 0")
				spec.Limits = limits
				p, err := spawn(r, spec)
				if err == nil {
					if outcome, err := p.Wait(t.Context()); err != nil || !outcome.Success() {
						t.Errorf("%s, %s: got %+v, %v", way, field, outcome, err)
					}
					continue
				}
				bad, ok := errors.AsType[*seam.FieldError](err)
				if seam.CodeOf(err) != seam.CodeUnsupported || !ok || bad.Field != field || count.runs(t) != 0 {
					t.Errorf("%s, %s: got %q: %v, and the target ran %d times", way, field, seam.CodeOf(err), err, count.runs(t))
				}
				if kind == seam.KindScope && slices.Contains(enforcedHere(t), field) {
					t.Errorf("%s, %s: this host is known to enforce it: %v", way, field, err)
				}
			}
		}
		closeRuntime(t, r)
		checkClean(t)
	})
}

// waiter is what processes and terminals have in common here.
type waiter interface {
	Wait(ctx context.Context) (seam.Outcome, error)
}

// needLimit skips where a field is not known to be enforced.
func needLimit(t *testing.T, field string) {
	t.Helper()
	if !slices.Contains(enforcedHere(t), field) {
		t.Skipf("scopes of this host are not known to enforce %s", field)
	}
}

// forks starts 50 children at most, which live as long as it does, and exits with
// its first argument once it was refused one, or with 0.
const forks = `import os, signal, sys, time
children, code = [], 0
try:
    for i in range(50):
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        children.append(pid)
except OSError:
    code = int(sys.argv[1])
for pid in children:
    os.kill(pid, signal.SIGKILL)
for pid in children:
    os.waitpid(pid, 0)
# Where cgroup v1 counts, nobody is told, and it goes with the last process.
print(len(children), flush=True)
time.sleep(60 if code == 99 else 0.3)
os._exit(code)
`

// TestLimitPids: a bomb ends where its limit is, and nobody else's processes do.
func TestLimitPids(t *testing.T) {
	needLimit(t, "Limits.Pids")
	canary := exec.Command("sleep", "600")
	if err := canary.Start(); err != nil {
		t.Fatal(err)
	}
	r := openRuntime(t, local.Config{Containment: seam.KindScope})
	start := func(limit int, code string) seam.Process {
		p, err := r.Spawn(t.Context(), seam.Spec{
			Argv: []string{"/usr/bin/python3", "-S", "-E", "-c", forks, code}, Dir: "/", Grace: time.Second, Drain: time.Second,
			Stdout: seam.Output{Mode: seam.Collect, MaxBytes: 100}, Limits: seam.Limits{Pids: limit},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name        string
		limit, code int
		forked      int
		want        seam.EndKind
	}{
		{"reached", 20, 4, 19, seam.EndLimitPids},
		{"reached, and coped with", 20, 0, 19, seam.EndExited},
		{"not reached", 80, 4, 50, seam.EndExited},
		{"unlimited", 0, 4, 50, seam.EndExited},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(c.limit, fmt.Sprint(c.code))
			end, err := seam.Settle(t.Context(), p, time.Second, seam.KillSurvivors)
			if err != nil || end.Empty != nil || end.Outcome.End != c.want {
				t.Errorf("got %+v, %v, want %s", end, err, c.want)
			}
			if got := p.Output(seam.Stdout).ReadFrom(0).Data; string(got) != fmt.Sprintln(c.forked) {
				t.Errorf("it forked %q times, want %d", got, c.forked)
			}
		})
	}
	t.Run("terminated", func(t *testing.T) {
		p := start(20, "99")
		for !bytes.HasSuffix(p.Output(seam.Stdout).ReadFrom(0).Data, []byte("\n")) {
			time.Sleep(time.Millisecond)
		}
		p.Terminate(errEnough)
		if outcome, err := p.Wait(t.Context()); err != nil || outcome.End != seam.EndTerminated {
			t.Errorf("got %+v, %v", outcome, err)
		}
	})
	// The manager removes what counts as soon as the range is empty.
	t.Run("again and again", func(t *testing.T) {
		var all sync.WaitGroup
		for range 20 {
			p := start(5, "4")
			all.Go(func() {
				if outcome, err := p.Wait(t.Context()); err != nil || outcome.End != seam.EndLimitPids {
					t.Errorf("got %+v, %v", outcome, err)
				}
			})
		}
		all.Wait()
	})
	// What becomes the target has threads of its own before that.
	t.Run("one process", func(t *testing.T) {
		for range 20 {
			p, err := r.Spawn(t.Context(), seam.Spec{
				Argv: []string{"false"}, Dir: "/", Grace: time.Second, Limits: seam.Limits{Pids: 1}})
			if err != nil {
				t.Fatal(err)
			}
			if outcome, err := p.Wait(t.Context()); err != nil || outcome.End != seam.EndExited {
				t.Errorf("got %+v, %v", outcome, err)
			}
		}
	})
	closeRuntime(t, r)
	checkClean(t)
	if err := canary.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("canary: %v", err)
	}
	_ = canary.Process.Kill()
	_ = canary.Wait() // killed
}

// TestLimitCPUs: what would use a processor gets its share of it.
func TestLimitCPUs(t *testing.T) {
	needLimit(t, "Limits.CPUs")
	r := openRuntime(t, local.Config{Containment: seam.KindScope})
	p, err := r.Spawn(t.Context(), seam.Spec{
		Argv: []string{"timeout", "0.8", "sh", "-c", "while :; do :; done"}, Dir: "/", Grace: time.Second, Limits: seam.Limits{CPUs: 0.2},
	})
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := p.Wait(t.Context())
	if err != nil || outcome.End != seam.EndExited || outcome.ExitCode != 124 || outcome.Usage == nil {
		t.Fatalf("got %+v, %v", outcome, err)
	}
	// 0.16s is its share, and the last period may not be over.
	if used := outcome.Usage.UserCPU + outcome.Usage.SystemCPU; used > 400*time.Millisecond {
		t.Errorf("used %v in %v, and was given 0.2 processors", used, outcome.Duration)
	}
}
