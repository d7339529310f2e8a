package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"go.uber.org/fx/fxevent"
)

// events logs fx's events at debug level, its errors too: they are returned.
//
// It remembers the first error of an OnStart hook. fx rolls back before it
// returns that error, and where the context ends meanwhile, returns the
// context's instead.
type events struct {
	fxevent.SlogLogger

	mu      sync.Mutex
	started error // the first error of an OnStart hook
}

func newEvents(logger *slog.Logger) *events {
	e := &events{SlogLogger: fxevent.SlogLogger{Logger: logger}}
	e.UseContext(context.Background())
	e.UseLogLevel(slog.LevelDebug)
	e.UseErrorLevel(slog.LevelDebug)
	return e
}

// LogEvent implements [fxevent.Logger].
func (e *events) LogEvent(event fxevent.Event) {
	if hook, ok := event.(*fxevent.OnStartExecuted); ok && hook.Err != nil {
		e.mu.Lock()
		if e.started == nil {
			e.started = fmt.Errorf("%s: %w", hook.FunctionName, hook.Err)
		}
		e.mu.Unlock()
	}
	e.SlogLogger.LogEvent(event)
}

// startError is err, which fx returned, with the hook's error that it hides.
func (e *events) startError(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started == nil || errors.Is(err, errors.Unwrap(e.started)) {
		return err
	}
	return fmt.Errorf("%w; %w", e.started, err)
}
