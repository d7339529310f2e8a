// Package managed turns an owner, a direct process and its streams into a
// [seam.Process]: the termination ladder, the latched results, the drain and
// the collectors, which are the same in every world.
package managed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// Params are a launched process and what was asked of it.
type Params struct {
	Name        string
	Argv        []string
	Containment seam.Containment
	Grace       time.Duration
	Drain       time.Duration

	Direct owner.Direct
	Owner  owner.Owner

	// Streams handed to the caller; nil where the mode is not Pipe.
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser

	// Feed is a stream to which Data is written and which is then closed; nil
	// where stdin's mode is not Data.
	Feed io.WriteCloser
	Data []byte

	// Collectors by stream; nil where the mode is not Collect.
	Collectors [2]*Collector

	// LetGo, where it is not nil, ends the observation of a range that outlives
	// the runtime: Direct and Owner answer at once from then on. See
	// [Process.Abandon].
	LetGo func()

	// Exited, where it is not nil, is called once, when the direct process has
	// ended and before anyone learns of it.
	Exited func()

	// Insist, where it is not nil, is called once, after TERM was sent and while
	// the grace runs: it may ask in other ways. It returns when stop is closed.
	Insist func(stop <-chan struct{})

	// Proved is called once, when the range is proven empty and before anyone
	// learns of it: what is unique among live ranges is free when WaitEmpty says
	// so.
	Proved func()

	// Released is called once, when the range is empty and everything that
	// worked for the process has been joined. err is what releasing it gave.
	Released func(p *Process, err error)
}

// unkillableAfter is how long members may live on after KILL before waiters are
// told that they do. What survives KILL sleeps uninterruptibly in the kernel,
// or belongs to a user that may not be signalled. Members that become fewer only
// wait for a processor to die on, which a busy host may not have for a while, so
// the time starts anew with each that went.
const unkillableAfter = 10 * time.Second

// Process is a launched command and its range.
//
// One goroutine, observe, owns it: it waits for the direct process, then for
// the range, then joins everything else, and ends when the range is empty. Its
// end is Done, which the runtime waits for. Terminate starts a second one, the
// ladder, at most once.
type Process struct {
	Params
	started time.Time

	exited     chan struct{} // closed once outcome is latched
	empty      chan struct{} // closed on proof
	done       chan struct{} // closed after Released
	terminated chan struct{} // closed by the first Terminate
	killed     chan struct{} // closed by the first Kill
	abandoned  chan struct{} // closed by Abandon
	hurried    chan struct{} // closed by Hurry
	abandon    sync.Once
	hurry      sync.Once
	retry      chan struct{} // holds a token when a waiter wants a failed observation repeated

	helpers sync.WaitGroup // ladder, feeder and collectors; joined by observe

	mu       sync.Mutex
	outcome  seam.Outcome  // valid once exited is closed
	exitedAt time.Time     // likewise
	cause    error         // of the first Terminate; nil before
	outlived bool          // the direct process had ended before the first Terminate
	failed   chan struct{} // closed, and replaced, by each failed observation
	failure  error         // of the last one
	stuck    bool          // failure is that members live on after KILL
}

var _ seam.Process = (*Process)(nil)

// New takes over what params name; the target already runs. Nothing is observed
// before Run.
func New(params Params) *Process {
	return &Process{
		Params:     params,
		started:    time.Now(),
		exited:     make(chan struct{}),
		empty:      make(chan struct{}),
		done:       make(chan struct{}),
		terminated: make(chan struct{}),
		killed:     make(chan struct{}),
		abandoned:  make(chan struct{}),
		hurried:    make(chan struct{}),
		retry:      make(chan struct{}, 1),
		failed:     make(chan struct{}),
	}
}

// Run begins to observe and to collect. Call it once.
func (p *Process) Run() {
	for _, c := range p.Collectors {
		if c != nil {
			p.helpers.Go(c.run)
		}
	}
	if p.Feed != nil {
		p.helpers.Go(p.feed)
	}
	go p.observe() // joined by whoever waits for Done
}

