package bash_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// More of the reports, of what goes in and out.

// Characters that are split over reads stay whole.
func TestB29(t *testing.T) {
	b, m := newBench(t), newMark(t)
	r := b.run(t, bash.Request{Script: `printf '\xe2'; sleep 0.1; printf '\x89\xa4\n'`})
	expect(t, "stdout", r.Stdout.Text, "≤\n")

	r = b.run(t, bash.Request{Script: `printf '你%.0s' {1..70000}`, MaxOutputBytes: 1 << 20})
	expect(t, "stdout", cut(r.Stdout.Text), cut(strings.Repeat("你", 70_000)))
	if n := strings.Count(r.Stdout.Text, "你"); n != 70_000 {
		t.Errorf("%d characters", n)
	}
	r = b.run(t, bash.Request{Script: `printf '你%.0s' {1..70000}`})
	if !r.Stdout.Truncated || !utf8.ValidString(r.Stdout.Text) || strings.ContainsRune(r.Stdout.Text, utf8.RuneError) {
		t.Errorf("cut inside a character: %q…%q", r.Stdout.Text[:4], r.Stdout.Text[len(r.Stdout.Text)-4:])
	}

	// A reader of a job gets half a character only when there is no other half.
	job := b.start(t, bash.Request{Script: `printf 'a\xe2'; echo up >"$READY"; read x <"$READY"; printf '\x89\xa4b\xe2'`, Env: m.env()})
	m.ready(t)
	var out jobs.Output
	until(t, "the first character", func() bool {
		out = b.read(t, job.ID)
		return len(out.Stdout.Data) > 0
	})
	expect(t, "stdout", string(out.Stdout.Data), "a")
	b.script(t, "echo on >"+m.fifo)
	b.wait(t, job.ID)
	rest, err := b.registry.Read("me", job.ID, out.Next)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "stdout", string(rest.Stdout.Data), "≤b\xe2")
}

// Memory is bounded by the cap, not by the stream.
func TestB30(t *testing.T) {
	b := newBench(t)
	b.config.SpillMaxBytes = 1 << 20
	const flood, most = "dd if=/dev/zero bs=64k count=8192 status=none", 64 << 20 // 512 MiB
	peakMemory(t)
	before := peakMemory(t)
	r := b.run(t, bash.Request{Script: flood})
	job := b.start(t, bash.Request{Script: flood})
	b.wait(t, job.ID)
	if grown := peakMemory(t) - before; grown > most {
		t.Errorf("grew by %d bytes", grown)
	}
	if r.Stdout.Bytes != 512<<20 || !r.Stdout.Truncated || int64(len(r.Stdout.Text)) > b.config.MaxOutputBytes || r.Stdout.Spill.Withdrawn == nil {
		t.Errorf("got %d of %d bytes, %+v", len(r.Stdout.Text), r.Stdout.Bytes, r.Stdout.Spill)
	}
	out := b.read(t, job.ID)
	if out.Next.Stdout != 512<<20 || int64(len(out.Stdout.Data)) > b.config.MaxOutputBytes || out.Stdout.Lost != 512<<20-int64(len(out.Stdout.Data)) {
		t.Errorf("got %d bytes, lost %d, next %d", len(out.Stdout.Data), out.Stdout.Lost, out.Next.Stdout)
	}
}

// peakMemory returns the largest resident size that this process had since the
// last call, and begins anew.
func peakMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// Spill files have a bound of their own and one together, and do not outlive
// their world.
func TestB31(t *testing.T) {
	const quota = 1 << 20
	b := newBench(t, func(c *local.Config) { c.Spill.QuotaBytes = quota })
	b.config.SpillMaxBytes = 1 << 30
	job := b.start(t, bash.Request{Script: "yes"})
	var out jobs.Output
	until(t, "the spill is withdrawn", func() bool {
		if got := sizeBelow(t, b.spillDir); got > quota {
			t.Fatalf("%d bytes in spill files, of %d", got, quota)
		}
		out = b.read(t, job.ID)
		return out.StdoutSpill.Withdrawn != nil
	})
	if out.StdoutSpill.Path != "" || !strings.Contains(out.StdoutSpill.Withdrawn.Error(), "quota") {
		t.Errorf("got %+v", out.StdoutSpill)
	}
	if got := sizeBelow(t, b.spillDir); got != 0 {
		t.Errorf("%d bytes left of the file that was withdrawn", got)
	}
	small := b.start(t, bash.Request{Script: "seq 20000"})
	b.wait(t, small.ID)
	if out := b.read(t, small.ID); out.StdoutSpill.Path == "" {
		t.Errorf("what the withdrawn file took was not given back: %+v", out.StdoutSpill)
	}
	if err := errors.Join(b.registry.Close(t.Context()), b.runtime.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(b.spillDir); err != nil || len(left) > 0 {
		t.Errorf("left in the spill directory: %v, %v", left, err)
	}
}

// sizeBelow sums up the files below dir.
func sizeBelow(t *testing.T, dir string) (total int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil { // it may be withdrawn meanwhile
			total += info.Size()
		}
	}
	return total
}

