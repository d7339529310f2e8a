package bash_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
)

func TestConfigIsChecked(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name, field string
		change      func(*bash.Config)
	}{
		{"no shell", "Shell", func(c *bash.Config) { c.Shell = "" }},
		{"no directory", "Dir", func(c *bash.Config) { c.Dir = "" }},
		{"no timeout", "Timeout", func(c *bash.Config) { c.Timeout = 0 }},
		{"a negative timeout", "Timeout", func(c *bash.Config) { c.Timeout = -1 }},
		{"no largest timeout", "MaxTimeout", func(c *bash.Config) { c.MaxTimeout = 0 }},
		{"no grace", "Grace", func(c *bash.Config) { c.Grace = 0 }},
		{"a negative drain", "Drain", func(c *bash.Config) { c.Drain = -1 }},
		{"no output", "MaxOutputBytes", func(c *bash.Config) { c.MaxOutputBytes = 0 }},
		{"a negative spill", "SpillMaxBytes", func(c *bash.Config) { c.SpillMaxBytes = -1 }},
		{"an unknown policy", "Survivors", func(c *bash.Config) { c.Survivors = 9 }},
		{"survivors kept by nobody", "Survivors", func(c *bash.Config) { c.Survivors, c.Jobs = seam.KeepSurvivors, nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := b.config
			c.change(&config)
			_, err := bash.New(b.world, config)
			var field *seam.FieldError
			if !errors.As(err, &field) || field.Field != c.field || seam.CodeOf(err) != seam.CodeInvalid {
				t.Errorf("got %v, want field %s", err, c.field)
			}
		})
	}
}

// What keeps a script from running is an error, and nothing was started.
func TestErrorsAreToldApart(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(b.config.Dir, "file")
	noInterpreter := filepath.Join(b.config.Dir, "shell")
	for path, text := range map[string]string{file: "x", noInterpreter: "#!/no/such/interpreter\n"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	plain := filepath.Join(b.config.Dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(b.config.Dir, "missing")
	ok := bash.Request{Script: "true"}
	for _, c := range []struct {
		name    string
		shell   string
		request bash.Request
		code    seam.Code
		is      error
		words   string
	}{
		{name: "a blank script", request: bash.Request{Script: " \n\t"}, code: seam.CodeInvalid, is: fs.ErrInvalid, words: "Script is blank"},
		{name: "a script with a NUL byte", request: bash.Request{Script: "echo\x00"}, code: seam.CodeInvalid, words: "Script contains a NUL byte"},
		{name: "a directory with a NUL byte", request: bash.Request{Script: "true", Dir: "/\x00"}, code: seam.CodeInvalid, words: "NUL byte"},
		{
			name:    "a variable's name with a NUL byte",
			request: bash.Request{Script: "true", Env: seam.Env{seam.Set("A\x00", "")}}, code: seam.CodeInvalid, words: "Name contains a NUL byte",
		},
		{
			name:    "a variable's value with a NUL byte",
			request: bash.Request{Script: "true", Env: seam.Env{seam.Set("A", "\x00")}}, code: seam.CodeInvalid, words: "Value (A) contains a NUL byte",
		},
		{name: "a negative timeout", request: bash.Request{Script: "true", Timeout: -1}, code: seam.CodeInvalid, words: "Timeout is -1ns"},
		{
			name: "a negative BackgroundAfter", request: bash.Request{Script: "true", BackgroundAfter: -1},
			code: seam.CodeInvalid, words: "BackgroundAfter is negative",
		},
		{
			name: "negative output", request: bash.Request{Script: "true", MaxOutputBytes: -1},
			code: seam.CodeInvalid, words: "MaxOutputBytes is negative",
		},
		{name: "a missing directory", request: bash.Request{Script: "true", Dir: missing}, code: seam.CodeDirNotFound, is: fs.ErrNotExist, words: missing},
		{name: "a missing directory below one", request: bash.Request{Script: "true", Dir: "missing/too"}, code: seam.CodeDirNotFound, words: missing},
		{name: "a directory that is a file", request: bash.Request{Script: "true", Dir: file}, code: seam.CodeNotDir, words: file},
		{name: "a directory below a file", request: bash.Request{Script: "true", Dir: "file/x"}, code: seam.CodeNotDir, words: "file/x"},
		{name: "a missing shell", shell: "no-such-shell", request: ok, code: seam.CodeExecutableNotFound, is: fs.ErrNotExist, words: "no-such-shell"},
		{name: "a missing shell by its path", shell: missing, request: ok, code: seam.CodeExecutableNotFound, words: missing},
		{name: "a shell that may not be executed", shell: plain, request: ok, code: seam.CodeNotExecutable, words: plain},
		{
			name: "a shell without its interpreter", shell: noInterpreter, request: ok,
			code: seam.CodeInterpreterNotFound, is: fs.ErrNotExist, words: "/no/such/interpreter",
		},
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
			_, runErr := sh.Run(t.Context(), c.request)
			errs := map[string]error{"Run": runErr}
			if c.request.Timeout == 0 && c.request.BackgroundAfter == 0 { // which are the foreground's
				_, errs["Start"] = sh.Start(t.Context(), c.request)
			}
			for call, err := range errs {
				if got := seam.CodeOf(err); got != c.code || !strings.Contains(err.Error(), c.words) {
					t.Errorf("%s: got %q: %v, want %q with %q", call, got, err, c.code, c.words)
				}
				if c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("%s: %v does not match %v", call, err, c.is)
				}
			}
			if list := b.registry.List(""); len(list) > 0 {
				t.Errorf("a job was left: %+v", list)
			}
		})
	}
	t.Run("no jobs", func(t *testing.T) {
		config := b.config
		config.Jobs = nil
		sh, err := bash.New(b.world, config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sh.Start(t.Context(), ok); !errors.Is(err, bash.ErrNoJobs) {
			t.Errorf("Start: got %v", err)
		}
		if _, err := sh.Run(t.Context(), bash.Request{Script: "true", BackgroundAfter: 1}); !errors.Is(err, bash.ErrNoJobs) {
			t.Errorf("Run: got %v", err)
		}
	})
}

