package seamtest_test

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"testing"

	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

func memConfig() seamtest.FSConfig {
	m := seamtest.NewMemFS("mem")
	if err := m.Mkdir("/work"); err != nil {
		panic(err)
	}
	return seamtest.FSConfig{
		FS: m, Dir: "/work",
		WriteFile: m.WriteFile, Mkdir: m.Mkdir, Symlink: m.Symlink, Mkfifo: m.Mkfifo, Remove: m.Remove,
	}
}

func TestMemFS(t *testing.T) { seamtest.TestFS(t, memConfig()) }

func TestMemFSPlanting(t *testing.T) {
	m := seamtest.NewMemFS("mem")
	for _, c := range []struct {
		name string
		got  error
		want error
	}{
		{"write makes directories", m.WriteFile("/a/b/file", nil), nil},
		{"mkdir over a directory", m.Mkdir("/a"), iofs.ErrExist},
		{"symlink over a file", m.Symlink("x", "/a/b/file"), iofs.ErrExist},
		{"mkdir of the root", m.Mkdir("/"), iofs.ErrExist},
		{"relative path", m.Mkdir("a"), iofs.ErrInvalid},
		{"below a file", m.WriteFile("/a/b/file/x", nil), iofs.ErrNotExist},
		{"remove what is absent", m.Remove("/nothing"), iofs.ErrNotExist},
		{"remove a tree", m.Remove("/a"), nil},
		{"remove it again", m.Remove("/a"), iofs.ErrNotExist},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if err := m.WriteFile("/", nil); err == nil {
		t.Error("the root was written to")
	}
}

func ExampleMemFS() {
	m := seamtest.NewMemFS("test")
	_ = m.WriteFile("/src/main.go", []byte("package main\n"))
	_ = m.Symlink("/src", "/link")

	ctx := context.Background()
	t, err := m.Resolve(ctx, "main.go", "/link")
	if err != nil {
		fmt.Println(err)
		return
	}
	path, _ := m.ProcessPath(t)
	text, err := seam.ReadText(ctx, m, t)
	fmt.Printf("%s is %s: %q %v\n", t.Display, path, text, err)
	// Output: /link/main.go is /src/main.go: "package main\n" <nil>
}