// Jobs that have ended cost no goroutine and no descriptor, and none at all
// once they are released and their world is closed.
func TestB34(t *testing.T) {
	b := newBench(t)
	b.config.MaxOutputBytes = 10
	b.useRegistry(jobs.Config{MaxLive: 100})
	b.wait(t, b.start(t, bash.Request{Script: "echo 0123456789abcdef"}).ID) // what the first job of any world costs is not a job's
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = b.start(t, bash.Request{Script: "echo 0123456789abcdef; sleep 0.01 & exit 3"}).ID
	}
	for _, id := range ids {
		b.wait(t, id)
	}
	until(t, "goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
	until(t, "descriptors as before", func() bool { return openDescriptors(t) <= descriptors })
	for _, id := range ids {
		out := b.read(t, id)
		expect(t, "stdout", string(out.Stdout.Data), "789abcdef\n")
		if file, err := os.ReadFile(out.StdoutSpill.Path); err != nil || string(file) != "0123456789abcdef\n" {
			t.Errorf("spill of %s: %q, %v", id, file, err)
		}
		if err := b.registry.Release("me", id); err != nil {
			t.Error(err)
		}
	}
	if list := b.registry.List("me"); len(list) != 1 {
		t.Errorf("%d jobs are left", len(list))
	}
	if err := errors.Join(b.registry.Close(t.Context()), b.runtime.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(b.spillDir); err != nil || len(left) > 0 {
		t.Errorf("left in the spill directory: %v, %v", left, err)
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

// What has ended can be read: later, twice, and after another job came.
func TestB36(t *testing.T) {
	b := newBench(t)
	first := b.start(t, bash.Request{Script: "echo hi; exit 3"})
	b.wait(t, first.ID)
	for range 2 {
		out := b.read(t, first.ID)
		expect(t, "stdout", string(out.Stdout.Data), "hi\n")
		if out.Info.Status != jobs.Completed || out.Info.Outcome.ExitCode != 3 {
			t.Errorf("got %+v", out.Info)
		}
		b.wait(t, b.start(t, bash.Request{Script: "echo another"}).ID)
	}
	if err := b.registry.Release("me", first.ID); err != nil {
		t.Error(err)
	}
	if _, err := b.registry.Read("me", first.ID, jobs.Cursor{}); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// What reads standard input finds its end.
func TestB37(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ script, stdout string }{
		{"cat; echo $?", "0\n"},
		{"read x; echo $?", "1\n"},
		{"bash; echo $?", "0\n"},
		{"grep x; echo $?", "1\n"},
		{"sort | wc -l", "0\n"},
	} {
		t.Run(c.script, func(t *testing.T) {
			began := time.Now()
			expect(t, "stdout", b.script(t, c.script), c.stdout)
			bounded(t, began, slack)
		})
	}
}

// A script may be longer than an argument.
func TestB39(t *testing.T) {
	b := newBench(t)
	text := strings.Repeat("0123456789abcde\n", 200_000/16)
	got := b.script(t, "cat >file <<'EOF'\n"+text+"EOF\nwc -c <file; readlink /proc/self/fd/0")
	expect(t, "stdout", got, strconv.Itoa(len(text))+"\n/dev/null\n")
	file, err := os.ReadFile(filepath.Join(b.config.Dir, "file"))
	if err != nil || string(file) != text {
		t.Errorf("%d bytes, %v", len(file), err)
	}
	long := strings.Repeat("x", 200_000)
	_, err = b.bash(t).Run(t.Context(), bash.Request{Script: "true", Env: seam.Env{seam.Set("LONG", long)}})
	if seam.CodeOf(err) != seam.CodeTooLong {
		t.Errorf("a variable that is too long: got %v", err)
	}
}

// A NUL byte is refused, by the name of what holds it.
func TestB40(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name    string
		request bash.Request
		shell   string
	}{
		{name: "Script", request: bash.Request{Script: "echo \x00"}},
		{name: "Env[", request: bash.Request{Script: "true", Env: seam.Env{seam.Set("A", "b\x00")}}},
		{name: "Name", request: bash.Request{Script: "true", Env: seam.Env{seam.Set("A\x00", "b")}}},
		{name: "path", request: bash.Request{Script: "true", Dir: "/tmp\x00"}},
		{name: "name", request: bash.Request{Script: "true"}, shell: "/bin/bash\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := b.config
			if c.shell != "" {
				config.Shell = c.shell
			}
			sh, err := bash.New(b.world, config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = sh.Run(t.Context(), c.request)
			var field *seam.FieldError
			if seam.CodeOf(err) != seam.CodeInvalid || !errors.As(err, &field) || !strings.Contains(field.Field, c.name) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A directory that was removed is told apart, and costs only what runs in it.
func TestB41(t *testing.T) {
	b := newBench(t)
	gone := filepath.Join(b.config.Dir, "w1")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	r := b.run(t, bash.Request{Script: `rmdir "$PWD"; echo hi; cd ..; pwd`, Dir: "w1"})
	expect(t, "stdout", r.Stdout.Text, "hi\n"+filepath.Dir(gone)+"\n")
	_, err := b.bash(t).Run(t.Context(), bash.Request{Script: "echo hi", Dir: gone})
	if seam.CodeOf(err) != seam.CodeDirNotFound || !strings.Contains(err.Error(), gone) {
		t.Errorf("got %v", err)
	}
	expect(t, "stdout", b.script(t, "echo hi"), "hi\n")
}

// The harness's secrets stay with it, and what was dropped can be looked at.
func TestB43(t *testing.T) {
	secrets := []string{"DATABASE_URL=postgres://u:p@host/db", "X_PASSPHRASE=s", "AWS_SESSION_TOKEN=s", "SSH_AUTH_SOCK=/s", "KEYRING=-----BEGIN PRIVATE KEY-----"}
	b := newBench(t, func(c *local.Config) { c.Environ = append(c.Environ, append(secrets, "INNOCENT=1")...) })
	got := b.script(t, "env")
	dropped := strings.Join(b.runtime.DroppedEnv(), " ")
	for _, secret := range secrets {
		name, _, _ := strings.Cut(secret, "=")
		if strings.Contains(got, name) {
			t.Errorf("%s was passed on", name)
		}
		if !strings.Contains(dropped, name) {
			t.Errorf("%s is not told as dropped: %s", name, dropped)
		}
	}
	if !strings.Contains(got, "INNOCENT=1\n") {
		t.Errorf("got %q", got)
	}
	b = newBench(t, func(c *local.Config) {
		c.Environ = append(c.Environ, "INNOCENT=1")
		c.Scrub = seam.Scrub{AllowOnly: true, Allow: []string{"PATH"}}
	})
	if got := b.script(t, "env"); strings.Contains(got, "INNOCENT") {
		t.Errorf("got %q", got)
	}
}

// A job that is told to have ended has ended, with all its children.
func TestB124(t *testing.T) {
	b, m := newBench(t), newMark(t)
	const script = `bash -lc 'sleep 600 & sleep 601 & echo up >"$READY"; wait'`
	job := b.start(t, bash.Request{Script: script, Env: m.env()})
	m.ready(t)
	if _, err := b.registry.Kill("me", job.ID, ""); err != nil {
		t.Fatal(err)
	}
	b.wait(t, job.ID)
	m.assertEmpty(t)

	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends with the script's first write
		m.ready(t)
		cancel()
	}()
	if r, err := b.bash(t).Run(ctx, bash.Request{Script: script, Env: m.env()}); err != nil || !r.Aborted {
		t.Errorf("got %+v, %v", r, err)
	}
	m.assertEmpty(t)
}

// Standard input is the null device whatever redirections a script has, and no
// descriptor of the harness reaches it.
func TestB127(t *testing.T) {
	b := newBench(t)
	const script = "cat <<E >/dev/null\nx\nE\ncat; read x; echo $?; readlink /proc/self/fd/0; (cd /proc/self/fd; echo *)"
	for name, script := range map[string]string{"short": script, "long": pad(script)} {
		t.Run(name, func(t *testing.T) {
			got := b.script(t, script)
			// The subshell's own are the standard ones, and the directory while it lists it.
			if got != "1\n/dev/null\n0 1 2 3\n" && got != "1\n/dev/null\n0 1 2\n" {
				t.Errorf("got %q", got)
			}
		})
	}
	if python, err := exec.LookPath("python3"); err == nil {
		r := b.run(t, bash.Request{Script: "cat <<E >/dev/null\nx\nE\n" + python + " -c 'input()'"})
		if r.Outcome.ExitCode != 1 || !strings.Contains(r.Stderr.Text, "EOFError") {
			t.Errorf("got %+v, stderr %q", r.Outcome, r.Stderr.Text)
		}
	}
}

// Standard input is the same in the foreground and in the background.
func TestB128(t *testing.T) {
	b := newBench(t)
	const script = "cat; cat & wait; readlink /proc/self/fd/0"
	expect(t, "in the foreground", b.script(t, script), "/dev/null\n")
	began := time.Now()
	job := b.start(t, bash.Request{Script: script})
	b.wait(t, job.ID)
	bounded(t, began, slack)
	expect(t, "in the background", string(b.read(t, job.ID).Stdout.Data), "/dev/null\n")
}