// Done is closed when the range is empty, or abandoned, and nothing works for p
// any more.
func (p *Process) Done() <-chan struct{} { return p.done }

// Name implements [seam.Process].
func (p *Process) Name() string { return p.Params.Name }

// Containment implements [seam.Process].
func (p *Process) Containment() seam.Containment { return p.Params.Containment }

// Stdin implements [seam.Process].
func (p *Process) Stdin() io.WriteCloser { return p.Params.Stdin }

// Stdout implements [seam.Process].
func (p *Process) Stdout() io.ReadCloser { return p.Params.Stdout }

// Stderr implements [seam.Process].
func (p *Process) Stderr() io.ReadCloser { return p.Params.Stderr }

// Output implements [seam.Process].
func (p *Process) Output(s seam.Stream) seam.OutputReader {
	if int(s) >= len(p.Collectors) || p.Collectors[s] == nil {
		return nil
	}
	return p.Collectors[s]
}

// observe sees the range to its end.
func (p *Process) observe() {
	exit := p.Direct.Wait()
	var account owner.Account
	if limited, ok := p.Owner.(owner.Limited); ok {
		account = limited.Account() // first of all: see there
	}
	if p.Exited != nil {
		p.Exited()
	}
	p.latch(exit, account)
	for {
		err := p.Owner.WaitEmpty(context.Background())
		if err == nil {
			break
		}
		p.fail(err)
		select {
		case <-p.retry: // someone wants to know, or the ladder goes on
			continue
		case <-p.abandoned:
		}
		p.release()
		return
	}
	if p.Proved != nil {
		p.Proved()
	}
	p.mu.Lock()
	close(p.empty) // under mu: Terminate starts no ladder after this
	p.mu.Unlock()
	p.release()
}

// release lets go of everything: the proof is had and the owner never signals
// again, or the range is someone else's.
func (p *Process) release() {
	err := errors.Join(p.Owner.Close(), p.Direct.Release())
	p.endStreams()
	p.helpers.Wait()
	if p.Released != nil {
		p.Released(p, err)
	}
	close(p.done)
}

// latch fixes the direct result.
func (p *Process) latch(exit owner.Exit, account owner.Account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exitedAt = time.Now()
	p.outcome = seam.Outcome{
		ExitCode: exit.Code,
		Signal:   exit.Signal,
		Usage:    exit.Usage,
		Duration: p.exitedAt.Sub(p.started),
	}
	if exit.Usage != nil && account.PeakMemBytes > 0 {
		usage := *exit.Usage
		usage.PeakMemBytes = account.PeakMemBytes
		p.outcome.Usage = &usage
	}
	failed := exit.Code != 0 // -1 where a signal ended it
	switch {
	case exit.Lost:
		p.outcome.End = seam.EndLost
	case p.cause != nil && !p.outlived:
		p.outcome.End, p.outcome.Cause = seam.EndTerminated, p.cause
	case failed && account.ReachedMemory:
		p.outcome.End = seam.EndLimitMemory
	case failed && account.ReachedPids:
		p.outcome.End = seam.EndLimitPids
	case exit.Signal != seam.Signal{}:
		p.outcome.End = seam.EndSignaled
	default:
		p.outcome.End = seam.EndExited
	}
	close(p.exited)
}

// endStreams ends what can have no more writers and readers in the range. Who
// still holds a stream open is outside of it, and gets the drain at most.
func (p *Process) endStreams() {
	timer := time.NewTimer(p.Drain)
	defer timer.Stop()
	for _, c := range p.Collectors {
		if c == nil {
			continue
		}
		select {
		case <-c.ended:
		case <-timer.C:
			timer.Reset(0) // the drain is over for the other stream as well
			c.cutOff()
		case <-p.hurried:
			c.cutOff()
		}
	}
	if p.Feed != nil {
		_ = p.Feed.Close() // nobody reads it any more; a blocked feed ends
	}
}

