// Package bash runs scripts in a fresh, non-interactive bash for a harness that
// gives a model such a tool: bounded in time and output, honest about how each
// ended, and with nothing left behind that was not asked for.
//
// # What a script gets
//
// No startup files, no history, no state of an earlier call. Standard input is
// the null device, in the foreground and in the background alike, whatever
// redirections the script holds, unless the request brings data. The
// environment is the world's base, then what keeps programs from expecting a
// person (NO_COLOR, TERM=dumb, PAGER=cat, GIT_PAGER=cat), without what would
// change the shell itself (BASH_ENV, ENV, SHELLOPTS, BASHOPTS, BASH_XTRACEFD,
// POSIXLY_CORRECT, CDPATH, GLOBIGNORE), then the request's, then the managed
// one, which nothing displaces.
//
// # Concurrency
//
// All methods of [Bash] may be called concurrently.
package bash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
)

// Config configures a [Bash]. There are no hidden defaults: [DefaultConfig] has
// some to begin with.
type Config struct {
	// Shell is bash: a bare name that the world looks up, or an absolute path.
	Shell string

	// Dir is where scripts run that name no other directory. Absolute.
	Dir string

	// Timeout bounds a foreground script that names no other bound, MaxTimeout
	// every one. Greater than 0.
	Timeout, MaxTimeout time.Duration

	// MaxOutputBytes is how much of the end of each stream is kept in memory.
	// SpillMaxBytes bounds the file that holds the complete stream beyond it;
	// 0 means no file.
	MaxOutputBytes, SpillMaxBytes int64

	// Grace and Drain are those of [seam.Spec].
	Grace, Drain time.Duration

	// Survivors is what becomes of processes that outlive a foreground script.
	// KeepSurvivors makes a job of them, and needs Jobs.
	Survivors seam.SurvivorPolicy

	// Require and Limits are those of [seam.Spec], for every script.
	Require seam.Completeness
	Limits  seam.Limits

	// Jobs keeps background work. Nil: there is none, and requests for it are
	// refused. Ownership: the registry is whoever made it.
	Jobs *jobs.Registry

	// Managed is the managed environment. Nil: only what is built in.
	Managed *Environment
}

// DefaultConfig is a Config that lacks only Dir.
func DefaultConfig() Config {
	return Config{
		Shell:          "bash",
		Timeout:        2 * time.Minute,
		MaxTimeout:     10 * time.Minute,
		MaxOutputBytes: 64_000,
		SpillMaxBytes:  64 << 20,
		Grace:          3 * time.Second,
		Drain:          500 * time.Millisecond,
	}
}

func (c Config) validate() *seam.FieldError {
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"Timeout", c.Timeout}, {"MaxTimeout", c.MaxTimeout}, {"Grace", c.Grace}} {
		if d.value <= 0 {
			return &seam.FieldError{Field: d.field, Problem: fmt.Sprintf("is %v, and must be greater than 0", d.value)}
		}
	}
	switch {
	case c.Shell == "":
		return &seam.FieldError{Field: "Shell", Problem: "is empty"}
	case c.Dir == "":
		return &seam.FieldError{Field: "Dir", Problem: "is empty"}
	case c.Drain < 0:
		return &seam.FieldError{Field: "Drain", Problem: "is negative"}
	case c.MaxOutputBytes < 1:
		return &seam.FieldError{Field: "MaxOutputBytes", Problem: "must be at least 1"}
	case c.SpillMaxBytes < 0:
		return &seam.FieldError{Field: "SpillMaxBytes", Problem: "is negative"}
	case c.Survivors > seam.FailOnSurvivors:
		return &seam.FieldError{Field: "Survivors", Problem: "is no policy"}
	case c.Survivors == seam.KeepSurvivors && c.Jobs == nil:
		return &seam.FieldError{Field: "Survivors", Problem: "are to be kept, and there are no Jobs to keep them"}
	}
	return nil
}

// Bash runs scripts. It owns nothing that lives: ranges belong to the world's
// runtime, jobs to their registry, so a Bash can be dropped and made again
// while its scripts go on.
type Bash struct {
	world  *seam.World
	config Config
}

// New returns a Bash on world. It acquires nothing.
func New(world *seam.World, config Config) (*Bash, error) {
	if bad := config.validate(); bad != nil {
		return nil, &seam.OpError{Op: "new bash", Code: seam.CodeInvalid, Err: bad}
	}
	if config.Managed == nil {
		config.Managed = NewEnvironment()
	}
	return &Bash{world: world, config: config}, nil
}

// Sentinels for conditions that callers branch on.
var (
	// ErrTimeout is matched by the cause of a script that ran out of time.
	ErrTimeout = errors.New("timed out")

	// ErrNoJobs is matched by a request for background work where there is none.
	ErrNoJobs = errors.New("background work is not enabled")
)

