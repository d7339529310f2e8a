package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-world/corral/fsworld"
	"github.com/corral-world/corral/internal/testproc"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

func TestMain(m *testing.M) {
	testproc.Main()
	if err := local.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Every kind of containment that this host gives passes the one contract.
func TestSubprocess(t *testing.T) {
	for _, kind := range kindsHere(t, seam.KindScope, seam.KindCgroup, seam.KindReaper, seam.KindGroup) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			seamtest.TestSubprocess(t, contract(t, kind))
		})
	}
}

func TestTerminal(t *testing.T) {
	for _, kind := range kindsHere(t, seam.KindScope, seam.KindCgroup, seam.KindReaper, seam.KindGroup) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			seamtest.TestTerminal(t, contract(t, kind))
		})
	}
}

// need skips where this host does not give a kind, and says why.
func need(t *testing.T, kind seam.Kind) {
	t.Helper()
	if len(kindsHere(t, kind)) == 0 {
		t.Skipf("%s is not tried on this test host", kind)
	}
	r, err := local.New(local.Config{WorldID: "probe", Containment: kind, Spill: local.SpillConfig{Dir: t.TempDir()}})
	if err != nil {
		t.Skip(err)
	}
	_, err = r.Containment(t.Context())
	if closeErr := r.Close(context.Background()); closeErr != nil {
		t.Fatal(closeErr)
	}
	if seam.CodeOf(err) == seam.CodeContainment {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// contract is what a runtime of a kind is held to.
func contract(t *testing.T, kind seam.Kind) seamtest.SubprocessConfig {
	const worldID = "test"
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fs, err := fsworld.New(worldID)
	if err != nil {
		t.Fatal(err)
	}
	return seamtest.SubprocessConfig{
		New: func() (seam.Subprocess, error) {
			return local.New(local.Config{
				WorldID:     worldID,
				Containment: kind,
				Environ:     append(os.Environ(), seamtest.Environ()...),
				Spill:       local.SpillConfig{Dir: dir},
			})
		},
		Close:     func(ctx context.Context, s seam.Subprocess) error { return s.(*local.Runtime).Close(ctx) },
		Program:   testproc.Command,
		Dir:       dir,
		PlainFile: plain,
		FS:        fs,
	}
}
