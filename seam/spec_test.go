package seam_test

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/seam"
)

func TestValidateNamesTheField(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*seam.Spec)
	}{
		{"", func(*seam.Spec) {}},
		{"Argv", func(s *seam.Spec) { s.Argv = nil }},
		{"Argv[0]", func(s *seam.Spec) { s.Argv = []string{""} }},
		{"Argv[0]", func(s *seam.Spec) { s.Argv = []string{"a\x00b"} }},
		{"Argv[2]", func(s *seam.Spec) { s.Argv = []string{"a", "", "\x00"} }},
		{"Dir", func(s *seam.Spec) { s.Dir = "" }},
		{"Dir", func(s *seam.Spec) { s.Dir = "rel" }},
		{"Dir", func(s *seam.Spec) { s.Dir = "/\x00" }},
		{"Env[1].Name", func(s *seam.Spec) { s.Env = seam.Env{seam.Set("A", ""), seam.Set("", "")} }},
		{"Env[0].Name", func(s *seam.Spec) { s.Env = seam.Env{seam.Set("A=B", "")} }},
		{"Env[0].Name", func(s *seam.Spec) { s.Env = seam.Env{seam.Unset("A\x00")} }},
		{"Env[0].Value", func(s *seam.Spec) { s.Env = seam.Env{seam.Set("A", "\x00")} }},
		{"", func(s *seam.Spec) { s.Env = seam.Env{seam.Set("=C:", "x")} }},
		{"Stdin.Mode", func(s *seam.Spec) { s.Stdin.Mode = seam.Collect }},
		{"Stdin.Data", func(s *seam.Spec) { s.Stdin.Data = []byte{} }},
		{"", func(s *seam.Spec) { s.Stdin = seam.Stdin{Mode: seam.Data} }},
		{"Stdout.Mode", func(s *seam.Spec) { s.Stdout.Mode = seam.Data }},
		{"Stderr.Mode", func(s *seam.Spec) { s.Stderr.Mode = 99 }},
		{"Stdout.MaxBytes", func(s *seam.Spec) { s.Stdout = seam.Output{Mode: seam.Collect} }},
		{"Stdout.MaxBytes", func(s *seam.Spec) { s.Stdout = seam.Output{Mode: seam.Pipe, MaxBytes: 1} }},
		{"Stderr.SpillMaxBytes", func(s *seam.Spec) {
			s.Stderr = seam.Output{Mode: seam.Collect, MaxBytes: 1, SpillMaxBytes: -1}
		}},
		{"Name", func(s *seam.Spec) { s.Name = ".hidden" }},
		{"Name", func(s *seam.Spec) { s.Name = "a/b" }},
		{"Name", func(s *seam.Spec) { s.Name = strings.Repeat("a", seam.MaxNameBytes+1) }},
		{"", func(s *seam.Spec) { s.Name = "web-1.2_x" }},
		{"Limits.MemoryBytes", func(s *seam.Spec) { s.Limits.MemoryBytes = -1 }},
		{"Limits.Pids", func(s *seam.Spec) { s.Limits.Pids = -1 }},
		{"Limits.CPUs", func(s *seam.Spec) { s.Limits.CPUs = -0.5 }},
		{"Grace", func(s *seam.Spec) { s.Grace = 0 }},
		{"Grace", func(s *seam.Spec) { s.Grace = -time.Second }},
		{"Drain", func(s *seam.Spec) { s.Drain = -1 }},
		{"Require", func(s *seam.Spec) { s.Require = 7 }},
		{"Detach", func(s *seam.Spec) { s.Detach, s.Stdin.Mode = true, seam.Pipe }},
	} {
		spec := seam.Spec{Argv: []string{"true"}, Dir: "/", Grace: time.Second}
		c.change(&spec)
		err := spec.Validate(path.IsAbs)
		if c.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", spec, err)
			}
			continue
		}
		var bad *seam.FieldError
		if !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("got %v, want it to name %s", err, c.field)
		}
		if seam.CodeOf(err) != seam.CodeInvalid || !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%v does not match fs.ErrInvalid", err)
		}
	}
}

func TestErrorsMatchTheirSentinels(t *testing.T) {
	for code, want := range map[seam.Code]error{
		seam.CodeInvalid:             fs.ErrInvalid,
		seam.CodeNotFound:            fs.ErrNotExist,
		seam.CodeDirNotFound:         fs.ErrNotExist,
		seam.CodeExecutableNotFound:  fs.ErrNotExist,
		seam.CodeInterpreterNotFound: fs.ErrNotExist,
		seam.CodePermission:          fs.ErrPermission,
		seam.CodeUnsupported:         errors.ErrUnsupported,
		seam.CodeClosed:              seam.ErrClosed,
	} {
		err := error(&seam.OpError{Op: "spawn", Argv0: "a b", Code: code})
		if !errors.Is(err, want) {
			t.Errorf("%v does not match %v", err, want)
		}
		if !strings.HasPrefix(err.Error(), `spawn "a b": `) {
			t.Errorf("got %q", err)
		}
	}
	unproven := error(&seam.UnprovenError{Reason: fs.ErrPermission})
	if !errors.Is(unproven, seam.ErrUnproven) || !errors.Is(unproven, fs.ErrPermission) {
		t.Errorf("%v matches too little", unproven)
	}
}