// feed writes stdin. A target that does not read it all is not at fault.
func (p *Process) feed() {
	_, _ = p.Feed.Write(p.Data)
	_ = p.Feed.Close()
}

// Wait implements [seam.Process].
func (p *Process) Wait(ctx context.Context) (seam.Outcome, error) {
	select {
	case <-p.exited:
	case <-ctx.Done():
		select {
		case <-p.exited:
		default:
			return seam.Outcome{}, fmt.Errorf("wait: %w", context.Cause(ctx))
		}
	}
	if err := p.drain(ctx); err != nil {
		return seam.Outcome{}, err
	}
	return p.outcome, nil
}

// drain gives the range and its collected streams time to end by themselves.
func (p *Process) drain(ctx context.Context) error {
	quiet := make([]<-chan struct{}, 0, 3)
	for _, c := range p.Collectors {
		if c != nil {
			quiet = append(quiet, c.ended)
		}
	}
	if len(quiet) == 0 {
		return nil
	}
	left := time.Until(p.exitedAt.Add(p.Drain))
	if left <= 0 {
		return nil // whatever ctx says: nothing is waited for
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	for _, event := range append(quiet, p.empty) {
		select {
		case <-event:
			continue
		default:
		}
		select {
		case <-event:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("wait: %w", context.Cause(ctx))
		}
	}
	return nil
}

// WaitEmpty implements [seam.Process].
func (p *Process) WaitEmpty(ctx context.Context) error {
	p.mu.Lock()
	failed, stuck := p.failed, p.stuck
	p.mu.Unlock()
	p.again()
	select {
	case <-p.empty:
		return nil
	default:
	}
	if stuck {
		// The ladder goes on; whoever asks meanwhile need not wait as long as
		// the first who asked.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, stuckAnswer, p.unproven())
		defer cancel()
	}
	select {
	case <-p.empty:
		return nil
	case <-p.abandoned:
		return fmt.Errorf("wait empty: %w", &seam.UnprovenError{Reason: errAbandoned})
	case <-failed:
		select {
		case <-p.empty:
			return nil // it was proven since
		default:
		}
		return fmt.Errorf("wait empty: %w", p.unproven())
	case <-ctx.Done():
		return fmt.Errorf("wait empty: %w", context.Cause(ctx))
	}
}

// stuckAnswer is what is waited for once more where members have outlived KILL.
const stuckAnswer = 100 * time.Millisecond

func (p *Process) unproven() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &seam.UnprovenError{Reason: p.failure}
}

// fail tells everyone who waits that emptiness could not be established.
func (p *Process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = err
	close(p.failed)
	p.failed = make(chan struct{})
}

// Survivors implements [seam.Process].
func (p *Process) Survivors(ctx context.Context) ([]seam.Member, error) {
	select {
	case <-p.empty:
		return nil, nil
	default:
	}
	members, err := p.Owner.Members(ctx)
	if err != nil {
		return nil, fmt.Errorf("list survivors: %w", err)
	}
	return members, nil
}

// Terminate implements [seam.Process].
func (p *Process) Terminate(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.empty:
		return
	case <-p.abandoned:
		return
	default:
	}
	if p.cause != nil {
		return
	}
	p.cause = cause
	_, p.outlived = p.Direct.Exited()
	close(p.terminated)
	p.helpers.Go(p.ladder)
}

// Kill ends the range at once: Terminate without the grace, with the signal
// sent when it returns. It is the way out of a grace that became too long.
func (p *Process) Kill(cause error) error {
	p.Terminate(cause)
	p.mu.Lock()
	select {
	case <-p.killed:
	default:
		close(p.killed)
	}
	p.mu.Unlock()
	return p.Owner.Signal(owner.Kill)
}

// Detached reports whether the range outlives the runtime.
func (p *Process) Detached() bool { return p.LetGo != nil }

