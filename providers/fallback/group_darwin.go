package fallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/runner"
	"github.com/corral-world/corral/seam"
)

func groupEscapes() []string {
	return []string{
		"a process that leaves its process group (setsid, setpgid, daemons)",
		"everything, when the harness is killed before it can end its ranges",
	}
}

// Launch implements [owner.Launcher].
func (g Group) Launch(_ context.Context, r owner.Request) (owner.Direct, owner.Owner, error) {
	direct, err := runner.Start(r)
	if err != nil {
		return nil, nil, err
	}
	return direct, &group{leader: direct, session: darwinGroup{direct.PID()}}, nil
}

// table: the system lists a process group by itself.
type table struct{}

// darwinGroup is a process group: the system tells no session of a process.
type darwinGroup struct{ pgid int }

// States of a process (sys/proc.h).
const stateZombie = 5

func (g darwinGroup) members() ([]member, error) {
	table, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", g.pgid)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil, nil
		}
		return nil, fmt.Errorf("sysctl kern.proc.pgrp: %w", err)
	}
	var members []member
	for _, row := range table {
		if row.Proc.P_stat == stateZombie {
			continue
		}
		started := time.Unix(row.Proc.P_starttime.Unix())
		members = append(members, member{
			identity: identity{int(row.Proc.P_pid), uint64(started.UnixMicro())},
			name:     unix.ByteSliceToString(row.Proc.P_comm[:]),
		})
	}
	return members, nil
}

// last: the system does not tell.
func (g darwinGroup) last() (int, error) { return 0, nil }

func (g darwinGroup) missed(int) (bool, error) { return false, nil }

func (g darwinGroup) inGroup(member) bool { return true }

func (g darwinGroup) signalGroup(sig owner.Signal) error {
	signals := []unix.Signal{unix.SIGKILL}
	if sig == owner.Terminate {
		signals = []unix.Signal{unix.SIGTERM, unix.SIGCONT}
	}
	for _, n := range signals {
		if err := unix.Kill(-g.pgid, n); err != nil && err != unix.ESRCH {
			return fmt.Errorf("signal process group %d: %w", g.pgid, err)
		}
	}
	return nil
}

// member is a process as it was found.
type member struct {
	identity
	name string
}

// signal is never needed: every member is in the group.
func (m member) signal(owner.Signal) error { return nil }

// waitExit returns nil once m has ended, and ctx's cause if that comes first.
// The watching goroutine ends with the process: a kqueue can't be unblocked.
func (m member) waitExit(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = runner.WaitExit(m.pid)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m member) describe() (seam.Member, bool) {
	return seam.Member{PID: m.pid, Argv: []string{m.name}, Started: time.UnixMicro(int64(m.started))}, true
}
