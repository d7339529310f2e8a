//go:build unix

package control_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/control"
	"github.com/corral-world/corral/seam"
)

// ranges is a backend with live ranges by name, each with what stopping it gives.
type ranges struct {
	mu   sync.Mutex
	live map[string]error
	by   []int
}

func (r *ranges) Ranges(context.Context) (list []control.Range) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.live {
		list = append(list, control.Range{Name: name, Argv: []string{"a", "\u6f22"}, Kind: seam.KindGroup, Started: time.Now()})
	}
	return list
}

var errForever = errors.New("not before the asker has gone")

func (r *ranges) Stop(ctx context.Context, name string, _ bool, peer int) error {
	r.mu.Lock()
	err, ok := r.live[name]
	r.by = append(r.by, peer)
	r.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("%w: %q", control.ErrNoRange, name)
	case errors.Is(err, errForever):
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

// isolate gives the test registries of its own.
func isolate(t *testing.T, dir string) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", dir)
}

func listen(t *testing.T, live map[string]error) (*control.Server, *ranges) {
	t.Helper()
	backend := &ranges{live: live}
	server, err := control.Default().Listen(backend)
	if err != nil {
		t.Fatal(err)
	}
	return server, backend
}

// find returns the runtime that has the range.
func find(t *testing.T, name string) *control.Runtime {
	t.Helper()
	runtimes, err := control.Runtimes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range runtimes {
		for _, found := range r.Ranges {
			if found.Name == name {
				return &runtimes[i]
			}
		}
	}
	t.Fatalf("no range %s in %+v", name, runtimes)
	return nil
}

func TestListAndStop(t *testing.T) {
	for name, dir := range map[string]string{
		"a short path":                  t.TempDir(),
		"a path longer than an address": filepath.Join(t.TempDir(), strings.Repeat("d", 200)),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			isolate(t, dir)
			unproven := &seam.UnprovenError{Reason: errors.New("they live")}
			server, backend := listen(t, map[string]error{"ends": nil, "lives": unproven, "forever": errForever})
			r := find(t, "ends")
			if r.Owner != os.Getpid() {
				t.Errorf("owner %d, want %d", r.Owner, os.Getpid())
			}
			if err := r.Stop(t.Context(), "ends", false); err != nil {
				t.Error(err)
			}
			if len(backend.by) != 1 || backend.by[0] != os.Getpid() {
				t.Errorf("asked by %v", backend.by)
			}
			var refused *control.Error
			if err := r.Stop(t.Context(), "lives", false); !errors.As(err, &refused) || refused.Code != control.CodeUnproven || !strings.Contains(refused.Text, "they live") {
				t.Errorf("got %v", err)
			}
			if err := r.Stop(t.Context(), "other", false); !errors.Is(err, control.ErrNoRange) {
				t.Errorf("got %v", err)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errEnough)
			defer cancel()
			if err := r.Stop(ctx, "forever", false); !errors.Is(err, errEnough) {
				t.Errorf("got %v", err)
			}
			if err := server.Close(); err != nil { // joins what waited for "forever"
				t.Error(err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("left: %v, %v", entries, err)
			}
		})
	}
}

var errEnough = errors.New("enough")

// Whoever connects can only get answers: nothing that they send or hold back
// keeps others from theirs, or the server from its end.
func TestHostileClients(t *testing.T) {
	isolate(t, t.TempDir())
	server, _ := listen(t, map[string]error{"one": nil})
	sockets, err := filepath.Glob(filepath.Join(control.Default().Dir(), "*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatal(sockets, err)
	}
	var conns []net.Conn
	for _, sent := range []string{"", "\x00\xff", "{", `{"op":"list"`, `{"op":7}`, strings.Repeat("[", 100_000), `{"op":"nonsense"}` + "\n", "\n\n\n"} {
		conn, err := net.Dial("unix", sockets[0])
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = conn.Write([]byte(sent)) }() // ends at the latest when conn is closed
		conns = append(conns, conn)
	}
	find(t, "one")
	began := time.Now()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// A runtime that died has left its socket: it is no runtime, and swept once it
// can't be one that is only starting.
func TestDeadRuntimes(t *testing.T) {
	isolate(t, t.TempDir())
	server, _ := listen(t, nil)
	defer server.Close()
	for _, name := range []string{"dead.sock", "detached-dead.sock"} {
		path := filepath.Join(control.Default().Dir(), name)
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		listener.SetUnlinkOnClose(false)
		_ = listener.Close()
		for _, age := range []time.Duration{0, time.Hour} {
			then := time.Now().Add(-age)
			if err := os.Chtimes(path, then, then); err != nil {
				t.Fatal(err)
			}
			runtimes, err := control.Runtimes(t.Context())
			if err != nil || slices.ContainsFunc(runtimes, func(r control.Runtime) bool { return r.Owner == 0 }) {
				t.Errorf("%s: got %+v, %v", name, runtimes, err)
			}
			if _, err := os.Lstat(path); (err == nil) != (age == 0) {
				t.Errorf("%s of age %v: %v", name, age, err)
			}
		}
	}
}

// A directory that others could have made or changed is none of ours.
func TestForeignDirectoriesAreRefused(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"open to others": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o770))
		},
		"a link": func(path string) error {
			return errors.Join(os.Mkdir(path+"2", 0o700), os.Symlink(path+"2", path))
		},
		"a file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			isolate(t, dir)
			if err := make(filepath.Join(dir, "corral")); err != nil {
				t.Fatal(err)
			}
			if server, err := control.Default().Listen(&ranges{}); err == nil {
				_ = server.Close()
				t.Error("listened")
			}
			if _, err := control.Default().Reserve("web"); err == nil {
				t.Error("took a name")
			}
		})
	}
}

// A name has one holder at a time, however many want it.
func TestNames(t *testing.T) {
	isolate(t, t.TempDir())
	const rounds, workers = 50, 8
	var holders, most int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				name, err := control.Default().Reserve("web")
				if errors.Is(err, control.ErrNameInUse) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				holders++
				most = max(most, holders)
				mu.Unlock()
				mu.Lock()
				holders--
				mu.Unlock()
				if err := name.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d holders at once", most)
	}
}
