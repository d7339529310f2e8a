package local_test

import (
	"bufio"
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

// BenchmarkSpawn is spawn to proven empty of true(1), with each containment that
// the host gives, beside os/exec's Run, and for scopes beside systemd-run.
func BenchmarkSpawn(b *testing.B) {
	truePath, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	peer := func(b *testing.B, argv ...string) func() {
		return func() {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = "/"
			if output, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, output)
			}
		}
	}
	forEachKind(b, func(b *testing.B, r *local.Runtime, kind seam.Kind) {
		spec := seam.Spec{Argv: []string{truePath}, Dir: "/", Grace: time.Second}
		ours := func() { waitEmpty(b, spawn(b, r, spec)) }
		b.Run("beside-exec", func(b *testing.B) { alternate(b, ours, peer(b, truePath)) })
		if kind == seam.KindScope && os.Getuid() != 0 {
			b.Run("beside-systemd-run", func(b *testing.B) {
				alternate(b, ours, peer(b, "systemd-run", "--user", "--scope", "--quiet", "--collect", truePath))
			})
		}
	})
}

// BenchmarkKill is KILL to proven empty of a range of so many processes, and of
// one that re-forks without end, 200 processes at a time.
func BenchmarkKill(b *testing.B) {
	many := func(n int) []string {
		script := `trap "" TERM; i=1; while [ $i -lt ` + strconv.Itoa(n) + ` ]; do sleep 600 & i=$((i+1)); done; echo up; exec sleep 600`
		return []string{"sh", "-c", script}
	}
	adversary, err := filepath.Abs(filepath.Join("testdata", "adversary.py"))
	if err != nil {
		b.Fatal(err)
	}
	forEachKind(b, func(b *testing.B, r *local.Runtime, kind seam.Kind) {
		for _, c := range []struct {
			name string
			argv []string
		}{
			{"1", many(1)},
			{"10", many(10)},
			{"1000", many(1000)},
			{"bomb", []string{"python3", "-S", "-E", adversary, "fast-bomb", "bench"}},
		} {
			b.Run(c.name, func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					b.StopTimer()
					p := spawn(b, r, seam.Spec{Argv: c.argv, Dir: "/", Grace: time.Second,
						Stdin: seam.Stdin{Mode: seam.Pipe}, Stdout: seam.Output{Mode: seam.Pipe}})
					if line, err := bufio.NewReader(p.Stdout()).ReadString('\n'); err != nil {
						b.Fatalf("%q, %v", line, err)
					}
					b.StartTimer()
					took = append(took, timed(func() {
						r.KillAll()
						waitEmpty(b, p)
					}))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
			})
		}
	})
}

// BenchmarkEmpty is the last exit to WaitEmpty, as far as this process learns of
// the exit: from the direct result to the proof.
func BenchmarkEmpty(b *testing.B) {
	forEachKind(b, func(b *testing.B, r *local.Runtime, kind seam.Kind) {
		var took []time.Duration
		for b.Loop() {
			p := spawn(b, r, seam.Spec{Argv: []string{"true"}, Dir: "/", Grace: time.Second})
			if _, err := p.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
			took = append(took, timed(func() { waitEmpty(b, p) }))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	})
}

// forEachKind runs a benchmark with each containment that the host gives.
func forEachKind(b *testing.B, run func(b *testing.B, r *local.Runtime, kind seam.Kind)) {
	for _, kind := range []seam.Kind{seam.KindCgroup, seam.KindScope, seam.KindReaper, seam.KindGroup} {
		b.Run(string(kind), func(b *testing.B) {
			r := openRuntime(b, local.Config{Containment: kind})
			if _, err := r.Containment(b.Context()); err != nil {
				b.Skip(err)
			}
			run(b, r, kind)
		})
	}
}

func spawn(b *testing.B, r *local.Runtime, spec seam.Spec) seam.Process {
	b.Helper()
	p, err := r.Spawn(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func waitEmpty(b *testing.B, p seam.Process) {
	b.Helper()
	if err := p.WaitEmpty(b.Context()); err != nil {
		b.Fatal(err)
	}
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