// errAbandoned is why nothing is known any more of a range that lives on.
var errAbandoned = fmt.Errorf("the range is detached and lives on: %w", seam.ErrClosed)

// Abandon ends the observation of a detached range: it lives on, and is not ours
// any more. It returns once nothing works for p. A range that was asked to end
// is not abandoned, and false is returned.
func (p *Process) Abandon() bool {
	p.mu.Lock()
	asked := p.cause != nil
	if !asked {
		p.abandon.Do(func() {
			close(p.abandoned) // under mu: Terminate starts no ladder after this
			p.LetGo()
		})
	}
	p.mu.Unlock()
	if asked {
		return false
	}
	<-p.done
	return true
}

// Terminated reports whether the range was asked to end.
func (p *Process) Terminated() bool {
	select {
	case <-p.terminated:
		return true
	default:
		return false
	}
}

// Started is when the target was started.
func (p *Process) Started() time.Time { return p.started }

// Ended reports whether the direct process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Hurry spends no further drain on streams that outlive an empty range.
func (p *Process) Hurry() { p.hurry.Do(func() { close(p.hurried) }) }

// again has a failed observation repeated.
func (p *Process) again() {
	select {
	case p.retry <- struct{}{}:
	default:
	}
}

// ladder is TERM, grace, KILL, keyed on the range: that the direct process
// ended does not stop it. It ends when the range is empty.
func (p *Process) ladder() {
	// A TERM that could not be sent is answered by the KILL.
	_ = p.Owner.Signal(owner.Terminate)
	if p.grace() {
		return
	}

	// Where KILL is not atomic a fork can slip through it, so it is repeated,
	// at a pace that costs nothing, until the owner has its proof.
	killedAt, lastWent := time.Now(), time.Now()
	fewest := math.MaxInt
	looked := killedAt
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		killErr := p.Owner.Signal(owner.Kill)
		p.again()
		timer := time.NewTimer(pause)
		select {
		case <-p.empty:
			timer.Stop()
			return
		case <-p.abandoned:
			timer.Stop()
			return
		case <-timer.C:
		}
		if time.Since(looked) < unkillableAfter/2 {
			continue
		}
		looked = time.Now()
		alive, err := p.afterKill(killErr)
		if fewest != math.MaxInt && alive < fewest {
			lastWent = looked
		}
		fewest = min(fewest, alive)
		if err != nil && time.Since(lastWent) >= unkillableAfter {
			lastWent = looked
			p.mu.Lock()
			p.stuck = true
			p.mu.Unlock()
			p.fail(fmt.Errorf("alive %v after KILL: %w", time.Since(killedAt).Round(time.Second), err))
		}
	}
}

// grace waits until KILL is due, and reports whether the range is empty before.
func (p *Process) grace() (empty bool) {
	if p.Insist != nil {
		stop := make(chan struct{})
		defer close(stop)
		p.helpers.Go(func() { p.Insist(stop) }) // KILL does not wait for it
	}
	timer := time.NewTimer(p.Grace)
	defer timer.Stop()
	select {
	case <-p.empty:
		return true
	case <-p.abandoned:
		return true
	case <-p.killed:
	case <-timer.C:
	}
	return false
}

// afterKill says how many live on after KILL, and which; the error is nil where
// nothing is found, and the owner is merely slow to prove it.
func (p *Process) afterKill(killErr error) (alive int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	members, err := p.Owner.Members(ctx)
	exited := false
	select {
	case <-p.exited:
		exited = true
	default:
	}
	if len(members) == 0 && exited && err == nil && killErr == nil {
		return 0, nil
	}
	if err != nil {
		return math.MaxInt, errors.Join(err, killErr)
	}
	pids := make([]int, len(members))
	for i, m := range members {
		pids[i] = m.PID
	}
	alive, what := len(members), fmt.Sprintf("processes %v", pids)
	if !exited {
		alive++
		what += " and the command itself"
	}
	return alive, errors.Join(errors.New(what), killErr)
}
