package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/control"
	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/internal/runner"
	"github.com/corral-world/corral/internal/systemd"
	"github.com/corral-world/corral/seam"
)

// A detached range has a keeper: a process of this program that owns it as any
// runtime would, answers for it by name, and ends with it. It is the main process
// of a delegated unit, or, where no manager is to be had, an orphan in this
// process's cgroup. Inside a Corral range it stays inside, and ends with that. In a
// unit the target has the harness's umask, and the limits and supplementary
// groups of the manager.
//
//	harness                               keeper
//	  | -- options, request -----------------> | takes the name, starts the target
//	  | <------ started, or refused: the error |
//	  | -- K ---------------------------------> | from here on the harness may go
//	  | -- T or 9 ----------------------------> | TERM with grace, KILL
//	  | <------------- exited: how, with usage |
//	  | <------------------------------- empty | ends
//
// The end of the connection before K ends the range.
const (
	verbKeep = "keep"

	commandKeep      = 'K'
	commandTerminate = 'T'
	commandKill      = '9'

	// keepTime bounds a keeper's start where the caller's context does not.
	keepTime = 30 * time.Second
)

var verbs = map[string]func(){verbKeep: keep}

// keepOptions are what a keeper is told, beside the request.
type keepOptions struct {
	Name     string
	WorldID  string
	Registry string
	SpillDir string
	Kind     seam.Kind // forced; "" for the strongest
	Unit     bool      // its cgroup is a delegated unit of its own
	Umask    int       // of a keeper in a unit: it is no child of the harness
	Grace    time.Duration
	Limits   seam.Limits
	Require  seam.Completeness
}

// keepEvent is one thing that a keeper tells.
type keepEvent struct {
	Started *seam.Containment `json:",omitempty"`
	Keeper  int               `json:",omitempty"` // its number, with Started
	Refused *keepRefusal      `json:",omitempty"`
	Exited  *owner.Exit       `json:",omitempty"`
	Account *owner.Account    `json:",omitempty"` // with Exited
	Empty   bool              `json:",omitempty"`
}

// keepRefusal is an error of a keeper's launch.
type keepRefusal struct {
	Code           seam.Code
	Text           string
	Field, Problem string // where it is of a field
}

func refusalOf(err error) *keepRefusal {
	r := &keepRefusal{Code: seam.CodeOf(err), Text: err.Error()}
	if op, ok := errors.AsType[*seam.OpError](err); ok && op.Err != nil {
		r.Text = op.Err.Error()
	}
	if field, ok := errors.AsType[*seam.FieldError](err); ok {
		r.Field, r.Problem = field.Field, field.Problem
	}
	if r.Code == "" {
		r.Code = seam.CodeContainment
	}
	return r
}

func (k *keepRefusal) error(argv0 string) error {
	op := &seam.OpError{Op: "spawn", Argv0: argv0, Code: k.Code, Err: errors.New(k.Text)}
	if k.Field != "" {
		op.Err = &seam.FieldError{Field: k.Field, Problem: k.Problem}
	}
	return op
}

// keepable reports whether a keeper can own ranges of a kind.
func keepable(kind seam.Kind) bool { return kind != seam.KindGroup }

func describeProcess(pid int) (seam.Member, bool) { return process.Describe(pid) }