// A Request is one script.
type Request struct {
	Script string // run as by bash -c. Not empty, no NUL byte

	// Dir is where it runs: absolute, or relative to Config.Dir. "": Config.Dir.
	Dir string

	// Timeout, in the foreground: 0 is Config.Timeout, more than
	// Config.MaxTimeout is that.
	Timeout time.Duration

	// Stdin is what the script reads. Nil: the null device.
	Stdin []byte

	// Env is between the model's environment and the managed one.
	Env seam.Env

	// Name is the range's, as in [seam.Spec].
	Name string

	// Owner owns the jobs that come of this.
	Owner string

	// Label is the job's. "": the script.
	Label string

	// BackgroundAfter, in the foreground, makes a job of a script that has not
	// ended by then, or whose drain is not over. 0: never. It needs Config.Jobs.
	BackgroundAfter time.Duration

	// OnKept is told of survivors that were made a job, and then Run waits for
	// that job, too, and ends it when the time is up or the context ends. Nil:
	// Run returns, and the job goes on.
	OnKept func([]seam.Member)

	// MaxOutputBytes replaces Config's for stdout where it is greater than 0.
	// It is for trusted callers.
	MaxOutputBytes int64
}

// A Result is how a foreground script ended, or became a job.
type Result struct {
	// Process is the script, and the range of all that it started.
	Process seam.Process

	Outcome seam.Outcome // the zero Outcome while the script is a job that goes on

	// TimedOut and Aborted tell what ended the script, or the job that was
	// waited for, where we did; at most one is true, and it is the first cause.
	// Both are false for a script that ended itself, even by a signal.
	TimedOut bool
	Aborted  bool
	Timeout  time.Duration // that was in force

	Stdout, Stderr Text

	// Survivors had outlived the script. They were ended, unless Job has them.
	Survivors []seam.Member

	// Job has what goes on: the survivors, or the whole script. With OnKept it
	// has ended, and the registry has forgotten it; or Empty says that its end
	// is not known, and the registry goes on trying to end it.
	Job *jobs.Info
	// JobErr says why there is no job for what should have become one; it was
	// ended instead.
	JobErr error

	// Empty is nil with proof that nothing lives of the script. With a Job that
	// goes on and was not asked to end, it is not asked.
	Empty error

	// Failure is set where the policy made the script fail for its survivors.
	Failure error
}

// Text is what a script printed on one stream, in whole characters.
type Text struct {
	Text      string
	Bytes     int64 // of the whole stream
	Truncated bool  // Text lacks the beginning
	Cut       bool  // a process outside of the range held the stream open
	Spill     seam.Spill
}

// Run runs a script and sees it, and everything it started, to its end.
//
// A script that fails is a Result. The error is for what kept it from running:
// a [seam.OpError], whose code tells a missing directory (CodeDirNotFound), a
// missing shell (CodeExecutableNotFound) and a context that had ended
// (CodeAborted) apart. ctx's end later is Result.Aborted.
func (b *Bash) Run(ctx context.Context, request Request) (Result, error) {
	timeout, err := b.timeout(request)
	if err != nil {
		return Result{}, err
	}
	if request.BackgroundAfter > 0 && b.config.Jobs == nil {
		return Result{}, fmt.Errorf("run in bash: BackgroundAfter: %w", ErrNoJobs)
	}
	p, err := b.spawn(ctx, request)
	if err != nil {
		return Result{}, err
	}
	ranOut := &timeoutError{timeout}
	deadline, cancel := context.WithTimeoutCause(ctx, timeout, ranOut)
	defer cancel()
	if request.BackgroundAfter > 0 && request.BackgroundAfter < timeout {
		if result, moved := b.moveToBackground(deadline, p, request); moved {
			result.Timeout = timeout
			return result, nil
		}
	}

	end, err := seam.Settle(deadline, p, b.config.Drain, b.config.Survivors)
	result := Result{
		Process:   p,
		Outcome:   end.Outcome,
		Timeout:   timeout,
		Survivors: end.Survivors,
		Empty:     end.Empty,
		Failure:   end.Err,
	}
	if errors.Is(end.Empty, seam.ErrSurvivors) {
		b.keep(&result, p, request)
	}
	terminated, cause := end.Outcome.End == seam.EndTerminated, end.Outcome.Cause
	if result.Job != nil && request.OnKept != nil {
		request.OnKept(result.Survivors)
		if late := b.await(deadline, &result); late != nil {
			terminated, cause = true, late
		}
	}
	if terminated {
		result.TimedOut = errors.Is(cause, ranOut) // this call's, not one that ctx brings
		result.Aborted = !result.TimedOut
	}
	result.Stdout, result.Stderr = text(p, seam.Stdout), text(p, seam.Stderr)
	if err != nil {
		return result, fmt.Errorf("run in bash: %w", err)
	}
	return result, nil
}

