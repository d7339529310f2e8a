package local_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// The benchmarks run Corral and its named peer in turn, A B A B, so that what
// the machine does meanwhile falls on both, and report the ratio of medians:
// Corral's time over the peer's, below 1 where Corral is faster.

// BenchmarkSpawn is spawn to proven empty of true(1), beside os/exec's Run.
func BenchmarkSpawn(b *testing.B) {
	r := openRuntime(b, local.Config{})
	truePath, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	spec := seam.Spec{Argv: []string{truePath}, Dir: "/", Grace: time.Second}
	alternate(b,
		func() {
			p, err := r.Spawn(b.Context(), spec)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := p.WaitEmpty(b.Context()); err != nil {
				b.Fatal(err)
			}
		},
		func() {
			cmd := exec.Command(truePath)
			cmd.Dir = "/"
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		})
}

// BenchmarkCollect is the collection of a stream, beside io.Copy of the same
// stream to a file.
func BenchmarkCollect(b *testing.B) {
	const streamBytes = 256 << 20
	argv := []string{"head", "-c", strconv.Itoa(streamBytes), "/dev/zero"}
	dir := b.TempDir()
	toFile := func() {
		cmd := exec.Command(argv[0], argv[1:]...)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		f, err := os.Create(filepath.Join(dir, "copy"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(f, stdout); err != nil || n != streamBytes {
			b.Fatalf("copied %d bytes, %v", n, err)
		}
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		output seam.Output
	}{
		{"tail", seam.Output{Mode: seam.Collect, MaxBytes: 256 << 10}},
		{"spill", seam.Output{Mode: seam.Collect, MaxBytes: 256 << 10, SpillMaxBytes: streamBytes}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(streamBytes)
			alternate(b, func() {
				// A runtime for each stream, as its spill is the runtime's.
				r := openRuntime(b, local.Config{Spill: local.SpillConfig{Dir: dir}})
				p, err := r.Spawn(b.Context(), seam.Spec{Argv: argv, Dir: "/", Grace: time.Second, Drain: time.Minute, Stdout: c.output})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				if got := p.Output(seam.Stdout).ReadFrom(0).Next(); got != streamBytes {
					b.Fatalf("collected %d bytes", got)
				}
				if err := r.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
			}, toFile)
		})
	}
}

// alternate times ours and the peer's in turn.
func alternate(b *testing.B, ours, peers func()) {
	b.Helper()
	peers() // what the first run of anything costs is nobody's
	ours()
	var our, peer []time.Duration
	for b.Loop() {
		our = append(our, timed(ours))
		b.StopTimer()
		peer = append(peer, timed(peers))
		b.StartTimer()
	}
	b.ReportMetric(float64(median(our))/float64(median(peer)), "x-peer")
	b.ReportMetric(float64(median(peer).Nanoseconds()), "peer-ns/op")
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
