//go:build unix

package managed_test

import (
	"os"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/seam"
)

// At an interruption a pipe that others hold open is read as far as it is full.
func TestPipeHeldOutsideIsReadToTheCut(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	text := make([]byte, 50_000)
	text[len(text)-1] = 'z'
	if _, err := writer.Write(text); err != nil {
		t.Fatal(err)
	}
	c := managed.NewCollector(managed.CollectorParams{Source: managed.PipeSource{File: reader}, MaxBytes: 1 << 20})
	p := newProcess(managed.Params{Collectors: [2]*managed.Collector{c, nil}, Drain: time.Millisecond})
	p.exit()
	p.owner.end()
	<-p.Done()
	if w := c.ReadFrom(0); len(w.Data) != len(text) || w.Data[len(text)-1] != 'z' || !w.Ended || !w.Cut {
		t.Errorf("%d bytes of %d, ended %v, cut %v", len(w.Data), len(text), w.Ended, w.Cut)
	}
}

// A pipe that ends by itself is not cut, though it ends during the drain.
func TestPipeEnds(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := managed.NewCollector(managed.CollectorParams{Source: managed.PipeSource{File: reader}, MaxBytes: 10})
	p := newProcess(managed.Params{Collectors: [2]*managed.Collector{nil, c}, Drain: time.Hour})
	p.owner.end()
	p.exit()
	if err := p.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString("late"); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if w := p.Output(seam.Stderr).ReadFrom(0); string(w.Data) != "late" || !w.Ended || w.Cut {
		t.Errorf("%+v, want all of it, not cut", w)
	}
}
