package managed_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// Who holds a collected stream open outside the range gets the drain, and then
// the stream is cut off.
func TestStreamHeldOutsideIsCutOff(t *testing.T) {
	for _, c := range []struct {
		name  string
		hurry bool
		want  time.Duration // from the proof to the end of both streams
	}{{"after the drain", false, 5 * time.Second}, {"when hurried", true, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var collectors [2]*managed.Collector
				for i := range collectors {
					reader, writer := io.Pipe()
					defer writer.Close()
					collectors[i] = managed.NewCollector(managed.CollectorParams{Source: &managed.ReaderSource{Reader: reader}, MaxBytes: 10})
					go func() { _, _ = writer.Write([]byte("before")) }() // it ends when that was read
				}
				p := newProcess(managed.Params{Collectors: collectors, Drain: 5 * time.Second})
				synctest.Wait()
				p.exit()
				time.Sleep(time.Second)
				p.owner.end()
				begin := time.Now()
				if c.hurry {
					p.Hurry()
				}
				for _, stream := range []seam.Stream{seam.Stdout, seam.Stderr} {
					if err := p.Output(stream).WaitEnd(t.Context()); err != nil {
						t.Fatal(err)
					}
					if w := p.Output(stream).ReadFrom(0); string(w.Data) != "before" || !w.Ended || !w.Cut {
						t.Errorf("%v: %+v, want what came before, cut", stream, w)
					}
				}
				<-p.Done()
				if got := time.Since(begin); got != c.want {
					t.Errorf("cut off after %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A target that does not read its data holds nothing up.
func TestFeedEndsWithRange(t *testing.T) {
	reader, writer := io.Pipe()
	defer reader.Close()
	p := newProcess(managed.Params{Feed: writer, Data: []byte("never read")})
	p.exit()
	p.owner.end()
	<-p.Done()
}

// What the owner can't tell is unproven, with its reason; asking again has it
// look again.
func TestUnproven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("nothing to be seen")
		p := newProcess(managed.Params{})
		p.owner.unclear = []error{reason, reason}
		p.exit()
		p.owner.end()
		synctest.Wait() // the first observation has failed
		if err := p.WaitEmpty(t.Context()); !errors.Is(err, seam.ErrUnproven) || !errors.Is(err, reason) {
			t.Errorf("WaitEmpty: %v, want unproven because of %v", err, reason)
		}
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Errorf("WaitEmpty again: %v", err)
		}
		<-p.Done()
	})
}

// The name of a range is free before anyone learns that it is empty.
func TestProvedComesFirst(t *testing.T) {
	var order []string
	var p *fakeProcess
	p = newProcess(managed.Params{
		Proved: func() {
			if p.WaitEmpty(ended()) == nil {
				t.Error("WaitEmpty is nil before Proved has returned")
			}
			order = append(order, "proved")
		},
		Released: func(*managed.Process, error) { order = append(order, "released") },
	})
	p.exit()
	p.owner.end()
	<-p.Done()
	if want := []string{"proved", "released"}; !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
}

// The end of the direct process is told before anyone learns of it.
func TestExitedComesFirst(t *testing.T) {
	var p *fakeProcess
	p = newProcess(managed.Params{Exited: func() {
		if _, err := p.Wait(ended()); err == nil {
			t.Error("Wait returned before Exited has")
		}
	}})
	p.exit()
	if _, err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	p.owner.end()
	<-p.Done()
}

// Insist is called when TERM was sent, and stopped with the grace; KILL does not
// wait for it, and the end of the process does.
func TestInsist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *fakeProcess
		var asked, stopped, returned time.Duration
		begin := time.Now()
		p = newProcess(managed.Params{Grace: 3 * time.Second, Insist: func(stop <-chan struct{}) {
			asked = time.Since(begin)
			if got := p.owner.sent(); !slices.Equal(got, []owner.Signal{owner.Terminate}) {
				t.Errorf("asked after %v, want TERM", got)
			}
			<-stop
			stopped = time.Since(begin)
			time.Sleep(time.Second)
			returned = time.Since(begin)
		}})
		p.owner.mortal = true
		p.exit()
		time.Sleep(time.Second)
		p.Terminate(nil)
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Error(err)
		}
		if killed := time.Since(begin); killed != 4*time.Second {
			t.Errorf("empty after %v, want 4s", killed)
		}
		<-p.Done()
		if asked != time.Second || stopped != 4*time.Second || returned != 5*time.Second || time.Since(begin) != returned {
			t.Errorf("asked after %v, stopped after %v, returned after %v, done after %v", asked, stopped, returned, time.Since(begin))
		}
	})
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(managed.Params{Grace: 3 * time.Second})
		p.owner.killErr = errors.New("not permitted")
		p.owner.members = []seam.Member{{PID: 4711}}
		p.exit()
		p.Terminate(nil)
		begin := time.Now()
		time.Sleep(3*time.Second - time.Nanosecond)
		synctest.Wait()
		if got := p.owner.sent(); !slices.Equal(got, []owner.Signal{owner.Terminate}) {
			t.Errorf("within the grace: %v, want TERM", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := p.owner.sent(); !slices.Equal(got, []owner.Signal{owner.Terminate, owner.Kill}) {
			t.Errorf("after the grace: %v, want TERM and KILL", got)
		}

		// What KILL does not end is told: who lives, and what KILL said.
		err := p.WaitEmpty(t.Context())
		if !errors.Is(err, seam.ErrUnproven) || !errors.Is(err, p.owner.killErr) || !strings.Contains(err.Error(), "4711") {
			t.Errorf("WaitEmpty: %v, want unproven, with member and reason", err)
		}
		if passed := time.Since(begin); passed < 13*time.Second || passed > 18*time.Second {
			t.Errorf("WaitEmpty answered %v after Terminate, want 10s after the grace of 3s", passed)
		}

		p.owner.end()
		if err := p.WaitEmpty(t.Context()); err != nil {
			t.Errorf("WaitEmpty after the end: %v", err)
		}
		<-p.Done()
		sent := len(p.owner.sent())
		time.Sleep(time.Minute)
		if got := len(p.owner.sent()); got != sent {
			t.Errorf("%d signals after the proof", got-sent)
		}
	})
}

