package fallback

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// table looks at the processes of this pid namespace for all ranges together:
// who asks while a look is under way shares the next one with everyone else who
// does. Three hundred ranges that end at once cost a few looks, not hundreds.
type table struct {
	looking sync.Mutex // held during a look

	mu   sync.Mutex
	next *look // that no one has begun; nil where no one waits
}

// A look is the result of one.
type look struct {
	once     sync.Once
	sessions map[int][]int // numbers of processes, by session
	err      error
}

// look returns every process by its session, as found by a look that began
// after the call.
func (t *table) look() (map[int][]int, error) {
	t.mu.Lock()
	if t.next == nil {
		t.next = new(look)
	}
	l := t.next
	t.mu.Unlock()
	l.once.Do(func() {
		t.looking.Lock()
		defer t.looking.Unlock()
		t.mu.Lock()
		t.next = nil
		t.mu.Unlock()
		l.sessions, l.err = readSessions()
	})
	return l.sessions, l.err
}

// errForeignProc: what /proc shows is not what the numbers here mean.
var errForeignProc = errors.New("/proc belongs to another pid namespace, or is not mounted")

// errHiddenProcesses: mounted with hidepid, /proc shows not all of a range.
var errHiddenProcesses = errors.New("/proc hides processes of other users (hidepid)")

// lastNumber is the number that was given last to a process or thread of this
// pid namespace (proc_loadavg(5)).
func lastNumber() (int, error) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data))
	if len(fields) != 5 {
		return 0, fmt.Errorf("malformed /proc/loadavg: %q", data)
	}
	return strconv.Atoi(fields[4])
}

// newcomer looks at every number that was given since last was, and then at
// those given meanwhile, until none was. It reports whether one of them is in the
// session. Whoever a table missed was forked while it was read, so has a number
// since, or left a child that has.
func newcomer(sid, last int) (found, still bool, err error) {
	const maxRounds = 10_000
	for range maxRounds {
		now, err := lastNumber()
		if err != nil {
			return false, false, err
		}
		if now == last {
			return false, true, nil
		}
		if now < last {
			return false, false, nil // the numbers came round: only a new table tells
		}
		for pid := last + 1; pid <= now; pid++ {
			if got, err := unix.Getsid(pid); err == nil && got == sid {
				return true, false, nil
			}
		}
		last = now
	}
	return false, false, nil
}

// readSessions reads numbers only: getsid tells a session for a fraction of what
// reading a process's files costs.
func readSessions() (map[int][]int, error) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errForeignProc
	}
	if _, err := os.Lstat("/proc/1"); errors.Is(err, os.ErrNotExist) {
		return nil, errHiddenProcesses
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	sessions := make(map[int][]int)
	for {
		// A batch at a time, so that little happens between a name and its turn.
		names, err := dir.Readdirnames(64)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			if sid, err := unix.Getsid(pid); err == nil {
				sessions[sid] = append(sessions[sid], pid)
			}
		}
		if errors.Is(err, io.EOF) {
			return sessions, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