func TestExitCodes(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(filepath.Join(b.config.Dir, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, script string
		code         int
	}{
		{"success", "true", 0},
		{"failure", "false", 1},
		{"exit", "exit 3", 3},
		{"the last command's", "(exit 5)", 5},
		{"not executable", "./plain", 126},
		{"a directory", "/", 126},
		{"not found", "no-such-command", 127},
		{"a child that a signal ended", "bash -c 'kill -9 $$'; exit $?", 137},
		{"all ones", "exit -1", 255},
		{"a syntax error", "if", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.run(t, bash.Request{Script: c.script})
			if r.Outcome.ExitCode != c.code || r.Outcome.End != seam.EndExited || r.TimedOut || r.Aborted {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestDirectory(t *testing.T) {
	b := newBench(t)
	canonical, err := filepath.EvalSymlinks(b.config.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(canonical, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("a", "b"), filepath.Join(canonical, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dir, want string }{
		{"none", "", canonical},
		{"absolute", filepath.Join(canonical, "a"), filepath.Join(canonical, "a")},
		{"relative to the configured", "a/b", filepath.Join(canonical, "a", "b")},
		{"dot", ".", canonical},
		{"through a link", "link", filepath.Join(canonical, "a", "b")},
		{"above a link", "link/..", filepath.Join(canonical, "a")},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.run(t, bash.Request{Dir: c.dir, Script: `pwd; pwd -P; echo "$PWD"`})
			expect(t, "directory", r.Stdout.Text, strings.Repeat(c.want+"\n", 3))
		})
	}
}

func TestStdin(t *testing.T) {
	b := newBench(t)
	const probe = `readlink /proc/self/fd/0; cat <<E >/dev/null
x
E
readlink /proc/self/fd/0; cat; read x; echo "$?"`
	for _, c := range []struct {
		name   string
		stdin  []byte
		script string
		want   string
	}{
		{"none", nil, probe, "/dev/null\n/dev/null\n1\n"},
		{"none, long", nil, pad(probe), "/dev/null\n/dev/null\n1\n"},
		{"data", []byte("one\ntwo"), "read x; echo \"$x\"; cat", "one\ntwo"},
		{"data, long", []byte("one\ntwo"), pad("read x; echo \"$x\"; cat"), "one\ntwo"},
		{"data, long and not ASCII", []byte("你"), pad("x='你好'; echo ${#x}; cat"), "2\n你"},
		{"empty data", []byte{}, "cat; echo end", "end\n"},
		{"empty data, long", []byte{}, pad("cat; echo end"), "end\n"},
		{"data with NUL bytes, long", []byte("a\x00b"), pad("od -An -c"), "   a  \\0   b\n"},
		{"data that nobody reads", make([]byte, 1<<20), "echo x", "x\n"},
		{"data that nobody reads, long", make([]byte, 1<<20), pad("echo x"), "x\n"},
		{"much data, long", make([]byte, 1<<20), pad("wc -c"), "1048576\n"},
		{"an EXIT trap, long", nil, pad("trap 'readlink /proc/self/fd/0' EXIT"), "/dev/null\n"},
		{"an EXIT trap after an exec, long", nil, pad("echo file >f; trap cat EXIT; exec <f"), "file\n"},
		{"data for an EXIT trap, long", []byte("data"), pad("trap cat EXIT"), "data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.run(t, bash.Request{Script: c.script, Stdin: c.stdin})
			expect(t, "stdout", r.Stdout.Text, c.want)
			expect(t, "stderr", r.Stderr.Text, "")
			if r.Outcome.End != seam.EndExited || len(r.Survivors) > 0 {
				t.Errorf("got %+v", r)
			}
			if c.stdin != nil {
				return
			}
			job := b.start(t, bash.Request{Script: c.script})
			b.wait(t, job.ID)
			expect(t, "stdout of a job", string(b.read(t, job.ID).Stdout.Data), c.want)
		})
	}
}

// The exit fact is never lost, the truncation marker is there exactly when
// something is missing, and the spill is complete.
func TestOutputAtTheCap(t *testing.T) {
	const limit = 20_000
	line := "0123456789abcde\n"
	for _, c := range []struct {
		name      string
		bytes     int
		spill     int64
		truncated bool
	}{
		{"0.9", limit * 9 / 10, 1 << 20, false},
		{"1 less a byte", limit - 1, 1 << 20, false},
		{"1.0", limit, 1 << 20, false},
		{"1 and a byte", limit + 1, 1 << 20, true},
		{"1.1", limit * 11 / 10, 1 << 20, true},
		{"as much as the spill takes", 2 * limit, 2 * limit, true},
		{"more than the spill takes", 2*limit + 1, 2 * limit, true},
		{"no spill", 2 * limit, 0, true},
	} {
		for _, stream := range []string{"stdout", "stderr"} {
			t.Run(c.name+" on "+stream, func(t *testing.T) {
				b := newBench(t)
				b.config.MaxOutputBytes, b.config.SpillMaxBytes = limit, c.spill
				redirect := map[string]string{"stderr": " >&2"}[stream]
				whole := strings.Repeat(line, 3*limit/len(line))[:c.bytes]
				r := b.run(t, bash.Request{Script: fmt.Sprintf("yes 0123456789abcde | head -c %d%s; exit 7", c.bytes, redirect)})
				got := r.Stdout
				if stream == "stderr" {
					got = r.Stderr
				}
				kept := whole[max(0, len(whole)-limit):]
				if got.Text != kept || got.Bytes != int64(c.bytes) || got.Truncated != c.truncated {
					t.Errorf("got %d of %d bytes, truncated %v; want %d", len(got.Text), got.Bytes, got.Truncated, len(kept))
				}
				hasFile := c.truncated && int64(c.bytes) <= c.spill
				if (got.Spill.Path != "") != hasFile || (got.Spill.Withdrawn != nil) != (c.truncated && c.spill > 0 && !hasFile) {
					t.Errorf("got %+v", got.Spill)
				}
				marker := ""
				if hasFile {
					if file, err := os.ReadFile(got.Spill.Path); err != nil || string(file) != whole {
						t.Errorf("spill: %d bytes, %v", len(file), err)
					}
					marker = "\n[output truncated; full output: " + got.Spill.Path + "]"
				} else if c.truncated {
					marker = "\n[output truncated; full output: (unavailable)]"
				}
				if text := r.Render(); !strings.HasSuffix(text, marker+"\n[exit code: 7]") || strings.Contains(text, "truncated") != c.truncated {
					t.Errorf("rendered %q", text[max(0, len(text)-200):])
				}
				if r.Outcome.ExitCode != 7 {
					t.Errorf("got %+v", r.Outcome)
				}
			})
		}
	}
	t.Run("a character at the cut is whole or gone", func(t *testing.T) {
		b := newBench(t)
		for _, limit := range []int64{10, 12} {
			b.config.MaxOutputBytes = limit
			r := b.run(t, bash.Request{Script: `printf '你你你你\n'`}) // 13 bytes
			expect(t, "stdout", r.Stdout.Text, "你你你\n")
			if !r.Stdout.Truncated || r.Stdout.Bytes != 13 {
				t.Errorf("got %+v", r.Stdout)
			}
		}
	})
	t.Run("a trusted caller's own cap for stdout", func(t *testing.T) {
		b := newBench(t)
		b.config.MaxOutputBytes = 10
		r := b.run(t, bash.Request{Script: "printf 0123456789abc; printf 0123456789abc >&2", MaxOutputBytes: 12})
		expect(t, "stdout", r.Stdout.Text, "123456789abc")
		expect(t, "stderr", r.Stderr.Text, "3456789abc")
	})
}

func TestTimeoutInForce(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name                       string
		standard, most, asked, got time.Duration
	}{
		{"none asked for", 20 * time.Second, 30 * time.Second, 0, 20 * time.Second},
		{"less", 20 * time.Second, 30 * time.Second, time.Second, time.Second},
		{"more than the default", 20 * time.Second, 30 * time.Second, 25 * time.Second, 25 * time.Second},
		{"more than the most", 20 * time.Second, 30 * time.Second, time.Hour, 30 * time.Second},
		{"a default above the most", time.Hour, 30 * time.Second, 0, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.config.Timeout, b.config.MaxTimeout = c.standard, c.most
			if r := b.run(t, bash.Request{Script: "true", Timeout: c.asked}); r.Timeout != c.got {
				t.Errorf("got %v, want %v", r.Timeout, c.got)
			}
		})
	}
}

// A job is labelled by its request, and else by its script.
func TestJobFacts(t *testing.T) {
	b := newBench(t)
	first := b.start(t, bash.Request{Script: "exit 3"})
	second := b.start(t, bash.Request{Script: "kill -9 $$", Label: "a label"})
	if first.ID != "bash-1" || second.ID != "bash-2" || first.Label != "exit 3" || second.Label != "a label" || first.Owner != "me" {
		t.Errorf("got %+v and %+v", first, second)
	}
	if got := b.wait(t, first.ID); got.Status != jobs.Completed || got.Outcome.ExitCode != 3 {
		t.Errorf("got %+v", got)
	}
	if got := b.wait(t, second.ID); got.Status != jobs.Killed || got.Outcome.Signal.Name != "SIGKILL" || got.Outcome.End != seam.EndSignaled {
		t.Errorf("got %+v", got)
	}
}
