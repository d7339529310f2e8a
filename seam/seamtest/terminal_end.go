package seamtest

import (
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/corral-world/corral/seam"
)

// terminalEndCases check the direct result and the one ending.
var terminalEndCases = []subprocessCase{
	{
		name: "terminal-wait", rule: "Wait returns the direct result, the same every time, and its context's cause before",
		run: func(e *processEnv) {
			t := e.terminal(e.terminalSpec("exit", "7"))
			first := e.waitTerminal(t)
			e.wantExit(first, 7)
			if again := e.waitTerminal(t); !reflect.DeepEqual(first, again) {
				e.errorf("Wait returns %+v, and before %+v", again, first)
			}
			t = e.startTerminal(e.terminalSpec("sleep"))
			if outcome, err := t.Wait(endedContext()); !errors.Is(err, errCause) {
				e.errorf("Wait with an ended context: %+v, %w; want its cause", outcome, err)
			}
		},
	},
	{
		name: "terminal-ended", rule: "what needs the direct process is CodeEnded once it has ended, before and after Close",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("late"))
			e.wantExit(e.waitTerminal(t), 0)
			e.wantEnded("while a member lives", t)
			e.closeTerminal(t)
			e.wantEnded("after Close", t)
		},
	},
	{
		name: "terminal-close", rule: "Close ends the command, whose outcome is terminated because the terminal was closed, and returns with the proof",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("sleep"))
			e.closeTerminal(t)
			e.wantTerminated(e.waitTerminal(t), seam.ErrTerminalClosed)
			e.wantFree(t.Name())
		},
	},
	{
		name: "terminal-close-term", rule: "Close asks first, and what is written in answer can be read",
		run: func(e *processEnv) {
			spec := e.terminalSpec("trap-term", "3")
			spec.Grace = e.Patience
			t := e.startTerminal(spec)
			e.closeTerminal(t)
			outcome := e.waitTerminal(t)
			e.wantTerminated(outcome, seam.ErrTerminalClosed)
			if outcome.ExitCode != 3 {
				e.errorf("outcome %+v, want exit code 3", outcome)
			}
			e.wantRest("after Close", t, "term\n")
		},
	},
	{
		name: "terminal-close-kill", rule: "what does not obey within the grace is killed, and not before",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("ignore-term"))
			began := time.Now()
			e.closeTerminal(t)
			if took := time.Since(began); took < short {
				e.errorf("Close took %v, and the grace is %v", took, short)
			}
			if outcome := e.waitTerminal(t); outcome.Signal.Name != "SIGKILL" {
				e.errorf("outcome %+v, want killed", outcome)
			}
		},
	},
	{
		name: "terminal-close-members", rule: "Close ends members that outlive the command, and does not change its outcome",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("late"))
			e.wantExit(e.waitTerminal(t), 0)
			e.wantTaken(t.Name())
			e.closeTerminal(t)
			e.wantFree(t.Name())
			e.wantExit(e.waitTerminal(t), 0)
		},
	},
	{
		name: "terminal-close-context", rule: "the context of Close bounds the waiting and never the ending",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("ignore-term"))
			if err := t.Close(endedContext()); !errors.Is(err, errCause) {
				e.errorf("Close with an ended context: %w, want its cause", err)
			}
			e.wantTerminated(e.waitTerminal(t), seam.ErrTerminalClosed) // though nobody waits in Close
			e.closeTerminal(t)
			e.wantFree(t.Name())
		},
	},
	{
		name: "terminal-close-again", rule: "Close may be called at any time by any number: after the proof it is nil",
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("ignore-term"))
			errs := make([]error, 4)
			var closers sync.WaitGroup
			for i := range errs {
				closers.Go(func() { errs[i] = t.Close(e.ctx) })
			}
			closers.Wait()
			errs = append(errs, t.Close(endedContext()))
			for i, err := range errs {
				if err != nil {
					e.errorf("Close %d: %w", i, err)
				}
			}
		},
	},
	{
		name: "terminal-runtime-close", rule: "closing a runtime ends its terminals, and refuses others with ErrClosed", needs: needClose,
		run: func(e *processEnv) {
			t := e.startTerminal(e.terminalSpec("ignore-term"))
			e.closeRuntime(e.ctx)
			if err := t.Close(endedContext()); err != nil {
				e.errorf("Close after the runtime's: %w", err)
			}
			if outcome := e.waitTerminal(t); outcome.End != seam.EndTerminated || outcome.Cause == nil {
				e.errorf("outcome %+v, want terminated, with a cause", outcome)
			}
			_, err := e.trySpawnTerminal(e.terminalSpec("exit", "0"))
			e.wantRefused("SpawnTerminal", err, seam.CodeClosed, seam.ErrClosed)
		},
	},
}
