package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/control"
	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// detachedSpec is a launch whose members carry the marker in their arguments:
// the command ignores TERM where it is told to, and has a child in a session of
// its own.
func detachedSpec(name, marker string, ignoresTerm bool) seam.Spec {
	script := "setsid sleep " + marker + " & exec sleep " + marker
	if ignoresTerm {
		script = `trap "" TERM; ` + script
	}
	return seam.Spec{Argv: []string{"sh", "-c", script}, Dir: "/", Grace: 200 * time.Millisecond, Name: name, Detach: true}
}

func newMarker() string { return fmt.Sprintf("600.%09d", time.Now().UnixNano()%1e9) }

// keeperOf waits until the command of a detached range and its child run, and
// returns who answers for it.
func keeperOf(t *testing.T, name string) *control.Runtime {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		runtimes, err := control.Runtimes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range runtimes {
			for _, found := range r.Ranges {
				if found.Name == name && found.Detached && len(found.Members) == 2 {
					return &runtimes[i]
				}
			}
		}
	}
	t.Fatalf("no detached range %s", name)
	return nil
}

func isListed(t *testing.T, name string) bool {
	t.Helper()
	runtimes, err := control.Runtimes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(runtimes, func(r control.Runtime) bool {
		return slices.ContainsFunc(r.Ranges, func(found control.Range) bool { return found.Name == name })
	})
}

// waitGone waits for the end of who carries a marker.
func waitGone(t *testing.T, marker string) {
	t.Helper()
	began := time.Now()
	for len(alive(t, marker)) > 0 {
		if time.Since(began) > time.Minute {
			t.Fatalf("alive: %v", alive(t, marker))
		}
	}
}

// onDetachable runs a test for each kind that can be detached from here.
func onDetachable(t *testing.T, test func(t *testing.T, config local.Config)) {
	for _, kind := range kindsHere(t, seam.KindCgroup, seam.KindReaper) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			test(t, local.Config{Containment: kind})
		})
	}
	t.Run("auto", func(t *testing.T) { test(t, local.Config{}) })
}

func TestDetachedOutlivesItsRuntime(t *testing.T) {
	onDetachable(t, func(t *testing.T, config local.Config) {
		for _, force := range []bool{false, true} {
			marker := newMarker()
			name := "web-" + marker
			r := openRuntime(t, config)
			p, err := r.Spawn(t.Context(), detachedSpec(name, marker, true))
			if err != nil {
				t.Fatal(err)
			}
			keeper := keeperOf(t, name)
			if members, err := p.Survivors(t.Context()); err != nil || len(members) != 1 {
				t.Errorf("survivors %v, %v", members, err)
			}
			closeRuntime(t, r)
			if err := p.WaitEmpty(t.Context()); !errors.Is(err, seam.ErrUnproven) || !errors.Is(err, seam.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
			p.Terminate(nil) // it is not ours any more
			keeperOf(t, name)
			began := time.Now()
			if err := keeper.Stop(t.Context(), name, force); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); !force && took < 200*time.Millisecond {
				t.Errorf("stopped after %v, within the grace", took)
			}
			if found := alive(t, marker); len(found) > 0 {
				t.Errorf("alive after stop: %v", found)
			}
			if isListed(t, name) {
				t.Error("still listed")
			}
			if stat, err := process.ReadStat(keeper.Owner); err == nil && !stat.Dead() {
				t.Error("its keeper lives")
			}
		}
	})
}

// What a detached target is depends on the harness, not on its keeper.
func TestDetachedTargetIsTheHarnesss(t *testing.T) {
	onDetachable(t, func(t *testing.T, config local.Config) {
		config.Environ = []string{"PATH=" + os.Getenv("PATH"), "no name", "CORRAL=1"}
		r := openRuntime(t, config)
		file := filepath.Join(t.TempDir(), "facts")
		old := syscall.Umask(0o027)
		p, err := r.Spawn(t.Context(), seam.Spec{
			Argv: []string{"sh", "-c", `(umask; pwd; tr '\0' '\n' </proc/self/environ; ls /proc/self/fd; grep Sig[BI] /proc/self/status) >` + file},
			Dir:  "/usr", Env: seam.Env{seam.Set("A", "\xff")}, Grace: time.Second, Detach: true})
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Wait(t.Context()); err != nil || !got.Success() {
			t.Errorf("got %+v, %v", got, err)
		}
		facts, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"0027\n", "\n/usr\n", "\nno name\n", "\nA=\xff\n", "\n0\n1\n2\n3\n", "SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"} {
			if !strings.Contains(string(facts), want) {
				t.Errorf("no %q in %q", want, facts)
			}
		}
		if strings.Contains(string(facts), "CORRAL_RUNNER") {
			t.Errorf("it is told of the runner: %q", facts)
		}
	})
}

