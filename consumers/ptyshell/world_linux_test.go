package ptyshell_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/fsworld"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// A bench is real shells in one containment of this host.
type bench struct {
	testing.TB
	kind    seam.Kind
	config  ptyshell.Config
	shells  *ptyshell.Shells
	session *ptyshell.Session
}

// onEach runs a test on a session in each containment that this host has.
func onEach(t *testing.T, test func(*testing.T, *bench)) {
	for _, kind := range kindsHere() {
		t.Run(string(kind), func(t *testing.T) {
			b := newBench(t, kind)
			b.open()
			test(t, b)
		})
	}
}

// kindsHere are the containments that this host has.
var kindsHere = sync.OnceValue(func() (kinds []seam.Kind) {
	ctx := context.Background()
	for _, kind := range []seam.Kind{seam.KindGroup, seam.KindReaper, seam.KindCgroup, seam.KindScope} {
		runtime, err := local.New(local.Config{WorldID: "host", Containment: kind})
		if err != nil {
			continue
		}
		if _, err := runtime.Containment(ctx); err == nil {
			kinds = append(kinds, kind)
		}
		_ = runtime.Close(ctx) // nothing was started
	}
	return kinds
})

// newBench opens a world for a test.
func newBench(t testing.TB, kind seam.Kind, change ...func(*ptyshell.Config)) *bench {
	t.Helper()
	b := &bench{TB: t, kind: kind}
	b.needs("bash")
	home := t.TempDir()
	runtime, err := local.New(local.Config{
		WorldID:     "host",
		Environ:     []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8", "API_TOKEN=secret"},
		Containment: kind,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runtime.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	half, err := fsworld.New("host")
	if err != nil {
		t.Fatal(err)
	}
	world, err := seam.NewWorld(half, runtime)
	if err != nil {
		t.Fatal(err)
	}
	b.config = ptyshell.DefaultConfig()
	b.config.Dir = t.TempDir()
	b.config.Grace = time.Second
	for _, f := range change {
		f(&b.config)
	}
	if b.shells, err = ptyshell.New(world, b.config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.shells.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// needs skips where a program is not installed.
func (b *bench) needs(programs ...string) {
	b.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			b.Skipf("needs %s: %v", program, err)
		}
	}
}

// open opens a session, and forgets the one before, which lives on.
func (b *bench) open() {
	b.Helper()
	session, err := b.shells.Open(b.Context(), ptyshell.Open{Owner: "me"})
	if err != nil {
		b.Fatal(err)
	}
	b.session = session
}

// slack is what a busy machine may add to what takes no time.
const slack = 5 * time.Second

// send sends a request, and does not wait for long.
func (b *bench) send(request ptyshell.Request) ptyshell.Result {
	b.Helper()
	began := time.Now()
	result, err := b.session.Send(b.Context(), request)
	if err != nil {
		b.Fatalf("%q: %v", request.Text, err)
	}
	if took := time.Since(began); took > slack {
		b.Errorf("%q: took %v", request.Text, took)
	}
	return result
}

// sends sends a line and checks why it settled.
func (b *bench) sends(text string, reason ptyshell.Reason) ptyshell.Result {
	b.Helper()
	result := b.send(line(text))
	if result.Reason != reason {
		b.Errorf("%q: settled with %s, want %s: %s", text, result.Reason, reason, result.Render())
	}
	return result
}

// prints sends a command that succeeds, and checks what it prints.
func (b *bench) prints(text, want string) {
	b.Helper()
	result := b.sends(text, ptyshell.ReasonPrompt)
	if result.Output != want || result.Status == nil || *result.Status != 0 {
		b.Errorf("%q: got %s, want %q", text, result.Render(), want)
	}
}

// force types for the program that owns the terminal.
func (b *bench) force(text string) ptyshell.Result {
	b.Helper()
	return b.send(ptyshell.Request{Text: text, Submit: true, Force: true})
}

// interrupts has SIGINT lead back to the prompt.
func (b *bench) interrupts() {
	b.Helper()
	if _, err := b.session.Signal(b.Context(), "SIGINT"); err != nil {
		b.Fatal(err)
	}
	if result := b.send(ptyshell.Request{}); result.Reason != ptyshell.ReasonPrompt {
		b.Errorf("after SIGINT: %s", result.Render())
	}
}

// owned checks that the result names a program.
func owned(t testing.TB, result ptyshell.Result, reason ptyshell.Reason, program string) {
	t.Helper()
	if result.Reason != reason || result.Foreground == nil || !strings.Contains(result.Foreground.String(), program) {
		t.Errorf("want %s of %s: %s", reason, program, result.Render())
	}
}

// quits has pagers quit, which take a key to get over a dumb terminal, some of them.
func (b *bench) quits() {
	b.Helper()
	for range 3 {
		if b.send(ptyshell.Request{Text: "q", Force: true}).Reason == ptyshell.ReasonPrompt {
			return
		}
	}
	b.Error("the pager did not quit")
}

// gone checks that a process has ended. Who is to reap it may not have yet.
func gone(t testing.TB, program string, pid int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	if !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X") {
		t.Errorf("%s, process %d, lives: %s", program, pid, rest)
	}
}
