package bash_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corral-world/corral/consumers/bash"
)

// sized makes a script of that many bytes which prints its input and how many y
// it has.
func sized(bytes int) string {
	const frame = "cat; x='%s'; echo ${#x} $LINENO $#; exit 9\n"
	fill := strings.Repeat("y", bytes-len(frame)+len("%s"))
	return fmt.Sprintf(frame, fill)
}

// A script of any length arrives whole, on either side of what argv takes and
// of what a pipe holds.
func TestScriptSizes(t *testing.T) {
	b := newBench(t)
	for _, bytes := range []int{
		1000, 29_999, 30_000, 30_001, // what Corral puts into argv
		65_535, 65_536, 65_537, // a pipe
		131_070, 131_071, 131_072, 131_073, // one argument, with its NUL
		300_000, 2_200_000, // all arguments together
	} {
		for name, stdin := range map[string][]byte{"without data": nil, "with data": []byte("data")} {
			t.Run(fmt.Sprintf("%d bytes %s", bytes, name), func(t *testing.T) {
				t.Parallel()
				script := sized(bytes)
				if len(script) != bytes {
					t.Fatalf("made %d bytes", len(script))
				}
				r := b.run(t, bash.Request{Script: script, Stdin: stdin})
				letters := strings.Count(script, "y")
				expect(t, "stdout", r.Stdout.Text, fmt.Sprintf("%s%d 1 0\n", stdin, letters))
				expect(t, "stderr", r.Stderr.Text, "")
				if r.Outcome.ExitCode != 9 {
					t.Errorf("got %+v", r.Outcome)
				}
			})
		}
	}
}

// A script that is too long for argv sees what a short one does.
func TestLongScriptSeesTheSame(t *testing.T) {
	b := newBench(t)
	const probe = `echo "$0" "$#" "$LINENO" "$-" "[$BASH_SUBSHELL]" "[${FUNCNAME[*]}]" "[${BASH_SOURCE[*]}]"
readlink /proc/self/fd/0
cat <<EOF
here
EOF
readlink /proc/self/fd/0
cat
f() { echo "$LINENO"; }; f
declare -F
trap 'echo "bye $? $LINENO"; readlink /proc/self/fd/0' EXIT
(exit 5); echo $?
ls -l /proc/$$/fd >descriptors; grep -c 'pipe:' descriptors
x=你好; echo ${#x}
set -e
false
echo no`
	body := strings.Repeat("# "+strings.Repeat("z", 98)+"\n", 3000) // 300 kB
	short := b.run(t, bash.Request{Script: probe})
	long := bash.Request{Script: probe + "\n" + body}
	t.Run("in the foreground", func(t *testing.T) {
		r := b.run(t, long)
		expect(t, "stdout", r.Stdout.Text, short.Stdout.Text)
		expect(t, "stderr", r.Stderr.Text, short.Stderr.Text)
		if r.Outcome.ExitCode != 1 {
			t.Errorf("got %+v", r.Outcome)
		}
	})
	t.Run("in a job", func(t *testing.T) {
		info := b.wait(t, b.start(t, long).ID)
		expect(t, "stdout", string(b.read(t, info.ID).Stdout.Data), short.Stdout.Text)
		if info.Outcome.ExitCode != 1 {
			t.Errorf("got %+v", info.Outcome)
		}
	})
	if !strings.Contains(short.Stdout.Text, "\n/dev/null\nhere\n/dev/null\n8\n") || !strings.HasSuffix(short.Stdout.Text, "bye 1 1\n/dev/null\n") {
		t.Errorf("got %q", short.Stdout.Text)
	}
}
