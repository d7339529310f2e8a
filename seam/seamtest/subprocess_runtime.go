package seamtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/corral-world/corral/seam"
)

const ruleName = "a name is unique among the live ranges"

// nameCases check names of ranges.
var nameCases = []subprocessCase{
	{
		name: "name-given", rule: "Name is Spec.Name",
		run: func(e *processEnv) {
			spec := e.spec("exit", "0")
			spec.Name = "given-Name_1.2"
			if got := e.spawn(spec).Name(); got != spec.Name {
				e.errorf("Name is %q, want %q", got, spec.Name)
			}
		},
	},
	{
		name: "name-made", rule: "where no name is given the provider makes one, which is valid and unique",
		run: func(e *processEnv) {
			seen := make(map[string]bool)
			for range 3 {
				spec := e.spec("sleep")
				spec.Name = e.spawn(spec).Name()
				if err := spec.Validate(func(string) bool { return true }); err != nil || spec.Name == "" || seen[spec.Name] {
					e.errorf("made name %q: seen before %v, %v", spec.Name, seen[spec.Name], err)
				}
				seen[spec.Name] = true
			}
		},
	},
	{
		name: "name-taken", rule: ruleName + ": CodeNameInUse, also after the direct process has ended",
		run: func(e *processEnv) {
			spec := e.spec("survivor")
			spec.Name = "taken"
			p, _ := e.startMember(spec)
			e.wait(p)
			_, err := e.trySpawn(spec)
			e.wantRefused("Spawn with the name of a survivor's range", err, seam.CodeNameInUse, nil)
			spec.Name = "other"
			e.spawn(spec)
		},
	},
	{
		name: "name-freed", rule: ruleName + ", so that it can be used again once WaitEmpty has said nil",
		run: func(e *processEnv) {
			spec := e.spec("exit", "0")
			spec.Name = "freed"
			spec.Stdout = collect(1, 0)
			for range 20 {
				e.waitEmpty(e.spawn(spec))
			}
			spec.Argv = e.Program("sleep")
			e.terminate(e.spawn(spec))
			e.spawn(spec)
		},
	},
}

