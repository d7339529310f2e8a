package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/corral-world/corral/seam"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// size is the terminal's, and a usual one where it was told none.
func (o outer) size() (cols, rows uint16, err error) {
	c, r, err := term.GetSize(int(o.in.Fd()))
	if err != nil {
		return 0, 0, fmt.Errorf("size of the terminal: %w", err)
	}
	if c < 1 || r < 1 {
		c, r = 80, 24
	}
	return uint16(min(c, 1<<16-1)), uint16(min(r, 1<<16-1)), nil
}

// An endOfShell is how a command on a terminal ended.
type endOfShell struct {
	outcome  seam.Outcome
	unproven error // why it is not known that all of it is gone
}

// errOuterGone is the cause of an end because nobody sits at the terminal.
var errOuterGone = errors.New("the terminal is gone")

// passThrough runs a command on a terminal and passes the outer terminal through
// to it, until the command ends, ctx does, or the outer terminal is gone. The
// outer terminal is then as it was. An error means that nothing was started, or
// that the end of it is not known.
func passThrough(ctx context.Context, outer outer, world seam.Subprocess, spec seam.TerminalSpec) (endOfShell, error) {
	inner, err := world.SpawnTerminal(ctx, spec)
	if err != nil {
		return endOfShell{}, err
	}
	always := context.Background() // what is waited for with it is bounded by the command's end
	closeAll := func() error { return inner.Close(always) }

	saved, err := term.MakeRaw(int(outer.in.Fd()))
	if err != nil {
		return endOfShell{}, errors.Join(fmt.Errorf("pass the terminal through: %w", err), closeAll())
	}
	// The first deferred is the last to run, also when something panics.
	defer func() { _ = term.Restore(int(outer.in.Fd()), saved) }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var copies sync.WaitGroup
	copies.Go(func() {
		// To the end of the output, which comes with the command's.
		if _, err := io.Copy(outer.out, inner); err != nil {
			cancel(fmt.Errorf("%w: %w", errOuterGone, err))
		}
	})
	keys, err := startKeys(outer.in, inner, func() { cancel(errOuterGone) })
	if err != nil {
		return endOfShell{}, errors.Join(err, closeAll())
	}
	resizes := watchSize(func() {
		if cols, rows, err := outer.size(); err == nil {
			_ = inner.Resize(cols, rows) // of a command that ends meanwhile
		}
	})

	outcome, err := inner.Wait(ctx)
	if err != nil { // ctx ended
		err = nil
	}
	keys.stop()
	resizes.stop()
	end := endOfShell{unproven: closeAll()}
	copies.Wait()
	if outcome.End == "" {
		outcome, err = inner.Wait(always)
	}
	end.outcome = outcome
	return end, err
}
