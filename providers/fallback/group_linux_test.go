package fallback_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/providers/fallback"
)

// launch starts a script as a range of its own.
func launch(t *testing.T, argv ...string) (owner.Direct, owner.Owner) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	direct, own, err := fallback.NewGroup().Launch(t.Context(), owner.Request{
		Path: argv[0], Argv: argv, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Stdio: [3]*os.File{null, null, null},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Signal(owner.Kill); err != nil {
			t.Error(err)
		}
		if err := own.WaitEmpty(context.Background()); err != nil {
			t.Error(err)
		}
		if err := direct.Release(); err != nil {
			t.Error(err)
		}
	})
	return direct, own
}

// A process whose first thread has ended is a zombie to look at, and alive.
func TestThreadsOutliveTheFirst(t *testing.T) {
	const program = `
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
`
	direct, own := launch(t, "/bin/sh", "-c", "python3 -c '"+program+"' & exit 0")
	direct.Wait()
	// As long as it has not ended its first thread there is nothing to see.
	waitForState(t, own, "Z")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errStill)
	defer cancel()
	if err := own.WaitEmpty(ctx); !errors.Is(err, errStill) {
		t.Errorf("got %v, want the range not to be empty", err)
	}
}

var errStill = errors.New("still there")

func waitForState(t *testing.T, own owner.Owner, want string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		members, err := own.Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			if state(m.PID) == want {
				return
			}
		}
		time.Sleep(time.Millisecond) // a thread's end inside another process has no event
	}
	t.Fatalf("no member came to state %s", want)
}

// A stopped member obeys TERM, which stopped processes do not.
func TestTerminateContinuesWhatIsStopped(t *testing.T) {
	direct, own := launch(t, "/bin/sh", "-c", "kill -STOP $$; exit 1")
	for state(pidOf(direct)) != "T" {
		time.Sleep(time.Millisecond) // stopping is told to the parent alone, by SIGCHLD, which is not ours
	}
	if err := own.Signal(owner.Terminate); err != nil {
		t.Fatal(err)
	}
	if got := direct.Wait(); got.Signal.Number != int(syscall.SIGTERM) {
		t.Errorf("got %+v", got)
	}
}

// Members outside of the leader's process group are found by their session.
func TestKillReachesEveryProcessGroup(t *testing.T) {
	direct, own := launch(t, "/bin/bash", "-c", "set -m; for i in 1 2 3 4 5; do (sleep 600 & sleep 600) & done; exit 0")
	direct.Wait()
	members, err := own.Members(t.Context())
	if err != nil || len(members) < 5 {
		t.Fatalf("got %d members, %v", len(members), err)
	}
	if err := own.Signal(owner.Kill); err != nil {
		t.Fatal(err)
	}
	if err := own.WaitEmpty(t.Context()); err != nil {
		t.Error(err)
	}
}

// state is a process's state in /proc; "" if there is none.
func state(pid int) string {
	stat, err := process.ReadStat(pid)
	if err != nil {
		return ""
	}
	return string(stat.State)
}

func pidOf(d owner.Direct) int { return d.(interface{ PID() int }).PID() }
