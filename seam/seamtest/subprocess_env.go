package seamtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/corral-world/corral/seam"
)

// short is the time of graces and drains that a case waits out.
const short = 200 * time.Millisecond

// ample is more than any stream that a case collects whole.
const ample = 16 << 20

var (
	errCause = errors.New("the caller has a reason")
	errLate  = errors.New("another reason, too late")
)

// spec is a launch of a verb: streams are null, the grace is short, the drain
// is as long as the case.
func (e *processEnv) spec(verb string, args ...string) seam.Spec {
	return seam.Spec{Argv: e.Program(verb, args...), Dir: e.Dir, Grace: short, Drain: e.Patience}
}

func collect(maxBytes, spillMaxBytes int64) seam.Output {
	return seam.Output{Mode: seam.Collect, MaxBytes: maxBytes, SpillMaxBytes: spillMaxBytes}
}

// trySpawn spawns what may be refused.
func (e *processEnv) trySpawn(spec seam.Spec) (seam.Process, error) {
	p, err := e.sp.Spawn(e.ctx, spec)
	switch {
	case err == nil && p == nil:
		e.fatalf("Spawn %q: neither a process nor an error", spec.Argv)
	case err == nil:
		e.own(p)
	case p != nil:
		e.errorf("Spawn %q: both a process and the error %w", spec.Argv, err)
	}
	return p, err
}

// own has p ended after the case.
func (e *processEnv) own(p seam.Process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.processes = append(e.processes, p)
}

// spawn spawns what must start.
func (e *processEnv) spawn(spec seam.Spec) seam.Process {
	p, err := e.trySpawn(spec)
	if err != nil {
		e.fatalf("Spawn %q: %w", spec.Argv, err)
	}
	return p
}

// start spawns a verb that prints a line beginning with "ready", with spec's
// stdout as a pipe, and returns when it has, with the rest of that line.
func (e *processEnv) start(spec seam.Spec) (p seam.Process, said string) {
	spec.Stdout = seam.Output{Mode: seam.Pipe}
	p = e.spawn(spec)
	return p, e.ready(e.line(p))
}

// startMember is start for a verb that says the number of the member it started.
func (e *processEnv) startMember(spec seam.Spec) (p seam.Process, member int) {
	p, said := e.start(spec)
	return p, e.number(said)
}

func (e *processEnv) ready(line string) (said string) {
	said, ok := strings.CutPrefix(line, "ready")
	if !ok {
		e.fatalf("the program said %q and not that it is ready", line)
	}
	return strings.TrimSpace(said)
}

func (e *processEnv) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		e.fatalf("the program said %q where it says a number", s)
	}
	return n
}

// line reads a line of p's stdout, a byte at a time so that the rest stays there.
func (e *processEnv) line(p seam.Process) string {
	out := p.Stdout()
	if out == nil {
		e.fatalf("Stdout is nil, and its mode is Pipe")
	}
	line, err := bufio.NewReaderSize(byteReader{out}, 16).ReadString('\n')
	if err != nil {
		e.fatalf("read a line of stdout: got %q, %w", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// byteReader reads no more than it is asked to by single bytes.
type byteReader struct{ io.Reader }

func (r byteReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1)]) }

// echo has a cat whose stdin and stdout are pipes answer: it lives.
func (e *processEnv) echo(p seam.Process, text string) {
	if _, err := io.WriteString(p.Stdin(), text+"\n"); err != nil {
		e.fatalf("write to stdin: %w", err)
	}
	if got := e.line(p); got != text {
		e.fatalf("cat echoes %q, want %q", got, text)
	}
}

// cat starts a cat whose stdin and stdout are pipes, and returns when it answers.
func (e *processEnv) cat() seam.Process {
	spec := e.spec("cat")
	spec.Stdin.Mode, spec.Stdout.Mode = seam.Pipe, seam.Pipe
	p := e.spawn(spec)
	if p.Stdin() == nil {
		e.fatalf("Stdin is nil, and its mode is Pipe")
	}
	e.echo(p, "hello")
	return p
}

// run runs spec to its end and returns what it wrote to stdout.
func (e *processEnv) run(spec seam.Spec) (seam.Outcome, string) {
	spec.Stdout = collect(ample, 0)
	p := e.spawn(spec)
	outcome := e.wait(p)
	return outcome, e.all(p, seam.Stdout)
}

// all is a collected stream from its beginning to its end.
func (e *processEnv) all(p seam.Process, stream seam.Stream) string {
	output := e.ended(p, stream)
	w := output.ReadFrom(0)
	if w.Lost != 0 || !w.Ended {
		e.fatalf("%v: %s, want all of an ended stream", stream, describe(w))
	}
	return string(w.Data)
}

// ended waits for the end of a collected stream.
func (e *processEnv) ended(p seam.Process, stream seam.Stream) seam.OutputReader {
	output := p.Output(stream)
	if output == nil {
		e.fatalf("Output(%v) is nil, and its mode is Collect", stream)
	}
	if err := output.WaitEnd(e.ctx); err != nil {
		e.fatalf("WaitEnd of %v: %w", stream, err)
	}
	return output
}

