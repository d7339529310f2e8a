package local_test

import (
	"context"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// collect runs a script whose stdout is collected, and returns its reader.
func collect(t *testing.T, r *local.Runtime, output seam.Output, script string) seam.OutputReader {
	t.Helper()
	output.Mode = seam.Collect
	p, err := r.Spawn(t.Context(), seam.Spec{
		Argv: []string{"sh", "-c", script}, Dir: "/", Grace: time.Second, Drain: 10 * time.Second, Stdout: output})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Output(seam.Stdout).WaitEnd(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p.Output(seam.Stdout)
}

func TestSpillIsCompleteOrWithdrawn(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name      string
		output    seam.Output
		quota     int64
		bytes     string
		withdrawn string // "" if the file is to be complete
	}{
		{name: "complete", output: seam.Output{MaxBytes: 1000, SpillMaxBytes: 2 * mib}, bytes: "1M"},
		{name: "exactly at its bound", output: seam.Output{MaxBytes: 1000, SpillMaxBytes: mib}, bytes: "1M"},
		{name: "beyond its bound", output: seam.Output{MaxBytes: 1000, SpillMaxBytes: mib - 1}, bytes: "1M", withdrawn: "exceeds 1048575 bytes"},
		{name: "beyond the quota", output: seam.Output{MaxBytes: 1000, SpillMaxBytes: 2 * mib}, quota: mib - 1, bytes: "1M", withdrawn: "quota of 1048575 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			r := openRuntime(t, local.Config{Spill: local.SpillConfig{Dir: dir, QuotaBytes: c.quota}})
			output := collect(t, r, c.output, "yes 'some text' | head -c "+c.bytes)
			whole := strings.Repeat("some text\n", mib/10+1)[:mib]
			window := output.ReadFrom(0)
			if got, want := string(window.Data), whole[mib-1000:]; got != want {
				t.Errorf("tail: got %q, want %q", got, want)
			}
			spill := output.Spill()
			if c.withdrawn != "" {
				if spill.Path != "" || spill.Withdrawn == nil || !strings.Contains(spill.Withdrawn.Error(), c.withdrawn) {
					t.Errorf("got %+v, want it withdrawn: %s", spill, c.withdrawn)
				}
				if files, _ := filepath.Glob(filepath.Join(dir, "*", "*.log")); len(files) > 0 {
					t.Errorf("left %v", files)
				}
				return
			}
			got, err := os.ReadFile(spill.Path)
			if err != nil || sha256.Sum256(got) != sha256.Sum256([]byte(whole)) {
				t.Errorf("spill of %d bytes, %v", len(got), err)
			}
			info, err := os.Stat(spill.Path)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if info, err := os.Stat(filepath.Dir(spill.Path)); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("directory mode %v, %v", info.Mode(), err)
			}
		})
	}
}

// A withdrawn file gives its bytes back to the quota.
func TestWithdrawnSpillFreesQuota(t *testing.T) {
	r := openRuntime(t, local.Config{Spill: local.SpillConfig{QuotaBytes: 1 << 20}})
	output := seam.Output{MaxBytes: 1000, SpillMaxBytes: 900 << 10}
	for range 3 {
		if spill := collect(t, r, output, "yes | head -c 1M").Spill(); spill.Withdrawn == nil {
			t.Fatalf("got %+v, want it withdrawn", spill)
		}
	}
	if spill := collect(t, r, output, "yes | head -c 800K").Spill(); spill.Path == "" {
		t.Errorf("got %+v, want a file", spill)
	}
}

