package seamtest

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/corral-world/corral/seam"
)

const ruleValidate = "a wrong field fails with CodeInvalid and the field's name, before any side effect"

// validationCases check what is refused before anything is done.
var validationCases = []subprocessCase{
	{
		name: "validate-fields", rule: ruleValidate,
		run: func(e *processEnv) {
			const name = "validated"
			for _, bad := range invalidFields(e.Dir) {
				spec := e.spec("exit", "0")
				spec.Name = name
				bad.spoil(&spec)
				_, err := e.trySpawn(spec)
				e.wantRefused(bad.what, err, seam.CodeInvalid, fs.ErrInvalid)
				e.wantField(bad.what, err, bad.field)
			}
			spec := e.spec("exit", "0")
			spec.Name = name
			e.wantExit(e.wait(e.spawn(spec)), 0) // no refused launch holds the name
		},
	},
	{
		name: "validate-context", rule: "Spawn with an ended context fails with CodeAborted, which matches its cause, and starts nothing",
		run: func(e *processEnv) {
			spec := e.spec("sleep")
			spec.Name = "aborted"
			p, err := e.sp.Spawn(endedContext(), spec)
			e.wantRefused("Spawn", err, seam.CodeAborted, errCause)
			if p != nil {
				p.Terminate(errCaseOver)
				e.errorf("a process was returned")
			}
			e.spawn(spec) // the name is free
		},
	},
}

// An invalidField is a way to make a valid spec invalid.
type invalidField struct {
	what, field string
	spoil       func(*seam.Spec)
}

func invalidFields(dir string) []invalidField {
	const unknown = 100 // no mode, no requirement
	return []invalidField{
		{"no argv", "Argv", func(s *seam.Spec) { s.Argv = nil }},
		{"empty argv", "Argv", func(s *seam.Spec) { s.Argv = []string{} }},
		{"empty program", "Argv[0]", func(s *seam.Spec) { s.Argv = []string{"", "x"} }},
		{"NUL in program", "Argv[0]", func(s *seam.Spec) { s.Argv = []string{"a\x00b"} }},
		{"NUL in argument", "Argv[2]", func(s *seam.Spec) { s.Argv = []string{s.Argv[0], "x", "\x00"} }},
		{"no dir", "Dir", func(s *seam.Spec) { s.Dir = "" }},
		{"relative dir", "Dir", func(s *seam.Spec) { s.Dir = "." }},
		{"NUL in dir", "Dir", func(s *seam.Spec) { s.Dir = dir + "\x00" }},
		{"no env name", "Env[1].Name", func(s *seam.Spec) { s.Env = seam.Env{seam.Set("A", ""), seam.Set("", "x")} }},
		{"NUL in env name", "Env[0].Name", func(s *seam.Spec) { s.Env = seam.Env{seam.Set("A\x00", "x")} }},
		{"NUL in unset name", "Env[0].Name", func(s *seam.Spec) { s.Env = seam.Env{seam.Unset("A\x00")} }},
		{"= in env name", "Env[0].Name", func(s *seam.Spec) { s.Env = seam.Env{seam.Set("A=B", "x")} }},
		{"NUL in env value", "Env[0].Value", func(s *seam.Spec) { s.Env = seam.Env{seam.Set("A", "\x00")} }},
		{"collected stdin", "Stdin.Mode", func(s *seam.Spec) { s.Stdin.Mode = seam.Collect }},
		{"unknown stdin", "Stdin.Mode", func(s *seam.Spec) { s.Stdin.Mode = unknown }},
		{"data of no use", "Stdin.Data", func(s *seam.Spec) { s.Stdin.Data = []byte("x") }},
		{"data to stdout", "Stdout.Mode", func(s *seam.Spec) { s.Stdout.Mode = seam.Data }},
		{"unknown stderr", "Stderr.Mode", func(s *seam.Spec) { s.Stderr.Mode = unknown }},
		{"nothing kept", "Stdout.MaxBytes", func(s *seam.Spec) { s.Stdout = collect(0, 0) }},
		{"less than nothing kept", "Stderr.MaxBytes", func(s *seam.Spec) { s.Stderr = collect(-1, 0) }},
		{"negative spill", "Stderr.SpillMaxBytes", func(s *seam.Spec) { s.Stderr = collect(1, -1) }},
		{"bound of no use", "Stdout.MaxBytes", func(s *seam.Spec) { s.Stdout = seam.Output{Mode: seam.Pipe, MaxBytes: 1} }},
		{"no grace", "Grace", func(s *seam.Spec) { s.Grace = 0 }},
		{"negative grace", "Grace", func(s *seam.Spec) { s.Grace = -time.Second }},
		{"negative drain", "Drain", func(s *seam.Spec) { s.Drain = -1 }},
		{"name of bad bytes", "Name", func(s *seam.Spec) { s.Name = "a/b" }},
		{"name of bad beginning", "Name", func(s *seam.Spec) { s.Name = "-a" }},
		{"long name", "Name", func(s *seam.Spec) { s.Name = strings.Repeat("a", seam.MaxNameBytes+1) }},
		{"negative memory", "Limits.MemoryBytes", func(s *seam.Spec) { s.Limits.MemoryBytes = -1 }},
		{"negative pids", "Limits.Pids", func(s *seam.Spec) { s.Limits.Pids = -1 }},
		{"no number of processors", "Limits.CPUs", func(s *seam.Spec) { s.Limits.CPUs = math.NaN() }},
		{"unknown requirement", "Require", func(s *seam.Spec) { s.Require = unknown }},
		{"detached with a pipe", "Detach", func(s *seam.Spec) { s.Detach, s.Stdout.Mode = true, seam.Pipe }},
	}
}

