package systemd_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/systemd"
)

// socket is the bus of the manager that this user may ask; the test is skipped
// where there is none.
func socket(t *testing.T) string {
	t.Helper()
	path, err := systemd.UserBus()
	if err != nil && os.Getuid() == 0 {
		path, err = systemd.SystemBus()
	}
	if errors.Is(err, systemd.ErrNoBus) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func dial(t *testing.T) *systemd.Manager {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	m, err := systemd.Dial(ctx, socket(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// systemctl runs systemctl for the manager that dial reaches.
func systemctl(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := systemd.UserBus(); err == nil {
		args = append([]string{"--user"}, args...)
	}
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemctl %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// checkNoUnit: the manager knows no unit of that name, in whatever state.
func checkNoUnit(t *testing.T, name string) {
	t.Helper()
	if got := systemctl(t, "list-units", "--all", "--plain", "--no-legend", name); got != "" {
		t.Errorf("there is a unit: %s", got)
	}
}

// unitName is one that no other test uses.
func unitName(t *testing.T) string {
	return "corral-test-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())) + ".scope"
}

// sleeper starts a process to be put into units.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	return cmd
}

func scopeOf(pids ...int) []systemd.Property {
	list := make([]uint32, len(pids))
	for i, pid := range pids {
		list[i] = uint32(pid)
	}
	return []systemd.Property{
		{Name: "PIDs", Value: list},
		{Name: "CollectMode", Value: "inactive-or-failed"},
		{Name: "KillSignal", Value: int32(9)},
	}
}

func TestStartAndStop(t *testing.T) {
	m, name, cmd := dial(t), unitName(t), sleeper(t)
	if err := m.StartTransient(t.Context(), name, scopeOf(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "cgroup"))
	if err != nil || !strings.Contains(string(data), "/"+name+"\n") {
		t.Errorf("the process is in %q, %v", data, err)
	}
	if err := m.Stop(t.Context(), name); err != nil {
		t.Error(err)
	}
	checkNoUnit(t, name)
	if err := cmd.Wait(); err == nil {
		t.Error("the process lived on")
	}
	if err := m.Stop(t.Context(), name); err != nil {
		t.Errorf("stopping what is not there: %v", err)
	}
	if err := m.WaitGone(t.Context(), name); err != nil {
		t.Errorf("waiting for the end of what is not there: %v", err)
	}
}

// A unit that runs empty is collected, and WaitGone tells when.
func TestWaitGone(t *testing.T) {
	m, name, cmd := dial(t), unitName(t), sleeper(t)
	if err := m.StartTransient(t.Context(), name, scopeOf(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := m.WaitGone(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while something lives in it: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitGone(t.Context(), name); err != nil {
		t.Error(err)
	}
	checkNoUnit(t, name)
}

func TestDeadProcess(t *testing.T) {
	m, name, cmd := dial(t), unitName(t), exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := m.StartTransient(t.Context(), name, scopeOf(cmd.Process.Pid)); err == nil {
		t.Error("a dead process was put into a scope")
	}
	checkNoUnit(t, name)
}

// A zombie is put into no scope, which the job does not say, and the scope is
// never collected: Stop ends it.
func TestZombie(t *testing.T) {
	m, name, cmd := dial(t), unitName(t), sleeper(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	stat := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "stat")
	for data := ""; !strings.Contains(data, ") Z "); {
		b, err := os.ReadFile(stat)
		if err != nil {
			t.Fatal(err)
		}
		data = string(b)
	}
	if err := m.StartTransient(t.Context(), name, scopeOf(cmd.Process.Pid)); err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := m.WaitGone(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
			t.Logf("this manager collects it: %v", err)
		}
	}
	if err := m.Stop(t.Context(), name); err != nil {
		t.Error(err)
	}
	checkNoUnit(t, name)
}

func TestNameTaken(t *testing.T) {
	m, name, first, second := dial(t), unitName(t), sleeper(t), sleeper(t)
	if err := m.StartTransient(t.Context(), name, scopeOf(first.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	var busError dbus.Error
	err := m.StartTransient(t.Context(), name, scopeOf(second.Process.Pid))
	if !errors.As(err, &busError) || busError.Name != "org.freedesktop.systemd1.UnitExists" {
		t.Errorf("got %v", err)
	}
	for _, cmd := range []*exec.Cmd{first, second} {
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("process %d: %v", cmd.Process.Pid, err)
		}
	}
	if err := m.Stop(t.Context(), name); err != nil {
		t.Error(err)
	}
	checkNoUnit(t, name)
	if err := m.StartTransient(t.Context(), name, scopeOf(second.Process.Pid)); err != nil {
		t.Errorf("the name of a unit that is gone: %v", err)
	}
	if err := m.Stop(t.Context(), name); err != nil {
		t.Error(err)
	}
}

func TestBadProperties(t *testing.T) {
	m, name, cmd := dial(t), unitName(t), sleeper(t)
	unknown := append(scopeOf(cmd.Process.Pid), systemd.Property{Name: "NoSuchProperty", Value: "x"})
	if err := m.StartTransient(t.Context(), name, unknown); !systemd.ReadOnlyProperty(err) {
		t.Errorf("an unknown property: %v", err)
	}
	if err := m.StartTransient(t.Context(), name, scopeOf()); err == nil || systemd.ReadOnlyProperty(err) {
		t.Errorf("no processes: %v", err)
	}
	checkNoUnit(t, name)
}

// A call that ran out of time is carried out later, and undone by Stop.
func TestCallCarriedOutLater(t *testing.T) {
	m, name, cmd := dial(t), unitName(t), sleeper(t)
	pid := managerPID(t)
	if pid == 1 {
		t.Skip("the system's first process can't be stopped")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := m.StartTransient(ctx, name, scopeOf(cmd.Process.Pid))
	if contErr := syscall.Kill(pid, syscall.SIGCONT); contErr != nil {
		t.Fatal(contErr)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := m.Stop(t.Context(), name); err != nil {
		t.Error(err)
	}
	// The process was in the unit, or the unit was stopped before it was: it is
	// for whoever started it to end it.
	checkNoUnit(t, name)
}

// managerPID is the manager's own process.
func managerPID(t *testing.T) int {
	t.Helper()
	conn, err := dbus.Connect("unix:path=" + socket(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var pid uint32
	err = conn.BusObject().Call("org.freedesktop.DBus.GetConnectionUnixProcessID", 0, "org.freedesktop.systemd1").Store(&pid)
	if err != nil {
		t.Fatal(err)
	}
	return int(pid)
}

// When the connection ends calls say so at once, units live on, and another
// connection reaches the manager.
func TestConnectionLost(t *testing.T) {
	m, name, cmd := dial(t), unitName(t), sleeper(t)
	if err := m.StartTransient(t.Context(), name, scopeOf(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- m.WaitGone(context.Background(), name) }() // joined below
	loseConnections(t)
	if err := <-waiting; !errors.Is(err, systemd.ErrLost) {
		t.Errorf("waiting for a unit's end: %v", err)
	}
	<-m.Lost()
	if err := m.Stop(t.Context(), name); !errors.Is(err, systemd.ErrLost) {
		t.Errorf("stop on a lost connection: %v", err)
	}
	if err := m.StartTransient(t.Context(), "corral-test-other.scope", scopeOf(cmd.Process.Pid)); !errors.Is(err, systemd.ErrLost) {
		t.Errorf("start on a lost connection: %v", err)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the unit's process: %v", err)
	}
	if err := dial(t).Stop(t.Context(), name); err != nil {
		t.Error(err)
	}
	checkNoUnit(t, name)
}

// loseConnections ends every connection of this process to the bus.
func loseConnections(t *testing.T) {
	t.Helper()
	path := socket(t)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		peer, err := unix.Getpeername(fd)
		if address, ok := peer.(*unix.SockaddrUnix); err == nil && ok && address.Name == path {
			if err := unix.Shutdown(fd, unix.SHUT_RDWR); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The numbers that we would tell the manager of another pid namespace are those
// of strangers, so it is refused.
func TestForeignManager(t *testing.T) {
	path := socket(t)
	if os.Getenv("TEST_IN_NAMESPACE") != "" {
		m, err := systemd.Dial(t.Context(), path)
		if !errors.Is(err, systemd.ErrForeign) {
			t.Errorf("got %v, %v", m, err)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("making a pid namespace takes root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", self, "-test.run=^TestForeignManager$", "-test.v")
	cmd.Env = append(os.Environ(), "TEST_IN_NAMESPACE=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestForeignManager") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A bus that hangs costs the caller's time and no more.
func TestDialIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	listener, err := net.Listen("unix", path) // which accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := systemd.Dial(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
