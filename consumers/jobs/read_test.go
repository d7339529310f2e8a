package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
)

// read reads from a cursor and checks what comes.
func (b *bench) read(t *testing.T, id string, since jobs.Cursor, stdout, stderr string) jobs.Output {
	t.Helper()
	out, err := b.Read("me", id, since)
	if err != nil {
		t.Fatal(err)
	}
	if string(out.Stdout.Data) != stdout || string(out.Stderr.Data) != stderr {
		t.Errorf("from %+v: got %q and %q, want %q and %q", since, out.Stdout.Data, out.Stderr.Data, stdout, stderr)
	}
	return out
}

func TestReadByCursor(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		info := b.start(t, "me", "run", "out one ", "sleep 1s", "out two ", "err bad", "sleep 1s", "out x")
		var start jobs.Cursor
		first := b.read(t, info.ID, start, "one ", "")
		b.read(t, info.ID, first.Next, "", "")
		time.Sleep(1500 * time.Millisecond)
		second := b.read(t, info.ID, first.Next, "two ", "bad")
		b.read(t, info.ID, start, "one two ", "bad") // another reader loses nothing to the first
		b.read(t, info.ID, first.Next, "two ", "bad")
		if second.Info.Status != jobs.Running || second.Stdout.Ended {
			t.Errorf("got %+v", second)
		}
		b.wait(t, info.ID)
		third := b.read(t, info.ID, second.Next, "x", "")
		if third.Info.Status != jobs.Completed || !third.Stdout.Ended {
			t.Errorf("got %+v", third)
		}
		b.wait(t, b.start(t, "me", "run", "out another").ID)
		for range 2 {
			b.read(t, info.ID, start, "one two x", "bad")
			b.read(t, info.ID, third.Next, "", "")
		}
		beyond := b.read(t, info.ID, jobs.Cursor{Stdout: 1000, Stderr: 1000}, "", "")
		if beyond.Next != third.Next {
			t.Errorf("read on at %+v, want %+v", beyond.Next, third.Next)
		}
	})
}

// The bench keeps ten bytes of a stream.
func TestReadOfLostOutput(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		info := b.start(t, "me", "run", "out 0123456789abcde")
		b.wait(t, info.ID)
		for _, c := range []struct {
			from int64
			text string
			lost int64
		}{{0, "56789abcde", 5}, {3, "56789abcde", 2}, {5, "56789abcde", 0}, {7, "789abcde", 0}} {
			out := b.read(t, info.ID, jobs.Cursor{Stdout: c.from}, c.text, "")
			if out.Stdout.Lost != c.lost || out.Next.Stdout != 15 {
				t.Errorf("from %d: lost %d, next %d", c.from, out.Stdout.Lost, out.Next.Stdout)
			}
		}
		out := b.read(t, info.ID, jobs.Cursor{}, "56789abcde", "")
		if out.StdoutSpill.Path == "" || out.StderrSpill != (seam.Spill{}) {
			t.Fatalf("got spill %+v and %+v", out.StdoutSpill, out.StderrSpill)
		}
		file, err := b.world.FS().Resolve(t.Context(), out.StdoutSpill.Path, "")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := b.world.FS().ReadBytes(t.Context(), file, 100); err != nil || string(text) != "0123456789abcde" {
			t.Errorf("spill: got %q, %v", text, err)
		}
	})
}

func TestReadWholeCharacters(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		info := b.start(t, "me", "run", "out a\xe2\x89", "sleep 1s", "out \xa4b\xe4\xbd", "sleep 1s", "out 56789", "sleep 1s", "out \xe4")
		out := b.read(t, info.ID, jobs.Cursor{}, "a", "")
		time.Sleep(1500 * time.Millisecond)
		out = b.read(t, info.ID, out.Next, "≤b", "") // the next one is not whole yet
		time.Sleep(time.Second)
		// It never becomes whole, and that is shown as it is.
		out = b.read(t, info.ID, out.Next, "\xe4\xbd56789", "")
		b.wait(t, info.ID)
		b.read(t, info.ID, out.Next, "\xe4", "") // the end holds nothing back
		// Ten bytes are kept: the character that is cut at their front is gone.
		first := b.read(t, info.ID, jobs.Cursor{}, "b\xe4\xbd56789\xe4", "")
		if first.Stdout.Lost+int64(len(first.Stdout.Data)) != first.Next.Stdout {
			t.Errorf("got %+v", first.Stdout)
		}
	})
}

// A job has ended when nothing more of it can be read.
func TestJobEndsWithItsOutput(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		end := make(chan struct{})
		info, err := b.Start(t.Context(), jobs.Spec{Owner: "me", Kind: "run"}, func(ctx context.Context) (seam.Process, error) {
			p, err := b.launch("run")(ctx)
			return heldProcess{p, end}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.status(t, "me", info.ID, jobs.Running)
		close(end)
		if got := b.wait(t, info.ID); got.Status != jobs.Completed {
			t.Errorf("got %+v", got)
		}
	})
}

// heldProcess has outputs that do not end before end is closed: someone outside
// of the range holds them open.
type heldProcess struct {
	seam.Process
	end <-chan struct{}
}

func (p heldProcess) Output(s seam.Stream) seam.OutputReader {
	return heldOutput{p.Process.Output(s), p.end}
}

type heldOutput struct {
	seam.OutputReader
	end <-chan struct{}
}

func (o heldOutput) WaitEnd(context.Context) error {
	<-o.end
	return nil
}

// Streams that are not collected read as empty.
func TestReadOfNullStreams(t *testing.T) {
	onFakeClock(t, jobs.Config{}, func(t *testing.T, b *bench) {
		p, err := b.world.Spawn(t.Context(), seam.Spec{Argv: []string{"run", "out x"}, Dir: "/", Grace: grace})
		if err != nil {
			t.Fatal(err)
		}
		info, err := b.Adopt(jobs.Spec{Owner: "me", Kind: "run"}, p)
		if err != nil {
			t.Fatal(err)
		}
		b.wait(t, info.ID)
		if out := b.read(t, info.ID, jobs.Cursor{Stdout: 5}, "", ""); out.Next.Stdout != 5 {
			t.Errorf("got %+v", out.Next)
		}
	})
}
