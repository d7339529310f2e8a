package bash_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

// gives makes a contributor of one name with fixed values.
func gives(name string, values map[string]string, keys ...string) bash.Contributor {
	described := make(map[string]string)
	for _, key := range keys {
		described[key] = "for a test"
	}
	return bash.Contributor{Name: name, Keys: described, Values: func(context.Context, string) (map[string]string, error) { return values, nil }}
}

func contribute(t testing.TB, e *bash.Environment, c bash.Contributor) (remove func()) {
	t.Helper()
	remove, err := e.Contribute(c)
	if err != nil {
		t.Fatal(err)
	}
	return remove
}

func TestContributorsAreChecked(t *testing.T) {
	keyed := func(keys map[string]string) bash.Contributor {
		c := gives("x", nil)
		c.Keys = keys
		return c
	}
	noValues := gives("x", nil, "CORRAL_X")
	noValues.Values = nil
	for _, c := range []struct {
		name        string
		contributor bash.Contributor
		words       string
	}{
		{"no name", gives("", nil, "CORRAL_X"), "Name is empty"},
		{"no keys", gives("x", nil), "Keys is empty"},
		{"no values", noValues, "Values is nil"},
		{"a name that is taken", gives("other", nil, "CORRAL_X"), `Name is taken: "other"`},
		{"the built-in name", gives("corral", nil, "CORRAL_X"), "Name is taken"},
		{"a key of another", gives("x", nil, "CORRAL_OTHER"), `CORRAL_OTHER, which is "other"'s`},
		{"a built-in key", gives("x", nil, "CORRAL_SHELL"), "CORRAL_SHELL"},
		{"a key without the prefix", gives("x", nil, "PATH"), `"PATH"`},
		{"a key in lower case", gives("x", nil, "CORRAL_x"), `"CORRAL_x"`},
		{"a key of the prefix alone", gives("x", nil, "CORRAL_"), `"CORRAL_"`},
		{"a key that begins with a digit", gives("x", nil, "CORRAL_1"), `"CORRAL_1"`},
		{"a key with a newline", gives("x", nil, "CORRAL_A\n"), "CORRAL_A"},
		{"a blank description", keyed(map[string]string{"CORRAL_X": " \t"}), "does not describe CORRAL_X"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := bash.NewEnvironment()
			contribute(t, e, gives("other", nil, "CORRAL_OTHER"))
			before := e.Describe()
			_, err := e.Contribute(c.contributor)
			if seam.CodeOf(err) != seam.CodeInvalid || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want %q", err, c.words)
			}
			if !maps.Equal(e.Describe(), before) {
				t.Errorf("a refused contributor left %v", e.Describe())
			}
		})
	}
}

func TestContributorIsRemovedOnce(t *testing.T) {
	e := bash.NewEnvironment()
	remove := contribute(t, e, gives("x", nil, "CORRAL_X"))
	remove()
	contribute(t, e, gives("x", nil, "CORRAL_X"))
	remove()
	if _, ok := e.Describe()["CORRAL_X"]; !ok {
		t.Error("removing a contributor again removed its successor")
	}
}

