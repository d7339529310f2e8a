package runner_test

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/runner"
	"github.com/corral-world/corral/seam"
)

func start(t *testing.T, script string) *runner.Direct {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	d, err := runner.Start(owner.Request{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: "/",
		Stdio: [3]*os.File{null, null, null},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestExitIsObservedAndNotReaped(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         owner.Exit
	}{
		{"success", "exit 0", owner.Exit{}},
		{"code", "exit 42", owner.Exit{Code: 42}},
		{"signal", "kill -TERM $$", owner.Exit{Code: -1, Signal: seam.Signal{Name: "SIGTERM", Number: 15}}},
		{"real-time signal", "kill -40 $$", owner.Exit{Code: -1, Signal: seam.Signal{Name: "SIG40", Number: 40}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := start(t, c.script)
			got := d.Wait()
			if got.Usage == nil || got.Usage.MaxRSSBytes == 0 {
				t.Errorf("got usage %+v", got.Usage)
			}
			got.Usage = nil
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			again, ended := d.Exited()
			if again.Usage = nil; !ended || again != c.want {
				t.Errorf("a second look gave %+v, %v", again, ended)
			}
			// The zombie still pins the number.
			if err := syscall.Kill(d.PID(), 0); err != nil {
				t.Errorf("before Release: %v", err)
			}
			if err := d.Release(); err != nil {
				t.Error(err)
			}
			if _, err := syscall.Wait4(d.PID(), nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
				t.Errorf("after Release there is something to reap: %v", err)
			}
		})
	}
}

func TestLostToAnotherReaper(t *testing.T) {
	d := start(t, "exit 3")
	if _, err := syscall.Wait4(d.PID(), nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	if got := d.Wait(); !got.Lost || !d.Lost() {
		t.Errorf("got %+v, want it lost", got)
	}
	if err := d.Release(); err != nil {
		t.Error(err)
	}
}

func TestAlive(t *testing.T) {
	d := start(t, "exec sleep 600")
	if exit, ended := d.Exited(); ended || d.Lost() {
		t.Errorf("a live process has ended: %+v", exit)
	}
	if err := unix.Kill(-d.PID(), unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if got := d.Wait(); got.Signal.Number != 9 {
		t.Errorf("got %+v", got)
	}
	if err := d.Release(); err != nil {
		t.Error(err)
	}
}
