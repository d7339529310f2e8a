package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/corral-world/corral/providers/local"
)

func TestMain(m *testing.M) {
	// Corral starts its runners as this binary under another name.
	if err := local.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testscript.Main(m, map[string]func(){
		"corral": main,
		"oracle": oracleMain,
	})
}

// TestScripts runs the scripts of testdata/script against corral itself, which
// is this binary under its name.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("LC_ALL", "C")
			// For names that are unique among this user's ranges.
			env.Setenv("NAMES", strings.ToLower(rand.Text()[:8]))
			// What the scripts say of warnings, limits and refusals holds for
			// the containment that every Linux has.
			env.Setenv("CORRAL_CONTAINMENT", "group")
			// The race detector's rest at every exit would count as ours.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"json":  checkJSON,
		},
	})
}

// exits CODE CMD [ARG]... runs a command that must exit with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE CMD [ARG]...")
	}
	got := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// json PATH [VALUE] checks that stdout is one JSON object on one line, and that
// the value at PATH ("error.code", "survivors.0.argv.0") is VALUE, given as
// JSON; a VALUE that is no JSON is a string. Negated, PATH does not exist.
// Without VALUE it only has to exist.
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: [!] json PATH [VALUE]")
	}
	stdout := ts.ReadFile("stdout")
	var object map[string]any
	if err := json.Unmarshal([]byte(stdout), &object); err != nil {
		ts.Fatalf("stdout is not one object: %v", err)
	}
	if strings.Count(stdout, "\n") != 1 || !strings.HasSuffix(stdout, "}\n") {
		ts.Fatalf("stdout is not one line")
	}
	got, err := find(object, args[0])
	switch {
	case neg && err == nil:
		ts.Fatalf("%s is %v, want none", args[0], got)
	case neg:
		return
	case err != nil:
		ts.Fatalf("%v", err)
	case len(args) == 1:
		return
	}
	var want any
	if json.Unmarshal([]byte(args[1]), &want) != nil {
		want = args[1]
	}
	if !reflect.DeepEqual(got, want) {
		ts.Fatalf("%s is %#v, want %#v", args[0], got, want)
	}
}

func find(value any, path string) (any, error) {
	for name := range strings.SplitSeq(path, ".") {
		found := false
		switch v := value.(type) {
		case map[string]any:
			value, found = v[name]
		case []any:
			if i, err := strconv.Atoi(name); err == nil && i < len(v) {
				value, found = v[i], true
			}
		}
		if !found {
			return nil, fmt.Errorf("no %s in stdout", path)
		}
	}
	return value, nil
}
