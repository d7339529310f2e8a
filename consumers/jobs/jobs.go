// Package jobs keeps background work: ranges that go on while their owner does
// something else, with an id, a status, output that is read by cursor, and an
// end that is told.
//
// A job is a range, not a process: it runs until the range is proven empty, also
// when the command that began it ended long ago. Where the proof can't be had it
// is asked for again, and the job goes on until it is.
//
// # Owners
//
// Every job has an owner, and only that owner sees, reads and ends it. Ids can
// be guessed, so the fence is the owner, not the id: a job of someone else is
// answered like one that does not exist. Jobs whose owner is "" share one.
//
// # Concurrency
//
// All methods of [Registry] may be called concurrently. A registry runs one
// goroutine for each job that has not ended, and none for one that has; Close
// joins them.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/corral-world/corral/seam"
)

// Sentinels for conditions that callers branch on.
var (
	// ErrNotFound is matched for an id that names no job of the owner.
	ErrNotFound = errors.New("no such job")

	// ErrTooMany is matched when an owner has as many live jobs as it may.
	ErrTooMany = errors.New("too many live jobs")

	// ErrClosed is matched by operations on a closed registry, and is the cause
	// of jobs that its end ended.
	ErrClosed = errors.New("job registry closed")

	// ErrOwnerClosed is the cause of jobs that were ended with their owner.
	ErrOwnerClosed = errors.New("owner of the job closed")

	// ErrKilled is matched by the cause of jobs that Kill ended.
	ErrKilled = errors.New("job killed")
)

// Config configures a [Registry].
type Config struct {
	// MaxLive is how many live jobs one owner may have, those that are being
	// stopped among them. 0: DefaultMaxLive.
	MaxLive int

	// Notify is told of each job that has ended, once, unless its owner was
	// waiting for it and so knows. It is called from the job's goroutine, with
	// no lock held, and delays nothing but that job's Close. Nil: nobody is told.
	Notify func(Info)
}

// DefaultMaxLive is how many live jobs an owner may have where Config names no
// other number.
const DefaultMaxLive = 10

// A Status is where a job is in its life: Running, perhaps Stopping, and one of
// the others for good.
type Status string

// Statuses.
const (
	Running   Status = "running"
	Stopping  Status = "stopping"  // asked to end
	Completed Status = "completed" // its command ended by itself, with whatever exit code, and its range is empty
	Killed    Status = "killed"    // ended by us, or its command by a signal
	Failed    Status = "failed"    // its range is empty, and how its command ended could not be established
)

// Live reports whether the job has not ended.
func (s Status) Live() bool { return s == Running || s == Stopping }

// Info are the facts of a job. They are kept until the job is released.
type Info struct {
	ID      string
	Owner   string
	Label   string
	Name    string // of its range
	Started time.Time
	Ended   time.Time // zero while it lives
	Status  Status
	// Outcome of the direct process; nil while that runs. A job can live on
	// after it.
	Outcome *seam.Outcome
	// Cause is what the first Kill, CloseOwner or Close that asked the job to
	// end gave; nil where none did. Outcome has it too where the command was
	// still running.
	Cause error
	// Err, while the job lives, says why its range could not be proven empty
	// when that was last asked: it matches seam.ErrUnproven, and nil is no news.
	// Of a job that has ended it says why the status is Failed.
	Err error
}

// A Spec describes a job.
type Spec struct {
	Owner string // "" is the owner of all that have none
	Kind  string // begins the id: "bash" gives bash-1, bash-2, …
	Label string // for lists; the command, say
}

// Registry keeps jobs. Make it with [New], end it with [Registry.Close].
type Registry struct {
	config Config

	watchers sync.WaitGroup // a goroutine for each live job

	mu       sync.Mutex
	closed   bool
	byID     map[string]*job
	counters map[string]int // last number given, by kind
	admitted map[string]int // launches under way, by owner
	landed   chan struct{}  // closed, and replaced, when one of them is over
	closing  map[string]int // CloseOwner calls under way, by owner
}

// job is one entry. Its fields but the first four are guarded by the
// registry's mu.
type job struct {
	process seam.Process
	output  [2]seam.OutputReader // nil where not collected
	ended   chan struct{}        // closed when the status is final
	asked   chan struct{}        // holds a token when it was asked to end

	info    Info
	waiters int
}

// New returns an empty registry.
func New(config Config) *Registry {
	if config.MaxLive <= 0 {
		config.MaxLive = DefaultMaxLive
	}
	return &Registry{
		config:   config,
		byID:     make(map[string]*job),
		counters: make(map[string]int),
		admitted: make(map[string]int),
		landed:   make(chan struct{}),
		closing:  make(map[string]int),
	}
}

