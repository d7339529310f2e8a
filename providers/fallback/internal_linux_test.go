package fallback

import (
	"errors"
	"os"
	"testing"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/internal/runner"
)

// A real session can't be made to show these orders of events, so they are
// shown to the owner by a fake one.

type fakeLeader struct{ lost bool }

func (fakeLeader) PID() int     { return 1 << 30 }
func (l fakeLeader) Lost() bool { return l.lost }

// fakeSession answers each look with the next of its tables, the last one again
// and again.
type fakeSession struct {
	tables  [][]member
	err     error
	looks   int
	forking bool           // something is forked during each look
	signals []owner.Signal // to the group
}

func (s *fakeSession) last() (int, error) { return 0, nil }

func (s *fakeSession) missed(int) (bool, error) { return s.forking, nil }

func (s *fakeSession) members() ([]member, error) {
	table := s.tables[min(s.looks, len(s.tables)-1)]
	s.looks++
	return table, s.err
}

func (s *fakeSession) signalGroup(sig owner.Signal) error {
	s.signals = append(s.signals, sig)
	return nil
}

func (*fakeSession) inGroup(member) bool { return false }

// gone is a process that can't be: its number is above every system's.
var gone = member{identity: identity{pid: 1 << 30, started: 1}}

func TestNothingMustBeFoundTwice(t *testing.T) {
	s := &fakeSession{tables: [][]member{{}, {gone}, {}, {}}}
	if err := (&group{leader: fakeLeader{}, session: s}).WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.looks != 4 {
		t.Errorf("proved after %d looks, want 4: the first empty one is followed by a member", s.looks)
	}
}

// What forks faster than it can be looked at is not taken for nothing.
func TestForkingIsNoProof(t *testing.T) {
	s := &fakeSession{tables: [][]member{{}}, forking: true}
	g := &group{leader: fakeLeader{}, session: s}
	if err := g.WaitEmpty(t.Context()); !errors.Is(err, errStillForking) {
		t.Errorf("got %v", err)
	}
	s.forking = false
	if err := g.WaitEmpty(t.Context()); err != nil {
		t.Errorf("once it is still: %v", err)
	}
}

func TestNoSignalAfterProof(t *testing.T) {
	s := &fakeSession{tables: [][]member{{}}}
	g := &group{leader: fakeLeader{}, session: s}
	if err := g.Signal(owner.Terminate); err != nil {
		t.Fatal(err)
	}
	if err := g.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	looks := s.looks
	for _, sig := range []owner.Signal{owner.Terminate, owner.Kill} {
		if err := g.Signal(sig); err != nil {
			t.Error(err)
		}
	}
	if len(s.signals) != 1 || s.looks != looks {
		t.Errorf("after the proof: signals %v, %d looks", s.signals[1:], s.looks-looks)
	}
}

func TestLostLeaderPinsNoGroup(t *testing.T) {
	s := &fakeSession{tables: [][]member{{gone}, {}}}
	if err := (&group{leader: fakeLeader{lost: true}, session: s}).Signal(owner.Kill); err != nil {
		t.Fatal(err)
	}
	if len(s.signals) > 0 {
		t.Error("signalled a process group whose number may be a stranger's")
	}
}

func TestUnreadableTableIsNoProof(t *testing.T) {
	s := &fakeSession{tables: [][]member{{}}, err: errForeignProc}
	g := &group{leader: fakeLeader{}, session: s}
	if err := g.WaitEmpty(t.Context()); !errors.Is(err, errForeignProc) {
		t.Errorf("got %v", err)
	}
	if err := g.Signal(owner.Kill); !errors.Is(err, errForeignProc) || len(s.signals) != 1 {
		t.Errorf("got %v after signals %v; want the group signalled all the same", err, s.signals)
	}
}

// A number that was given to another process is not what was found.
func TestSignalIsFencedByIdentity(t *testing.T) {
	self, err := process.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	stranger := member{identity: identity{pid: os.Getpid(), started: self.Started - 1}}
	if err := stranger.signal(owner.Kill); err != nil {
		t.Errorf("got %v", err)
	}
}

// Descendants that left the session are adopted from who is known by its start
// time, and from nobody else, and stay known when they have lost their parent.
func TestStraysAreAdoptedByIdentity(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	direct, err := runner.Start(owner.Request{
		Path: "/bin/sh", Argv: []string{"sh", "-c", "setsid --wait sleep 600 & wait"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
		Stdio: [3]*os.File{null, null, null},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &linuxSession{leader: direct, strays: make(map[process.Identity]bool)}
	stat, err := process.ReadStat(direct.PID())
	if err != nil {
		t.Fatal(err)
	}
	leader := member{identity: identity{direct.PID(), stat.Started}}
	var found []member
	for len(found) == 0 { // it ends with the test's time
		found = s.findStrays([]member{leader})
	}
	t.Cleanup(func() {
		for _, m := range found {
			if err := m.signal(owner.Kill); err != nil {
				t.Error(err)
			}
		}
		if err := direct.Kill(); err != nil {
			t.Error(err)
		}
		direct.Wait()
		if err := direct.Release(); err != nil {
			t.Error(err)
		}
	})
	if len(found) != 1 {
		t.Fatalf("found %+v, want sleep", found)
	}

	recycled := leader
	recycled.started++
	clear(s.strays)
	if got := s.findStrays([]member{recycled}); len(got) > 0 {
		t.Errorf("a stranger with the leader's number donates %+v", got)
	}
	stray := process.Identity{PID: found[0].pid, Started: found[0].started}
	s.strays[stray] = true
	s.strays[process.Identity{PID: stray.PID, Started: stray.Started + 1}] = true
	if got := s.findStrays(nil); len(got) != 1 || got[0] != found[0] {
		t.Errorf("without its parents: %+v, want %+v", got, found)
	}
	if len(s.strays) != 1 {
		t.Errorf("known are %v, and one of them is another process now", s.strays)
	}
}