// launchDetached has a keeper start the target. The keeper chooses the owner: a
// launcher of this process would end with it.
func (r *Runtime) launchDetached(ctx context.Context, launcher owner.Launcher, name string, spec *seam.Spec) (*managed.Process, error) {
	refuse := func(code seam.Code, err error) (*managed.Process, error) {
		return nil, &seam.OpError{Op: "spawn", Argv0: spec.Argv[0], Code: code, Err: err}
	}
	if r.config.Containment == seam.KindScope {
		return refuse(seam.CodeUnsupported, &seam.FieldError{Field: "Detach",
			Problem: "can't be had with containment scope, which is bound to this process: a detached range is a cgroup in a unit of its own"})
	}
	request, err := r.resolve(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := r.prepare(ctx, launcher.Containment()); err != nil {
		return refuse(seam.CodeIO, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, keepTime, fmt.Errorf("no answer of the keeper for %v", keepTime))
	defer cancel()
	options := keepOptions{
		Name: name, WorldID: r.config.WorldID, Registry: control.Default().Dir(), SpillDir: r.config.Spill.root(),
		Kind: r.config.Containment, Grace: spec.Grace, Limits: spec.Limits, Require: spec.Require,
	}
	conn, err := r.startKeeper(ctx, &options)
	if systemd.NameTaken(err) {
		return refuse(seam.CodeNameInUse, &seam.FieldError{Field: "Name",
			Problem: fmt.Sprintf("is in use by a detached range: %q", name)})
	}
	if err != nil && ctx.Err() != nil {
		return nil, seam.Aborted(ctx, "spawn", spec.Argv[0])
	}
	if err != nil {
		return refuse(seam.CodeContainment, fmt.Errorf("start of a keeper: %w", err))
	}
	d := &detached{conn: conn, events: json.NewDecoder(conn), name: name, registry: options.Registry,
		exited: make(chan struct{}), done: make(chan struct{})}
	release := runner.Interrupt(ctx, conn)
	containment, err := d.begin(options, request)
	if release() && err != nil {
		err = seam.Aborted(ctx, "spawn", spec.Argv[0])
	}
	if err != nil {
		// Whatever it has started it ends, for want of K, and then itself.
		_ = conn.CloseWrite()
		_ = conn.SetDeadline(time.Now().Add(keepTime))
		// Not by the decoder, which keeps the error of an interrupted read.
		if _, endErr := io.Copy(io.Discard, conn); errors.Is(endErr, os.ErrDeadlineExceeded) {
			err = errors.Join(err, fmt.Errorf("its keeper did not end within %v", keepTime))
		}
		return nil, errors.Join(err, conn.Close())
	}
	d.reader.Go(d.listen)
	return managed.New(managed.Params{
		Name:        name,
		Argv:        spec.Argv,
		Containment: containment,
		Grace:       spec.Grace,
		Drain:       spec.Drain,
		Direct:      d,
		Owner:       d,
		LetGo:       func() { _ = conn.Close() },
		Proved:      func() { r.proved(name) },
		Released:    r.released,
	}), nil
}

// startKeeper starts a keeper and returns the connection to it.
func (r *Runtime) startKeeper(ctx context.Context, options *keepOptions) (*net.UnixConn, error) {
	pair, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer pair.theirs.Close()
	_, own, _, err := ownCgroup()
	inside := err == nil && strings.Contains(own, "/"+unitPrefix)
	manager := (*systemd.Manager)(nil)
	if !inside {
		if manager, err = r.selection.manager(ctx); err != nil && ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), pair.ours.Close())
		}
	}
	if manager != nil {
		options.Unit = true
		if options.Umask, err = umask(); err != nil {
			return nil, errors.Join(err, pair.ours.Close())
		}
		unit := unitPrefix + "detached-" + options.Name + ".service"
		// A range of ours that had the name is empty by now, and its unit may be
		// about to go.
		if err = manager.WaitGone(ctx, unit); err == nil {
			err = manager.StartTransient(ctx, unit, keeperUnit(options.Name, pair.theirs))
		}
	} else {
		err = runner.StartOrphan(verbKeep, pair.theirs)
	}
	if err != nil {
		return nil, errors.Join(err, pair.ours.Close())
	}
	return pair.ours, nil
}

// keeperUnit are the properties of a keeper's unit.
func keeperUnit(name string, stdin *os.File) []systemd.Property {
	type execStart struct {
		Path          string
		Argv          []string
		IgnoreFailure bool
	}
	program := fmt.Sprintf("/proc/%d/exe", os.Getpid()) // this program even when its file was replaced
	return []systemd.Property{
		{Name: "Description", Value: "Corral: keeper of " + name},
		{Name: "Type", Value: "exec"},
		{Name: "ExecStart", Value: []execStart{{program, []string{"corral-runner"}, false}}},
		{Name: "Environment", Value: []string{runner.Select(verbKeep)}},
		{Name: "StandardInputFileDescriptor", Value: dbus.UnixFD(stdin.Fd())},
		{Name: "StandardOutput", Value: "null"},
		{Name: "StandardError", Value: "null"},
		{Name: "Delegate", Value: true},
		{Name: "CollectMode", Value: "inactive-or-failed"},
		{Name: "KillMode", Value: "mixed"}, // TERM to the keeper, which ends the range
		{Name: "SendSIGKILL", Value: true},
		{Name: "OOMPolicy", Value: "continue"},
	}
}

// umask is this process's, which a process can't read without changing it but
// from proc(5) (Linux 4.7).
func umask() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "Umask:"); ok {
			mask, err := strconv.ParseInt(strings.TrimSpace(value), 8, 32)
			return int(mask), err
		}
	}
	return 0, errors.New("/proc/self/status has no Umask")
}

// pairOfSockets are both ends of a connection.
type pairOfSockets struct {
	ours   *net.UnixConn
	theirs *os.File
}

func socketPair() (pairOfSockets, error) {
	ours, theirs, err := runner.ControlPair()
	if err != nil {
		return pairOfSockets{}, err
	}
	conn, err := net.FileConn(ours)
	if err := errors.Join(err, ours.Close()); err != nil {
		return pairOfSockets{}, errors.Join(err, theirs.Close())
	}
	return pairOfSockets{ours: conn.(*net.UnixConn), theirs: theirs}, nil
}

