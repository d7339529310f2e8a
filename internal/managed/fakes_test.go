package managed_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// fakeDirect is a direct process that ends when exited is closed.
type fakeDirect struct {
	exited chan struct{}
	exit   owner.Exit
}

func (d *fakeDirect) PID() int { return 1 }

func (d *fakeDirect) Wait() owner.Exit {
	<-d.exited
	return d.exit
}

func (d *fakeDirect) Exited() (owner.Exit, bool) {
	select {
	case <-d.exited:
		return d.exit, true
	default:
		return owner.Exit{}, false
	}
}

func (d *fakeDirect) Release() error { return nil }

// fakeRange is a range that is empty when empty is closed, or when it is killed
// and mortal.
type fakeRange struct {
	empty   chan struct{}
	mortal  bool
	members []seam.Member
	account owner.Account

	mu      sync.Mutex
	once    sync.Once
	unclear []error // what the next observations fail with
	signals []owner.Signal
	killErr error
}

func (r *fakeRange) end() { r.once.Do(func() { close(r.empty) }) }

func (r *fakeRange) Signal(sig owner.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signals = append(r.signals, sig)
	if sig != owner.Kill {
		return nil
	}
	if r.mortal {
		r.end()
	}
	return r.killErr
}

func (r *fakeRange) WaitEmpty(ctx context.Context) error {
	r.mu.Lock()
	if len(r.unclear) > 0 {
		err := r.unclear[0]
		r.unclear = r.unclear[1:]
		r.mu.Unlock()
		return err
	}
	r.mu.Unlock()
	select {
	case <-r.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *fakeRange) Members(context.Context) ([]seam.Member, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members, nil
}

func (r *fakeRange) setMembers(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members = make([]seam.Member, n)
}

func (r *fakeRange) Account() owner.Account { return r.account }

func (r *fakeRange) Close() error { return nil }

func (r *fakeRange) sent() []owner.Signal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.signals)
}

// fakeStore keeps spill files in memory, and fails as it is told to.
type fakeStore struct {
	createErr   error
	writeErr    error // of the write after so many bytes
	writeLimit  int
	closeErr    error
	withdrawErr error

	mu        sync.Mutex
	created   int
	data      []byte
	closed    bool
	withdrawn bool
}

func (s *fakeStore) Create(string) (managed.SpillFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created++
	if s.createErr != nil {
		return nil, s.createErr
	}
	return fakeFile{s}, nil
}

type fakeFile struct{ *fakeStore }

func (f fakeFile) Path() string { return "/spill" }

func (f fakeFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.withdrawn || f.closed {
		return 0, errors.New("written to after its end")
	}
	if f.writeErr != nil && len(f.data)+len(p) > f.writeLimit {
		return 0, f.writeErr
	}
	f.data = append(f.data, p...)
	return len(p), nil
}

func (f fakeFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return f.closeErr
}

func (f fakeFile) Withdraw() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.withdrawn = true
	return f.withdrawErr
}

// fakeSource is a stream of chunks that ends after them.
type fakeSource struct {
	chunks   [][]byte
	closeErr error
}

func (s *fakeSource) ReadAll(consume func([]byte)) bool {
	for _, chunk := range s.chunks {
		shared := slices.Clone(chunk)
		consume(shared)
		clear(shared) // it is valid only during the call
	}
	return true
}

func (s *fakeSource) Interrupt()   {}
func (s *fakeSource) Close() error { return s.closeErr }

// collectAll has a process that has ended collect to the end of the source.
func collectAll(params managed.CollectorParams) *managed.Collector {
	c := managed.NewCollector(params)
	p := newProcess(managed.Params{Collectors: [2]*managed.Collector{c, nil}})
	p.exit()
	p.owner.end()
	<-p.Done()
	return c
}

// fakeProcess is a process of fakes, which is running.
type fakeProcess struct {
	*managed.Process
	direct *fakeDirect
	owner  *fakeRange
}

func newProcess(params managed.Params) *fakeProcess {
	p := &fakeProcess{
		direct: &fakeDirect{exited: make(chan struct{})},
		owner:  &fakeRange{empty: make(chan struct{})},
	}
	params.Direct, params.Owner = p.direct, p.owner
	p.Process = managed.New(params)
	p.Run()
	return p
}

// exit ends the direct process.
func (p *fakeProcess) exit() { close(p.direct.exited) }