// spawnCases check what is started, and where.
var spawnCases = []subprocessCase{
	{
		name: "spawn-argv", rule: "arguments reach the program as they are, interpreted by no shell",
		run: func(e *processEnv) {
			args := []string{"two words", "", `"quoted" 'twice'`, "$HOME", "*", "a;b|c>d", `back\slash`, "new\nline", "ünï-code", "-flag"}
			outcome, out := e.run(e.spec("args", args...))
			e.wantExit(outcome, 0)
			var want strings.Builder
			for _, arg := range args {
				fmt.Fprintf(&want, "%q\n", arg)
			}
			if out != want.String() {
				e.errorf("the program got\n%swant\n%s", out, want.String())
			}
		},
	},
	{
		name: "spawn-dir", rule: "the program runs in Spec.Dir",
		run: func(e *processEnv) {
			if _, out := e.run(e.spec("cwd")); out != e.Dir+"\n" {
				e.errorf("the program ran in %q, want %q", out, e.Dir)
			}
		},
	},
	{
		name: "spawn-bare-name", rule: "a bare Argv[0] is searched on the PATH of the resulting environment; one with a separator is taken from Dir",
		run: func(e *processEnv) {
			spec := e.spec("exit", "3")
			dir, name, _ := e.splitProgram(spec.Argv[0])
			spec.Argv[0] = name
			spec.Env = seam.Env{seam.Set("PATH", dir)}
			e.wantExit(e.wait(e.spawn(spec)), 3)

			spec.Argv[0], spec.Dir, spec.Env = "./"+name, dir, nil
			e.wantExit(e.wait(e.spawn(spec)), 3)
		},
	},
	{
		name: "spawn-context", rule: "the context of Spawn bounds the starting only",
		run: func(e *processEnv) {
			ctx, cancel := context.WithCancelCause(e.ctx)
			spec := e.spec("cat")
			spec.Stdin.Mode, spec.Stdout.Mode = seam.Pipe, seam.Pipe
			p, err := e.sp.Spawn(ctx, spec)
			if err != nil {
				e.fatalf("Spawn: %w", err)
			}
			e.own(p)
			e.echo(p, "before")
			cancel(errCause)
			e.wantUndisturbed(p)
			e.echo(p, "after")
			_ = p.Stdin().Close()
			e.wantExit(e.wait(p), 0)
		},
	},
	{
		name: "spawn-no-dir", rule: "an absent Spec.Dir is CodeDirNotFound, and one that is a file CodeNotDir",
		run: func(e *processEnv) {
			spec := e.spec("exit", "0")
			spec.Dir = e.below("missing-dir")
			_, err := e.trySpawn(spec)
			e.wantRefused("Spawn in a missing directory", err, seam.CodeDirNotFound, fs.ErrNotExist)
			spec.Dir = e.PlainFile
			_, err = e.trySpawn(spec)
			e.wantRefused("Spawn in a file", err, seam.CodeNotDir, nil)
		},
	},
	{
		name: "spawn-no-program", rule: "an absent program is CodeExecutableNotFound, and a file that may not be executed CodeNotExecutable",
		run: func(e *processEnv) {
			const missing = "corral-seamtest-missing"
			spec := e.spec("exit", "0")
			for _, program := range []string{e.below(missing), "./" + missing, missing} {
				spec.Argv = []string{program}
				_, err := e.trySpawn(spec)
				e.wantRefused("Spawn of "+program, err, seam.CodeExecutableNotFound, fs.ErrNotExist)
			}
			spec.Argv = []string{e.PlainFile}
			_, err := e.trySpawn(spec)
			e.wantRefused("Spawn of a plain file", err, seam.CodeNotExecutable, nil)
			dir, name, _ := e.splitProgram(e.PlainFile)
			spec.Argv, spec.Env = []string{name}, seam.Env{seam.Set("PATH", dir)}
			_, err = e.trySpawn(spec)
			e.wantRefused("Spawn of a plain file on PATH", err, seam.CodeNotExecutable, nil)
		},
	},
}

