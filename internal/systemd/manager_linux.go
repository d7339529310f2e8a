package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

const (
	busName          = "org.freedesktop.systemd1"
	objectPath       = dbus.ObjectPath("/org/freedesktop/systemd1")
	managerInterface = "org.freedesktop.systemd1.Manager"
)

// Errors of a manager that callers branch on.
var (
	// ErrNoBus is matched where there is no bus to reach a manager by.
	ErrNoBus = errors.New("no bus of a systemd manager")

	// ErrLost is matched by calls whose connection ended under them. Whether
	// the manager carried them out is not known.
	ErrLost = errors.New("connection to the systemd manager lost")

	// ErrForeign is matched where the manager is of another pid namespace, as
	// for a container that was given its host's bus: the numbers that we would
	// tell it are those of other processes there.
	ErrForeign = errors.New("the systemd manager is of another pid namespace")
)

// UserBus returns the socket of the user's bus. It is never taken from
// DBUS_SESSION_BUS_ADDRESS, which may name any bus, and nothing is started to
// have one.
func UserBus() (socket string, err error) {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return "", fmt.Errorf("%w: XDG_RUNTIME_DIR is not set", ErrNoBus)
	}
	return present(filepath.Join(dir, "bus"))
}

// SystemBus returns the socket of the system's bus, where systemd is the
// system's first process.
func SystemBus() (socket string, err error) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return "", fmt.Errorf("%w: the system was not booted with systemd", ErrNoBus)
	}
	return present("/run/dbus/system_bus_socket")
}

func present(socket string) (string, error) {
	if _, err := os.Stat(socket); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoBus, err)
	}
	return socket, nil
}

// Manager is a connection to a manager. All methods may be called concurrently.
// One goroutine delivers its signals; it ends with the connection and is joined
// by Close.
type Manager struct {
	conn    *dbus.Conn
	manager dbus.BusObject
	lost    chan struct{} // closed when the connection has ended
	calls   chan struct{} // holds a token for each call under way

	mu    sync.Mutex
	units map[string]*unit // those that are waited for, by name
}

// A unit is what a manager has told of one.
type unit struct {
	job  chan string   // holds the result of its first job
	gone chan struct{} // closed when the manager has forgotten it
}

// maxCalls bounds the calls under way: a bus bounds the replies that a
// connection waits for, the system's to 128, and answers more with an error.
const maxCalls = 64

// Dial connects to a bus and makes sure that a manager answers. ctx bounds the
// dialling.
func Dial(ctx context.Context, socket string) (*Manager, error) {
	conn, err := connect(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	m := &Manager{
		conn:    conn,
		manager: conn.Object(busName, objectPath),
		lost:    make(chan struct{}),
		calls:   make(chan struct{}, maxCalls),
		units:   make(map[string]*unit),
	}
	signals := make(chan *dbus.Signal, 64)
	conn.Signal(signals)
	go m.deliver(signals) // ends when conn does; Close joins it
	if err := m.begin(ctx); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// begin makes sure that the manager is one whose process numbers are ours, and
// subscribes to its signals.
func (m *Manager) begin(ctx context.Context) error {
	var pid uint32
	bus := m.conn.BusObject()
	err := bus.CallWithContext(ctx, "org.freedesktop.DBus.GetConnectionUnixProcessID", 0, m.conn.Names()[0]).Store(&pid)
	if err != nil {
		return m.explain(ctx, "ask the bus who we are", err)
	}
	if int(pid) != os.Getpid() {
		return ErrForeign
	}
	for _, member := range []string{"JobRemoved", "UnitRemoved"} {
		err := m.conn.AddMatchSignalContext(ctx,
			dbus.WithMatchSender(busName), dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember(member))
		if err != nil {
			return m.explain(ctx, "subscribe to the bus", err)
		}
	}
	if err := m.call(ctx, "Subscribe").Err; err != nil {
		return m.explain(ctx, "subscribe to the systemd manager", err)
	}
	return nil
}

// connect dials and authenticates, within ctx's time. The connection lives on
// after it.
func connect(ctx context.Context, socket string) (*dbus.Conn, error) {
	stream, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(stream.(*net.UnixConn)); err != nil {
		_ = stream.Close()
		return nil, err
	}
	interrupt := context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) })
	conn, err := dbus.ConnectUnix(stream.(*net.UnixConn))
	inTime := interrupt()
	if inTime && err == nil {
		return conn, nil
	}
	_ = stream.Close() // which ends conn, where there is one
	if !inTime {
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%w: %w", ErrLost, err)
}

