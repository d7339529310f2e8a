package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// TestEscapeFromReaper: a payload that does away with both its supervisor and
// the nursery above it escapes, as reaper says; that nothing lives is not
// claimed then, by anyone.
func TestEscapeFromReaper(t *testing.T) {
	need(t, seam.KindReaper)
	r, err := local.New(local.Config{WorldID: "test", Containment: seam.KindReaper, Spill: local.SpillConfig{Dir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	marker := fmt.Sprintf("600.%09d", rand.IntN(1e9))
	// Stopped, neither sees what happens to the other.
	script := `setsid sleep ` + marker + ` & read x
		owners="$(cut -d" " -f4 /proc/$PPID/stat) $PPID"
		kill -STOP $owners; kill -KILL $owners`
	p, err := r.Spawn(t.Context(), seam.Spec{
		Argv: []string{"sh", "-c", script}, Dir: "/", Grace: 100 * time.Millisecond, Stdin: seam.Stdin{Mode: seam.Pipe},
	})
	if err != nil {
		t.Fatal(err)
	}
	for len(alive(t, "sleep\x00"+marker)) == 0 { // it may not have become sleep yet
		time.Sleep(time.Millisecond)
	}
	if _, err := p.Stdin().Write([]byte("now\n")); err != nil {
		t.Fatal(err)
	}
	if outcome, err := p.Wait(t.Context()); err != nil || outcome.End != seam.EndLost {
		t.Errorf("got %+v, %v, want lost", outcome, err)
	}
	p.Terminate(errEnough)
	if err := p.WaitEmpty(t.Context()); !errors.Is(err, seam.ErrUnproven) {
		t.Errorf("WaitEmpty: %v, want unproven", err)
	}
	if err := r.Close(context.Background()); !errors.Is(err, seam.ErrUnproven) || !strings.Contains(err.Error(), p.Name()) {
		t.Errorf("Close: %v, want that %s is unproven", err, p.Name())
	}
	endEscapees(t, marker)
}

// TestEscapeUnsignallable: where no cgroup holds it, a member of another user is
// not ended, and said not to be, for as long as it lives.
func TestEscapeUnsignallable(t *testing.T) {
	const lifetime = 20 * time.Second
	for _, kind := range kindsHere(t, seam.KindReaper, seam.KindGroup) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			t.Parallel()
			r := openRuntime(t, local.Config{Containment: kind})
			p, member := startUnsignallable(t, r, lifetime)
			p.Terminate(errEnough)
			err := p.WaitEmpty(t.Context())
			if !errors.Is(err, seam.ErrUnproven) || !strings.Contains(err.Error(), fmt.Sprint(member)) {
				t.Errorf("WaitEmpty: %v, want unproven for process %d", err, member)
			}
			// It ends by itself.
			for deadline := time.Now().Add(3 * lifetime); err != nil; err = p.WaitEmpty(t.Context()) {
				if time.Now().After(deadline) {
					t.Fatalf("WaitEmpty after its end: %v", err)
				}
			}
			if line := cmdline(member); len(line) > 0 {
				t.Errorf("proven empty, and process %d lives: %q", member, line)
			}
		})
	}
}

// startUnsignallable returns once a member is root's, which this process may not
// signal.
func startUnsignallable(t *testing.T, r *local.Runtime, lifetime time.Duration) (p seam.Process, member int) {
	t.Helper()
	program := setuidProgram(t, "setpriv") // a setuid program alone keeps the user by whom it may be signalled
	sleep := fmt.Sprintf("%.0f.%09d", lifetime.Seconds(), rand.IntN(1e9))
	p, err := r.Spawn(t.Context(), seam.Spec{
		Argv: []string{"sh", "-c", program + " --reuid 0 sleep " + sleep + " & wait"}, Dir: "/", Grace: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	for member == 0 { // it may not have executed yet
		list, err := p.Survivors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			if bytes.HasPrefix(cmdline(m.PID), []byte("sleep\x00"+sleep)) {
				member = m.PID
			}
		}
	}
	if err := syscall.Kill(member, 0); !errors.Is(err, syscall.EPERM) {
		t.Fatalf("process %d may be signalled: %v", member, err)
	}
	return p, member
}