// environmentCases check the environment and the search on its PATH.
var environmentCases = []subprocessCase{
	{
		name: "env-scrub", rule: "the base environment is the host's, without what names a secret and what is Corral's own",
		run: func(e *processEnv) {
			env := e.environ(nil)
			if got := env[plainName]; got != "plain" {
				e.errorf("%s is %q, want it kept (does the base environment hold seamtest.Environ?)", plainName, got)
			}
			for _, name := range []string{secretName, ownName} {
				if got, ok := env[name]; ok {
					e.errorf("%s=%q was not scrubbed", name, got)
				}
			}
		},
	},
	{
		name: "env-override", rule: "overrides win over the base and over earlier overrides, and each name is passed once",
		run: func(e *processEnv) {
			env := e.environ(seam.Env{
				seam.Set(plainName, "overridden"),
				seam.Set("TWICE", "first"), seam.Set("TWICE", "second"),
				seam.Set("GONE", "x"), seam.Unset("GONE"),
				seam.Unset("BACK"), seam.Set("BACK", "y"),
				seam.Set("EMPTY", ""),
				seam.Set("ODD", "a=b\nc \"d\" $e"),
			})
			for name, want := range map[string]string{
				plainName: "overridden", "TWICE": "second", "BACK": "y", "EMPTY": "", "ODD": "a=b\nc \"d\" $e",
			} {
				if got, ok := env[name]; got != want || !ok {
					e.errorf("%s is %q, %v; want %q", name, got, ok, want)
				}
			}
			if got, ok := env["GONE"]; ok {
				e.errorf("GONE is %q, and was unset last", got)
			}
		},
	},
	{
		name: "env-unset", rule: "Unset removes a name from the base",
		run: func(e *processEnv) {
			if got, ok := e.environ(seam.Env{seam.Unset(plainName)})[plainName]; ok {
				e.errorf("%s is %q, and was unset", plainName, got)
			}
		},
	},
	{
		name: "env-deliberate", rule: "an override is not scrubbed",
		run: func(e *processEnv) {
			env := e.environ(seam.Env{seam.Set(secretName, "deliberate"), seam.Set(ownName, "too")})
			if env[secretName] != "deliberate" || env[ownName] != "too" {
				e.errorf("%s=%q %s=%q, want what was set", secretName, env[secretName], ownName, env[ownName])
			}
		},
	},
	{
		name: "look-absolute", rule: "LookPath checks an absolute path and returns it as it is",
		run: func(e *processEnv) {
			program := e.Program("exit", "0")[0]
			if got, err := e.sp.LookPath(e.ctx, program, nil); got != program || err != nil {
				e.errorf("LookPath(%q) = %q, %v", program, got, err)
			}
			_, err := e.sp.LookPath(e.ctx, e.below("missing"), nil)
			e.wantRefused("LookPath of a missing file", err, seam.CodeExecutableNotFound, fs.ErrNotExist)
			_, err = e.sp.LookPath(e.ctx, e.PlainFile, nil)
			e.wantRefused("LookPath of a plain file", err, seam.CodeNotExecutable, nil)
		},
	},
	{
		name: "look-search", rule: "LookPath searches a bare name on the PATH of the environment with its overrides, passing over directories and what may not be executed",
		run: func(e *processEnv) {
			program := e.Program("exit", "0")[0]
			dir, name, separator := e.splitProgram(program)
			plainDir, plainName, _ := e.splitProgram(e.PlainFile)
			parent, dirName, _ := e.splitProgram(e.Dir)
			look := func(name string, path ...string) (string, error) {
				return e.sp.LookPath(e.ctx, name, seam.Env{seam.Set("PATH", strings.Join(path, separator))})
			}
			got, err := look(name, "", ".", e.below("missing"), parent, plainDir, dir)
			if err != nil || !samePath(got, program) {
				e.errorf("LookPath(%q) = %q, %v; want %q", name, got, err, program)
			}
			_, err = look(name, parent)
			e.wantRefused("LookPath of a name that is not there", err, seam.CodeExecutableNotFound, fs.ErrNotExist)
			_, err = look(dirName, parent)
			e.wantRefused("LookPath of a directory", err, seam.CodeExecutableNotFound, fs.ErrNotExist)
			_, err = look(plainName, plainDir)
			e.wantRefused("LookPath of a plain file", err, seam.CodeNotExecutable, nil)
		},
	},
	{
		name: "look-invalid", rule: "LookPath refuses an empty name, a NUL byte, and a relative name with a separator, which depends on a directory that is not given",
		run: func(e *processEnv) {
			_, name, _ := e.splitProgram(e.Program("exit", "0")[0])
			for _, bad := range []string{"", "a\x00b", "./" + name, "../" + name} {
				_, err := e.sp.LookPath(e.ctx, bad, nil)
				e.wantRefused("LookPath("+strconv.Quote(bad)+")", err, seam.CodeInvalid, fs.ErrInvalid)
			}
		},
	},
	{
		name: "look-context", rule: "LookPath with an ended context fails with CodeAborted, which matches its cause",
		run: func(e *processEnv) {
			_, name, _ := e.splitProgram(e.Program("exit", "0")[0])
			_, err := e.sp.LookPath(endedContext(), name, nil)
			e.wantRefused("LookPath", err, seam.CodeAborted, errCause)
		},
	},
}

// samePath compares paths that may have been joined with one separator too many.
func samePath(a, b string) bool { return a == b || path.Clean(a) == path.Clean(b) }

// environ is what a program's environment is with overrides.
func (e *processEnv) environ(overrides seam.Env) map[string]string {
	spec := e.spec("env")
	spec.Env = overrides
	outcome, out := e.run(spec)
	e.wantExit(outcome, 0)
	env := make(map[string]string)
	for line := range strings.Lines(out) {
		entry, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil {
			e.fatalf("env printed %q: %w", line, err)
		}
		name, value, _ := strings.Cut(entry, "=")
		if _, twice := env[name]; twice {
			e.errorf("%s is passed twice", name)
		}
		env[name] = value
	}
	return env
}
