package local_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// kindsOfTable are the columns of the table.
var kindsOfTable = []seam.Kind{seam.KindScope, seam.KindCgroup, seam.KindReaper, seam.KindGroup}

// adversaries are the rows: a verb of testdata/adversary.py, what it does, and
// the kinds that it escapes, with the range proven empty all the same.
var adversaries = []struct {
	verb, what string
	escapes    []seam.Kind
	needs      []seam.Kind // nil for all
}{
	{verb: "plain", what: "leaves a child behind"},
	{verb: "holds-pipe", what: "leaves a child that holds an output pipe"},
	{verb: "own-group", what: "changes its process group"},
	{verb: "setsid", what: "starts a session", escapes: []seam.Kind{seam.KindGroup}},
	{verb: "daemon", what: "becomes a daemon: double fork, session", escapes: []seam.Kind{seam.KindGroup}},
	{verb: "ignore-term", what: "ignores TERM"},
	{verb: "stopped", what: "is stopped by SIGSTOP"},
	{verb: "no-environment", what: "runs with an empty environment (`env -i`)"},
	{verb: "fork-on-term", what: "forks 20 children when it gets TERM"},
	{verb: "thousand", what: "has 1,000 members"},
	{verb: "bomb", what: "re-forks without end, 200 processes at a time, of 0.1 s each"},
	{verb: "sub-cgroups", what: "makes cgroups of its own, and moves there", needs: nativeKinds},
	{verb: "threaded-cgroup", what: "makes a threaded cgroup, and moves a thread there", needs: nativeKinds},
}

var errEnough = errors.New("enough")

// endings are what is done to a running adversary; each returns once it is
// proven empty, and with the outcome that is to be expected.
var endings = []struct {
	name string
	end  func(t *testing.T, r *local.Runtime, a *adversary) (got seam.Outcome, want seam.EndKind)
}{
	{"normal end", func(t *testing.T, _ *local.Runtime, a *adversary) (seam.Outcome, seam.EndKind) {
		_ = a.Stdin().Close() // the leader goes first
		return settle(t.Context(), t, a), seam.EndExited
	}},
	{"timeout", func(t *testing.T, _ *local.Runtime, a *adversary) (seam.Outcome, seam.EndKind) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errEnough)
		defer cancel()
		return settle(ctx, t, a), seam.EndTerminated
	}},
	{"Terminate", func(t *testing.T, _ *local.Runtime, a *adversary) (seam.Outcome, seam.EndKind) {
		a.Terminate(errEnough)
		return settle(t.Context(), t, a), seam.EndTerminated
	}},
	{"Close", func(t *testing.T, r *local.Runtime, a *adversary) (seam.Outcome, seam.EndKind) {
		closeRuntime(t, r)
		return settle(t.Context(), t, a), seam.EndTerminated
	}},
}

func settle(ctx context.Context, t *testing.T, a *adversary) seam.Outcome {
	t.Helper()
	end, err := seam.Settle(ctx, a, 50*time.Millisecond, seam.KillSurvivors)
	if err != nil || end.Empty != nil {
		t.Errorf("not proven empty: %v, %v", end.Empty, err)
	}
	return end.Outcome
}

// TestAdversaries: whatever a command does, and however it ends, nothing of it
// lives once that is proven. Where a kind is known to be escaped from, the
// escape is what is found.
func TestAdversaries(t *testing.T) {
	for _, kind := range kindsHere(t, kindsOfTable...) {
		t.Run(string(kind), func(t *testing.T) {
			need(t, kind)
			for _, row := range adversaries {
				if row.needs != nil && !slices.Contains(row.needs, kind) {
					continue
				}
				for _, ending := range endings {
					t.Run(row.verb+"/"+ending.name, func(t *testing.T) {
						t.Parallel()
						if row.verb == "bomb" {
							waitForBombs(t)
						}
						r := openRuntime(t, local.Config{Containment: kind})
						a := startAdversary(t, r, row.verb)
						got, want := ending.end(t, r, a)
						if got.End != want || want == seam.EndTerminated && got.Cause == nil {
							t.Errorf("outcome %+v, want %s", got, want)
						}
						if slices.Contains(row.escapes, kind) {
							endEscapees(t, a.marker)
							return
						}
						native := slices.Contains(nativeKinds, kind)
						a.checkEmpty(t, native)
						if native {
							closeRuntime(t, r)
							a.checkClosed(t)
						}
					})
				}
			}
		})
	}
}

// waitForBombs waits until no other bomb is on the machine, in whatever process or
// test host: where several share two processors nobody gets through. Each ends by
// itself in the end.
func waitForBombs(t *testing.T) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "adversary.py"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // which lets go of it
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// endEscapees: something has escaped, as its kind's table says.
func endEscapees(t *testing.T, marker string) {
	t.Helper()
	found := alive(t, marker)
	if len(found) == 0 {
		t.Error("nothing escaped, and the table says that it does")
	}
	for _, process := range found {
		var pid int
		if _, err := fmt.Sscan(process, &pid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
}

var update = flag.Bool("update", false, "write the generated part of docs/containment.md")

// TestContainmentTable: the table in docs/containment.md is the one that
// TestAdversaries has checked.
func TestContainmentTable(t *testing.T) {
	const begin, end = "<!-- begin: TestContainmentTable -->\n", "<!-- end: TestContainmentTable -->\n"
	file := filepath.Join("..", "..", "docs", "containment.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no part between %q and %q", file, begin, end)
	}
	table := containmentTable()
	if old == table {
		return
	}
	if !*update {
		t.Fatalf("the table is not what the tests check; run this test with -update. Want:\n%s", table)
	}
	if err := os.WriteFile(file, []byte(before+begin+table+end+after), 0o666); err != nil {
		t.Fatal(err)
	}
}

func containmentTable() string {
	var b strings.Builder
	names := make([]string, len(endings))
	for i, e := range endings {
		names[i] = e.name
	}
	b.WriteString("| a command that |")
	for _, kind := range kindsOfTable {
		fmt.Fprintf(&b, " `%s` |", kind)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(kindsOfTable)) + "\n")
	for _, row := range adversaries {
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, kind := range kindsOfTable {
			cell := "ended"
			if slices.Contains(row.escapes, kind) {
				cell = "**escapes**"
			}
			if row.needs != nil && !slices.Contains(row.needs, kind) {
				cell = "-"
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nEach cell is %d runs: %s.\n", len(endings), strings.Join(names, ", "))
	return b.String()
}
