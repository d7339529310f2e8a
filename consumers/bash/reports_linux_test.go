package bash_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// The tests of this file are bugs that users of such tools have reported, by
// their number in the list that the project keeps of them: those that a process
// group can meet, which is what newBench has. What only a stronger containment
// can meet is tested with that.

// A timeout ends the whole pipeline, and what it printed is there.
func TestB01(t *testing.T) {
	b, m := newBench(t), newMark(t)
	began := time.Now()
	r := b.run(t, bash.Request{Script: "(while :; do echo x; sleep 0.1; done) | cat", Timeout: time.Second, Env: m.env()})
	m.assertEmpty(t)
	bounded(t, began, time.Second+b.config.Grace+slack)
	if !r.TimedOut || !strings.HasPrefix(r.Stdout.Text, "x\nx\n") {
		t.Errorf("got %+v", r)
	}
}

// A process substitution on the shell's own output does not keep the result
// back, and nothing of the output is lost.
func TestB02(t *testing.T) {
	for _, policy := range []seam.SurvivorPolicy{seam.KillSurvivors, seam.KeepSurvivors} {
		t.Run(map[seam.SurvivorPolicy]string{seam.KillSurvivors: "ended", seam.KeepSurvivors: "kept"}[policy], func(t *testing.T) {
			b, m := newBench(t), newMark(t)
			b.config.Survivors = policy
			log := filepath.Join(b.config.Dir, "log")
			began := time.Now()
			r := b.run(t, bash.Request{Script: "exec > >(tee -a " + log + ") 2>&1; echo done; sleep 300 &", Env: m.env()})
			bounded(t, began, b.config.Drain+slack)
			expect(t, "stdout", r.Stdout.Text, "done\n")
			if copied, err := os.ReadFile(log); err != nil || string(copied) != "done\n" {
				t.Errorf("log: %q, %v", copied, err)
			}
			if len(r.Survivors) == 0 || !r.Outcome.Success() {
				t.Errorf("got %+v", r)
			}
			if (r.Job != nil) != (policy == seam.KeepSurvivors) {
				t.Errorf("got job %+v", r.Job)
			}
			if err := b.registry.CloseOwner(t.Context(), ""); err != nil {
				t.Error(err)
			}
			m.assertEmpty(t)
		})
	}
}

