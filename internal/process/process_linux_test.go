package process_test

import (
	"testing"

	"github.com/corral-world/corral/internal/process"
)

func TestParseStat(t *testing.T) {
	rest := " 1 50 51 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0"
	manyThreads := " 1 50 51 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 12345 0 0"
	for _, c := range []struct {
		name, data string
		session    int
		dead, bad  bool
	}{
		{name: "sleeping", data: "7 (sleep) S" + rest, session: 51},
		{name: "zombie", data: "7 (sleep) Z" + rest, session: 51, dead: true},
		{name: "zombie whose threads live", data: "7 (sleep) Z" + manyThreads, session: 51},
		{name: "a name like a zombie's", data: "7 (a) Z 1 2 3 (b) S" + rest, session: 51},
		{name: "a name with a newline", data: "7 (a\n) Z) R" + rest, session: 51},
		{name: "empty", bad: true},
		{name: "no name", data: "7 sleep S" + rest, bad: true},
		{name: "cut", data: "7 (sleep) S 1 2 3", bad: true},
		{name: "not a number", data: "7 (sleep) S 1 50 x 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			stat, err := process.ParseStat([]byte(c.data))
			if (err != nil) != c.bad {
				t.Fatalf("error %v", err)
			}
			if !c.bad && (stat.Session != c.session || stat.Dead() != c.dead) {
				t.Errorf("got session %d, dead %v", stat.Session, stat.Dead())
			}
		})
	}
}