func describe(w seam.Window) string {
	return fmt.Sprintf("window of %d bytes at %d, lost %d, ended %v, cut %v", len(w.Data), w.Offset, w.Lost, w.Ended, w.Cut)
}

func (e *processEnv) wait(p seam.Process) seam.Outcome {
	outcome, err := p.Wait(e.ctx)
	if err != nil {
		e.fatalf("Wait: %w", err)
	}
	return outcome
}

func (e *processEnv) waitEmpty(p seam.Process) {
	if err := p.WaitEmpty(e.ctx); err != nil {
		e.fatalf("WaitEmpty: %w", err)
	}
}

// terminate ends the range and waits for the proof.
func (e *processEnv) terminate(p seam.Process) {
	p.Terminate(errCause)
	e.waitEmpty(p)
}

func (e *processEnv) wantExit(outcome seam.Outcome, code int) {
	if outcome.End != seam.EndExited || outcome.ExitCode != code || outcome.Signal != (seam.Signal{}) || outcome.Cause != nil {
		e.errorf("outcome %+v, want exited with code %d and neither signal nor cause", outcome, code)
	}
	if outcome.Success() != (code == 0) {
		e.errorf("Success is %v for exit code %d", outcome.Success(), code)
	}
}

func (e *processEnv) wantTerminated(outcome seam.Outcome, cause error) {
	if outcome.End != seam.EndTerminated || outcome.Cause != cause { //nolint:errorlint // verbatim is the rule
		e.errorf("outcome %+v, want terminated with the cause %q, verbatim", outcome, cause)
	}
	if outcome.Success() {
		e.errorf("a terminated command reads as success: %+v", outcome)
	}
}

// wantAlive checks that the range is not taken for empty: an ended context
// comes back from WaitEmpty.
func (e *processEnv) wantAlive(p seam.Process) {
	err := p.WaitEmpty(endedContext())
	if err == nil {
		e.fatalf("WaitEmpty is nil, and a member lives")
	}
	if !errors.Is(err, errCause) {
		e.errorf("WaitEmpty with an ended context: %w, want its cause", err)
	}
}

// wantUndisturbed checks that p does not end by itself. Only time shows that.
func (e *processEnv) wantUndisturbed(p seam.Process) {
	ctx, cancel := context.WithTimeoutCause(e.ctx, short, errCause)
	defer cancel()
	if outcome, err := p.Wait(ctx); !errors.Is(err, errCause) {
		e.errorf("Wait with a context that ends: %+v, %v; want its cause, and that the process lives", outcome, err)
	}
}

func endedContext() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errCause)
	return ctx
}

// wantRefused checks that nothing was started, and the error's shape, code and
// sentinel, which may be nil.
func (e *processEnv) wantRefused(what string, err error, code seam.Code, sentinel error) {
	var op *seam.OpError
	switch {
	case err == nil:
		e.errorf("%s: no error, want code %q", what, code)
	case !errors.As(err, &op):
		e.errorf("%s: %T is not a *seam.OpError: %w", what, err, err)
	case op.Code != code:
		e.errorf("%s: code %q, want %q: %w", what, op.Code, code, err)
	case op.Op == "":
		e.errorf("%s: the error names no operation: %w", what, err)
	case sentinel != nil && !errors.Is(err, sentinel):
		e.errorf("%s: the error does not match %q: %w", what, sentinel, err)
	}
}

// wantField checks that err names field.
func (e *processEnv) wantField(what string, err error, field string) {
	var fieldErr *seam.FieldError
	switch {
	case err == nil: // said already
	case !errors.As(err, &fieldErr):
		e.errorf("%s: the error names no field: %w", what, err)
	case fieldErr.Field != field:
		e.errorf("%s: the error names %s, want %s: %w", what, fieldErr.Field, field, err)
	}
}

// until returns once done is true, which nothing announces: a reader that never
// blocks has to be asked again.
func (e *processEnv) until(what string, done func() bool) {
	const pause = 5 * time.Millisecond
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-e.ctx.Done():
			e.fatalf("%s: %w", what, context.Cause(e.ctx))
		}
	}
}

// memberIDs are the numbers of p's survivors.
func (e *processEnv) memberIDs(p seam.Process) []int {
	members, err := p.Survivors(e.ctx)
	if err != nil {
		e.fatalf("Survivors: %w", err)
	}
	return idsOf(members)
}

func idsOf(members []seam.Member) []int {
	ids := make([]int, len(members))
	for i, m := range members {
		ids[i] = m.PID
	}
	return ids
}

// splitProgram returns the directory and name of a program, and what stands
// between the entries of a PATH in the world's syntax.
func (e *processEnv) splitProgram(program string) (dir, name, listSeparator string) {
	i := strings.LastIndexAny(program, `/\`)
	if i < 0 {
		e.fatalf("SubprocessConfig.Program gives %q, which is no absolute path", program)
	}
	if program[0] == '/' {
		return program[:max(i, 1)], program[i+1:], ":"
	}
	return program[:i], program[i+1:], ";"
}

// below is the path of a name in Dir.
func (e *processEnv) below(name string) string {
	if strings.Contains(e.Dir, `\`) {
		return e.Dir + `\` + name
	}
	return strings.TrimSuffix(e.Dir, "/") + "/" + name
}
