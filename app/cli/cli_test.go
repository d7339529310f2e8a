package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/app/cli"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// runInMemory runs corral on a world in memory.
func runInMemory(containment seam.Containment, args ...string) (code int, stdout, stderr string) {
	memory := seamtest.NewMemWorld(seamtest.MemConfig{
		Containment: containment,
		Programs: map[string]seamtest.MemProgram{
			"/bin/greet": func(p *seamtest.MemProc) int {
				if _, err := fmt.Fprintln(p.Stdout, "hello", strings.Join(p.Argv[1:], " ")); err != nil {
					return 1
				}
				return 4
			},
			"/bin/bash": func(p *seamtest.MemProc) int {
				if _, err := fmt.Fprintf(p.Stdout, "%q in %s", p.Argv[1:], p.Dir); err != nil {
					return 1
				}
				return 4
			},
			"/bin/hour": func(p *seamtest.MemProc) int { p.Sleep(time.Hour); return 0 },
			"/bin/crash": func(p *seamtest.MemProc) int {
				p.Kill("SIGSEGV")
				return 0
			},
		},
	})
	var out, err bytes.Buffer
	code = cli.Program{
		Args:   args,
		Stdin:  strings.NewReader("from stdin"),
		Stdout: &out,
		Stderr: &err,
		App:    app.Options{FS: memory.FS(), Subprocess: memory},
	}.Main()
	return code, out.String(), err.String()
}

func TestExecInMemory(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		code int
		want map[string]any
	}{
		{"exit", []string{"greet", "a", "b"}, 4, map[string]any{"exit_code": 4.0, "signal": nil, "cause": "exited", "empty": true}},
		{"signal", []string{"crash"}, 139, map[string]any{"exit_code": nil, "signal": "SIGSEGV", "cause": "signaled"}},
		{"timeout", []string{"--timeout", "10ms", "hour"}, 124, map[string]any{"cause": "terminated", "cause_detail": "timeout after 10ms"}},
		{"complete", []string{"--require", "complete", "greet"}, 4, map[string]any{"cause": "exited"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := runInMemory(seam.Containment{}, append([]string{"exec", "--json", "--dir", "/"}, test.args...)...)
			if code != test.code {
				t.Errorf("exit code %d, want %d\n%s", code, test.code, stderr)
			}
			var object map[string]any
			if err := json.Unmarshal([]byte(stdout), &object); err != nil {
				t.Fatalf("%v in %q", err, stdout)
			}
			for name, want := range test.want {
				if got, ok := object[name]; !ok || got != want {
					t.Errorf("%s = %v, want %v", name, got, want)
				}
			}
		})
	}
}

// TestBashInMemory: corral bash needs nothing of this host.
func TestBashInMemory(t *testing.T) {
	for _, test := range []struct{ script, want string }{
		{"exit 4", `["-c" "exit 4"] in /`},
		{"-", `["-c" "from stdin"] in /`},
	} {
		code, stdout, stderr := runInMemory(seam.Containment{}, "bash", "--dir", "/", test.script)
		if want := test.want + "\n[exit code: 4]\n"; code != 4 || stdout != want {
			t.Errorf("exit code %d, want 4; stdout %q, want %q\n%s", code, stdout, want, stderr)
		}
	}
}

// TestInheritInMemory: a world that is not this process's host refuses to pass
// streams through, which is what exec does without --json.
func TestInheritInMemory(t *testing.T) {
	code, stdout, stderr := runInMemory(seam.Containment{}, "exec", "--dir", "/", "greet")
	if code != 125 || stdout != "" || !strings.Contains(stderr, "Stdout.Mode can't be had") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestDoctorInMemory: what the world refuses can't be enforced, whatever the
// kind.
func TestDoctorInMemory(t *testing.T) {
	code, stdout, stderr := runInMemory(seam.Containment{Kind: seam.KindCgroup, Complete: true}, "doctor", "--json")
	var object struct {
		World       string
		Containment struct {
			Kind     string
			Complete bool
		}
		Limits struct{ Enforceable []string }
	}
	if err := json.Unmarshal([]byte(stdout), &object); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if object.World != "memory" || object.Containment.Kind != "cgroup" || !object.Containment.Complete || object.Limits.Enforceable == nil || len(object.Limits.Enforceable) > 0 {
		t.Errorf("doctor: %+v", object)
	}
}

// A limitingWorld enforces one limit, and counts what doctor makes of it.
type limitingWorld struct {
	*seamtest.MemWorld
	closed *int
	fails  error // of Containment
}

func (w limitingWorld) Spawn(ctx context.Context, spec seam.Spec) (seam.Process, error) {
	spec.Limits.Pids = 0
	return w.MemWorld.Spawn(ctx, spec)
}

func (w limitingWorld) Containment(ctx context.Context) (seam.Containment, error) {
	if w.fails != nil {
		return seam.Containment{}, w.fails
	}
	return w.MemWorld.Containment(ctx)
}

func (w limitingWorld) Close(ctx context.Context) error {
	*w.closed++
	if _, ok := ctx.Deadline(); !ok {
		return errors.New("closed without a bound")
	}
	return w.MemWorld.Close(ctx)
}

func TestDoctorAsks(t *testing.T) {
	for _, fails := range []error{nil, errors.New("no answer")} {
		closed := 0
		world := limitingWorld{seamtest.NewMemWorld(seamtest.MemConfig{}), &closed, fails}
		var stdout, stderr bytes.Buffer
		code := cli.Program{
			Args: []string{"doctor", "--json"}, Stdout: &stdout, Stderr: &stderr,
			App: app.Options{FS: world.FS(), Subprocess: world},
		}.Main()
		if closed != 1 {
			t.Errorf("closed %d times, want once", closed)
		}
		if fails != nil {
			if code != 125 || !strings.Contains(stderr.String(), fails.Error()) {
				t.Errorf("exit code %d, %s", code, stderr.String())
			}
			continue
		}
		if code != 0 || !strings.Contains(stdout.String(), `"enforceable":["pids"]`) {
			t.Errorf("exit code %d, %s%s", code, stdout.String(), stderr.String())
		}
	}
}
