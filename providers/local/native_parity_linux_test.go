package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// output is what a command prints, as it prints it.
func output(t *testing.T, r *local.Runtime, spec seam.Spec) string {
	t.Helper()
	spec.Dir, spec.Grace, spec.Drain = "/", time.Second, time.Second
	spec.Stdout = seam.Output{Mode: seam.Collect, MaxBytes: 1 << 20}
	spec.Stderr = spec.Stdout
	p, err := r.Spawn(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	end, err := seam.Settle(t.Context(), p, spec.Drain, seam.KillSurvivors)
	if err != nil || !end.Outcome.Success() || end.Empty != nil {
		t.Fatalf("%q: %+v, %v\n%s", spec.Argv, end, err, p.Output(seam.Stderr).ReadFrom(0).Data)
	}
	return string(p.Output(seam.Stdout).ReadFrom(0).Data)
}

// alike runs commands with a native kind and as the plain start of a group, and
// compares what they print.
func alike(t *testing.T, config local.Config, specs map[string]seam.Spec) {
	t.Helper()
	config.Containment = seam.KindGroup
	plain := openRuntime(t, config)
	forEachNative(t, func(t *testing.T, kind seam.Kind) {
		config.Containment = kind
		r := openRuntime(t, config)
		for name, spec := range specs {
			if got, want := output(t, r, spec), output(t, plain, spec); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	})
}

// TestTargetState: a target is as the one of a plain start, byte by byte.
func TestTargetState(t *testing.T) {
	environ := []string{
		"PATH=/usr/bin:/bin",
		"not-an identifier=x", "1=digit", "EMPTY=", "LINES=a\nb", "UTF8=\u00e9\u6f22",
		"BYTES=\xff\xfe\x80", "N\xffAME=x", "EQUALS=a=b=c", "LONG=" + strings.Repeat("x", 100_000),
	}
	selector := seam.Env{seam.Set("CORRAL_RUNNER", "bootstrap"), seam.Set("BYTES", "\xc3\x28")}
	alike(t, local.Config{Environ: environ}, map[string]seam.Spec{
		"environment": {Argv: []string{"cat", "/proc/self/environ"}, Env: selector},
		"no environment": {Argv: []string{"/usr/bin/env"}, Env: seam.Env{
			seam.Unset("PATH"), seam.Unset("EMPTY"), seam.Unset("LINES"), seam.Unset("LONG"), seam.Unset("UTF8")}},
		"arguments":   {Argv: []string{"python3", "-c", "import sys; print([ascii(a) for a in sys.argv])", "", " ", "a\nb", "\xff", "-x"}},
		"name":        {Argv: []string{"/bin/../bin/sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline"}},
		"descriptors": sh("exec ls -1 /proc/self/fd"),
		"limits":      sh("ulimit -aS; ulimit -aH"),
		"umask":       sh("umask"),
		"signals":     sh("grep ^Sig[BIC] /proc/self/status; grep ^ShdPnd /proc/self/status"),
		"rights":      sh("grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp):' /proc/self/status"),
		"session":     sh("test $(cut -d' ' -f5 /proc/$$/stat) = $$ && test $(cut -d' ' -f6 /proc/$$/stat) = $$ && cut -d' ' -f7 /proc/$$/stat"),
		"directory":   sh("pwd -P; echo $PWD; readlink /proc/self/cwd"),
		"others":      sh("cat /proc/self/oom_score_adj /proc/self/coredump_filter /proc/self/personality 2>/dev/null; nice"),
	})
}

// TestInheritedLimits: the limit on descriptors is the one that the harness was
// started with, which Go raises for itself; the umask is the harness's.
func TestInheritedLimits(t *testing.T) {
	if inside() {
		syscall.Umask(0o137)
		script := sh("ulimit -Sn; umask; ulimit -Sc")
		for _, kind := range kindsHere(t, seam.KindScope, seam.KindCgroup, seam.KindReaper, seam.KindGroup) {
			r, err := local.New(local.Config{WorldID: "limits", Containment: kind})
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Containment(t.Context())
			if _, known := here(t); known && err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			if err == nil {
				fmt.Printf("%s: %q\n", kind, output(t, r, script))
			}
			closeRuntime(t, r)
		}
		return
	}
	printed := asHarness(t, func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", `ulimit -Sn 321; ulimit -Sc 0; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	})
	seen := 0
	for line := range strings.Lines(printed) {
		if kind, got, ok := strings.Cut(strings.TrimSpace(line), ": \""); ok {
			seen++
			if want := `321\n0137\n0\n"`; got != want {
				t.Errorf("%s: got %s, want %s", kind, got, want)
			}
		}
	}
	if seen == 0 {
		t.Errorf("no kind was tried: %s", printed)
	}
}

func sh(script string) seam.Spec { return seam.Spec{Argv: []string{"sh", "-c", script}} }

// setuidProgram is a program that the test host has with another user's rights.
func setuidProgram(t *testing.T, name string) string {
	t.Helper()
	path := "/run/setuid-" + name
	if _, err := os.Stat(path); err != nil {
		t.Skipf("only a test host has one: %v", err)
	}
	if os.Getuid() == 0 {
		t.Skip("root has root's rights anyway")
	}
	return path
}

func TestSetuidIsKept(t *testing.T) {
	program := setuidProgram(t, "id")
	forEachNative(t, func(t *testing.T, kind seam.Kind) {
		r := openRuntime(t, local.Config{Containment: kind})
		if got := output(t, r, seam.Spec{Argv: []string{program, "-u"}}); got != "0\n" {
			t.Errorf("effective user %q", got)
		}
	})
}

// TestUnsignallable: a member that we may not signal ends with its range.
func TestUnsignallable(t *testing.T) {
	forEachNative(t, func(t *testing.T, kind seam.Kind) {
		r := openRuntime(t, local.Config{Containment: kind})
		p, member := startUnsignallable(t, r, 10*time.Minute)
		p.Terminate(errEnough)
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
		if line := cmdline(member); len(line) > 0 {
			t.Errorf("process %d lives: %q", member, line)
		}
	})
}

// TestManyLaunches: launches leave neither descriptors nor threads nor
// goroutines behind.
func TestManyLaunches(t *testing.T) {
	const workers = 4
	launches := 1000
	r := openRuntime(t, local.Config{})
	if got, err := r.Containment(t.Context()); err != nil {
		t.Fatal(err)
	} else if raceEnabled && got.Kind != seam.KindCgroup {
		launches = 200 // this binary takes 30 ms to start, and is what bootstraps and supervisors are
	}
	launch := func(n int) {
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range n / workers {
					p, err := r.Spawn(t.Context(), seam.Spec{Argv: []string{"true"}, Dir: "/", Grace: time.Second})
					if err != nil {
						t.Error(err)
						return
					}
					if err := p.WaitEmpty(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	launch(100)
	descriptors, threads := openDescriptors(t), threadCount(t)
	launch(launches)
	// What worked for the last ones may not have been joined yet.
	if got := openDescriptors(t); got > descriptors+3*workers {
		t.Errorf("%d descriptors, %d before", got, descriptors)
	}
	if got := threadCount(t); got > threads+workers {
		t.Errorf("%d threads, %d before", got, threads)
	}
	goroutines := runtime.NumGoroutine()
	closeRuntime(t, r)
	t.Logf("%d descriptors, %d threads, %d goroutines", descriptors, threads, goroutines)
	checkClean(t)
}

func threadCount(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestConcurrentLaunches: as many as come at once all succeed.
func TestConcurrentLaunches(t *testing.T) {
	const concurrent = 500
	r := openRuntime(t, local.Config{})
	count := newCounter(t)
	start := make(chan struct{})
	var all sync.WaitGroup
	for range concurrent {
		all.Go(func() {
			<-start
			p, err := r.Spawn(t.Context(), count.spec("exit 0"))
			if err != nil {
				t.Error(err)
				return
			}
			if err := p.WaitEmpty(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	all.Wait()
	if got := count.runs(t); got != concurrent {
		t.Errorf("%d launches ran %d times", concurrent, got)
	}
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
	checkClean(t)
}
