package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// A sitting is a corral shell on a terminal that the test sits at.
type sitting struct {
	*testing.T
	outer seam.Terminal

	mu     sync.Mutex
	screen strings.Builder
	news   chan struct{} // has one where the screen has changed
	end    chan struct{} // closed with the output
}

// sit runs corral, as the outer shell's command, on a terminal.
func sit(t *testing.T, args string) *sitting {
	t.Helper()
	corral, err := exec.LookPath("corral")
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := local.New(local.Config{WorldID: "outer", Containment: seam.KindGroup, Environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "SHELL=/bin/sh", "PS1=inner$ ", "LC_ALL=C"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &sitting{T: t, news: make(chan struct{}, 1), end: make(chan struct{})}
	// The outer shell tells what corral's exit code is, and what became of its terminal.
	s.outer, err = runtime.SpawnTerminal(t.Context(), seam.TerminalSpec{
		Argv: []string{"/bin/sh", "-c", `stty -g >before; "$0" shell ` + args + `; echo "outer: $?"; stty -g >after; cmp before after && echo restored`, corral},
		Dir:  t.TempDir(), Cols: 90, Rows: 30, Grace: time.Second,
		Env: seam.Env{seam.Set("CORRAL_CONTAINMENT", "group"), seam.Set("CORRAL_LOG_LEVEL", "error"), seam.Set("TERM", "dumb"), seam.Set("GORACE", "atexit_sleep_ms=0")},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { // joined by Cleanup
		defer close(s.end)
		buf := make([]byte, 4<<10)
		for {
			n, err := s.outer.Read(buf)
			s.mu.Lock()
			s.screen.Write(buf[:n])
			s.mu.Unlock()
			select {
			case s.news <- struct{}{}:
			default:
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				return
			}
		}
	}()
	t.Cleanup(func() {
		if err := runtime.Close(context.Background()); err != nil {
			t.Error(err)
		}
		<-s.end
	})
	return s
}

func (s *sitting) keys(keys string) {
	s.Helper()
	if _, err := s.outer.Write([]byte(keys)); err != nil {
		s.Fatal(err)
	}
}

// shows waits until the screen has shown something since the last time.
func (s *sitting) shows(want string) {
	s.Helper()
	deadline := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		screen := s.screen.String()
		_, rest, found := strings.Cut(screen, want)
		if found {
			s.screen.Reset()
			s.screen.WriteString(rest)
		}
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-s.news:
		case <-deadline:
			s.Fatalf("the screen does not show %q: %q", want, screen)
		}
	}
}

func TestShell(t *testing.T) {
	for _, test := range []struct {
		name string
		args string
		play func(*sitting)
		exit string
	}{
		{"an exit code", "--dir /", func(s *sitting) {
			s.shows("inner$ ")
			s.keys("pwd; stty size; tty\r")
			s.shows("\n/\r\n30 90\r\n/dev/pts/")
			s.keys("exit 7\r")
		}, "7"},
		{"a command, and a signal", "-- bash -c 'kill -9 $$'", func(*sitting) {}, "137"},
		{"a command that is not there", "nosuchcommand", func(s *sitting) { s.shows("not found") }, "127"},
		{"an environment", "--env A=1 --unset HOME -- sh -c 'echo $A ${HOME-none} ${CORRAL_LOG_LEVEL-none}'", func(s *sitting) { s.shows("1 none none\r\n") }, "0"},
		{"a resize", "", func(s *sitting) {
			s.shows("inner$ ")
			s.keys("echo st''art; until [ \"$(stty size)\" = '20 50' ]; do sleep 0.05; done; echo resi''zed; exit\r")
			s.shows("start")
			if err := s.outer.Resize(50, 20); err != nil {
				s.Fatal(err)
			}
			s.shows("resized")
		}, "0"},
		{"job control", "-- bash --norc -i", func(s *sitting) {
			s.shows("inner$ ")
			s.keys("sh -c 'echo rea''dy; exec sleep 600'\r")
			s.shows("ready")
			s.keys("\x1a")
			s.shows("Stopped")
			s.keys("kill -KILL %1; exit 0\rexit 0\r")
		}, "0"},
		{"an interrupt is the program's", "-- bash --norc -i", func(s *sitting) {
			s.shows("inner$ ")
			s.keys("sh -c 'trap \"echo got''it; exit 5\" INT; echo rea''dy; while :; do sleep 0.05; done'\r")
			s.shows("ready")
			s.keys("\x03")
			s.shows("gotit")
			s.keys("exit $?\r")
		}, "5"},
		{"a signal to corral", "-- sh -c 'kill -TERM $PPID; trap \"\" HUP; sleep 60'", func(*sitting) {}, "143"},
		{"what is left is ended", "-- sh -c '(trap \"\" HUP; sleep 601) & exit 3'", func(s *sitting) {}, "3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sit(t, test.args)
			test.play(s)
			s.shows("outer: " + test.exit + "\r\n")
			s.shows("restored")
		})
	}
}
