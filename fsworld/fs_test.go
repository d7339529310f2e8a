package fsworld_test

import (
	"context"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/fsworld"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

func newFS(t testing.TB) *fsworld.FS {
	t.Helper()
	f, err := fsworld.New("host")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFS(t *testing.T) {
	cfg := seamtest.FSConfig{
		FS:        newFS(t),
		Dir:       tempDir(t),
		Separator: string(filepath.Separator),
		Lexical:   lexical,
		WriteFile: func(path string, data []byte) error { return os.WriteFile(path, data, 0o644) },
		Mkdir:     func(path string) error { return os.Mkdir(path, 0o755) },
		Symlink:   os.Symlink,
		Mkfifo:    mkfifo,
		Remove:    os.Remove,
		SetModTime: func(path string, modified time.Time) error {
			return os.Chtimes(path, modified, modified)
		},
	}
	if err := os.Symlink("x", filepath.Join(t.TempDir(), "probe")); err != nil {
		t.Logf("no symbolic links: %v", err) // Windows asks for a privilege
		cfg.Symlink = nil
	}
	seamtest.TestFS(t, cfg)
}

// tempDir is t.TempDir under a name that the contract's cases may take for
// canonical.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestNew(t *testing.T) {
	if f := newFS(t); f.WorldID() != "host" {
		t.Errorf("WorldID() = %q", f.WorldID())
	}
	_, err := fsworld.New("")
	if seam.CodeOf(err) != seam.CodeInvalid || !errors.Is(err, iofs.ErrInvalid) {
		t.Errorf("New of no world: %v, want code invalid", err)
	}
}

func TestTargetKey(t *testing.T) {
	f := newFS(t)
	for _, key := range []string{"", "relative", filepath.Join(t.TempDir(), "x") + "\x00", t.TempDir() + string(filepath.Separator) + "."} {
		_, err := f.Stat(t.Context(), seam.Target{WorldID: "host", Key: key, Display: "/shown"})
		if seam.CodeOf(err) != seam.CodeInvalid {
			t.Errorf("key %q: %v, want code invalid", key, err)
		}
	}
}

func TestCodeOf(t *testing.T) {
	for err, want := range map[error]seam.Code{
		syscall.ENOENT:        seam.CodeNotFound,
		syscall.ENOTDIR:       seam.CodeNotFound,
		syscall.EACCES:        seam.CodePermission,
		syscall.EPERM:         seam.CodePermission,
		errors.ErrUnsupported: seam.CodeUnsupported,
		syscall.EIO:           seam.CodeIO,
		syscall.ENAMETOOLONG:  seam.CodeIO,
		&iofs.PathError{Op: "open", Err: iofs.ErrNotExist}: seam.CodeNotFound,
	} {
		if got := fsworld.CodeOf(err); got != want {
			t.Errorf("%v: code %q, want %q", err, got, want)
		}
	}
}

func TestErrorNamesPathOnce(t *testing.T) {
	f := newFS(t)
	path := filepath.Join(tempDir(t), "missing")
	target, err := f.Resolve(t.Context(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Stat(t.Context(), target)
	if err == nil || !strings.HasPrefix(err.Error(), "stat ") || strings.Count(err.Error(), "missing") != 1 {
		t.Errorf("Stat: %v", err)
	}
}

func TestInterruptOn(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if r.SetReadDeadline(time.Time{}) != nil {
		t.Skip("no deadlines on pipes")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer fsworld.InterruptOn(ctx, r)()
	cancel()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: %v, want an expired deadline", err)
	}
}
