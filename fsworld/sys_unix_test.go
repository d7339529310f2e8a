//go:build unix

package fsworld_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/corral-world/corral/fsworld"
	"github.com/corral-world/corral/seam"
)

const lexical = false

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o644) }

// resolve resolves an absolute path that can be.
func resolve(t *testing.T, f *fsworld.FS, path string) seam.Target {
	t.Helper()
	target, err := f.Resolve(t.Context(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestNotRegular(t *testing.T) {
	f := newFS(t)
	// A socket's path has to be short.
	dir, err := os.MkdirTemp("/tmp", "fsworld") //nolint:usetesting // t.TempDir may exceed the length of a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, path := range []string{socket, "/dev/zero", "/dev/null"} {
		target := resolve(t, f, path)
		if info, err := f.Stat(t.Context(), target); err != nil || info.Type != seam.TypeOther {
			t.Errorf("Stat %s: type %q, %v; want %q", path, info.Type, err, seam.TypeOther)
		}
		if _, err := f.ReadBytes(t.Context(), target, 10); seam.CodeOf(err) != seam.CodeNotRegular {
			t.Errorf("ReadBytes %s: %v, want code not_regular", path, err)
		}
		if _, err := seam.ReadText(t.Context(), f, target); seam.CodeOf(err) != seam.CodeNotRegular {
			t.Errorf("OpenText %s: %v, want code not_regular", path, err)
		}
		if _, err := f.List(t.Context(), target); seam.CodeOf(err) != seam.CodeNotDir {
			t.Errorf("List %s: %v, want code not_dir", path, err)
		}
		if _, err := f.Resolve(t.Context(), path+"/x", ""); seam.CodeOf(err) != seam.CodeNotFound {
			t.Errorf("Resolve below %s: %v, want code not_found", path, err)
		}
	}
}

// A FIFO that takes a file's place after it was looked at is opened for good;
// that must not wait for a writer.
func TestOpenSwapped(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := mkfifo(fifo); err != nil {
		t.Fatal(err)
	}
	file, err := fsworld.OpenFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	if _, err := fsworld.OpenDir(fifo); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("opening a FIFO as a directory: %v, want ENOTDIR", err)
	}
}

func TestResolveLoop(t *testing.T) {
	f, dir := newFS(t), tempDir(t)
	for link, target := range map[string]string{"a": "b", "b": "a", "self": "self/x"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"a", "self", "a/x"} {
		_, err := f.Resolve(t.Context(), path, dir)
		if seam.CodeOf(err) != seam.CodeIO || !errors.Is(err, syscall.ELOOP) {
			t.Errorf("Resolve %s: %v, want ELOOP", path, err)
		}
	}
	if info, err := f.Lstat(t.Context(), "a", dir); err != nil || info.Type != seam.TypeSymlink {
		t.Errorf("Lstat a: %+v, %v; want a symlink", info, err)
	}
}

func TestResolveRoot(t *testing.T) {
	f := newFS(t)
	for _, path := range []string{"/", "//", "/..", "/.", "/../.."} {
		if target := resolve(t, f, path); target.Key != "/" || target.Display != "/" {
			t.Errorf("Resolve %s: %+v", path, target)
		}
	}
	if _, err := f.List(t.Context(), resolve(t, f, "/")); err != nil {
		t.Errorf("List /: %v", err)
	}
}

func TestTrailingSeparator(t *testing.T) {
	f, dir := newFS(t), tempDir(t)
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want := resolve(t, f, filepath.Join(dir, "file"))
	if got := resolve(t, f, filepath.Join(dir, "file")+"//"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNameIsBytes(t *testing.T) {
	f, dir := newFS(t), tempDir(t)
	name := "caf\xe9?*\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
		t.Skipf("this filesystem wants names in UTF-8: %v", err)
	}
	entries, err := f.List(t.Context(), resolve(t, f, dir))
	if err != nil || len(entries) != 1 || entries[0].Name != name {
		t.Fatalf("List: %+v, %v", entries, err)
	}
	if data, err := f.ReadBytes(t.Context(), entries[0].Target, 1); err != nil || string(data) != "x" {
		t.Errorf("ReadBytes: %q, %v", data, err)
	}
	uri, err := f.FileURI(entries[0].Target)
	if want := fsworld.PosixURI(dir) + "/caf%E9%3F*%0A"; err != nil || uri != want {
		t.Errorf("FileURI: %s, %v; want %s", uri, err, want)
	}
}

func TestPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root is denied nothing")
	}
	f, dir := newFS(t), tempDir(t)
	locked := filepath.Join(dir, "locked")
	unsearchable := filepath.Join(dir, "unsearchable")
	for _, d := range []string{locked, unsearchable} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "file"), []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("locked/file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	file := resolve(t, f, filepath.Join(locked, "file"))
	if _, err := f.ReadBytes(t.Context(), file, 1); seam.CodeOf(err) != seam.CodePermission || !errors.Is(err, os.ErrPermission) {
		t.Errorf("ReadBytes of mode 0: %v, want code permission", err)
	}
	lockedTarget, unsearchableTarget := resolve(t, f, locked), resolve(t, f, unsearchable)
	for d, mode := range map[string]os.FileMode{locked: 0, unsearchable: 0o600} {
		if err := os.Chmod(d, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(d, 0o755) })
	}
	if _, err := f.Resolve(t.Context(), filepath.Join(locked, "file"), ""); seam.CodeOf(err) != seam.CodePermission {
		t.Errorf("Resolve: %v, want code permission", err)
	}
	if _, err := f.Stat(t.Context(), file); seam.CodeOf(err) != seam.CodePermission {
		t.Errorf("Stat: %v, want code permission", err)
	}
	if _, err := f.List(t.Context(), lockedTarget); seam.CodeOf(err) != seam.CodePermission {
		t.Errorf("List: %v, want code permission", err)
	}
	if _, err := f.List(t.Context(), unsearchableTarget); seam.CodeOf(err) != seam.CodePermission {
		t.Errorf("List with children that may not be looked at: %v, want code permission", err)
	}
	// A link to where one may not look is not a reason to hide its siblings.
	entries, err := f.List(t.Context(), resolve(t, f, dir))
	if err != nil || len(entries) != 3 {
		t.Fatalf("List: %+v, %v; want three entries", entries, err)
	}
	if link := entries[0]; link.Name != "link" || link.Info.Type != seam.TypeSymlink || link.Target.Key != filepath.Join(dir, "link") {
		t.Errorf("the link is listed as %+v", link)
	}
}