// A command that was moved to the background does not outlive its owner.
func TestB05(t *testing.T) {
	b, m := newBench(t), newMark(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := b.bash(t).Run(ctx, bash.Request{Script: "sleep 900", Owner: "me", BackgroundAfter: 500 * time.Millisecond, Env: m.env()})
	if err != nil || r.Job == nil {
		t.Fatalf("got %+v, %v", r, err)
	}
	other := b.start(t, bash.Request{Script: "true"})
	b.wait(t, other.ID)
	cancel() // which ends the call, not the job
	if info, err := b.registry.Get("me", r.Job.ID); err != nil || info.Status != jobs.Running || len(m.living(t)) == 0 {
		t.Errorf("got %+v, %v", info, err)
	}
	if err := b.registry.CloseOwner(t.Context(), "me"); err != nil {
		t.Error(err)
	}
	m.assertEmpty(t)
	if list := b.registry.List("me"); len(list) > 0 {
		t.Errorf("left: %+v", list)
	}
}

// Processes that were left in the background are seen.
func TestB06(t *testing.T) {
	for _, policy := range []seam.SurvivorPolicy{seam.KillSurvivors, seam.KeepSurvivors} {
		t.Run(map[seam.SurvivorPolicy]string{seam.KillSurvivors: "ended", seam.KeepSurvivors: "kept"}[policy], func(t *testing.T) {
			b, m := newBench(t), newMark(t)
			b.config.Survivors = policy
			r := b.run(t, bash.Request{Script: "for i in 1 2 3; do yes >/dev/null & done; echo started", Owner: "me", Env: m.env()})
			expect(t, "stdout", r.Stdout.Text, "started\n")
			if len(r.Survivors) != 3 {
				t.Fatalf("got survivors %+v", r.Survivors)
			}
			for _, s := range r.Survivors {
				if age := time.Since(s.Started); strings.Join(s.Argv, " ") != "yes" || s.PID == 0 || age < 0 || age > time.Minute {
					t.Errorf("got survivor %+v", s)
				}
			}
			if policy == seam.KeepSurvivors {
				if got := len(m.living(t)); got != 3 || r.Job == nil {
					t.Errorf("%d live, job %+v", got, r.Job)
				}
				if err := b.registry.CloseOwner(t.Context(), "me"); err != nil {
					t.Error(err)
				}
			}
			m.assertEmpty(t)
		})
	}
}

// No startup file is read, so none can stop the shell.
func TestB08(t *testing.T) {
	startup := filepath.Join(t.TempDir(), "startup")
	b, m := newBench(t, func(c *local.Config) { c.Environ = append(c.Environ, "BASH_ENV="+startup, "ENV="+startup) }), newMark(t)
	files := []string{startup}
	for _, name := range []string{".bashrc", ".bash_profile", ".bash_login", ".profile", ".zprofile", ".bash_logout", ".inputrc"} {
		files = append(files, filepath.Join(b.home, name))
	}
	for _, file := range files {
		if err := os.WriteFile(file, []byte("echo startup file\nread x </dev/zero\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var runs sync.WaitGroup
	for range 20 {
		runs.Go(func() {
			began := time.Now()
			r := b.run(t, bash.Request{Script: "echo hi; exit 3", Env: m.env()})
			bounded(t, began, slack)
			expect(t, "stdout", r.Stdout.Text, "hi\n")
			if r.Outcome.ExitCode != 3 || r.Outcome.End != seam.EndExited {
				t.Errorf("got %+v", r.Outcome)
			}
		})
	}
	runs.Wait()
	m.assertEmpty(t)

	// A request that names one means it.
	if err := os.WriteFile(startup, []byte("echo startup file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := b.run(t, bash.Request{Script: "echo hi", Env: seam.Env{seam.Set("BASH_ENV", startup)}})
	expect(t, "stdout", r.Stdout.Text, "startup file\nhi\n")
}

// To stop a script is to stop its scripts.
func TestB11(t *testing.T) {
	b, m := newBench(t), newMark(t)
	job := b.start(t, bash.Request{Script: `sh -c 'sh -c "echo up >\"$READY\"; sleep 600"; true'; true`, Env: m.env()})
	m.ready(t)
	if _, err := b.registry.Kill("me", job.ID, ""); err != nil {
		t.Fatal(err)
	}
	if got := b.wait(t, job.ID); got.Status != jobs.Killed {
		t.Errorf("got %+v", got)
	}
	m.assertEmpty(t)
}

// A leader that obeys TERM does not call off the KILL for a child that does not.
func TestB12(t *testing.T) {
	b, m := newBench(t), newMark(t)
	b.config.Grace = 300 * time.Millisecond
	job := b.start(t, bash.Request{Script: `trap "exit 0" TERM; (trap "" TERM; echo up >"$READY"; sleep 600) >/dev/null 2>&1 & wait`, Env: m.env()})
	m.ready(t)
	began := time.Now()
	if _, err := b.registry.Kill("me", job.ID, ""); err != nil {
		t.Fatal(err)
	}
	got := b.wait(t, job.ID)
	m.assertEmpty(t)
	bounded(t, began, b.config.Grace+slack)
	if got.Status != jobs.Killed || got.Outcome.End != seam.EndTerminated || got.Outcome.ExitCode != 0 {
		t.Errorf("got %+v, outcome %+v", got, got.Outcome)
	}
}

// An abort returns at once, whoever holds the pipes.
func TestB17(t *testing.T) {
	b, m := newBench(t), newMark(t)
	ctx, cancel := context.WithCancel(t.Context())
	var began time.Time
	go func() { // ends with the script's first write
		m.ready(t)
		began = time.Now()
		cancel()
	}()
	r, err := b.bash(t).Run(ctx, bash.Request{Script: `sh -c 'echo a; echo up >"$READY"; sleep 60'; true`, Env: m.env()})
	if err != nil {
		t.Fatal(err)
	}
	m.assertEmpty(t)
	bounded(t, began, b.config.Grace+slack)
	expect(t, "stdout", r.Stdout.Text, "a\n")
	if !r.Aborted || r.TimedOut {
		t.Errorf("got %+v", r)
	}
}

// TERM comes first, so git takes its lock away.
func TestB20(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("needs git: %v", err)
	}
	b, m := newBench(t), newMark(t)
	// git add holds the lock while a filter works.
	const script = `git init -q . && git config filter.slow.clean 'echo up >"$READY"; sleep 60' &&
echo '*.txt filter=slow' >.gitattributes && echo x >a.txt && git add a.txt; true`
	ctx, cancel := context.WithCancel(t.Context())
	lock := filepath.Join(b.config.Dir, ".git", "index.lock")
	go func() { // ends with the filter's first write
		m.ready(t)
		if _, err := os.Stat(lock); err != nil {
			t.Errorf("no lock to be left: %v", err)
		}
		cancel()
	}()
	r, err := b.bash(t).Run(ctx, bash.Request{Script: script, Env: m.env()})
	if err != nil || !r.Aborted {
		t.Fatalf("got %+v, %v", r, err)
	}
	m.assertEmpty(t)
	if _, err := os.Stat(lock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock was left: %v", err)
	}
}

// What was killed never reads as a success without output.
func TestB22(t *testing.T) {
	const script = `sh -c 'echo a; echo $$ >"$READY"; sleep 60; echo b'`
	b, m := newBench(t), newMark(t)
	job := b.start(t, bash.Request{Script: script, Env: m.env()})
	kill(t, "-"+groupOf(t, m.ready(t)), syscall.SIGKILL)
	got := b.wait(t, job.ID)
	m.assertEmpty(t)
	if got.Status != jobs.Killed || got.Outcome.End != seam.EndSignaled || got.Outcome.Signal.Name != "SIGKILL" || got.Outcome.ExitCode == 0 {
		t.Errorf("got %+v, outcome %+v", got, got.Outcome)
	}
	expect(t, "stdout", string(b.read(t, job.ID).Stdout.Data), "a\n")
	if text := b.run(t, bash.Request{Script: "echo a; kill -9 -$$"}).Render(); text != "a\n[killed by signal: SIGKILL]" {
		t.Errorf("rendered %q", text)
	}
}

// groupOf returns the process group of a process.
func groupOf(t *testing.T, pid string) string {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	group, err := syscall.Getpgid(n)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(group)
}

// An interactive shell in a range neither stops nor is stopped.
func TestB25(t *testing.T) {
	b := newBench(t)
	r := b.run(t, bash.Request{Script: "bash -ic 'echo ok'"})
	expect(t, "stdout", r.Stdout.Text, "ok\n")
	if !r.Outcome.Success() {
		t.Errorf("got %+v, stderr %q", r.Outcome, r.Stderr.Text)
	}
}

// What outlives commands that ended well does not pile up.
func TestB27(t *testing.T) {
	b, m := newBench(t), newMark(t)
	b.config.Drain = 20 * time.Millisecond
	for range 30 {
		r := b.run(t, bash.Request{Script: "nohup sleep 600 >/dev/null 2>&1 & echo ok", Env: m.env()})
		if !r.Outcome.Success() || len(r.Survivors) != 1 {
			t.Fatalf("got %+v", r)
		}
	}
	m.assertEmpty(t)
}