// A full disk withdraws the file and says so; the tail is whole.
func TestFullDiskWithdrawsSpill(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small filesystem takes root")
	}
	dir := t.TempDir()
	if output, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no small filesystem can be mounted here: %v %s", err, output)
	}
	t.Cleanup(func() {
		if output, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, output)
		}
	})
	r := openRuntime(t, local.Config{Spill: local.SpillConfig{Dir: dir}})
	output := collect(t, r, seam.Output{MaxBytes: 4, SpillMaxBytes: 1 << 20}, "yes | head -c 1M")
	if spill := output.Spill(); spill.Path != "" || spill.Withdrawn == nil || !strings.Contains(spill.Withdrawn.Error(), "no space left") {
		t.Errorf("got %+v, want it withdrawn for want of space", spill)
	}
	if got := string(output.ReadFrom(0).Data); got != "y\ny\n" {
		t.Errorf("tail %q", got)
	}
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestSpillDirectoryLife(t *testing.T) {
	dir := t.TempDir()
	output := seam.Output{MaxBytes: 10, SpillMaxBytes: 1 << 20}
	entries := func() int {
		t.Helper()
		found, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	open := func(config local.SpillConfig) *local.Runtime {
		config.Dir = dir
		return openRuntime(t, local.Config{Spill: config})
	}
	closeRuntime := func(r *local.Runtime) {
		t.Helper()
		if err := r.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}

	live := open(local.SpillConfig{})
	if entries() != 0 {
		t.Error("a runtime that spills nothing has a directory")
	}
	path := collect(t, live, output, "seq 100").Spill().Path

	// A directory as a runtime leaves it that was killed: no lock is held.
	dead := filepath.Join(dir, filepath.Base(filepath.Dir(path))+"9")
	if err := os.Mkdir(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"owner.lock", "1-x-stdout.log"} {
		if err := os.WriteFile(filepath.Join(dead, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "corral-other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}

	second := open(local.SpillConfig{Keep: time.Hour})
	if err := second.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("a dead runtime's directory was not swept: %v", err)
	}
	for _, left := range []string{path, other} {
		if _, err := os.Stat(left); err != nil {
			t.Errorf("swept what is alive or a stranger's: %v", err)
		}
	}
	kept := collect(t, second, output, "seq 100").Spill().Path
	closeRuntime(second)
	closeRuntime(live)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("Close left %s: %v", path, err)
	}

	closeRuntime(started(t, open(local.SpillConfig{})))
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("a file that is to be kept was swept: %v", err)
	}
	// The oldest goes when the kept files outgrow the next runtime's quota.
	closeRuntime(started(t, open(local.SpillConfig{QuotaBytes: 1})))
	if _, err := os.Stat(kept); !os.IsNotExist(err) {
		t.Errorf("kept files have no bound: %v", err)
	}
	if entries() != 1 {
		t.Errorf("%d entries left, want the stranger's alone", entries())
	}
}

func started(t *testing.T, r *local.Runtime) *local.Runtime {
	t.Helper()
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// A character that is split between writes and reads arrives whole.
func TestCharactersStayWhole(t *testing.T) {
	r := openRuntime(t, local.Config{})
	script := `awk 'BEGIN { for (i = 0; i < 66667; i++) printf "\344\275\240" }' | dd bs=7 status=none`
	output := collect(t, r, seam.Output{MaxBytes: 100_000, SpillMaxBytes: 1 << 20}, script)
	window := output.ReadFrom(0).WholeRunes()
	if got, want := string(window.Data), strings.Repeat("你", 33333); got != want {
		t.Errorf("got %d bytes, want %d of whole characters", len(got), len(want))
	}
	if window.Lost+int64(len(window.Data)) != 200_001 {
		t.Errorf("lost %d and got %d of 200001 bytes", window.Lost, len(window.Data))
	}
}

// Output that is given up frees the quota, and its offsets stay.
func TestDiscardFreesQuota(t *testing.T) {
	dir := t.TempDir()
	r := openRuntime(t, local.Config{Spill: local.SpillConfig{Dir: dir, QuotaBytes: 1 << 20}})
	output := seam.Output{MaxBytes: 1000, SpillMaxBytes: 900 << 10}
	for range 3 {
		reader := collect(t, r, output, "yes | head -c 800K")
		if spill := reader.Spill(); spill.Path == "" {
			t.Fatalf("got %+v, want a file", spill)
		}
		reader.(seam.Discarder).Discard()
		if spill := reader.Spill(); spill.Path != "" || spill.Withdrawn == nil {
			t.Errorf("got %+v, want it gone, with the reason", spill)
		}
		if w := reader.ReadFrom(0); len(w.Data) != 0 || w.Lost != 800<<10 || !w.Ended {
			t.Errorf("got %d bytes, lost %d", len(w.Data), w.Lost)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*", "*.log")); len(files) > 0 {
		t.Errorf("left %v", files)
	}
}
