package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/fsworld"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

func startApp(t *testing.T, options ...fx.Option) *app.App {
	t.Helper()
	a, err := app.New(app.Options{}, options...)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a
}

func bashPlugin(t *testing.T, b **bash.Bash) fx.Option {
	config := bash.DefaultConfig()
	config.Dir = t.TempDir()
	return fx.Options(bash.Module(), fx.Supply(config), fx.Populate(b))
}

// A job belongs to the registry, not to the plugin that started it.
func TestJobOutlivesItsPlugin(t *testing.T) {
	var registry *jobs.Registry
	a := startApp(t, fx.Populate(&registry))
	var first *bash.Bash
	unload, err := a.Load(t.Context(), "bash", bashPlugin(t, &first))
	if err != nil {
		t.Fatal(err)
	}
	job, err := first.Start(t.Context(), bash.Request{Script: "read line </dev/tty; sleep 600", Owner: "model"})
	if err != nil {
		t.Fatal(err)
	}
	if err := unload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := unload(t.Context()); err != nil {
		t.Errorf("second unload: %v", err)
	}

	var second *bash.Bash
	if _, err := a.Load(t.Context(), "bash", bashPlugin(t, &second)); err != nil {
		t.Fatal(err)
	}
	if info, err := registry.Get("model", job.ID); err != nil || info.Status != jobs.Running {
		t.Errorf("after the reload: %+v, %v", info, err)
	}
	if result, err := second.Run(t.Context(), bash.Request{Script: "echo $CORRAL_SHELL"}); err != nil || result.Stdout.Text != "1\n" {
		t.Errorf("the reloaded plugin: %+v, %v", result, err)
	}
	if _, err := registry.Kill("model", job.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	if info, err := registry.Wait(t.Context(), "model", job.ID); err != nil || info.Status != jobs.Killed {
		t.Errorf("got %+v, %v", info, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	other, err := fsworld.New("other")
	if err != nil {
		t.Fatal(err)
	}
	errPlugin := errors.New("no licence")
	for _, c := range []struct {
		name   string
		option fx.Option
		is     func(error) bool
	}{
		{"a second FS", fx.Provide(func() seam.FS { return other }), isDuplicate("seam.FS")},
		{"a second Subprocess", fx.Provide(func() seam.Subprocess { return nil }), isDuplicate("seam.Subprocess")},
		{"a second World", fx.Provide(func() *seam.World { return nil }), isDuplicate("*seam.World")},
		{"a constructor that fails", fx.Invoke(func() error { return errPlugin }), func(err error) bool { return errors.Is(err, errPlugin) }},
		{"a hook that fails", fx.Invoke(func(lc fx.Lifecycle) {
			lc.Append(fx.StartHook(func() error { return errPlugin }))
		}), func(err error) bool { return errors.Is(err, errPlugin) }},
		{"a name that is loaded", fx.Options(), func(err error) bool { return errors.Is(err, app.ErrLoaded) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := startApp(t)
			name := "plugin"
			if c.name == "a name that is loaded" {
				if _, err := a.Load(t.Context(), name, fx.Options()); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := a.Load(t.Context(), name, c.option); !c.is(err) {
				t.Fatalf("got %v", err)
			}
			if c.name == "a name that is loaded" {
				return
			}
			if _, err := a.Load(t.Context(), name, fx.Options()); err != nil {
				t.Errorf("the failed plugin is still in the way: %v", err)
			}
		})
	}
	t.Run("New", func(t *testing.T) {
		if _, err := app.New(app.Options{}, fx.Provide(func() seam.FS { return other })); !isDuplicate("seam.FS")(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a stopped app", func(t *testing.T) {
		a := startApp(t)
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Load(t.Context(), "late", fx.Options()); !errors.Is(err, app.ErrStopped) {
			t.Errorf("got %v", err)
		}
	})
}

func isDuplicate(half string) func(error) bool {
	return func(err error) bool {
		var duplicate *app.DuplicateError
		return errors.As(err, &duplicate) && duplicate.Half == half
	}
}

// Whatever the context: every hook runs, once, in reverse, plugins first.
func TestStopRunsEveryHook(t *testing.T) {
	for _, c := range []struct {
		name  string
		ended bool
	}{{"in time", false}, {"with an ended context", true}} {
		t.Run(c.name, func(t *testing.T) {
			var order []string
			hook := func(name string) fx.Option {
				return fx.Invoke(func(lc fx.Lifecycle) {
					lc.Append(fx.StopHook(func() { order = append(order, name) }))
				})
			}
			a, err := app.New(app.Options{}, hook("app 1"), hook("app 2"))
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"one", "two"} {
				if _, err := a.Load(t.Context(), name, fx.Options(hook(name+" a"), hook(name+" b"))); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.ended {
				cancel()
			}
			if err := a.Stop(ctx); err != nil {
				t.Error(err)
			}
			want := []string{"two b", "two a", "one b", "one a", "app 2", "app 1"}
			if !slices.Equal(order, want) {
				t.Errorf("got %q, want %q", order, want)
			}
		})
	}
}

// A plugin that is being loaded, and hangs, holds up Stop and others only as
// long as they allow, and is ended.
func TestStopWhileLoading(t *testing.T) {
	memory := seamtest.NewMemWorld(seamtest.MemConfig{})
	for _, c := range []struct {
		name     string
		obedient bool // to its context
	}{{"it gives up", true}, {"it does not", false}} {
		t.Run(c.name, func(t *testing.T) {
			a, err := app.New(app.Options{FS: memory.FS(), Subprocess: memory})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			hangs, release, lateStop := make(chan struct{}), make(chan struct{}), make(chan struct{})
			loaded := make(chan error, 1)
			go func() { // joined by the receive below
				_, err := a.Load(context.Background(), "stuck", fx.Invoke(func(lc fx.Lifecycle) {
					lc.Append(fx.StartStopHook(func(ctx context.Context) error {
						close(hangs)
						if c.obedient {
							<-ctx.Done()
							return context.Cause(ctx)
						}
						<-release
						return nil
					}, func() { close(lateStop) }))
				}))
				loaded <- err
			}()
			<-hangs
			if _, err := a.Load(t.Context(), "stuck", fx.Options()); !errors.Is(err, app.ErrLoaded) {
				t.Errorf("load under the name: %v", err)
			}
			unload, err := a.Load(t.Context(), "other", fx.Options())
			if err != nil {
				t.Fatal(err)
			}
			if err := unload(t.Context()); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := a.Stop(ctx); err != nil || ctx.Err() != nil {
				t.Errorf("stop: %v, %v", err, ctx.Err())
			}
			if err := <-loaded; !errors.Is(err, app.ErrStopped) {
				t.Errorf("load: %v", err)
			}
			if c.obedient {
				return
			}
			close(release) // what was started too late is stopped
			<-lateStop
		})
	}
	t.Run("a constructor that hangs", func(t *testing.T) {
		a, err := app.New(app.Options{FS: memory.FS(), Subprocess: memory})
		if err != nil {
			t.Fatal(err)
		}
		hangs, release, loaded := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		stopped := false
		go func() { // joined by the receive below
			_, err := a.Load(context.Background(), "stuck", fx.Invoke(func(lc fx.Lifecycle) {
				lc.Append(fx.StopHook(func() { stopped = true }))
				close(hangs)
				<-release
			}))
			loaded <- err
		}()
		<-hangs
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := a.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"stuck"`) {
			t.Errorf("stop: %v", err)
		}
		close(release)
		if err := <-loaded; !errors.Is(err, app.ErrStopped) || stopped {
			t.Errorf("load: %v, a hook that was not started ran: %v", err, stopped)
		}
	})
}

// A plugin may load another, and no lock is held while hooks stop one.
func TestLoadFromHooks(t *testing.T) {
	a := startApp(t)
	var order []string
	load := func(name string, start func(context.Context) error) (func(context.Context) error, error) {
		return a.Load(t.Context(), name, fx.Invoke(func(lc fx.Lifecycle) {
			lc.Append(fx.StartStopHook(start, func() error {
				order = append(order, name)
				_, err := a.Load(t.Context(), name, fx.Options())
				if !errors.Is(err, app.ErrLoaded) {
					return fmt.Errorf("load while it is unloaded: %w", err)
				}
				return nil
			}))
		}))
	}
	var unloadInner func(context.Context) error
	unload, err := load("outer", func(context.Context) (err error) {
		unloadInner, err = load("inner", func(context.Context) error { return nil })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unload(t.Context()), unloadInner(t.Context())); err != nil {
		t.Error(err)
	}
	if want := []string{"outer", "inner"}; !slices.Equal(order, want) {
		t.Errorf("unloaded %q, want %q", order, want)
	}
}

// Start that fails unloads what was loaded before, and first.
func TestFailedStartUnloads(t *testing.T) {
	errHook := errors.New("port in use")
	for _, c := range []struct {
		name  string
		start func(*app.App) error
	}{
		{"Start", func(a *app.App) error { return a.Start(t.Context()) }},
		{"Run", func(a *app.App) error {
			return a.Run(t.Context(), func(context.Context) error { return errors.New("it ran") })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var order []string
			hook := func(name string) fx.Option {
				return fx.Invoke(func(lc fx.Lifecycle) {
					lc.Append(fx.StopHook(func() { order = append(order, name) }))
				})
			}
			a, err := app.New(app.Options{}, hook("app 1"), hook("app 2"), fx.Invoke(func(lc fx.Lifecycle) {
				lc.Append(fx.StartHook(func() error { return errHook }))
			}))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"one", "two"} {
				if _, err := a.Load(t.Context(), name, hook(name)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.start(a); !errors.Is(err, errHook) {
				t.Errorf("got %v", err)
			}
			if want := []string{"two", "one", "app 2", "app 1"}; !slices.Equal(order, want) {
				t.Errorf("got %q, want %q", order, want)
			}
			if _, err := a.Load(t.Context(), "late", fx.Options()); !errors.Is(err, app.ErrStopped) {
				t.Errorf("load after it: %v", err)
			}
		})
	}
}

// fx says that the context ended, and the app why.
func TestStartHasTheCause(t *testing.T) {
	cause := errors.New("the user said so")
	a, err := app.New(app.Options{}, fx.Invoke(func(lc fx.Lifecycle) {
		lc.Append(fx.StartHook(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer time.AfterFunc(10*time.Millisecond, func() { cancel(cause) }).Stop()
	if err := a.Start(ctx); !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v, want %v", err, cause)
	}
}

// The options of the modules that the app knows.
func ExampleApp_Load() {
	a, err := app.New(app.Options{Jobs: jobs.Config{MaxLive: 3}})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	_ = a.Run(ctx, func(ctx context.Context) error {
		config := bash.DefaultConfig()
		config.Dir = "/"
		var b *bash.Bash
		unload, err := a.Load(ctx, "bash", fx.Options(bash.Module(), fx.Supply(config), fx.Populate(&b)))
		if err != nil {
			return err
		}
		result, err := b.Run(ctx, bash.Request{Script: "echo hello; exit 3"})
		fmt.Println(result.Render())
		return errors.Join(err, unload(ctx))
	})
	// Output:
	// hello
	// [exit code: 3]
}