func TestSnapshot(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name        string
		contributor bash.Contributor
		owner       string
		want        seam.Env
		words       string
	}{
		{
			name: "sorted, each declared name set or removed", owner: "me",
			contributor: gives("x", map[string]string{"CORRAL_B": "b", "CORRAL_Z": ""}, "CORRAL_Z", "CORRAL_A", "CORRAL_B"),
			want: seam.Env{seam.Unset("CORRAL_A"), seam.Set("CORRAL_B", "b"), seam.Set("CORRAL_OWNER", "me"),
				seam.Set("CORRAL_SHELL", "1"), seam.Set("CORRAL_Z", "")},
		},
		{
			name: "no owner", contributor: gives("x", nil, "CORRAL_X"),
			want: seam.Env{seam.Unset("CORRAL_OWNER"), seam.Set("CORRAL_SHELL", "1"), seam.Unset("CORRAL_X")},
		},
		{
			name: "a name that was not declared", contributor: gives("x", map[string]string{"CORRAL_Y": "1"}, "CORRAL_X"),
			words: `environment of "x": CORRAL_Y is not declared`,
		},
		{
			name: "a contributor that fails",
			contributor: bash.Contributor{Name: "x", Keys: map[string]string{"CORRAL_X": "x"},
				Values: func(context.Context, string) (map[string]string, error) { return nil, broken }},
			words: `environment of "x": broken`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := bash.NewEnvironment()
			contribute(t, e, c.contributor)
			got, err := e.Snapshot(t.Context(), c.owner)
			if c.words != "" {
				if err == nil || err.Error() != c.words {
					t.Errorf("got %v, want %q", err, c.words)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// Layers, from the weakest: the harness's environment, the model's, the
// request's, the managed one.
func TestEnvironmentLayers(t *testing.T) {
	b := newBench(t, func(c *local.Config) {
		c.Environ = append(c.Environ, "PAGER=less", "BASE=base", "CORRAL_STALE=1", "CORRAL_SET=stale", "CORRAL_UNSET=stale",
			"BASH_ENV=/no/such/file", "ENV=/no/such/file", "API_TOKEN=secret")
	})
	b.config.Managed = bash.NewEnvironment()
	contribute(t, b.config.Managed, gives("x", map[string]string{"CORRAL_SET": "managed"}, "CORRAL_SET", "CORRAL_UNSET"))
	request := bash.Request{
		Owner: "me",
		Env: seam.Env{
			seam.Set("BASE", "request"), seam.Set("GIT_PAGER", "less"), seam.Unset("TERM"), seam.Set("MY_TOKEN", "mine"),
			seam.Set("CORRAL_SET", "request"), seam.Set("CORRAL_UNSET", "request"), seam.Set("CORRAL_SHELL", "request"),
		},
	}
	for _, c := range []struct{ name, variable, want string }{
		{"the model's stands before the base", "PAGER", "cat"},
		{"the model's alone", "NO_COLOR", "1"},
		{"the request's stands before the base", "BASE", "request"},
		{"the request's stands before the model's", "GIT_PAGER", "less"},
		{"a secret of the harness", "API_TOKEN", "unset"},
		{"a secret of the request", "MY_TOKEN", "mine"},
		{"no startup file of the harness", "BASH_ENV", "unset"},
		{"no startup file of the harness for sh", "ENV", "unset"},
		{"the managed stands before the request's", "CORRAL_SET", "managed"},
		{"a managed name without a value", "CORRAL_UNSET", "unset"},
		{"what is built in stands before the request's", "CORRAL_SHELL", "1"},
		{"the owner", "CORRAL_OWNER", "me"},
		{"a managed name of an outer harness", "CORRAL_STALE", "unset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			request.Script = `printf %s "${` + c.variable + `-unset}"`
			expect(t, c.variable, b.run(t, request).Stdout.Text, c.want)
		})
	}
	t.Run("the request removes the model's", func(t *testing.T) {
		request.Script = "env | grep -c ^TERM=" // the shell's own is not exported
		expect(t, "TERM", b.run(t, request).Stdout.Text, "0\n")
	})
	t.Run("an undeclared name fails the script before it starts", func(t *testing.T) {
		remove := contribute(t, b.config.Managed, gives("y", map[string]string{"CORRAL_Z": ""}, "CORRAL_Y"))
		defer remove()
		_, err := b.bash(t).Run(t.Context(), bash.Request{Script: "true"})
		if err == nil || !strings.Contains(err.Error(), "CORRAL_Z is not declared") {
			t.Errorf("got %v", err)
		}
	})
}

func TestManagedValuesAreAskedForEachScript(t *testing.T) {
	b := newBench(t)
	b.config.Managed = bash.NewEnvironment()
	calls := 0
	contribute(t, b.config.Managed, bash.Contributor{
		Name: "count", Keys: map[string]string{"CORRAL_CALLS": "how often"},
		Values: func(_ context.Context, owner string) (map[string]string, error) {
			calls++
			return map[string]string{"CORRAL_CALLS": owner + strconv.Itoa(calls)}, nil
		},
	})
	sh := b.bash(t)
	for _, want := range []string{"a1", "b2"} {
		result, err := sh.Run(t.Context(), bash.Request{Script: `printf %s "$CORRAL_CALLS"`, Owner: want[:1]})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "CORRAL_CALLS", result.Stdout.Text, want)
	}
}

// What a person has exported for their own shell does not change what a script
// does.
func TestShellSettingsOfTheHarness(t *testing.T) {
	const script = `false; echo ran; set -x; : traced; set +x; echo *; cd sub && pwd; echo *; [ -o posix ] || echo bash; exit 3`
	run := func(t *testing.T, entries ...string) bash.Result {
		b := newBench(t, func(c *local.Config) { c.Environ = append(c.Environ, entries...) })
		for _, dir := range []string{b.config.Dir + "/sub", b.config.Dir + "/elsewhere/sub"} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		result := b.run(t, bash.Request{Script: script})
		result.Stdout.Text = strings.ReplaceAll(result.Stdout.Text, b.config.Dir, "DIR")
		return result
	}
	want := run(t)
	if want.Outcome.ExitCode != 3 || want.Stdout.Text != "ran\nelsewhere sub\nDIR/sub\n*\nbash\n" || want.Stderr.Text == "" {
		t.Fatalf("got %+v", want)
	}
	for _, entry := range []string{
		"SHELLOPTS=noexec", "SHELLOPTS=errexit:xtrace", "BASHOPTS=nullglob:failglob", "BASH_XTRACEFD=1",
		"POSIXLY_CORRECT=1", "CDPATH=elsewhere", "GLOBIGNORE=s*", "BASH_ENV=/dev/stdin", "ENV=/dev/stdin",
	} {
		t.Run(entry, func(t *testing.T) {
			got := run(t, entry)
			expect(t, "stdout", got.Stdout.Text, want.Stdout.Text)
			expect(t, "stderr", got.Stderr.Text, want.Stderr.Text)
			if got.Outcome.ExitCode != 3 {
				t.Errorf("exit code %d, want 3", got.Outcome.ExitCode)
			}
		})
	}
	t.Run("what a request sets counts", func(t *testing.T) {
		result := newBench(t).run(t, bash.Request{Script: "false; echo ran", Env: seam.Env{seam.Set("SHELLOPTS", "errexit")}})
		if result.Stdout.Text != "" || result.Outcome.ExitCode != 1 {
			t.Errorf("got %+v", result)
		}
	})
}