// runtimeCases check what is asked of a world, and of its end.
var runtimeCases = []subprocessCase{
	{
		name: "world-id", rule: "WorldID names the world, always alike, and as its other half does",
		run: func(e *processEnv) {
			id := e.sp.WorldID()
			if id == "" || e.sp.WorldID() != id {
				e.errorf("WorldID is %q and then %q", id, e.sp.WorldID())
			}
			if e.FS != nil && e.FS.WorldID() != id {
				e.errorf("WorldID is %q, that of the filesystem half %q", id, e.FS.WorldID())
			}
		},
	},
	{
		name: "containment", rule: "Containment says what the next launch gets; what is not complete names its escapes",
		run: func(e *processEnv) {
			next := e.containment()
			if next.Kind == "" {
				e.errorf("containment without a kind: %+v", next)
			}
			if !next.Complete && len(next.Escapes) == 0 {
				e.errorf("containment %+v is not complete and names no escape", next)
			}
			if got := e.spawn(e.spec("exit", "0")).Containment(); !reflect.DeepEqual(got, next) {
				e.errorf("the launch got %+v, want %+v", got, next)
			}
		},
	},
	{
		name: "require-complete", rule: "Spec.Require refuses the launch with CodeContainment where less is to be had",
		run: func(e *processEnv) {
			complete := e.containment().Complete
			spec := e.spec("exit", "0")
			spec.Require = seam.CompleteContainment
			p, err := e.trySpawn(spec)
			switch {
			case !complete:
				e.wantRefused("Spawn", err, seam.CodeContainment, nil)
			case err != nil:
				e.errorf("Spawn, and containment is complete: %w", err)
			case !p.Containment().Complete:
				e.errorf("the launch got %+v, and complete was required", p.Containment())
			}
		},
	},
	{
		name: "complete", rule: "nothing leaves a range of complete containment by ordinary means",
		run: func(e *processEnv) {
			if !e.containment().Complete {
				return // nothing was promised
			}
			p, member := e.startMember(e.spec("setsid"))
			e.wantExit(e.wait(p), 0)
			e.wantAlive(p)
			if ids := e.memberIDs(p); len(ids) != 1 || ids[0] != member {
				e.errorf("Survivors are %v, want %d, which has a session of its own", ids, member)
			}
			e.terminate(p)
		},
	},
	{
		name: "limits", rule: "a limit is enforced, or the launch is refused with CodeUnsupported and the field's name",
		run: func(e *processEnv) {
			for _, c := range []struct {
				field  string
				limits seam.Limits
				breach []string
				end    seam.EndKind
			}{
				{"Limits.MemoryBytes", seam.Limits{MemoryBytes: 64 << 20}, e.Program("allocate", fmt.Sprint(1<<30)), seam.EndLimitMemory},
				{"Limits.Pids", seam.Limits{Pids: 32}, e.Program("many", "64"), seam.EndLimitPids},
				{"Limits.CPUs", seam.Limits{CPUs: 1.5}, e.Program("exit", "0"), seam.EndExited},
			} {
				spec := e.spec("exit", "0")
				spec.Limits, spec.Argv = c.limits, c.breach
				p, err := e.trySpawn(spec)
				if err != nil {
					e.wantRefused(c.field, err, seam.CodeUnsupported, errors.ErrUnsupported)
					e.wantField(c.field, err, c.field)
					continue
				}
				if outcome := e.wait(p); outcome.End != c.end {
					e.errorf("%s was accepted, and a command that exceeds it ended with %+v", c.field, outcome)
				}
			}
		},
	},
	{
		name: "detach", rule: "Detach is granted, or refused with CodeUnsupported and the field's name",
		run: func(e *processEnv) {
			spec := e.spec("sleep")
			spec.Detach = true
			if _, err := e.trySpawn(spec); err != nil {
				e.wantRefused("Spawn", err, seam.CodeUnsupported, errors.ErrUnsupported)
				e.wantField("Spawn", err, "Detach")
			}
		},
	},
	{
		name: "terminal", rule: "SpawnTerminal starts a command on a terminal, or answers CodeUnsupported",
		run: func(e *processEnv) {
			terminal, err := e.sp.SpawnTerminal(e.ctx, seam.TerminalSpec{
				Argv: e.Program("print", "out", "err"), Dir: e.Dir, Cols: 80, Rows: 24, Grace: short,
			})
			if err != nil {
				e.wantRefused("SpawnTerminal", err, seam.CodeUnsupported, errors.ErrUnsupported)
				return
			}
			out, readErr := io.ReadAll(terminal)
			outcome, err := terminal.Wait(e.ctx)
			if closeErr := terminal.Close(e.ctx); readErr != nil || err != nil || closeErr != nil {
				e.fatalf("read, wait and close: %w", errors.Join(readErr, err, closeErr))
			}
			e.wantExit(outcome, 0)
			if len(out) != len("outerr") {
				e.errorf("terminal output is %q, want the letters of out and err", out)
			}
		},
	},
	{
		name: "close-refuses", rule: "a closed runtime refuses launches with ErrClosed, and may be closed again", needs: needClose,
		run: func(e *processEnv) {
			e.closeRuntime(e.ctx)
			_, err := e.trySpawn(e.spec("exit", "0"))
			e.wantRefused("Spawn", err, seam.CodeClosed, seam.ErrClosed)
			e.closeRuntime(e.ctx)
		},
	},
	{
		name: "close-ends", rule: "closing a runtime terminates its live ranges and returns with the proof that they are empty", needs: needClose,
		run: func(e *processEnv) {
			first, _ := e.start(e.spec("ignore-term"))
			second, _ := e.startMember(e.spec("survivor-ignoring-term"))
			e.wantExit(e.wait(second), 0)
			e.closeRuntime(e.ctx)
			for _, p := range []seam.Process{first, second} {
				if err := p.WaitEmpty(endedContext()); err != nil {
					e.errorf("WaitEmpty after closing: %w", err)
				}
			}
			if outcome := e.wait(first); outcome.End != seam.EndTerminated || outcome.Cause == nil {
				e.errorf("outcome %+v, want terminated, with a cause", outcome)
			}
		},
	},
	{
		name: "close-ended-context", rule: "closing a runtime with an ended context kills without grace, and still proves", needs: needClose,
		run: func(e *processEnv) {
			spec := e.spec("ignore-term")
			spec.Grace = 100 * time.Hour
			p, _ := e.start(spec)
			e.closeRuntime(endedContext())
			if err := p.WaitEmpty(endedContext()); err != nil {
				e.errorf("WaitEmpty after closing: %w", err)
			}
		},
	},
	{
		name: "close-pipes", rule: "closing the runtime closes the piped streams that are still open", needs: needClose,
		run: func(e *processEnv) {
			p := e.cat()
			e.closeRuntime(e.ctx)
			if _, err := p.Stdout().Read(make([]byte, 1)); err == nil || err == io.EOF {
				e.errorf("Read of stdout after closing: %v, want that it is closed", err)
			}
			if _, err := p.Stdin().Write([]byte("x")); err == nil {
				e.errorf("Write to stdin after closing: no error")
			}
		},
	},
}

func (e *processEnv) containment() seam.Containment {
	c, err := e.sp.Containment(e.ctx)
	if err != nil {
		e.fatalf("Containment: %w", err)
	}
	return c
}

func (e *processEnv) closeRuntime(ctx context.Context) {
	if err := e.Close(ctx, e.sp); err != nil {
		e.fatalf("close: %w", err)
	}
}