// checkPeer refuses a bus that this pid namespace does not see.
func checkPeer(stream *net.UnixConn) error {
	conn, err := stream.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var optErr error
	if err := conn.Control(func(fd uintptr) {
		peer, optErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if optErr != nil {
		return os.NewSyscallError("getsockopt", optErr)
	}
	if peer.Pid == 0 {
		return ErrForeign
	}
	return nil
}

// Close ends the connection. Calls under way fail with ErrLost.
func (m *Manager) Close() {
	_ = m.conn.Close()
	<-m.lost
}

// Lost is closed when the connection has ended.
func (m *Manager) Lost() <-chan struct{} { return m.lost }

// deliver hands what the manager tells to who waits for it. A connection that was
// lost before signals was known to it does not close signals.
func (m *Manager) deliver(signals <-chan *dbus.Signal) {
	defer close(m.lost)
	for {
		select {
		case s, ok := <-signals:
			if !ok {
				return
			}
			m.handle(s)
		case <-m.conn.Context().Done():
			return
		}
	}
}

func (m *Manager) handle(s *dbus.Signal) {
	var id uint32
	var path dbus.ObjectPath
	var name, result string
	switch s.Name {
	case managerInterface + ".JobRemoved":
		if dbus.Store(s.Body, &id, &path, &name, &result) == nil {
			m.jobRemoved(name, result)
		}
	case managerInterface + ".UnitRemoved":
		if dbus.Store(s.Body, &name, &path) == nil {
			m.unitRemoved(name)
		}
	}
}

func (m *Manager) jobRemoved(name, result string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.units[name]; u != nil {
		select {
		case u.job <- result:
		default: // a later job
		}
	}
}

func (m *Manager) unitRemoved(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.units[name]; u != nil {
		close(u.gone)
		delete(m.units, name)
	}
}

// watch remembers what is told of a unit from now on.
func (m *Manager) watch(name string) *unit {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.units[name]
	if u == nil {
		u = &unit{job: make(chan string, 1), gone: make(chan struct{})}
		m.units[name] = u
	}
	return u
}

func (m *Manager) unwatch(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.units, name)
}

func (m *Manager) call(ctx context.Context, method string, args ...any) *dbus.Call {
	select {
	case m.calls <- struct{}{}:
	case <-ctx.Done():
		return &dbus.Call{Err: ctx.Err()}
	}
	defer func() { <-m.calls }()
	return m.manager.CallWithContext(ctx, managerInterface+"."+method, 0, args...)
}

// A Property is a property of a unit, by the manager's own name and type.
type Property struct {
	Name  string
	Value any
}

type busProperty struct {
	Name  string
	Value dbus.Variant
}

type auxiliaryUnit struct {
	Name       string
	Properties []busProperty
}

// StartTransient starts a unit and waits until its job is done. Names are
// unique by construction; one that is taken is an error.
//
// After an error the unit may exist, or may come to exist: a call that ran out
// of time here is still carried out there. The caller ends what it would have
// put into the unit and then calls [Manager.Stop].
func (m *Manager) StartTransient(ctx context.Context, name string, properties []Property) error {
	var list []busProperty
	for _, p := range properties {
		list = append(list, busProperty{p.Name, dbus.MakeVariant(p.Value)})
	}
	u := m.watch(name)
	err := m.start(ctx, u, name, list)
	if err != nil {
		m.unwatch(name)
	}
	return err
}

func (m *Manager) start(ctx context.Context, u *unit, name string, list []busProperty) error {
	operation := "start " + name
	if err := m.call(ctx, "StartTransientUnit", name, "fail", list, []auxiliaryUnit{}).Err; err != nil {
		return m.explain(ctx, operation, err)
	}
	ended := func(result string) error {
		if result != "done" {
			return fmt.Errorf("%s: its job %s", operation, result)
		}
		return nil
	}
	select {
	case result := <-u.job:
		return ended(result)
	case <-u.gone:
		select {
		case result := <-u.job: // both were there
			return ended(result)
		default:
			return fmt.Errorf("%s: it ended at once", operation)
		}
	case <-m.lost:
		return fmt.Errorf("%s: %w", operation, ErrLost)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", operation, context.Cause(ctx))
	}
}

// explain tells apart what the manager answered, that the caller's time is over,
// and that there was no answer.
func (m *Manager) explain(ctx context.Context, operation string, err error) error {
	var answer dbus.Error
	switch {
	case errors.As(err, &answer):
		return fmt.Errorf("%s: %w", operation, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", operation, context.Cause(ctx))
	default:
		// A write can fail before the reader has seen the end.
		m.Close()
		return fmt.Errorf("%s: %w: %w", operation, ErrLost, err)
	}
}

// ReadOnlyProperty reports whether err says that the manager knows no such
// property, or lets nobody set it.
func ReadOnlyProperty(err error) bool {
	var busError dbus.Error
	return errors.As(err, &busError) && busError.Name == "org.freedesktop.DBus.Error.PropertyReadOnly"
}

// NameTaken reports whether a unit could not be made because there is one of its
// name.
func NameTaken(err error) bool {
	var busError dbus.Error
	return errors.As(err, &busError) && busError.Name == "org.freedesktop.systemd1.UnitExists"
}

// Stop stops a unit and returns once the manager has forgotten it. That there
// is none is no error. The manager takes a connection's calls in order, so it
// undoes a start, too, that was given up here and is still under way there.
func (m *Manager) Stop(ctx context.Context, name string) error {
	u := m.watch(name)
	// "replace": a start that is under way must not stand against it.
	err := m.call(ctx, "StopUnit", name, "replace").Err
	var busError dbus.Error
	if err == nil {
		return m.awaitGone(ctx, u, "stop "+name)
	}
	m.unwatch(name)
	if errors.As(err, &busError) && strings.HasSuffix(busError.Name, ".NoSuchUnit") {
		return nil
	}
	return m.explain(ctx, "stop "+name, err)
}

// WaitGone returns nil once the manager has forgotten a unit that this
// connection has started.
func (m *Manager) WaitGone(ctx context.Context, name string) error {
	m.mu.Lock()
	u := m.units[name]
	m.mu.Unlock()
	if u == nil {
		return nil
	}
	return m.awaitGone(ctx, u, "end of "+name)
}

func (m *Manager) awaitGone(ctx context.Context, u *unit, operation string) error {
	select {
	case <-u.gone:
		return nil
	case <-m.lost:
		return fmt.Errorf("%s: %w", operation, ErrLost)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", operation, context.Cause(ctx))
	}
}

// ControlGroup returns the path of a service's cgroup in the hierarchy.
func (m *Manager) ControlGroup(ctx context.Context, service string) (string, error) {
	var object dbus.ObjectPath
	if err := m.call(ctx, "GetUnit", service).Store(&object); err != nil {
		return "", m.explain(ctx, "find "+service, err)
	}
	var path string
	err := m.conn.Object(busName, object).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0,
		"org.freedesktop.systemd1.Service", "ControlGroup").Store(&path)
	if err != nil {
		return "", m.explain(ctx, "cgroup of "+service, err)
	}
	return path, nil
}