// detached is a range that a keeper owns, as the harness sees it.
type detached struct {
	conn           *net.UnixConn
	events         *json.Decoder
	name, registry string
	keeper         process.Row // zero where it had ended

	mu     sync.Mutex
	killed time.Time // when KILL was first asked for; zero before

	reader  sync.WaitGroup
	exited  chan struct{} // closed once exit is known, or never will be
	exit    owner.Exit
	account owner.Account // valid with exit
	done    chan struct{} // closed at the end of the connection
	empty   bool          // valid once done is closed
}

var (
	_ owner.Direct  = (*detached)(nil)
	_ owner.Owner   = (*detached)(nil)
	_ owner.Limited = (*detached)(nil)
)

// Account implements [owner.Limited].
func (d *detached) Account() owner.Account {
	<-d.exited
	return d.account
}

// begin sends what is asked for, waits for the start and lets the keeper keep it.
func (d *detached) begin(options keepOptions, request owner.Request) (seam.Containment, error) {
	lost := func(err error) (seam.Containment, error) {
		return seam.Containment{}, &seam.OpError{Op: "spawn", Argv0: request.Argv[0], Code: seam.CodeContainment,
			Err: fmt.Errorf("keeper: %w", err)}
	}
	if err := json.NewEncoder(d.conn).Encode(options); err != nil {
		return lost(err)
	}
	if err := runner.WriteRequest(d.conn, request); err != nil {
		return lost(err)
	}
	var event keepEvent
	if err := d.events.Decode(&event); err != nil {
		return lost(err)
	}
	switch {
	case event.Refused != nil:
		return seam.Containment{}, event.Refused.error(request.Argv[0])
	case event.Started == nil:
		return lost(errors.New("it did not say that it started the command"))
	}
	// It waits for K, so the number is its own.
	if stat, err := process.ReadStat(event.Keeper); err == nil {
		d.keeper = process.Row{PID: event.Keeper, Stat: stat}
	}
	if _, err := d.conn.Write([]byte{commandKeep}); err != nil {
		return lost(err)
	}
	return *event.Started, nil
}

// listen takes the keeper's events until the end of the connection.
func (d *detached) listen() {
	defer close(d.done)
	known := false
	for {
		var event keepEvent
		if d.events.Decode(&event) != nil {
			break
		}
		if event.Exited != nil && !known {
			known, d.exit = true, *event.Exited
			if event.Account != nil {
				d.account = *event.Account
			}
			close(d.exited)
		}
		d.empty = d.empty || event.Empty
	}
	if !known {
		d.exit = owner.Exit{Lost: true, Code: -1}
		close(d.exited)
	}
}

// PID implements [owner.Direct]. The keeper's pid namespace may be another.
func (d *detached) PID() int { return 0 }

// Wait implements [owner.Direct].
func (d *detached) Wait() owner.Exit { <-d.exited; return d.exit }

// Exited implements [owner.Direct].
func (d *detached) Exited() (owner.Exit, bool) {
	select {
	case <-d.exited:
		return d.exit, true
	default:
		return owner.Exit{}, false
	}
}

// Release implements [owner.Direct]. The process is the keeper's.
func (d *detached) Release() error {
	_ = d.conn.Close() // it may have been let go
	d.reader.Wait()
	return nil
}

// keeperSilence is how long a keeper may be stopped again and again. The proof is
// lost with it.
const keeperSilence = 10 * time.Second

// Signal implements [owner.Owner]. A command can stop its keeper: that is
// continued, and killed where it is stopped all the same and has not answered KILL
// for a while, which ends its range.
func (d *detached) Signal(sig owner.Signal) error {
	command, wake := byte(commandTerminate), unix.SIGCONT
	if sig == owner.Kill {
		command = commandKill
		d.mu.Lock()
		if d.killed.IsZero() {
			d.killed = time.Now()
		}
		late := time.Since(d.killed) > keeperSilence
		d.mu.Unlock()
		if stat, err := process.ReadStat(d.keeper.PID); late && err == nil && stat.State == 'T' {
			wake = unix.SIGKILL
		}
	}
	if d.keeper.PID != 0 {
		_ = d.keeper.Signal(wake) // one that can't be will not answer, either
	}
	_, err := d.conn.Write([]byte{command})
	select {
	case <-d.done:
		return nil
	default:
		return err
	}
}

// errKeeperEnded: the range may have ended with it, and nobody said so.
var errKeeperEnded = errors.New("the keeper has ended, and did not say that nothing is left")

