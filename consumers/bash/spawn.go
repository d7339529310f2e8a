package bash

import (
	"context"
	"fmt"
	"strings"

	"github.com/corral-world/corral/seam"
)

// spawn starts a script in a range of its own.
func (b *Bash) spawn(ctx context.Context, request Request) (seam.Process, error) {
	if bad := request.validate(); bad != nil {
		return nil, &seam.OpError{Op: "run in bash", Code: seam.CodeInvalid, Err: bad}
	}
	dir, err := b.dir(ctx, request)
	if err != nil {
		return nil, err
	}
	shell, err := b.world.Subprocess().LookPath(ctx, b.config.Shell, request.Env)
	if err != nil {
		return nil, fmt.Errorf("find the shell: %w", err)
	}
	env, err := b.environ(ctx, request)
	if err != nil {
		return nil, err
	}
	argv, stdin := command(shell, request)
	stdout := seam.Output{Mode: seam.Collect, MaxBytes: b.config.MaxOutputBytes, SpillMaxBytes: b.config.SpillMaxBytes}
	stderr := stdout
	if request.MaxOutputBytes > 0 {
		stdout.MaxBytes = request.MaxOutputBytes
	}
	return b.world.Subprocess().Spawn(ctx, seam.Spec{
		Argv:    argv,
		Dir:     dir,
		Env:     env,
		Stdin:   stdin,
		Stdout:  stdout,
		Stderr:  stderr,
		Grace:   b.config.Grace,
		Drain:   b.config.Drain,
		Name:    request.Name,
		Limits:  b.config.Limits,
		Require: b.config.Require,
	})
}

func (r Request) validate() *seam.FieldError {
	switch {
	case strings.TrimSpace(r.Script) == "":
		return &seam.FieldError{Field: "Script", Problem: "is blank"}
	case strings.IndexByte(r.Script, 0) >= 0:
		return &seam.FieldError{Field: "Script", Problem: "contains a NUL byte"}
	case r.MaxOutputBytes < 0:
		return &seam.FieldError{Field: "MaxOutputBytes", Problem: "is negative"}
	}
	return nil
}

// dir resolves where a script runs. The world's filesystem does it, so that the
// process sees the directory under the path that the file tools name it by.
func (b *Bash) dir(ctx context.Context, request Request) (string, error) {
	dir := request.Dir
	if dir == "" {
		dir = b.config.Dir
	}
	target, err := b.world.FS().Resolve(ctx, dir, b.config.Dir)
	if seam.CodeOf(err) == seam.CodeNotFound {
		// A file stands in for a directory of the path. The directory itself
		// may be absent here: the launch says so.
		return "", &seam.OpError{Op: "run in bash", Path: dir, Code: seam.CodeNotDir, Err: err}
	}
	if err != nil {
		return "", fmt.Errorf("directory of the script: %w", err)
	}
	return b.world.FS().ProcessPath(target)
}

// modelEnv keeps programs from expecting a person at a terminal, and a person's
// settings of their shell from a script.
var modelEnv = seam.Env{
	seam.Set("NO_COLOR", "1"),
	seam.Set("TERM", "dumb"),
	seam.Set("PAGER", "cat"),
	seam.Set("GIT_PAGER", "cat"),
	// Set, these name startup files that even a non-interactive shell reads.
	seam.Unset("BASH_ENV"),
	seam.Unset("ENV"),
	// Set, these change what a script means: options of the shell, where set -x
	// writes, where cd goes and what a pattern matches.
	seam.Unset("SHELLOPTS"),
	seam.Unset("BASHOPTS"),
	seam.Unset("BASH_XTRACEFD"),
	seam.Unset("POSIXLY_CORRECT"),
	seam.Unset("CDPATH"),
	seam.Unset("GLOBIGNORE"),
}

func (b *Bash) environ(ctx context.Context, request Request) (seam.Env, error) {
	managed, err := b.config.Managed.Snapshot(ctx, request.Owner)
	if err != nil {
		return nil, err
	}
	env := append(seam.Env(nil), modelEnv...)
	return append(append(env, request.Env...), managed...), nil
}

// maxArgBytes is how long a script may be to travel in argv. Linux takes
// 128 KiB in one argument, with its final NUL (execve(2), MAX_ARG_STRLEN);
// Windows 32 Ki characters in all.
const maxArgBytes = 30_000

// command says how a script reaches the shell. A short one is bash -c's. A long
// one is read from descriptor 0 by a short one, which puts standard input right
// for good and evaluates it: bash parses an argument of -c and one of eval
// alike, so $0, $LINENO, here-docs, set -e and exit mean the same. Two things
// tell: messages about syntax say eval where they said -c, and set -x marks each
// line with a plus more.
func command(shell string, request Request) ([]string, seam.Stdin) {
	data := func(parts ...string) seam.Stdin {
		return seam.Stdin{Mode: seam.Data, Data: []byte(strings.Join(parts, ""))}
	}
	switch {
	case len(request.Script) <= maxArgBytes && request.Stdin == nil:
		return []string{shell, "-c", request.Script}, seam.Stdin{}
	case len(request.Script) <= maxArgBytes:
		return []string{shell, "-c", request.Script}, data(string(request.Stdin))
	case request.Stdin == nil:
		return []string{shell, "-c", evalAll}, data(request.Script, scriptEnd)
	}
	// The script's data follows the script.
	script := fmt.Sprintf(evalCounted, len(request.Script)+len(scriptEnd))
	return []string{shell, "-c", script}, data(request.Script, scriptEnd, string(request.Stdin))
}

// scriptEnd keeps command substitution from taking newlines off the script. The
// shell takes it off again.
const scriptEnd = "."

// The script is the argument of a function that is gone when it returns, so that
// $_ has it and no variable that the script could see. The function redirects
// for good: a redirection of eval would be undone before an EXIT trap runs.
const (
	evalAll = `__corral() { unset -f __corral; exec </dev/null; }; ` +
		`__corral "$(</dev/stdin)"; eval "${_%.}"`

	// read takes no byte too many from a pipe. (-N needs bash 4.)
	evalCounted = `__corral() { unset -f __corral; }; ` +
		`__corral "$(LC_ALL=C IFS= read -r -d '' -N %d; printf %%s "$REPLY")"; eval "${_%%.}"`
)
