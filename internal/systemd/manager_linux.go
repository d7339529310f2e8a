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
	late    sync.WaitGroup

	mu   sync.Mutex
	jobs map[string]chan string // results of jobs that are waited for, by unit
}

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
		jobs:    make(map[string]chan string),
	}
	signals := make(chan *dbus.Signal, 64)
	conn.Signal(signals)
	go m.deliver(signals) // ends when conn does; Close joins it
	err = conn.AddMatchSignalContext(ctx,
		dbus.WithMatchSender(busName), dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("JobRemoved"))
	if err == nil {
		err = m.call(ctx, "Subscribe").Err
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("subscribe to the systemd manager: %w", err)
	}
	return m, nil
}

// connect dials and authenticates, within ctx's time. The connection lives on
// after it.
func connect(ctx context.Context, socket string) (*dbus.Conn, error) {
	stream, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	interrupt := context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) })
	conn, err := dbus.ConnectUnix(stream.(*net.UnixConn))
	if !interrupt() {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		_ = stream.Close()
		return nil, err
	}
	return conn, nil
}

// Close ends the connection. Calls under way fail with ErrLost.
func (m *Manager) Close() {
	m.late.Wait()
	_ = m.conn.Close()
	<-m.lost
}

// Lost is closed when the connection has ended.
func (m *Manager) Lost() <-chan struct{} { return m.lost }

// deliver hands results of jobs to who waits for them.
func (m *Manager) deliver(signals <-chan *dbus.Signal) {
	defer close(m.lost)
	for s := range signals {
		var id uint32
		var job dbus.ObjectPath
		var unit, result string
		if s.Name != managerInterface+".JobRemoved" || dbus.Store(s.Body, &id, &job, &unit, &result) != nil {
			continue
		}
		m.mu.Lock()
		if waiter, ok := m.jobs[unit]; ok {
			delete(m.jobs, unit)
			waiter <- result // which holds one, and gets one
		}
		m.mu.Unlock()
	}
}

func (m *Manager) call(ctx context.Context, method string, args ...any) *dbus.Call {
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
// put into the unit and calls [Manager.Forget].
func (m *Manager) StartTransient(ctx context.Context, unit string, properties []Property) error {
	var list []busProperty
	for _, p := range properties {
		list = append(list, busProperty{p.Name, dbus.MakeVariant(p.Value)})
	}
	result := make(chan string, 1)
	m.mu.Lock()
	m.jobs[unit] = result
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.jobs, unit)
	}()
	if err := m.call(ctx, "StartTransientUnit", unit, "fail", list, []auxiliaryUnit{}).Err; err != nil {
		return m.explain(ctx, "start "+unit, err)
	}
	select {
	case got := <-result:
		if got != "done" {
			return fmt.Errorf("start %s: its job %s", unit, got)
		}
		return nil
	case <-m.lost:
		return fmt.Errorf("start %s: %w", unit, ErrLost)
	case <-ctx.Done():
		return fmt.Errorf("start %s: %w", unit, context.Cause(ctx))
	}
}

func (m *Manager) explain(ctx context.Context, operation string, err error) error {
	select {
	case <-m.lost:
		return fmt.Errorf("%s: %w", operation, ErrLost)
	default:
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", operation, context.Cause(ctx))
	}
	return fmt.Errorf("%s: %w", operation, err)
}

// ReadOnlyProperty reports whether err says that the manager knows no such
// property, or lets nobody set it.
func ReadOnlyProperty(err error) bool {
	var busError dbus.Error
	return errors.As(err, &busError) && busError.Name == "org.freedesktop.DBus.Error.PropertyReadOnly"
}

// Stop stops a unit. That there is none is no error.
func (m *Manager) Stop(ctx context.Context, unit string) error {
	err := m.call(ctx, "StopUnit", unit, "fail").Err
	var busError dbus.Error
	if err == nil || errors.As(err, &busError) && strings.HasSuffix(busError.Name, ".NoSuchUnit") {
		return nil
	}
	return m.explain(ctx, "stop "+unit, err)
}

// Forget stops a unit whose start failed, in the background. The manager takes
// a connection's calls in order, so a start that is still under way is undone
// too. It is bounded by ctx, whose cancel it calls at its end; Close waits for it.
func (m *Manager) Forget(ctx context.Context, unit string, cancel context.CancelFunc) {
	m.late.Go(func() {
		defer cancel()
		_ = m.Stop(ctx, unit) // what a lost manager had ended with it
	})
}

// ControlGroup returns the path of a service's cgroup in the hierarchy.
func (m *Manager) ControlGroup(ctx context.Context, service string) (string, error) {
	var unit dbus.ObjectPath
	if err := m.call(ctx, "GetUnit", service).Store(&unit); err != nil {
		return "", m.explain(ctx, "find "+service, err)
	}
	var path string
	err := m.conn.Object(busName, unit).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0,
		"org.freedesktop.systemd1.Service", "ControlGroup").Store(&path)
	if err != nil {
		return "", m.explain(ctx, "cgroup of "+service, err)
	}
	return path, nil
}

// Version is what the manager says of itself.
func (m *Manager) Version() string {
	v, err := m.manager.GetProperty(managerInterface + ".Version")
	if err != nil {
		return ""
	}
	version, _ := v.Value().(string)
	return version
}
