package fallback

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/internal/runner"
	"github.com/corral-world/corral/seam"
)

func groupEscapes() []string {
	return []string{
		"a process that starts a session of its own (setsid, daemons)",
		"everything, when the harness is killed before it can end its ranges",
	}
}

// Launch implements [owner.Launcher].
func (g Group) Launch(_ context.Context, r owner.Request) (owner.Direct, owner.Owner, error) {
	direct, err := runner.Start(r)
	if err != nil {
		return nil, nil, err
	}
	s := &linuxSession{leader: direct, table: g.table}
	if r.Terminal {
		s.strays = make(map[process.Identity]bool)
	}
	// The leader is not reaped before the proof, so this reads its own entry.
	if stat, err := process.ReadStat(direct.PID()); err == nil {
		s.started = stat.Started
	}
	return direct, &group{leader: direct, session: s}, nil
}

// Try reports whether members can be found on this host.
func (g Group) Try() error {
	_, err := g.table.look()
	return err
}

// linuxSession finds members in /proc. The leader's zombie, and any member,
// pins the number of the session, so the number is not a stranger's.
type linuxSession struct {
	leader  *runner.Direct
	table   *table
	started uint64 // the leader's; 0 if it could not be read

	// strays are descendants that were seen to have left the session, of the
	// leader and of members. Nil where none are looked for: a terminal's range
	// has them, because who works at a terminal for hours starts much there that
	// detaches itself. Whoever left before a look, by a parent that had ended
	// by then, is not among them.
	mu     sync.Mutex // guards strays
	strays map[process.Identity]bool
}

func (s *linuxSession) members() ([]member, error) {
	sessions, err := s.table.look()
	if err != nil {
		return nil, err
	}
	sid := s.leader.PID()
	var members []member
found:
	for _, pid := range sessions[sid] {
		stat, err := process.ReadStat(pid)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ESRCH):
			continue
		case err != nil:
			return nil, err
		case stat.Session != sid || stat.Dead():
			continue
		case pid == sid && s.started != 0 && stat.Started != s.started:
			// Someone else reaped the leader, and its number was given to the
			// leader of another session: then nothing was left of this one.
			members = nil
			break found
		}
		members = append(members, member{identity{pid, stat.Started}, stat.Group})
	}
	return append(members, s.findStrays(members)...), nil
}

// findStrays looks for descendants outside of the session. A process is known by
// its start time, so none is adopted from a stranger that has a member's number.
func (s *linuxSession) findStrays(members []member) []member {
	if s.strays == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	roots := make([]process.Identity, 0, len(members)+len(s.strays))
	for _, m := range members {
		roots = append(roots, process.Identity{PID: m.pid, Started: m.started})
	}
	roots = slices.AppendSeq(roots, maps.Keys(s.strays))
	seen := make(map[int]bool)
	var found []member
	for _, root := range roots {
		stat, err := process.ReadStat(root.PID)
		if err != nil || stat.Started != root.Started || stat.Dead() {
			delete(s.strays, root)
			continue
		}
		below := process.Descendants(root.PID, seen)
		// Only now: the root was there all the time, so they are its own.
		if again, err := process.ReadStat(root.PID); err != nil || again.Started != root.Started {
			continue
		}
		for _, row := range append(below, process.Row{PID: root.PID, Stat: stat}) {
			if seen[row.PID] {
				continue
			}
			seen[row.PID] = true
			if row.Session != s.leader.PID() {
				s.strays[row.Identity()] = true
				found = append(found, member{identity{row.PID, row.Started}, row.Group})
			}
		}
	}
	return found
}

func (s *linuxSession) last() (int, error) { return lastNumber() }

func (s *linuxSession) missed(last int) (bool, error) {
	found, still, err := newcomer(s.leader.PID(), last)
	return found || !still, err
}

func (s *linuxSession) inGroup(m member) bool { return m.group == s.leader.PID() }

func (s *linuxSession) signalGroup(sig owner.Signal) error {
	for _, n := range signalsOf(sig) {
		// ESRCH: no member of the group is left, not even a zombie.
		if err := unix.Kill(-s.leader.PID(), n); err != nil && err != unix.ESRCH {
			return fmt.Errorf("signal process group %d: %w", s.leader.PID(), err)
		}
	}
	return nil
}

// signalsOf continues what was stopped, so that it can obey.
func signalsOf(sig owner.Signal) []unix.Signal {
	if sig == owner.Terminate {
		return []unix.Signal{unix.SIGTERM, unix.SIGCONT}
	}
	return []unix.Signal{unix.SIGKILL}
}

// member is a process as it was found.
type member struct {
	identity
	group int
}

// open returns a handle of m, or nil where m is gone.
func (m member) open() (*process.Handle, error) {
	handle, err := process.Open(m.pid)
	if handle == nil || err != nil {
		return nil, err
	}
	// Only now is the number fenced: look whose it is.
	if stat, err := process.ReadStat(m.pid); err != nil || stat.Started != m.started {
		handle.Close()
		return nil, nil
	}
	return handle, nil
}

func (m member) signal(sig owner.Signal) error {
	handle, err := m.open()
	if handle == nil || err != nil {
		return err
	}
	defer handle.Close()
	for _, n := range signalsOf(sig) {
		if err := handle.Signal(n); err != nil {
			return err
		}
	}
	return nil
}

// waitExit returns nil once m has ended, and ctx's cause if that comes first.
func (m member) waitExit(ctx context.Context) error {
	handle, err := m.open()
	if handle == nil || err != nil {
		return err
	}
	defer handle.Close()
	return handle.WaitExit(ctx)
}

func (m member) describe() (seam.Member, bool) { return process.Describe(m.pid) }
