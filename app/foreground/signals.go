package foreground

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// A SignalError is the cause of a command's end by a signal that the program got.
type SignalError struct {
	Signal syscall.Signal
	Name   string // "SIGTERM"
}

func (e *SignalError) Error() string { return "received " + e.Name }

// Signals turns the program's signals into an orderly end: the first one ends
// Context, with a [SignalError] as its cause, and the second one ends Hard.
//
// SIGPIPE is survived: a reader that is gone is an error of writing, and no
// reason to leave commands behind.
type Signals struct {
	Context context.Context // for the command
	Hard    context.Context // for those who wait for its end

	received chan os.Signal
	broken   chan os.Signal // SIGPIPE; nobody reads it
	stop     chan struct{}
	watcher  sync.WaitGroup
}

// WatchSignals begins to watch SIGINT, SIGTERM, SIGHUP and SIGQUIT. A signal
// that ignores reports true for stays ignored. The caller calls Stop.
func WatchSignals(ctx context.Context, ignores func(os.Signal) bool) *Signals {
	soft, cancelSoft := context.WithCancelCause(ctx)
	hard, cancelHard := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &Signals{
		Context:  soft,
		Hard:     hard,
		received: make(chan os.Signal, 8),
		broken:   make(chan os.Signal, 1),
		stop:     make(chan struct{}),
	}
	names := map[os.Signal]string{
		syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT",
	}
	signal.Notify(s.broken, syscall.SIGPIPE)
	for sig := range names {
		if !ignores(sig) {
			signal.Notify(s.received, sig)
		}
	}
	s.watcher.Go(func() {
		defer cancelSoft(nil)
		defer cancelHard(nil)
		for count := 1; ; count++ {
			select {
			case got := <-s.received:
				number, _ := got.(syscall.Signal)
				cause := &SignalError{Signal: number, Name: names[got]}
				cancelSoft(cause)
				if count > 1 {
					cancelHard(cause)
				}
			case <-s.stop:
				return
			}
		}
	})
	return s
}

// Stop gives the signals their default meaning again. It waits for the watcher,
// and is called once.
func (s *Signals) Stop() {
	signal.Stop(s.received)
	signal.Stop(s.broken)
	close(s.stop)
	s.watcher.Wait()
}
