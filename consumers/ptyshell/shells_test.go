package ptyshell_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

func TestConfig(t *testing.T) {
	for field, change := range map[string]func(*ptyshell.Config){
		"Shell":              func(c *ptyshell.Config) { c.Shell = "" },
		"Dir":                func(c *ptyshell.Config) { c.Dir = "" },
		"Term":               func(c *ptyshell.Config) { c.Term = "" },
		"Cols":               func(c *ptyshell.Config) { c.Cols = 0 },
		"Rows":               func(c *ptyshell.Config) { c.Rows = 0 },
		"ScrollbackLines":    func(c *ptyshell.Config) { c.ScrollbackLines = 0 },
		"ScrollbackMaxBytes": func(c *ptyshell.Config) { c.ScrollbackMaxBytes = -1 },
		"MaxReadBytes":       func(c *ptyshell.Config) { c.MaxReadBytes = c.ScrollbackMaxBytes + 1 },
		"SampleMin":          func(c *ptyshell.Config) { c.SampleMin = 0 },
		"SampleMax":          func(c *ptyshell.Config) { c.SampleMax = c.SampleMin - 1 },
		"ExactAfter":         func(c *ptyshell.Config) { c.ExactAfter = 0 },
		"IdleSilence":        func(c *ptyshell.Config) { c.IdleSilence = 0 },
		"HandoffGrace":       func(c *ptyshell.Config) { c.HandoffGrace = c.SampleMin - 1 },
		"Timeout":            func(c *ptyshell.Config) { c.Timeout = 0 },
		"Drain":              func(c *ptyshell.Config) { c.Drain = 0 },
		"Grace":              func(c *ptyshell.Config) { c.Grace = -1 },
	} {
		config := ptyshell.DefaultConfig()
		config.Dir = "/"
		if _, err := ptyshell.New(nil, config); err != nil {
			t.Fatal(err)
		}
		change(&config)
		_, err := ptyshell.New(nil, config)
		bad, ok := errors.AsType[*seam.FieldError](err)
		if !ok || bad.Field != field || seam.CodeOf(err) != seam.CodeInvalid {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestOpen(t *testing.T) {
	for _, test := range []struct {
		name string
		play func(*testing.T, *rig)
	}{
		{"what is launched", func(t *testing.T, r *rig) {
			r.config.Environ = func(_ context.Context, owner string) (seam.Env, error) {
				return seam.Env{seam.Set("CORRAL_OWNER", owner), seam.Set("A", "managed")}, nil
			}
			shells := r.make()
			s, err := shells.Open(t.Context(), ptyshell.Open{Owner: "me", Env: seam.Env{seam.Set("A", "1"), seam.Set("B", "2")}, Cols: 70, Range: "r"})
			if err != nil {
				t.Fatal(err)
			}
			spec := r.terminal.Spec()
			if spec.Argv[0] != "/bin/bash" || !slices.Equal(spec.Argv[1:], r.config.Args) || spec.Cols != 70 || spec.Rows != r.config.Rows || spec.Name != "r" {
				t.Errorf("launched %+v", spec)
			}
			values := make(map[string]string)
			for _, v := range spec.Env {
				values[v.Name] = v.Value
			}
			if values["TERM"] != "dumb" || values["A"] != "managed" || values["B"] != "2" || values["CORRAL_OWNER"] != "me" {
				t.Errorf("environment %v", spec.Env)
			}
			if slices.ContainsFunc(append(spec.Argv, values["PS1"], values["PROMPT_COMMAND"]), func(s string) bool { return strings.Contains(s, r.nonce) }) {
				t.Error("the secret of the marks can be seen")
			}
			if info := s.Info(); info.Dir != "/here" || info.Range != "r" || info.Owner != "me" || info.Sending {
				t.Errorf("info %+v", info)
			}
			if page, err := s.Read(0, 9); err != nil || page.Text != "corral> " {
				t.Errorf("page %+v, %v", page, err)
			}
		}},
		{"confined", func(t *testing.T, r *rig) {
			r.config.Confine = func(_ context.Context, owner string, argv []string) ([]string, error) {
				if owner != "me" {
					return nil, errScripted
				}
				return append(argv, "--confined"), nil
			}
			r.open()
			if argv := r.terminal.Spec().Argv; argv[len(argv)-1] != "--confined" {
				t.Errorf("argv %q", argv)
			}
			r.terminal = nil
			if _, err := r.shells.Open(t.Context(), ptyshell.Open{Owner: "you"}); !errors.Is(err, errScripted) || r.terminal != nil {
				t.Errorf("err %v", err)
			}
		}},
		{"confined to nothing", func(t *testing.T, r *rig) {
			r.config.Confine = func(context.Context, string, []string) ([]string, error) { return nil, nil }
			if _, err := r.make().Open(t.Context(), ptyshell.Open{}); seam.CodeOf(err) != seam.CodeInvalid || r.terminal != nil {
				t.Errorf("err %v", err)
			}
		}},
		{"the terminal can't be had", func(t *testing.T, r *rig) {
			r.config.Shell = "nosuch"
			if _, err := r.make().Open(t.Context(), ptyshell.Open{}); seam.CodeOf(err) != seam.CodeExecutableNotFound {
				t.Errorf("err %v", err)
			}
		}},
		{"the shell exits during startup", func(t *testing.T, r *rig) {
			r.starting = func(mt *seamtest.MemTerminal) {
				mt.Intercept(seamtest.CallWrite, func(context.Context) error { mt.Exit(9); return nil })
			}
			_, err := r.make().Open(t.Context(), ptyshell.Open{})
			if !errors.Is(err, ptyshell.ErrStart) || !strings.Contains(err.Error(), "exited during startup: exit code 9") {
				t.Errorf("err %v", err)
			}
		}},
		{"the shell never gets ready", func(t *testing.T, r *rig) {
			r.mute = true
			began := time.Now()
			_, err := r.make().Open(t.Context(), ptyshell.Open{})
			if !errors.Is(err, ptyshell.ErrStart) || !strings.Contains(err.Error(), "readiness") || time.Since(began) < r.config.Timeout {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}},
		{"canceled while the terminal is started", func(t *testing.T, r *rig) {
			ctx, cancel := context.WithCancelCause(t.Context())
			r.starting = func(*seamtest.MemTerminal) { cancel(errScripted) }
			if _, err := r.make().Open(ctx, ptyshell.Open{}); !errors.Is(err, errScripted) {
				t.Errorf("err %v", err)
			}
		}},
		{"canceled while it is typed, which is stuck", func(t *testing.T, r *rig) { r.canceled(seamtest.CallWrite) }},
		{"canceled while it is looked at, which is stuck", func(t *testing.T, r *rig) { r.canceled(seamtest.CallForeground) }},
		{"canceled while it is not ready", func(t *testing.T, r *rig) {
			r.mute = true
			r.canceled("")
		}},
		{"canceled, and the rollback fails", func(t *testing.T, r *rig) {
			r.starting = func(mt *seamtest.MemTerminal) {
				mt.Intercept(seamtest.CallClose, func(context.Context) error { return errRollback })
			}
			r.mute = true
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := time.AfterFunc(time.Second, func() { cancel(errScripted) })
			defer stop.Stop()
			shells := r.make()
			_, err := shells.Open(ctx, ptyshell.Open{Owner: "me"})
			cleanup, ok := errors.AsType[*ptyshell.CleanupError](err)
			if !ok || !errors.Is(cleanup.Err, errScripted) || !errors.Is(cleanup.Cleanup, errRollback) {
				t.Errorf("err %v", err)
			}
			if !shells.Active("me") || len(shells.List("me")) != 0 {
				t.Error("it is forgotten, or listed")
			}
			if err := shells.CloseOwner(t.Context(), "me"); !errors.Is(err, errRollback) {
				t.Errorf("close: %v", err)
			}
			r.works(seamtest.CallClose)
			if err := shells.CloseOwner(t.Context(), "me"); err != nil || shells.Active("me") {
				t.Errorf("close again: %v", err)
			}
		}},
		{"ended with its owner", func(t *testing.T, r *rig) {
			r.endsPending(ptyshell.ErrOwnerClosed, func(s *ptyshell.Shells) error { return s.CloseOwner(context.Background(), "me") })
			r.mute = false
			r.open()
		}},
		{"ended with all", func(t *testing.T, r *rig) {
			r.endsPending(ptyshell.ErrClosed, func(s *ptyshell.Shells) error { return s.Close(context.Background()) })
			if _, err := r.shells.Open(t.Context(), ptyshell.Open{}); !errors.Is(err, ptyshell.ErrClosed) {
				t.Errorf("err %v", err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.play(t, newRig(t)) })
		})
	}
}

var errRollback = errors.New("rollback")

// canceled cancels a start after a second, while a call is stuck.
func (r *rig) canceled(call seamtest.MemCall) {
	r.starting = func(mt *seamtest.MemTerminal) {
		mt.Intercept(call, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := time.AfterFunc(time.Second, func() { cancel(errScripted) })
	defer stop.Stop()
	began := time.Now()
	shells := r.make()
	_, err := shells.Open(ctx, ptyshell.Open{Owner: "me"})
	if !errors.Is(err, errScripted) || time.Since(began) > r.config.Grace+time.Second {
		r.Errorf("after %v: %v", time.Since(began), err)
	}
	if shells.Active("me") {
		r.Error("something is left")
	}
	r.signals()
}

// endsPending ends a start that is under way.
func (r *rig) endsPending(cause error, end func(*ptyshell.Shells) error) {
	r.mute = true
	shells := r.make()
	opened := make(chan error, 1)
	go func() {
		_, err := shells.Open(r.Context(), ptyshell.Open{Owner: "me"})
		opened <- err
	}()
	synctest.Wait()
	if !shells.Active("me") {
		r.Error("not active")
	}
	if err := end(shells); err != nil {
		r.Error(err)
	}
	if err := <-opened; !errors.Is(err, cause) {
		r.Errorf("err %v, want %v", err, cause)
	}
	if shells.Active("me") {
		r.Error("something is left")
	}
}

func TestOwners(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig) {
		id := r.session.ID()
		for _, owner := range []string{"", "you"} {
			if _, err := r.shells.Session(owner, id); !errors.Is(err, ptyshell.ErrNotFound) {
				t.Errorf("%q: %v", owner, err)
			}
			if _, err := r.shells.CloseSession(t.Context(), owner, id); !errors.Is(err, ptyshell.ErrNotFound) {
				t.Errorf("%q: %v", owner, err)
			}
		}
		if s, err := r.shells.Session("me", id); s != r.session || err != nil {
			t.Errorf("%v, %v", s, err)
		}
		named := ptyshell.Open{Owner: "me", Name: "build"}
		if _, err := r.shells.Open(t.Context(), named); err != nil {
			t.Fatal(err)
		}
		if _, err := r.shells.Open(t.Context(), named); !errors.Is(err, ptyshell.ErrNameInUse) {
			t.Errorf("err %v", err)
		}
		named.Owner = "you"
		yours, err := r.shells.Open(t.Context(), named)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, info := range r.shells.List("me") {
			ids = append(ids, info.ID)
		}
		if !slices.Equal(ids, []string{"pty-1", "pty-2"}) {
			t.Errorf("list %q", ids)
		}
		if err := r.shells.CloseOwner(t.Context(), "me"); err != nil {
			t.Error(err)
		}
		if r.shells.Active("me") || yours.Info().Exit != nil {
			t.Error("not closed, or too much")
		}
	})
}

func TestSignalAndResize(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig) {
		r.child(false)
		if pgid, err := r.session.Signal(t.Context(), "SIGQUIT"); pgid != 4711 || err != nil {
			t.Errorf("%d, %v", pgid, err)
		}
		r.signals("SIGQUIT")
		if _, err := r.session.Signal(t.Context(), "SIGNONE"); seam.CodeOf(err) != seam.CodeInvalid {
			t.Errorf("err %v", err)
		}
		if err := r.session.Resize(50, 20); err != nil {
			t.Error(err)
		}
		if cols, rows := r.terminal.Size(); cols != 50 || rows != 20 {
			t.Errorf("size %dx%d", cols, rows)
		}
	})
}

// An idle session makes no calls, whatever time passes.
func TestIdleCostsNothing(t *testing.T) {
	onRig(t, func(t *testing.T, r *rig) {
		x := r.run("true")
		r.prompt(0)
		r.settles(x, ptyshell.ReasonPrompt)
		<-x.Released()
		g := r.gate(seamtest.CallForeground, nil)
		g.open()
		time.Sleep(24 * time.Hour)
		if n := len(g.came); n != 0 {
			t.Errorf("looked %d times", n)
		}
		// And one that waits for long is looked at four times a second.
		r.busy()
		r.print("x")
		x = r.start(ptyshell.Request{Text: "x", Submit: true, Timeout: 2 * time.Second})
		r.settles(x, ptyshell.ReasonTimeout)
		if n := len(g.came); n < 8 || n > 20 {
			t.Errorf("looked %d times in 2 s", n)
		}
	})
}

// Sends, cancels and closes in random order: every send settles, the slot has one
// at a time, and no interrupt is sent for one that typed nothing.
func TestRandomOrders(t *testing.T) {
	orders := 1000
	for seed := range orders {
		if t.Failed() {
			t.Fatalf("seed %d", seed-1)
		}
		t.Run("", func(t *testing.T) { onRig(t, func(t *testing.T, r *rig) { randomOrder(t, r, uint64(seed)) }) })
	}
}

func randomOrder(t *testing.T, r *rig, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	pause := func() { time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond) }
	var (
		mu      sync.Mutex
		typing  int
		delays  = rand.New(rand.NewPCG(seed, 1))
		latency = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(delays.IntN(40)) * time.Millisecond
		}
	)
	for _, call := range []seamtest.MemCall{seamtest.CallWrite, seamtest.CallForeground, seamtest.CallSignalForeground} {
		r.terminal.Intercept(call, func(context.Context) error {
			mu.Lock()
			typing++
			if typing > 1 {
				t.Errorf("%d calls at once", typing)
			}
			mu.Unlock()
			time.Sleep(latency())
			mu.Lock()
			typing--
			mu.Unlock()
			return nil
		})
	}
	r.foreground(r.shell, true, "bash")
	var sends []*ptyshell.Sending
	var running sync.WaitGroup
	closing := false
	for range 3 + rnd.IntN(5) {
		switch rnd.IntN(5) {
		case 0, 1:
			x, err := r.session.Start(t.Context(), ptyshell.Request{Text: "x", Submit: true, Timeout: time.Duration(1+rnd.IntN(300)) * time.Millisecond})
			if err != nil && !errors.Is(err, ptyshell.ErrSendActive) && !closing {
				t.Errorf("send: %v", err)
			}
			if err == nil {
				sends = append(sends, x)
			}
		case 2:
			if len(sends) > 0 {
				sends[rnd.IntN(len(sends))].Cancel()
			}
		case 3:
			r.ran()
			pause()
			r.prompt(rnd.IntN(3))
		case 4:
			if rnd.IntN(4) == 0 {
				closing = true
				running.Go(func() {
					_, err := r.shells.CloseSession(context.Background(), "me", r.session.ID())
					if err != nil && !errors.Is(err, ptyshell.ErrNotFound) {
						t.Errorf("close: %v", err)
					}
				})
			}
		}
		pause()
	}
	for _, x := range sends {
		<-x.Settled()
		<-x.Released()
	}
	running.Wait()
	typed := strings.Count(r.terminal.Typed(), "x\r")
	if got := len(r.terminal.Signalled()); got > typed {
		t.Errorf("%d interrupts of %d lines that were typed", got, typed)
	}
}