// Members that become fewer are dying, however long that takes; once none goes
// for as long, they are told to live on.
func TestDyingIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		stays int // members that never go
		want  time.Duration
	}{
		{"all go", 0, 40 * time.Second},
		{"two stay", 2, 40 * time.Second}, // the eighth goes after 32s
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(managed.Params{Grace: time.Nanosecond})
				p.owner.members = make([]seam.Member, 10)
				p.exit()
				p.Terminate(nil)
				go func() { // one goes each 4s; it ends with the last
					for left := 9; left >= c.stays; left-- {
						time.Sleep(4 * time.Second)
						p.owner.setMembers(left)
					}
					if c.stays == 0 {
						p.owner.end()
					}
				}()
				begin := time.Now()
				err := p.WaitEmpty(t.Context())
				if (err == nil) != (c.stays == 0) {
					t.Errorf("got %v", err)
				}
				if got := time.Since(begin); got < c.want || got > c.want+10*time.Second {
					t.Errorf("answered after %v, want %v", got, c.want)
				}
				p.owner.end()
				<-p.Done()
			})
		})
	}
}

// Kill ends the grace, and says what sending gave.
func TestKillEndsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := newProcess(managed.Params{Grace: time.Hour})
		p.owner.mortal, p.owner.killErr = true, errors.New("one was missed")
		p.exit()
		if err := p.Kill(errors.New("a cause")); !errors.Is(err, p.owner.killErr) {
			t.Errorf("Kill: %v, want %v", err, p.owner.killErr)
		}
		<-p.Done()
		if passed := time.Since(begin); passed != 0 {
			t.Errorf("it took %v", passed)
		}
	})
}

// A direct process that someone else reaped is lost, whoever asked for its end.
func TestLost(t *testing.T) {
	p := newProcess(managed.Params{Grace: time.Hour})
	p.direct.exit = owner.Exit{Lost: true, Code: -1}
	p.Terminate(nil)
	p.exit()
	p.owner.end()
	outcome, err := p.Wait(t.Context())
	if err != nil || outcome.End != seam.EndLost || outcome.ExitCode != -1 {
		t.Errorf("outcome %+v, %v; want lost", outcome, err)
	}
	<-p.Done()
}

// A limit is told where it can have been why a command failed, and nowhere else.
func TestLimitIsToldOfFailures(t *testing.T) {
	memory, pids := owner.Account{ReachedMemory: true, PeakMemBytes: 7}, owner.Account{ReachedPids: true}
	kill := owner.Exit{Code: -1, Signal: seam.Signal{Name: "SIGKILL", Number: 9}, Usage: &seam.Usage{MaxRSSBytes: 5}}
	for _, c := range []struct {
		name      string
		account   owner.Account
		exit      owner.Exit
		terminate bool
		want      seam.EndKind
	}{
		{"success", owner.Account{ReachedMemory: true, ReachedPids: true}, owner.Exit{}, false, seam.EndExited},
		{"failure, no limit", owner.Account{PeakMemBytes: 7}, owner.Exit{Code: 1}, false, seam.EndExited},
		{"a signal, no limit", owner.Account{}, kill, false, seam.EndSignaled},
		{"killed for memory", memory, kill, false, seam.EndLimitMemory},
		{"failed for memory", memory, owner.Exit{Code: 1}, false, seam.EndLimitMemory},
		{"failed for processes", pids, owner.Exit{Code: 254}, false, seam.EndLimitPids},
		{"both", owner.Account{ReachedMemory: true, ReachedPids: true}, kill, false, seam.EndLimitMemory},
		{"terminated by us", memory, kill, true, seam.EndTerminated},
		{"lost", memory, owner.Exit{Lost: true, Code: -1}, false, seam.EndLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(managed.Params{Grace: time.Hour})
				p.owner.account, p.direct.exit = c.account, c.exit
				if c.terminate {
					p.Terminate(nil)
				}
				p.exit()
				p.owner.end()
				got, err := p.Wait(t.Context())
				if err != nil || got.End != c.want || got.ExitCode != c.exit.Code || got.Signal != c.exit.Signal {
					t.Errorf("got %+v, %v, want %s", got, err, c.want)
				}
				if c.exit.Usage != nil && (got.Usage.PeakMemBytes != c.account.PeakMemBytes || got.Usage.MaxRSSBytes != 5) {
					t.Errorf("usage %+v, want a peak of %d", got.Usage, c.account.PeakMemBytes)
				}
				<-p.Done()
			})
		})
	}
}

// A detached range that was asked to end is seen to its end.
func TestAbandonedOrTerminated(t *testing.T) {
	for _, terminated := range []bool{false, true} {
		left := false
		var p *fakeProcess
		p = newProcess(managed.Params{Grace: time.Minute, LetGo: func() {
			left = true
			p.exit()
			p.owner.end() // as an owner that is let go answers at once
		}})
		if terminated {
			p.Terminate(nil)
		}
		if abandoned := p.Abandon(); abandoned == terminated || left == terminated {
			t.Errorf("terminated %v: abandoned %v, let go %v", terminated, abandoned, left)
		}
		if terminated {
			p.exit()
			p.owner.end()
		}
		<-p.Done()
	}
}