// WaitEmpty implements [owner.Owner]. The keeper has ended, too, by then.
func (d *detached) WaitEmpty(ctx context.Context) error {
	select {
	case <-d.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !d.empty {
		return errKeeperEnded
	}
	return nil
}

// Members implements [owner.Owner].
func (d *detached) Members(ctx context.Context) ([]seam.Member, error) {
	r, err := control.At(d.registry).Detached(d.name).Members(ctx)
	if err != nil {
		return nil, err
	}
	var list []seam.Member
	for i, m := range r.Members {
		if i == 0 && !r.Exited {
			continue // the command itself
		}
		list = append(list, seam.Member(m))
	}
	return list, nil
}

// Close implements [owner.Owner].
func (d *detached) Close() error { return nil }

// keep is the keeper's side.
func keep() {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		runner.Leave(1)
	}
	// What it starts must not hold the connection.
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = replaceDescriptor(null, fd)
		}
	}
	k := &keeper{conn: conn.(*net.UnixConn)}
	if err := k.run(); err != nil {
		k.tell(keepEvent{Refused: refusalOf(err)})
		runner.Leave(1)
	}
	runner.Leave(0)
}

type keeper struct{ conn *net.UnixConn }

// tell tells the harness, which may have gone.
func (k *keeper) tell(event keepEvent) { _ = json.NewEncoder(k.conn).Encode(event) }

// run sees the range to its end. An error is one of the start, and nothing lives.
func (k *keeper) run() error {
	commands := bufio.NewReader(k.conn)
	line, err := commands.ReadBytes('\n')
	if err != nil {
		return err
	}
	var options keepOptions
	if err := json.Unmarshal(line, &options); err != nil {
		return err
	}
	request, err := runner.ReadRequest(commands)
	if err != nil {
		return err
	}
	if options.Unit {
		unix.Umask(options.Umask)
	}
	name, err := control.At(options.Registry).Reserve(options.Name)
	if errors.Is(err, control.ErrNameInUse) {
		return &seam.OpError{Op: "spawn", Code: seam.CodeNameInUse,
			Err: &seam.FieldError{Field: "Name", Problem: fmt.Sprintf("is in use by a detached range: %q", options.Name)}}
	}
	if err != nil {
		return err
	}
	defer func() { _ = name.Release() }() // it is free at our end at the latest
	r, err := New(Config{WorldID: options.WorldID, Containment: options.Kind, Environ: []string{}, Spill: SpillConfig{Dir: options.SpillDir}})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close(context.Background()) }()
	r.keeps, r.selection.keeps, r.selection.ownUnit = true, true, options.Unit
	server, err := name.Listen(answers{r})
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()

	ctx := context.Background() // a harness that wants no more ends the connection
	launcher, err := r.selection.choose(ctx)
	if err != nil {
		return err
	}
	spec := seam.Spec{Argv: request.Argv, Dir: request.Dir, Grace: options.Grace, Limits: options.Limits, Require: options.Require}
	if err := permits(launcher.Containment(), &spec); err != nil {
		return err
	}
	reserved, refused := r.admit(options.Name)
	if refused != nil {
		return refused
	}
	p, err := r.launchRequest(ctx, launcher, reserved, &spec, request, func() (stdio, error) { return openStreams(&spec) })
	r.starting.Done()
	if err != nil {
		return err
	}
	r.publish(p)
	containment := launcher.Containment()
	k.tell(keepEvent{Started: &containment, Keeper: os.Getpid()})
	if command, err := commands.ReadByte(); err != nil || command != commandKeep {
		_ = p.Kill(errNotKept)
	} else {
		go obey(commands, p) // it ends with the process
	}
	defer terminateOnSignal(p)()
	if outcome, err := p.Wait(ctx); err == nil { // ctx does not end
		k.tell(keepEvent{Exited: &owner.Exit{
			Lost: outcome.End == seam.EndLost, Code: outcome.ExitCode, Signal: outcome.Signal, Usage: outcome.Usage,
		}, Account: &owner.Account{
			ReachedMemory: outcome.End == seam.EndLimitMemory, ReachedPids: outcome.End == seam.EndLimitPids,
		}})
	}
	<-p.Done()
	k.tell(keepEvent{Empty: true})
	return nil
}

var (
	errNotKept  = errors.New("the harness ended before it knew of the start")
	errStopped  = errors.New("stopped by its harness")
	errSignaled = errors.New("its keeper was asked to end")
)

// obey does what the harness asks for, as long as there is one.
func obey(commands *bufio.Reader, p *managed.Process) {
	for {
		command, err := commands.ReadByte()
		switch {
		case err != nil:
			return
		case command == commandTerminate:
			p.Terminate(errStopped)
		case command == commandKill:
			_ = p.Kill(errStopped) // the ladder repeats it
		}
	}
}

// terminateOnSignal ends the range where this process is asked to end, until stop
// is called.
func terminateOnSignal(p *managed.Process) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for range signals {
			p.Terminate(errSignaled)
		}
	})
	return func() {
		signal.Stop(signals)
		close(signals)
		waiting.Wait()
	}
}

func replaceDescriptor(with *os.File, fd int) error { return unix.Dup3(int(with.Fd()), fd, 0) }
