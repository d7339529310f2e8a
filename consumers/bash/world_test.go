package bash_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/fsworld"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// A bench is this host's world, a registry, and what a test changes of the
// configurations before it makes a Bash of them.
type bench struct {
	runtime  *local.Runtime
	registry *jobs.Registry
	config   bash.Config
	spillDir string
	home     string
	world    *seam.World
}

// newBench opens a world whose base environment is small and known, and whose
// ranges are the weakest that this host has: what holds for them holds for all.
// When the test ends it is closed.
func newBench(t testing.TB, change ...func(*local.Config)) *bench {
	t.Helper()
	needBash(t)
	b := &bench{spillDir: t.TempDir(), home: t.TempDir()}
	config := local.Config{
		WorldID: "host",
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "LANG=C.UTF-8"},
		Spill:   local.SpillConfig{Dir: b.spillDir},

		Containment: seam.KindGroup,
	}
	for _, f := range change {
		f(&config)
	}
	var err error
	if b.runtime, err = local.New(config); err != nil {
		t.Fatal(err)
	}
	half, err := fsworld.New("host")
	if err != nil {
		t.Fatal(err)
	}
	if b.world, err = seam.NewWorld(half, b.runtime); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.registry.Close(context.Background()), b.runtime.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	b.config = bash.DefaultConfig()
	b.config.Dir = t.TempDir()
	b.config.Timeout = 30 * time.Second
	b.config.Grace = time.Second
	b.config.Drain = 200 * time.Millisecond
	b.useRegistry(jobs.Config{})
	return b
}

// useRegistry has a registry of its own for a test's jobs, in place of the
// bench's, which has none yet.
func (b *bench) useRegistry(config jobs.Config) {
	b.registry = jobs.New(config)
	b.config.Jobs = b.registry
}

// needBash skips where there is nothing to test.
func needBash(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skipf("needs bash: %v", err)
	}
}

// bash makes a Bash of the configuration as it is now.
func (b *bench) bash(t testing.TB) *bash.Bash {
	t.Helper()
	sh, err := bash.New(b.world, b.config)
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// run runs a request to its end, which has to leave nothing.
func (b *bench) run(t testing.TB, request bash.Request) bash.Result {
	t.Helper()
	result, err := b.bash(t).Run(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if result.Empty != nil {
		t.Error(result.Empty)
	}
	return result
}

// script runs a script that is expected to succeed, and returns what it printed.
func (b *bench) script(t testing.TB, text string) string {
	t.Helper()
	result := b.run(t, bash.Request{Script: text})
	if !result.Outcome.Success() || result.Stderr.Text != "" {
		t.Errorf("%s: got %+v, stderr %q", cut(text), result.Outcome, result.Stderr.Text)
	}
	return result.Stdout.Text
}

// start starts a job of the owner "me".
func (b *bench) start(t testing.TB, request bash.Request) jobs.Info {
	t.Helper()
	request.Owner = "me"
	info, err := b.bash(t).Start(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// wait waits for a job of "me".
func (b *bench) wait(t testing.TB, id string) jobs.Info {
	t.Helper()
	info, err := b.registry.Wait(t.Context(), "me", id)
	if err != nil {
		t.Fatal(err)
	}
	if info.Status.Live() {
		t.Fatalf("job %s is %s", id, info.Status)
	}
	return info
}

// read reads all of a job of "me".
func (b *bench) read(t testing.TB, id string) jobs.Output {
	t.Helper()
	out, err := b.registry.Read("me", id, jobs.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// until waits for what has no event of its own: output of a job, say.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// slack is what a call may take on a busy machine beyond what it waits for. What
// it must not wait for takes longer.
const slack = 10 * time.Second

// bounded fails where a call took longer than it may.
func bounded(t testing.TB, began time.Time, most time.Duration) {
	t.Helper()
	if took := time.Since(began); took > most {
		t.Errorf("took %v, want at most %v", took, most)
	}
}

// pad makes a script too long for argv, without moving a line of it.
func pad(text string) string {
	return text + "\n" + strings.Repeat("# "+strings.Repeat("pad ", 20)+"\n", 400)
}

// cut makes a script fit into a message.
func cut(text string) string {
	if len(text) > 100 {
		return text[:100] + "…"
	}
	return text
}

func expect(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
