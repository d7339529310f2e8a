package app_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/fx"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

func TestNewProvidesOneWorld(t *testing.T) {
	var world *seam.World
	var files seam.FS
	var subprocess seam.Subprocess
	a, err := app.New(app.Options{}, fx.Populate(&world, &files, &subprocess))
	if err != nil {
		t.Fatal(err)
	}
	if world != a.World() || world.FS() != files || world.Subprocess() != subprocess {
		t.Error("the graph and the App know different worlds")
	}
	if got := world.ID(); got != app.DefaultWorldID {
		t.Errorf("world = %q, want %q", got, app.DefaultWorldID)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Errorf("stop of an app that was not started: %v", err)
	}
}

func TestOptionsReachTheWorld(t *testing.T) {
	a, err := app.New(app.Options{Local: local.Config{
		WorldID: "elsewhere",
		Environ: []string{"PATH=/bin", "API_TOKEN=x"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, a)
	if got := a.World().ID(); got != "elsewhere" {
		t.Errorf("world = %q", got)
	}
	got := a.World().Subprocess().(*local.Runtime).DroppedEnv()
	if want := []string{"API_TOKEN"}; !slices.Equal(got, want) {
		t.Errorf("dropped = %q, want %q", got, want)
	}
}

func TestNewRefuses(t *testing.T) {
	memory := seamtest.NewMemFS(app.DefaultWorldID)
	errInvoke := errors.New("not today")
	for _, test := range []struct {
		name    string
		options app.Options
		more    fx.Option
		want    string
		code    seam.Code
	}{
		{
			name: "a second filesystem half",
			more: fx.Provide(func() seam.FS { return memory }),
			want: "already provided",
		},
		{
			name: "a second subprocess half",
			more: fx.Module("more", fx.Provide(func() seam.Subprocess { return nil })),
			want: "already provided",
		},
		{
			name:    "halves of two worlds",
			options: app.Options{FS: seamtest.NewMemFS("elsewhere")},
			want:    `belongs to world "local", fs to "elsewhere"`,
			code:    seam.CodeInvalid,
		},
		{
			name:    "a containment that is none",
			options: app.Options{Local: local.Config{Containment: "jail"}},
			want:    `Containment names no kind: "jail"`,
			code:    seam.CodeInvalid,
		},
		{
			name:    "a malformed scrub rule",
			options: app.Options{Local: local.Config{Scrub: seam.Scrub{Deny: []string{"[a"}}}},
			want:    "Scrub.Deny[0]",
			code:    seam.CodeInvalid,
		},
		{
			name: "what an invocation refuses",
			more: fx.Invoke(func() error { return errInvoke }),
			want: errInvoke.Error(),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			more := test.more
			if more == nil {
				more = fx.Options()
			}
			_, err := app.New(test.options, more)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("err = %v, want %q in it", err, test.want)
			}
			if got := seam.CodeOf(err); got != test.code {
				t.Errorf("code = %q, want %q", got, test.code)
			}
		})
	}
}

func TestEventsAreDebug(t *testing.T) {
	levels := new(levelHandler)
	a, err := app.New(app.Options{Logger: slog.New(levels)}, fx.Invoke(func(lc fx.Lifecycle) {
		lc.Append(fx.StopHook(func() error { return errors.New("a hook's error is returned, and not logged as well") }))
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "a hook's error") {
		t.Errorf("stop: %v, want the hook's error", err)
	}
	levels.mu.Lock()
	defer levels.mu.Unlock()
	if levels.counts[slog.LevelDebug] == 0 || len(levels.counts) != 1 {
		t.Errorf("records by level = %v, want debug only", levels.counts)
	}
}

// levelHandler counts records.
type levelHandler struct {
	mu     sync.Mutex
	counts map[slog.Level]int
}

func (h *levelHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *levelHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *levelHandler) WithGroup(string) slog.Handler            { return h }

func (h *levelHandler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		h.counts = make(map[slog.Level]int)
	}
	h.counts[r.Level]++
	return nil
}

// TestReplacedHalves runs the app on a filesystem in memory and a subprocess
// half that this test can look into.
func TestReplacedHalves(t *testing.T) {
	files := seamtest.NewMemFS("memory")
	if err := files.WriteFile("/greeting", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	half := &recordingHalf{worldID: "memory"}
	var text string
	a, err := app.New(app.Options{FS: files, Subprocess: half}, fx.Invoke(func(world *seam.World) error {
		target, err := world.FS().Resolve(t.Context(), "/greeting", "")
		if err != nil {
			return err
		}
		text, err = seam.ReadText(t.Context(), world.FS(), target)
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	if text != "hello" {
		t.Errorf("text = %q", text)
	}
	if err := a.Run(t.Context(), func(context.Context) error {
		a.KillAll()
		return fs.ErrClosed
	}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("run: %v, want what f returned", err)
	}
	if got, want := half.calls, []string{"KillAll", "Close"}; !slices.Equal(got, want) {
		t.Errorf("calls = %q, want %q", got, want)
	}
}

// recordingHalf is a subprocess half that starts nothing.
type recordingHalf struct {
	seam.Subprocess
	worldID string
	calls   []string
}

func (h *recordingHalf) WorldID() string { return h.worldID }
func (h *recordingHalf) KillAll()        { h.calls = append(h.calls, "KillAll") }

func (h *recordingHalf) Close(context.Context) error {
	h.calls = append(h.calls, "Close")
	return nil
}

func stop(t *testing.T, a *app.App) {
	t.Helper()
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("stop: %v", err)
	}
}