// As long as its runtime lives a detached process is a process like any other.
func TestDetachedIsAProcess(t *testing.T) {
	onDetachable(t, func(t *testing.T, config local.Config) {
		r := openRuntime(t, config)
		spec := seam.Spec{Argv: []string{"sh", "-c", "exit 7"}, Dir: "/", Grace: time.Second, Detach: true}
		p, err := r.Spawn(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Wait(t.Context()); err != nil || got.ExitCode != 7 || got.End != seam.EndExited {
			t.Errorf("got %+v, %v", got, err)
		}
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}

		marker := newMarker()
		if p, err = r.Spawn(t.Context(), detachedSpec("", marker, true)); err != nil {
			t.Fatal(err)
		}
		keeperOf(t, p.Name())
		p.Terminate(errEnough)
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err := p.Wait(t.Context()); err != nil || got.End != seam.EndTerminated || !errors.Is(got.Cause, errEnough) {
			t.Errorf("got %+v, %v", got, err)
		}
		if found := alive(t, marker); len(found) > 0 {
			t.Errorf("alive: %v", found)
		}

		// One that was asked to end is not left alone by Close.
		if p, err = r.Spawn(t.Context(), detachedSpec("", newMarker(), true)); err != nil {
			t.Fatal(err)
		}
		p.Terminate(nil)
		closeRuntime(t, r)
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A command can stop its keeper, and is ended all the same.
func TestDetachedAndStoppedKeeper(t *testing.T) {
	stopped := func(t *testing.T, config local.Config, byName bool) {
		r := openRuntime(t, config)
		marker := newMarker()
		p, err := r.Spawn(t.Context(), detachedSpec("", marker, true))
		if err != nil {
			t.Fatal(err)
		}
		keeper := keeperOf(t, p.Name())
		if err := syscall.Kill(keeper.Owner, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if byName {
			if err := keeper.Stop(t.Context(), p.Name(), false); err != nil {
				t.Error(err)
			}
		} else {
			p.Terminate(nil)
			if err := p.WaitEmpty(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if found := alive(t, marker); len(found) > 0 {
			t.Errorf("alive: %v", found)
		}
	}
	onDetachable(t, func(t *testing.T, config local.Config) {
		for _, byName := range []bool{false, true} {
			stopped(t, config, byName)
		}
	})
}

func TestDetachedStartsThatFail(t *testing.T) {
	onDetachable(t, func(t *testing.T, config local.Config) {
		r := openRuntime(t, config)
		marker := newMarker()
		name := "web-" + marker
		if _, err := r.Spawn(t.Context(), detachedSpec(name, marker, false)); err != nil {
			t.Fatal(err)
		}
		keeper := keeperOf(t, name)
		other := openRuntime(t, config) // to which the name is not known
		for _, c := range []struct {
			name   string
			broken func(*seam.Spec)
			code   seam.Code
			words  string
		}{
			{"the name of a detached range", func(s *seam.Spec) { s.Name = name }, seam.CodeNameInUse, "Name"},
			{"no such program", func(s *seam.Spec) { s.Argv = []string{"/nope"} }, seam.CodeExecutableNotFound, "no such file"},
			{"no such directory", func(s *seam.Spec) { s.Dir = "/nope" }, seam.CodeDirNotFound, "/nope"},
			{"a directory", func(s *seam.Spec) { s.Argv = []string{"/"} }, seam.CodeNotExecutable, "not a regular file"},
			{"a stream", func(s *seam.Spec) { s.Stdout.Mode = seam.Pipe }, seam.CodeInvalid, "Detach"},
		} {
			t.Run(c.name, func(t *testing.T) {
				count := newCounter(t)
				spec := count.spec("sleep 600")
				spec.Detach = true
				c.broken(&spec)
				_, err := other.Spawn(t.Context(), spec)
				if seam.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.words) {
					t.Errorf("got %v (%s), want %s", err, seam.CodeOf(err), c.code)
				}
				if n := count.runs(t); n != 0 {
					t.Errorf("it ran %d times", n)
				}
			})
		}
		t.Run("a context that ends at any time", func(t *testing.T) {
			for after := range 40 {
				marker := newMarker()
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(after)*time.Millisecond, errEnough)
				p, err := other.Spawn(ctx, detachedSpec("", marker, true))
				cancel()
				if err == nil {
					p.Terminate(nil)
					err = p.WaitEmpty(t.Context())
				} else if seam.CodeOf(err) == seam.CodeAborted && errors.Is(err, errEnough) {
					err = nil
				}
				if found := alive(t, marker); err != nil || len(found) > 0 {
					t.Fatalf("after %d ms: %v, alive: %v", after, err, found)
				}
			}
		})
		if err := keeper.Stop(t.Context(), name, true); err != nil {
			t.Error(err)
		}
	})
	t.Run("group", func(t *testing.T) {
		r := openRuntime(t, local.Config{Containment: seam.KindGroup})
		_, err := r.Spawn(t.Context(), detachedSpec("", newMarker(), false))
		if seam.CodeOf(err) != seam.CodeUnsupported || !strings.Contains(err.Error(), "Detach") {
			t.Errorf("got %v", err)
		}
	})
}

// The name of a detached range is free once that is proven empty.
func TestDetachedNameIsFreeAgain(t *testing.T) {
	onDetachable(t, func(t *testing.T, config local.Config) {
		r := openRuntime(t, config)
		name := "again-" + newMarker()
		for range 20 {
			p, err := r.Spawn(t.Context(), seam.Spec{Argv: []string{"true"}, Dir: "/", Grace: time.Second, Name: name, Detach: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.WaitEmpty(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

const detachingKind = "TEST_DETACHING_KIND"

// A harness that is killed takes its own ranges with it, and leaves the detached
// ones; whoever kills a keeper has ended its range.
func TestDetachedAndKilledOwners(t *testing.T) {
	if kind, ok := os.LookupEnv(detachingKind); ok {
		r := openRuntime(t, local.Config{Containment: seam.Kind(kind)})
		marker := os.Getenv(doomedMarker)
		if _, err := r.Spawn(t.Context(), detachedSpec("web-"+marker, marker, true)); err != nil {
			t.Fatal(err)
		}
		fmt.Println("ready")
		<-t.Context().Done()
		return
	}
	onDetachable(t, func(t *testing.T, config local.Config) {
		marker := newMarker()
		name := "web-" + marker
		executable, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(executable, "-test.run=^TestDetachedAndKilledOwners$", "-test.count=1")
		cmd.Env = append(os.Environ(), detachingKind+"="+string(config.Containment), doomedMarker+"="+marker)
		cmd.Stderr = os.Stderr
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "ready"; {
			t.Log(lines.Text())
		}
		keeperOf(t, name)
		d := &doomed{pid: cmd.Process.Pid}
		for _, pid := range append(d.guardians(), append(d.runners(d.pid), d.pid)...) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait() // killed
		keeper := keeperOf(t, name)
		if err := syscall.Kill(keeper.Owner, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		waitGone(t, marker)
		if isListed(t, name) {
			t.Error("still listed")
		}
	})
}

// Any range of a live runtime can be stopped by name, and its owner learns who
// asked.
func TestStopByName(t *testing.T) {
	for _, kind := range kindsHere(t, seam.KindScope, seam.KindCgroup, seam.KindReaper, seam.KindGroup) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			r := openRuntime(t, local.Config{Containment: kind})
			marker := newMarker()
			p, err := r.Spawn(t.Context(), seam.Spec{Argv: []string{"sleep", marker}, Dir: "/", Grace: time.Second, Name: "by-" + marker})
			if err != nil {
				t.Fatal(err)
			}
			runtimes, err := control.Runtimes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(runtimes, func(r control.Runtime) bool {
				return len(r.Ranges) == 1 && r.Ranges[0].Name == p.Name()
			})
			if i < 0 {
				t.Fatalf("not listed in %+v", runtimes)
			}
			found := runtimes[i].Ranges[0]
			if runtimes[i].Owner != os.Getpid() || found.Kind != kind || found.Detached || len(found.Members) != 1 {
				t.Errorf("got %+v of process %d", found, runtimes[i].Owner)
			}
			if err := runtimes[i].Stop(t.Context(), p.Name(), false); err != nil {
				t.Fatal(err)
			}
			var stop *local.StopError
			if got, err := p.Wait(t.Context()); err != nil || !errors.As(got.Cause, &stop) || stop.PID != os.Getpid() {
				t.Errorf("got %+v, %v", got, err)
			}
			if found := alive(t, marker); len(found) > 0 {
				t.Errorf("alive: %v", found)
			}
		})
	}
}