// Start begins a job with the range that launch starts. Admission comes first:
// where the owner may have no further job, launch is not called and nothing
// was started. ctx is launch's alone.
func (r *Registry) Start(ctx context.Context, spec Spec, launch func(context.Context) (seam.Process, error)) (Info, error) {
	if err := r.admit(spec); err != nil {
		return Info{}, err
	}
	p, err := launch(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.withdraw(spec.Owner)
	if err != nil {
		return Info{}, err
	}
	if err := r.open(spec.Owner); err != nil {
		// Closed meanwhile: the range goes with what it would have belonged to,
		// and whoever closes waits for it.
		j := r.enter(spec, p)
		j.waiters++ // its starter is told now
		j.stop(err)
		return Info{}, err
	}
	return r.enter(spec, p).info, nil
}

// Adopt makes a job of a range that runs already: survivors that are to be
// kept, a command that takes too long for the foreground. Where it fails the
// range stays the caller's.
func (r *Registry) Adopt(spec Spec, p seam.Process) (Info, error) {
	if err := r.admit(spec); err != nil {
		return Info{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdraw(spec.Owner)
	if err := r.open(spec.Owner); err != nil {
		return Info{}, err
	}
	return r.enter(spec, p).info, nil
}

// admit counts a launch under way.
func (r *Registry) admit(spec Spec) error {
	if spec.Kind == "" {
		return &seam.OpError{Op: "start job", Code: seam.CodeInvalid, Err: &seam.FieldError{Field: "Kind", Problem: "is empty"}}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open(spec.Owner); err != nil {
		return err
	}
	live := r.admitted[spec.Owner]
	for _, j := range r.byID {
		if j.info.Owner == spec.Owner && j.info.Status.Live() {
			live++
		}
	}
	if live >= r.config.MaxLive {
		return fmt.Errorf("start job: %w: %d of %d", ErrTooMany, live, r.config.MaxLive)
	}
	r.admitted[spec.Owner]++
	return nil
}

// withdraw ends an admission. r.mu is held.
func (r *Registry) withdraw(owner string) {
	if r.admitted[owner]--; r.admitted[owner] == 0 {
		delete(r.admitted, owner)
	}
	close(r.landed)
	r.landed = make(chan struct{})
}

// open returns an error where nothing may be started. r.mu is held.
func (r *Registry) open(owner string) error {
	switch {
	case r.closed:
		return fmt.Errorf("start job: %w", ErrClosed)
	case r.closing[owner] > 0:
		return fmt.Errorf("start job: %w", ErrOwnerClosed)
	}
	return nil
}

// enter records a job and watches it. r.mu is held.
func (r *Registry) enter(spec Spec, p seam.Process) *job {
	r.counters[spec.Kind]++
	j := &job{
		process: p,
		output:  [2]seam.OutputReader{p.Output(seam.Stdout), p.Output(seam.Stderr)},
		ended:   make(chan struct{}),
		asked:   make(chan struct{}, 1),
		info: Info{
			ID:      fmt.Sprintf("%s-%d", spec.Kind, r.counters[spec.Kind]),
			Owner:   spec.Owner,
			Label:   spec.Label,
			Name:    p.Name(),
			Started: time.Now(),
			Status:  Running,
		},
	}
	r.byID[j.info.ID] = j
	r.watchers.Go(func() { r.watch(j) })
	return j
}

// watch sees a job to its end. It ends with the range; what ends the range is
// Kill, CloseOwner, Close, or the commands themselves.
func (r *Registry) watch(j *job) {
	always := context.Background()
	outcome, err := j.process.Wait(always)
	if err == nil {
		r.mu.Lock()
		j.info.Outcome = &outcome
		r.mu.Unlock()
	}
	r.awaitEmpty(j)
	for _, output := range j.output {
		if output != nil && err == nil {
			err = output.WaitEnd(always)
		}
	}

	r.mu.Lock()
	j.info.Ended = time.Now()
	j.info.Err = err
	j.info.Status = finalStatus(j.info, err)
	info, reported := j.info, j.waiters > 0
	close(j.ended)
	r.mu.Unlock()
	if r.config.Notify != nil && !reported {
		r.config.Notify(info)
	}
}

// Between two asks for a proof that could not be had.
const (
	minPause = time.Second
	maxPause = 30 * time.Second
)

// awaitEmpty returns with the proof that a job's range is empty. An answer that
// it is not known is no end: the proof may be to be had later, and who waits for
// the job has a context.
func (r *Registry) awaitEmpty(j *job) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := j.process.WaitEmpty(context.Background())
		if err == nil {
			return
		}
		r.mu.Lock()
		j.info.Err = err
		r.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-j.asked:
			pause = minPause / 2 // what is unknown may change now
		}
		timer.Stop()
	}
}

func finalStatus(info Info, err error) Status {
	switch {
	case err != nil || info.Outcome.End == seam.EndLost:
		return Failed
	case info.Status == Stopping || info.Outcome.End != seam.EndExited:
		return Killed
	}
	return Completed
}

// find returns the owner's job. r.mu is held.
func (r *Registry) find(owner, id string) (*job, error) {
	j := r.byID[id]
	if j == nil || j.info.Owner != owner {
		return nil, fmt.Errorf("job %q: %w", id, ErrNotFound)
	}
	return j, nil
}

// List returns the owner's jobs, oldest first.
func (r *Registry) List(owner string) []Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	var infos []Info
	for _, j := range r.byID {
		if j.info.Owner == owner {
			infos = append(infos, j.info)
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	return infos
}

// Get returns the facts of one job.
func (r *Registry) Get(owner, id string) (Info, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.find(owner, id)
	if err != nil {
		return Info{}, err
	}
	return j.info, nil
}

// Wait returns a job's facts once it has ended, or as they are when ctx ends:
// that the job goes on is no error.
func (r *Registry) Wait(ctx context.Context, owner, id string) (Info, error) {
	r.mu.Lock()
	j, err := r.find(owner, id)
	if err != nil {
		r.mu.Unlock()
		return Info{}, err
	}
	j.waiters++
	r.mu.Unlock()

	select {
	case <-j.ended:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j.waiters--
	return j.info, nil
}

// Kill asks a job to end and returns at once. A job that has ended stays as it
// is. reason is for the record, and may be "".
func (r *Registry) Kill(owner, id, reason string) (Info, error) {
	cause := ErrKilled
	if reason != "" {
		cause = fmt.Errorf("%w: %s", ErrKilled, reason)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.find(owner, id)
	if err != nil {
		return Info{}, err
	}
	j.stop(cause)
	return j.info, nil
}

// stop asks the range to end, which does nothing where it has. The registry's
// mu is held: Terminate never blocks.
func (j *job) stop(cause error) {
	if j.info.Status == Running {
		j.info.Status, j.info.Cause = Stopping, cause
	}
	select {
	case j.asked <- struct{}{}:
	default:
	}
	j.process.Terminate(cause)
}

// Release forgets an ended job, and has its output forgotten, with the files
// that it may have, where the world can do that ([seam.Discarder]). A live one
// is refused.
func (r *Registry) Release(owner, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.findEnded(owner, id)
	if err == nil {
		r.forget(j)
	}
	return err
}

// Yield forgets an ended job, and leaves its output and files to whoever has
// its range. A live one is refused.
func (r *Registry) Yield(owner, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.findEnded(owner, id)
	if err == nil {
		delete(r.byID, j.info.ID)
	}
	return err
}

// findEnded returns the owner's job, unless that lives. r.mu is held.
func (r *Registry) findEnded(owner, id string) (*job, error) {
	j, err := r.find(owner, id)
	if err == nil && j.info.Status.Live() {
		err = fmt.Errorf("job %q is %s: kill it first", id, j.info.Status)
	}
	return j, err
}

// forget takes an ended job out of the registry. r.mu is held.
func (r *Registry) forget(j *job) {
	delete(r.byID, j.info.ID)
	for _, output := range j.output {
		if discarder, ok := output.(seam.Discarder); ok {
			discarder.Discard()
		}
	}
}

// CloseOwner ends all jobs of owner, those being started among them, and
// forgets them. Others are not touched, and owner may start anew when it has
// returned. ctx bounds the waiting: the error then names what had not ended,
// and those jobs stay.
func (r *Registry) CloseOwner(ctx context.Context, owner string) error {
	r.mu.Lock()
	r.closing[owner]++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closing[owner]--; r.closing[owner] == 0 {
			delete(r.closing, owner)
		}
	}()
	return r.end(ctx, ErrOwnerClosed, func(o string) bool { return o == owner })
}

// Close ends all jobs, forgets them, and refuses new ones. ctx bounds the
// waiting, as in CloseOwner; without an error every goroutine has been joined.
func (r *Registry) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	if err := r.end(ctx, ErrClosed, func(string) bool { return true }); err != nil {
		return err
	}
	r.watchers.Wait()
	return nil
}

// end stops the jobs of the chosen owners, all at once, and waits for them. The
// caller has seen to it that these owners start no others.
func (r *Registry) end(ctx context.Context, cause error, chosen func(owner string) bool) error {
	var stopped []*job
	stop := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, j := range r.byID {
			if chosen(j.info.Owner) && !slices.Contains(stopped, j) {
				j.stop(cause)
				j.waiters++ // whoever ends them needs no notice
				stopped = append(stopped, j)
			}
		}
	}
	stop()
	errs := []error{r.awaitLaunches(ctx, chosen)}
	stop() // what has become of the launches

	for _, j := range stopped {
		select {
		case <-j.ended:
		case <-ctx.Done():
		}
		r.mu.Lock()
		j.waiters--
		if j.info.Status.Live() {
			err := context.Cause(ctx)
			if j.info.Err != nil {
				err = fmt.Errorf("%w: %w", err, j.info.Err)
			}
			errs = append(errs, fmt.Errorf("job %s: %w", j.info.ID, err))
		} else {
			errs = append(errs, j.info.Err)
			r.forget(j)
		}
		r.mu.Unlock()
	}
	return errors.Join(errs...)
}

// awaitLaunches waits until the chosen owners have no launch under way.
func (r *Registry) awaitLaunches(ctx context.Context, chosen func(owner string) bool) error {
	for {
		r.mu.Lock()
		landed, pending := r.landed, 0
		for owner, n := range r.admitted {
			if chosen(owner) {
				pending += n
			}
		}
		r.mu.Unlock()
		if pending == 0 {
			return nil
		}
		select {
		case <-landed:
		case <-ctx.Done():
			return fmt.Errorf("jobs being started, %d: %w", pending, context.Cause(ctx))
		}
	}
}