// Start runs a script as a job. It has no timeout, and its output is the job's.
// Admission comes before anything is started; a script that can't be started
// leaves no job.
func (b *Bash) Start(ctx context.Context, request Request) (jobs.Info, error) {
	if b.config.Jobs == nil {
		return jobs.Info{}, fmt.Errorf("start in bash: %w", ErrNoJobs)
	}
	return b.config.Jobs.Start(ctx, jobSpec(request), func(ctx context.Context) (seam.Process, error) {
		return b.spawn(ctx, request)
	})
}

func jobSpec(request Request) jobs.Spec {
	label := request.Label
	if label == "" {
		label = request.Script
	}
	return jobs.Spec{Owner: request.Owner, Kind: "bash", Label: label}
}

// timeoutError is the cause of a script that ran out of time. It matches
// ErrTimeout and no other deadline: one that the caller's context brings is the
// caller's.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("%v after %v", ErrTimeout, e.after) }

// Unwrap returns ErrTimeout.
func (e *timeoutError) Unwrap() error { return ErrTimeout }

func (b *Bash) timeout(request Request) (time.Duration, error) {
	switch {
	case request.Timeout < 0:
		return 0, &seam.OpError{Op: "run in bash", Code: seam.CodeInvalid,
			Err: &seam.FieldError{Field: "Timeout", Problem: fmt.Sprintf("is %v, and must not be negative", request.Timeout)}}
	case request.BackgroundAfter < 0:
		return 0, &seam.OpError{Op: "run in bash", Code: seam.CodeInvalid,
			Err: &seam.FieldError{Field: "BackgroundAfter", Problem: "is negative"}}
	case request.Timeout == 0:
		return min(b.config.Timeout, b.config.MaxTimeout), nil
	}
	return min(request.Timeout, b.config.MaxTimeout), nil
}

// keep makes a job of survivors, or ends them.
func (b *Bash) keep(result *Result, p seam.Process, request Request) {
	spec := jobSpec(request)
	info, err := b.config.Jobs.Adopt(spec, p)
	if err == nil {
		result.Job, result.Empty = &info, nil
		return
	}
	result.JobErr = err
	p.Terminate(seam.ErrSurvivors)
	always := context.Background() // the ladder bounds it
	if result.Empty = p.WaitEmpty(always); result.Empty == nil {
		for _, stream := range []seam.Stream{seam.Stdout, seam.Stderr} {
			_ = p.Output(stream).WaitEnd(always) // whose only error is its context's
		}
	}
}

// await sees the job of a result to its end. It returns ctx's cause where that
// had to end it.
func (b *Bash) await(ctx context.Context, result *Result) (cause error) {
	id, owner := result.Job.ID, result.Job.Owner
	info, err := b.config.Jobs.Wait(ctx, owner, id)
	if err == nil && info.Status.Live() {
		cause = context.Cause(ctx)
		if info, err = b.config.Jobs.Kill(owner, id, cause.Error()); err == nil {
			always := context.Background() // the ladder bounds it, also where it has no proof
			if unproven := result.Process.WaitEmpty(always); unproven != nil {
				*result.Job, result.Empty = info, unproven
				return cause
			}
			info, err = b.config.Jobs.Wait(always, owner, id)
		}
	}
	if err != nil { // released by someone else, which only an ended job can be
		result.Empty = result.Process.WaitEmpty(context.Background())
		return cause
	}
	_ = b.config.Jobs.Yield(owner, id) // what it printed is the result's
	*result.Job, result.Empty = info, info.Err
	return cause
}

// moveToBackground waits for the script to end in time, and else makes a job of
// it. Where the registry refuses it stays in the foreground.
func (b *Bash) moveToBackground(ctx context.Context, p seam.Process, request Request) (Result, bool) {
	inTime, cancel := context.WithTimeout(ctx, request.BackgroundAfter)
	defer cancel()
	if _, err := p.Wait(inTime); err == nil || ctx.Err() != nil {
		return Result{}, false
	}
	info, err := b.config.Jobs.Adopt(jobSpec(request), p)
	if err != nil {
		return Result{}, false
	}
	return Result{Process: p, Job: &info, Stdout: text(p, seam.Stdout), Stderr: text(p, seam.Stderr)}, true
}

func text(p seam.Process, stream seam.Stream) Text {
	output := p.Output(stream)
	window := output.ReadFrom(0)
	total := window.Next()
	whole := window.WholeRunes()
	return Text{
		Text:      string(whole.Data),
		Bytes:     total,
		Truncated: whole.Lost > 0,
		Cut:       whole.Cut,
		Spill:     output.Spill(),
	}
}
