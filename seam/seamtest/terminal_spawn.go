package seamtest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/corral-world/corral/seam"
)

// terminalSpawnCases check what is started on a terminal, and what is refused.
var terminalSpawnCases = []subprocessCase{
	{
		name: "terminal-validate", rule: ruleValidate,
		run: func(e *processEnv) {
			const name = "validated"
			for _, bad := range invalidTerminals(e.Dir) {
				spec := e.terminalSpec("exit", "0")
				spec.Name = name
				bad.spoil(&spec)
				_, err := e.trySpawnTerminal(spec)
				e.wantRefused(bad.what, err, seam.CodeInvalid, fs.ErrInvalid)
				e.wantField(bad.what, err, bad.field)
			}
			e.wantFree(name)
		},
	},
	{
		name: "terminal-context", rule: "SpawnTerminal with an ended context fails with CodeAborted, which matches its cause, and starts nothing",
		run: func(e *processEnv) {
			spec := e.terminalSpec("sleep")
			spec.Name = "aborted"
			t, err := e.sp.SpawnTerminal(endedContext(), spec)
			e.wantRefused("SpawnTerminal", err, seam.CodeAborted, errCause)
			if t != nil {
				e.ownTerminal(t)
				e.errorf("a terminal was returned")
			}
			e.wantFree(spec.Name)
		},
	},
	{
		name: "terminal-spawn-context", rule: "the context of SpawnTerminal bounds the starting only",
		run: func(e *processEnv) {
			ctx, cancel := context.WithCancelCause(e.ctx)
			t, err := e.sp.SpawnTerminal(ctx, e.terminalSpec("lines"))
			if err != nil {
				e.fatalf("SpawnTerminal: %w", err)
			}
			e.ownTerminal(t)
			e.ready(e.terminalLine(t))
			cancel(errCause)
			e.wantBlocked("Wait", e.inFlight(func() { _, _ = t.Wait(e.ctx) }))
			e.typeIn(t, "after\n")
			e.wantLine(t, `got "after"`)
		},
	},
	{
		name: "terminal-no-program", rule: "what can't be started is refused as it is without a terminal, and leaves nothing",
		run: func(e *processEnv) {
			spec := e.terminalSpec("exit", "0")
			spec.Name = "absent"
			absent := spec
			absent.Argv = []string{e.below("corral-seamtest-missing")}
			_, err := e.trySpawnTerminal(absent)
			e.wantRefused("SpawnTerminal of a missing program", err, seam.CodeExecutableNotFound, fs.ErrNotExist)
			plain := spec
			plain.Argv = []string{e.PlainFile}
			_, err = e.trySpawnTerminal(plain)
			e.wantRefused("SpawnTerminal of a plain file", err, seam.CodeNotExecutable, nil)
			nowhere := spec
			nowhere.Dir = e.below("missing-dir")
			_, err = e.trySpawnTerminal(nowhere)
			e.wantRefused("SpawnTerminal in a missing directory", err, seam.CodeDirNotFound, fs.ErrNotExist)
			e.wantFree(spec.Name)
		},
	},
	{
		name: "terminal-name", rule: "terminals have their names among all ranges, until they are empty",
		run: func(e *processEnv) {
			spec := e.terminalSpec("sleep")
			spec.Name = "given-Name_1.2"
			t := e.startTerminal(spec)
			if t.Name() != spec.Name {
				e.errorf("Name is %q, want %q", t.Name(), spec.Name)
			}
			e.wantTaken(spec.Name)
			_, err := e.trySpawnTerminal(spec)
			e.wantRefused("SpawnTerminal with a name in use", err, seam.CodeNameInUse, nil)
			e.closeTerminal(t)
			e.wantFree(spec.Name)
			spec.Name = ""
			if made := e.terminal(spec).Name(); made == "" {
				e.errorf("no name was made")
			}
		},
	},
	{
		name: "terminal-containment", rule: "terminals get the containment that every launch gets, or are refused where more is required",
		run: func(e *processEnv) {
			want := e.containment()
			spec := e.terminalSpec("sleep")
			if got := e.terminal(spec).Containment(); got.Kind != want.Kind || got.Complete != want.Complete {
				e.errorf("containment %+v, want %+v", got, want)
			}
			spec.Require = seam.CompleteContainment
			_, err := e.trySpawnTerminal(spec)
			if want.Complete && err != nil {
				e.errorf("SpawnTerminal, and containment is complete: %w", err)
			}
			if !want.Complete {
				e.wantRefused("SpawnTerminal", err, seam.CodeContainment, nil)
			}
		},
	},
	{
		name: "terminal-limits", rule: "a limit is enforced, or the launch is refused with CodeUnsupported and the field's name",
		run: func(e *processEnv) {
			for field, limits := range map[string]seam.Limits{
				"Limits.MemoryBytes": {MemoryBytes: 1 << 30}, "Limits.Pids": {Pids: 100}, "Limits.CPUs": {CPUs: 1.5},
			} {
				spec, plain := e.terminalSpec("exit", "0"), e.spec("exit", "0")
				spec.Limits, plain.Limits = limits, limits
				_, want := e.trySpawn(plain)
				_, err := e.trySpawnTerminal(spec)
				if (err == nil) != (want == nil) {
					e.errorf("%s: SpawnTerminal says %w, and Spawn %w", field, err, want)
				}
				if want != nil {
					e.wantRefused(field, err, seam.CodeUnsupported, errors.ErrUnsupported)
					e.wantField(field, err, field)
				}
			}
		},
	},
	{
		name: "terminal-env", rule: "the environment is made as it is without a terminal",
		run: func(e *processEnv) {
			spec := e.terminalSpec("env")
			spec.Env = seam.Env{seam.Set("DELIBERATE_TOKEN", "x y"), seam.Set("TERM", "dumb")}
			out, err := io.ReadAll(e.terminal(spec))
			if err != nil {
				e.fatalf("read: %w", err)
			}
			env := make(map[string]bool)
			for line := range strings.Lines(string(out)) {
				if entry, err := strconv.Unquote(strings.TrimRight(line, "\r\n")); err == nil {
					env[entry] = true
				}
			}
			for entry, want := range map[string]bool{
				plainName + "=plain": true, secretName + "=ambient secret": false, ownName + "=ambient": false,
				"DELIBERATE_TOKEN=x y": true, "TERM=dumb": true,
			} {
				if env[entry] != want {
					e.errorf("%s is passed: %v, want %v", entry, env[entry], want)
				}
			}
		},
	},
	{
		name: "terminal-controls", rule: "the standard streams are one terminal of the size that was asked for, which controls the session that the command leads",
		run: func(e *processEnv) {
			spec := e.terminalSpec("terminal")
			spec.Cols, spec.Rows = 91, 17
			e.wantRest("the program", e.terminal(spec), "terminal 91x17\n")
		},
	},
}

// An invalidTerminal is a way to make a valid spec invalid.
type invalidTerminal struct {
	what, field string
	spoil       func(*seam.TerminalSpec)
}

// invalidTerminals are the ways that specs of launches have, and a terminal's own.
func invalidTerminals(dir string) []invalidTerminal {
	bad := []invalidTerminal{
		{"no columns", "Cols", func(s *seam.TerminalSpec) { s.Cols = 0 }},
		{"no rows", "Rows", func(s *seam.TerminalSpec) { s.Rows = 0 }},
	}
	for _, launch := range invalidFields(dir) {
		switch first, _, _ := strings.Cut(launch.field, "."); first {
		case "Stdin", "Stdout", "Stderr", "Drain", "Detach":
			continue // a terminal has none
		}
		bad = append(bad, invalidTerminal{launch.what, launch.field, func(s *seam.TerminalSpec) {
			spec := s.Spec()
			launch.spoil(&spec)
			s.Argv, s.Dir, s.Env, s.Grace, s.Name, s.Limits, s.Require =
				spec.Argv, spec.Dir, spec.Env, spec.Grace, spec.Name, spec.Limits, spec.Require
		}})
	}
	return bad
}
