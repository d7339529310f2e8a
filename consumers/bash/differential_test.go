package bash_test

import (
	"bytes"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/corral-world/corral/consumers/bash"
)

//go:embed testdata/scripts.txt
var scripts string

// eachScript yields the scripts of testdata/scripts.txt: each begins after a
// line "=== name", and its last newline belongs to the file.
func eachScript(yield func(name, script string) bool) {
	for section := range strings.SplitSeq(strings.TrimPrefix(scripts, "=== "), "\n=== ") {
		name, script, _ := strings.Cut(section, "\n")
		if !yield(name, script) {
			return
		}
	}
}

// ran is all that can be seen of a script from outside.
type ran struct {
	stdout, stderr string
	exit           int
	signal         string
}

// A script does in Run what it does as bash -c's argument: both streams, byte
// for byte, and how it ended. A script that is too long for argv does what it
// would do if it were not.
func TestSameAsBash(t *testing.T) {
	var seen []string
	b := newBench(t)
	for name, script := range eachScript {
		if slices.Contains(seen, name) {
			t.Fatalf("two scripts are called %q", name)
		}
		seen = append(seen, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareWithBash(t, b, script)
		})
	}
	if len(seen) < 200 {
		t.Errorf("%d scripts", len(seen))
	}
}

// Bytes that a file of scripts does not hold well, and what counts only at the
// end of a script.
func TestSameAsBashToTheLastByte(t *testing.T) {
	b := newBench(t)
	before := strings.Repeat("# before\n", 4000) // long, with the script's own end
	for _, c := range []struct{ name, script string }{
		{"control characters", "printf %s '\x01\x02\x7f\x1b' | od -An -c"},
		{"control characters outside of quotes", "echo a\x01b\x7fc | od -An -c"},
		{"bytes that are not UTF-8", "printf %s '\xff\xe4\xbd' | od -An -c; x='\xff'; echo ${#x}"},
		{"a cut character at the end", "echo \xe4\xbd"},
		{"no newline at the end", "echo a"},
		{"newlines at the end", "echo a\n\n\n"},
		{"a backslash at the end", `echo a\`},
		{"a continued line at the end", "echo a\\\n"},
		{"a continued line and a newline at the end", "echo a\\\n\n"},
		{"a here-doc that ends with the script", "cat <<E\na\nE"},
		{"a here-doc that nothing ends", "cat <<E\na\n"},
		{"a here-doc that nothing ends, with newlines", "cat <<E\na\n\n\n"},
		{"a here-doc with a dot at its end", "cat <<E\na\n."},
		{"a comment at the end", "echo a # ."},
		{"a dot at the end", "echo ."},
		{"spaces at the end", "echo a  \t "},
		{"a carriage return at the end", "echo a\r"},
		{"newlines at the beginning", "\n\n echo $LINENO"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			compareWithBash(t, b, c.script)
			compareWithBash(t, b, before+c.script)
		})
	}
}

// few bounds how many comparisons are under way.
var few = make(chan struct{}, 4)

// compareWithBash runs a script both ways, as it is and too long for argv.
func compareWithBash(t *testing.T, b *bench, script string) {
	t.Helper()
	few <- struct{}{}
	defer func() { <-few }()
	for form, script := range map[string]string{"short": script, "long": pad(script)} {
		want, got := runDirectly(t, b, script), runInCorral(t, b, script)
		if form == "long" {
			// set -x marks what eval runs with a plus more.
			got.stderr = pluses.ReplaceAllString(got.stderr, "+")
		}
		compare(t, form+": stdout", got.stdout, want.stdout)
		compare(t, form+": stderr", got.stderr, want.stderr)
		if got.exit != want.exit || got.signal != want.signal {
			t.Errorf("%s: got exit %d, signal %q, want %d, %q", form, got.exit, got.signal, want.exit, want.signal)
		}
	}
}

// compare shows two texts from where they differ.
func compare(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	from := 0
	for from < min(len(got), len(want)) && got[from] == want[from] {
		from++
	}
	from = max(0, from-40)
	t.Errorf("%s, from byte %d:\ngot  %q\nwant %q", what, from, cut(got[from:]), cut(want[from:]))
}

// runInCorral runs a script by Run, in an empty directory.
func runInCorral(t *testing.T, b *bench, script string) ran {
	t.Helper()
	dir := t.TempDir()
	r := b.run(t, bash.Request{Script: script, Dir: dir})
	if len(r.Survivors) > 0 {
		t.Errorf("survivors: %+v", r.Survivors)
	}
	return normal(ran{stdout: r.Stdout.Text, stderr: r.Stderr.Text, exit: r.Outcome.ExitCode, signal: r.Outcome.Signal.Name}, dir)
}

// runDirectly runs a script as bash -c's argument, in the same environment and
// in a directory that is as empty.
func runDirectly(t *testing.T, b *bench, script string) ran {
	t.Helper()
	path, err := b.runtime.LookPath(t.Context(), "bash", nil)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "LANG=C.UTF-8", "PWD=" + cmd.Dir,
		"NO_COLOR=1", "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "CORRAL_SHELL=1",
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := ran{stdout: stdout.String(), stderr: stderr.String(), exit: cmd.ProcessState.ExitCode()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		r.signal = signals[status.Signal()]
	}
	return normal(r, cmd.Dir)
}

// signals are those that the scripts die by.
var signals = map[syscall.Signal]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGKILL: "SIGKILL", syscall.SIGSEGV: "SIGSEGV", syscall.SIGTERM: "SIGTERM",
}

var (
	ofProcesses = regexp.MustCompile(`(?m)(line \d+:) +\d+( (?:Killed|Terminated|Segmentation))`)
	pluses      = regexp.MustCompile(`(?m)^\+\+`)
	ofEval      = regexp.MustCompile(`(?m)^(\S*bash: )(?:-c|eval): `)
)

// normal takes away what differs between any two runs, numbers of processes and
// the directory, and the one word that bash itself chooses by the way in which
// a script reached it.
func normal(r ran, dir string) ran {
	for _, text := range []*string{&r.stdout, &r.stderr} {
		*text = strings.ReplaceAll(*text, dir, "DIR")
		*text = ofProcesses.ReplaceAllString(*text, "$1 PID$2")
		*text = ofEval.ReplaceAllString(*text, "$1")
	}
	return r
}
