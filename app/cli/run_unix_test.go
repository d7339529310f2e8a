//go:build unix

package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/fx"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// TestStartIsBounded: a start that hangs is ended by a signal, with the signal's
// exit code, and by the timeout of Run.
func TestStartIsBounded(t *testing.T) {
	for _, test := range []struct {
		name    string
		timeout time.Duration
		hook    func(context.Context) error
		exit    int
		words   string
	}{
		{"signal", time.Minute, func(ctx context.Context) error {
			if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}, 130, "received SIGINT"},
		{"timeout", 50 * time.Millisecond, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, 125, "deadline exceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			memory := seamtest.NewMemWorld(seamtest.MemConfig{})
			a, err := app.New(app.Options{FS: memory.FS(), Subprocess: memory, StartTimeout: test.timeout},
				fx.Invoke(func(lc fx.Lifecycle) { lc.Append(fx.StartHook(test.hook)) }))
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			inv := &invocation{console: newConsole(&stderr)}
			guard, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err = inv.runOn(guard, a, slog.New(slog.DiscardHandler), seam.KillSurvivors,
				func(context.Context) (foreground.Result, error) { return foreground.Result{}, errors.New("it was run") })
			if err == nil || guard.Err() != nil {
				t.Fatalf("got %v, %v", err, guard.Err())
			}
			if exit := inv.fail(err); exit != test.exit || !strings.Contains(stderr.String(), test.words) {
				t.Errorf("exit code %d, want %d: %s", exit, test.exit, stderr.String())
			}
		})
	}
}
