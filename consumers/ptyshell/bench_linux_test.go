package ptyshell_test

import (
	"bytes"
	"context"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// BenchmarkSend is a send of true until the prompt, beside bash's own time: the
// same line typed on the same kind of terminal, until the prompt's last byte is
// read. Reports what the send takes longer.
func BenchmarkSend(b *testing.B) {
	bench := newBench(b, seam.KindGroup)
	bench.open()
	bare := newBareShell(b)
	var ours, own []time.Duration
	for b.Loop() {
		began := time.Now()
		bare.run("true\r")
		own = append(own, time.Since(began))
		began = time.Now()
		result, err := bench.session.Send(b.Context(), line("true"))
		ours = append(ours, time.Since(began))
		if err != nil || result.Reason != ptyshell.ReasonPrompt {
			b.Fatalf("%s, %v", result.Render(), err)
		}
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	slices.Sort(ours)
	slices.Sort(own)
	p50, p99 := len(ours)/2, len(ours)*99/100
	b.ReportMetric(ms(own[p50]), "bash-p50-ms")
	b.ReportMetric(ms(ours[p50]-own[p50]), "over-p50-ms")
	b.ReportMetric(ms(ours[p99]-own[p99]), "over-p99-ms")
}

// A bareShell is bash on a terminal, and a loop that reads it.
type bareShell struct {
	testing.TB
	terminal seam.Terminal
	buf      []byte
}

func newBareShell(b testing.TB) *bareShell {
	runtime, err := local.New(local.Config{WorldID: "bare", Containment: seam.KindGroup, Environ: []string{"PATH=" + os.Getenv("PATH"), "TERM=dumb", "PS1=READY"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := runtime.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	terminal, err := runtime.SpawnTerminal(b.Context(), seam.TerminalSpec{
		Argv: []string{"bash", "--noprofile", "--norc", "-i"}, Dir: "/", Cols: 160, Rows: 40, Grace: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	s := &bareShell{TB: b, terminal: terminal, buf: make([]byte, 32<<10)}
	s.run("")
	return s
}

func (s *bareShell) run(text string) {
	if _, err := s.terminal.Write([]byte(text)); err != nil {
		s.Fatal(err)
	}
	var seen []byte
	for !bytes.HasSuffix(seen, []byte("READY")) {
		n, err := s.terminal.Read(s.buf)
		if err != nil {
			s.Fatal(err)
		}
		seen = append(seen, s.buf[:n]...)
	}
}

// BenchmarkIdle is what 100 sessions that nobody sends to cost this process, in
// processor time and in context switches.
func BenchmarkIdle(b *testing.B) {
	const sessions, period = 100, 2 * time.Second
	bench := newBench(b, seam.KindGroup)
	for range sessions {
		bench.open()
	}
	usage := func() (u syscall.Rusage) {
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u
	}
	time.Sleep(500 * time.Millisecond) // what their start left to do
	var cpu, switches, seconds float64
	for b.Loop() {
		before := usage()
		time.Sleep(period)
		after := usage()
		cpu += float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano()) / 1e6
		switches += float64(after.Nvcsw - before.Nvcsw)
		seconds += period.Seconds()
	}
	b.ReportMetric(cpu/seconds, "cpu-ms/s")
	b.ReportMetric(switches/seconds, "switches/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOutput is output that a session keeps, beside a loop that reads it
// from the same kind of terminal. Reports the session's rate over the loop's.
func BenchmarkOutput(b *testing.B) {
	const command = "head -c 4000000 /dev/zero | tr '\\0' x | fold -w 79"
	bench := newBench(b, seam.KindGroup)
	bench.open()
	bare := newBareShell(b)
	b.SetBytes(4_000_000 / 79 * 81)
	var ours, loop []time.Duration
	for b.Loop() {
		began := time.Now()
		bare.run(command + "\r")
		loop = append(loop, time.Since(began))
		began = time.Now()
		if result, err := bench.session.Send(b.Context(), line(command)); err != nil || result.Reason != ptyshell.ReasonPrompt {
			b.Fatalf("%s, %v", result.Render(), err)
		}
		ours = append(ours, time.Since(began))
	}
	slices.Sort(ours)
	slices.Sort(loop)
	b.ReportMetric(float64(loop[len(loop)/2])/float64(ours[len(ours)/2]), "of-the-loop's-rate")
}
