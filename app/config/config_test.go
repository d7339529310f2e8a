package config_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-world/corral/app/config"
	"github.com/corral-world/corral/seam"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	got, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Grace != 3*time.Second || got.Drain != 500*time.Millisecond || got.OutputMaxBytes != 256<<10 ||
		got.Spill != (config.Spill{MaxBytes: 256 << 20, QuotaBytes: 1 << 30, Keep: 24 * time.Hour}) ||
		got.Containment != "" || got.Scrub.AllowOnly || got.Log != (config.Log{Level: slog.LevelWarn, Format: "text"}) {
		t.Errorf("defaults = %+v", got.Config)
	}
	for _, v := range got.Values() {
		if v.Origin != "default" {
			t.Errorf("%s is from %q", v.Setting, v.Origin)
		}
	}
}

func TestEverySettingFromFile(t *testing.T) {
	path := write(t, `{
		"containment": "group",
		"env": {"mode": "allow", "allow": ["PATH", "LC_*"], "deny": []},
		"grace": "10s",
		"drain": "0s",
		"output": {"max_bytes": "1MiB"},
		"spill": {"dir": "/var/tmp", "max_bytes": 0, "quota_bytes": "2GB", "keep": "1h"},
		"log": {"level": "debug", "format": "json"}
	}`)
	got, err := config.Load(config.Sources{File: &path})
	if err != nil {
		t.Fatal(err)
	}
	if got.Containment != seam.KindGroup || !got.Scrub.AllowOnly || !slices.Equal(got.Scrub.Allow, []string{"PATH", "LC_*"}) ||
		got.Grace != 10*time.Second || got.Drain != 0 || got.OutputMaxBytes != 1<<20 ||
		got.Spill != (config.Spill{Dir: "/var/tmp", QuotaBytes: 2e9, Keep: time.Hour}) ||
		got.Log != (config.Log{Level: slog.LevelDebug, Format: "json"}) {
		t.Errorf("config = %+v", got.Config)
	}
	for _, v := range got.Values() {
		if v.Origin != "file "+path {
			t.Errorf("%s is from %q, want all of them from the file", v.Setting, v.Origin)
		}
	}
}

func TestPrecedence(t *testing.T) {
	path := write(t, `{"grace": "1s", "drain": "1s", "spill": {"keep": "1s"}}`)
	got, err := config.Load(config.Sources{
		Environ: []string{"CORRAL_CONFIG=" + path, "CORRAL_GRACE=2s", "CORRAL_DRAIN=2s", "CORRAL_SPILL_KEEP="},
		Flags:   []config.Flag{{Flag: "--grace", Setting: "grace", Text: "3s"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Grace != 3*time.Second || got.Drain != 2*time.Second || got.Spill.Keep != time.Second {
		t.Errorf("grace %v, drain %v, keep %v", got.Grace, got.Drain, got.Spill.Keep)
	}
	want := map[string]string{"grace": "flag --grace", "drain": "env CORRAL_DRAIN", "spill.keep": "file " + path, "env.mode": "default"}
	for _, v := range got.Values() {
		if origin, ok := want[v.Setting]; ok && v.Origin != origin {
			t.Errorf("%s is from %q, want %q", v.Setting, v.Origin, origin)
		}
	}
}

func TestEverySettingFromEnvironment(t *testing.T) {
	got, err := config.Load(config.Sources{Environ: []string{
		"CORRAL_CONTAINMENT=auto", "CORRAL_ENV_MODE=deny", "CORRAL_ENV_ALLOW=A, B*", "CORRAL_ENV_DENY=C",
		"CORRAL_GRACE=1s", "CORRAL_DRAIN=1s", "CORRAL_OUTPUT_MAX_BYTES=4KiB", "CORRAL_SPILL_DIR=/tmp",
		"CORRAL_SPILL_MAX_BYTES=1", "CORRAL_SPILL_QUOTA_BYTES=2", "CORRAL_SPILL_KEEP=0s",
		"CORRAL_LOG_LEVEL=error", "CORRAL_LOG_FORMAT=json", "CORRAL_GRAECE=1s", "OTHER=1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Scrub.Allow, []string{"A", "B*"}) {
		t.Errorf("allow = %q", got.Scrub.Allow)
	}
	for _, v := range got.Values() {
		if !strings.HasPrefix(v.Origin, "env CORRAL_") {
			t.Errorf("%s is from %q", v.Setting, v.Origin)
		}
	}
	if want := []string{"CORRAL_GRAECE"}; !slices.Equal(got.Unknown, want) {
		t.Errorf("unknown = %q, want %q", got.Unknown, want)
	}
}

func TestDefaultFile(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, ".config", "corral")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"grace":"7s"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		environ []string
		want    time.Duration
	}{
		{"home", []string{"HOME=" + home}, 7 * time.Second},
		{"XDG_CONFIG_HOME", []string{"HOME=/nowhere", "XDG_CONFIG_HOME=" + home + "/.config"}, 7 * time.Second},
		{"relative XDG_CONFIG_HOME is ignored", []string{"HOME=" + home, "XDG_CONFIG_HOME=.config"}, 7 * time.Second},
		{"absent", []string{"HOME=" + t.TempDir()}, 3 * time.Second},
		{"no home", nil, 3 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := config.Load(config.Sources{Environ: test.environ})
			if err != nil {
				t.Fatal(err)
			}
			if got.Grace != test.want {
				t.Errorf("grace = %v, want %v", got.Grace, test.want)
			}
		})
	}
}

func TestFileErrors(t *testing.T) {
	for _, test := range []struct {
		name, content, setting, want string
	}{
		{"empty", ``, "", "is empty"},
		{"not JSON", "{\n\"grace\" 1}", "", "line 2"},
		{"ends early", `{"grace":`, "", "is not JSON"},
		{"not an object", `[]`, "", "holds a list"},
		{"trailing data", "{}\n{}", "", "something follows"},
		{"trailing garbage", "{} x", "", "something follows"},
		{"not UTF-8", "{\"grace\":\"\xff\"}", "", "is not UTF-8"},
		{"unknown setting", `{"graze":"1s"}`, "graze", "is not a setting"},
		{"unknown case", `{"Grace":"1s"}`, "Grace", "is not a setting"},
		{"unknown setting in a group", `{"spill":{"max":1}}`, "spill.max", "is not a setting"},
		{"dotted name", `{"spill.keep":"1h"}`, "spill.keep", "is not a setting"},
		{"twice", `{"grace":"1s","grace":"2s"}`, "grace", "is given twice"},
		{"group is no object", `{"spill":1}`, "spill", "is a number, and must be an object"},
		{"duration is a number", `{"grace":3}`, "grace", "is a number, and must be a duration"},
		{"duration without unit", `{"grace":"3"}`, "grace", `is "3", and must be a duration`},
		{"null", `{"grace":null}`, "grace", "is null"},
		{"grace is zero", `{"grace":"0s"}`, "grace", "must be greater than 0"},
		{"drain is negative", `{"drain":"-1s"}`, "drain", "must be at least 0"},
		{"size is a fraction", `{"output":{"max_bytes":1.5}}`, "output.max_bytes", "an integer"},
		{"size is a boolean", `{"output":{"max_bytes":true}}`, "output.max_bytes", "is a boolean"},
		{"size has no such unit", `{"output":{"max_bytes":"1M"}}`, "output.max_bytes", "64MiB"},
		{"size is zero", `{"output":{"max_bytes":0}}`, "output.max_bytes", "must be between"},
		{"size overflows", `{"spill":{"max_bytes":"9999999999TiB"}}`, "spill.max_bytes", "too large"},
		{"number overflows", `{"spill":{"max_bytes":99999999999999999999}}`, "spill.max_bytes", "too large"},
		{"quota is zero", `{"spill":{"quota_bytes":0}}`, "spill.quota_bytes", "at least 1"},
		{"directory is relative", `{"spill":{"dir":"tmp"}}`, "spill.dir", "absolute"},
		{"directory has a NUL", `{"spill":{"dir":"/tmp\u0000"}}`, "spill.dir", "absolute"},
		{"unknown mode", `{"env":{"mode":"off"}}`, "env.mode", "deny, allow"},
		{"list is a string", `{"env":{"deny":"A"}}`, "env.deny", "is a string, and must be a list"},
		{"list of numbers", `{"env":{"deny":["A", 1]}}`, "env.deny", "[1] is a number"},
		{"malformed pattern", `{"env":{"deny":["A","[B"]}}`, "env.deny", `[1] is not a pattern: "[B"`},
		{"name with a NUL", `{"env":{"allow":["A\u0000"]}}`, "env.allow", "[0] is no pattern"},
		{"unknown containment", `{"containment":"jail"}`, "containment", "auto, scope"},
		{"unknown level", `{"log":{"level":"loud"}}`, "log.level", "debug, info"},
		{"unknown format", `{"log":{"format":"xml"}}`, "log.format", "text, json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, test.content)
			_, err := config.Load(config.Sources{File: &path})
			checkError(t, err, test.setting, test.want, "file "+path)
		})
	}
}

func TestOtherErrors(t *testing.T) {
	missing, dir, empty := filepath.Join(t.TempDir(), "missing.json"), t.TempDir(), ""
	for _, test := range []struct {
		name                  string
		sources               config.Sources
		setting, want, origin string
	}{
		{"file is missing", config.Sources{File: &missing}, "", "no such file", "file " + missing},
		{"file of the variable is missing", config.Sources{Environ: []string{"CORRAL_CONFIG=" + missing}}, "", "no such file", "file " + missing},
		{"file is a directory", config.Sources{File: &dir}, "", "not a regular file", "file " + dir},
		{"file has no name", config.Sources{File: &empty}, "", "name is empty", "file "},
		{"variable", config.Sources{Environ: []string{"CORRAL_GRACE=soon"}}, "grace", `is "soon"`, "env CORRAL_GRACE"},
		{"list in a variable", config.Sources{Environ: []string{"CORRAL_ENV_DENY=A,,B"}}, "env.deny", "[1] is not", "env CORRAL_ENV_DENY"},
		{
			"variable that a flag overrides",
			config.Sources{Environ: []string{"CORRAL_GRACE=soon"}, Flags: []config.Flag{{"--grace", "grace", "1s"}}},
			"grace", `is "soon"`, "env CORRAL_GRACE",
		},
		{"flag", config.Sources{Flags: []config.Flag{{"--grace", "grace", "-1s"}}}, "grace", "greater than 0", "flag --grace"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := config.Load(test.sources)
			checkError(t, err, test.setting, test.want, test.origin)
		})
	}
}

func checkError(t *testing.T, err error, setting, problem, origin string) {
	t.Helper()
	e, ok := errors.AsType[*config.Error](err)
	if !ok {
		t.Fatalf("err = %v (%T), want a *config.Error", err, err)
	}
	if e.Setting != setting || !strings.Contains(e.Problem, problem) || e.Origin != origin {
		t.Errorf("err = %+v, want setting %q, %q in the problem, origin %q", e, setting, problem, origin)
	}
	for _, part := range []string{setting, origin} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "17": 17, "-3": -3, "5B": 5, "1KiB": 1024, "64MiB": 64 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40,
		"1kB": 1000, "3MB": 3e6, "1GB": 1e9, "8388607TiB": 8388607 << 40,
	} {
		if got, err := config.Size(text); err != nil || got != want {
			t.Errorf("Size(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "1 MiB", "1K", "1mib", "1.5MiB", "+1", "0x10", "8388608TiB", "MiB1", "1-2", "--1"} {
		if got, err := config.Size(text); err == nil {
			t.Errorf("Size(%q) = %d, want an error", text, got)
		}
	}
}

// FuzzFile: whatever a file holds, it is read or refused with an error that
// names it, and what was read is within bounds.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{`{}`, `{"grace":"1s"}`, `{"env":{"deny":["A"]}}`, `{"spill":{"max_bytes":1}} x`, `[`, `{"":{}}`, `{"grace":1e3}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		path := write(t, content)
		got, err := config.Load(config.Sources{File: &path})
		if err != nil {
			if !strings.Contains(err.Error(), path) {
				t.Errorf("%q does not name the file", err)
			}
			return
		}
		if got.Grace <= 0 || got.Drain < 0 || got.OutputMaxBytes < 1 || got.Spill.QuotaBytes < 1 {
			t.Errorf("out of bounds: %+v", got.Config)
		}
		got.Values()
	})
}

// A name from the file is shown so that it misleads no terminal.
func TestNamesAreQuoted(t *testing.T) {
	for content, want := range map[string]string{
		`{"a\u0000b": 1}`:                `config "a\x00b" is not a setting`,
		`{"\u001b[2J": 1}`:               `config "\x1b[2J" is not a setting`,
		`{"spill": {"x\n\u202ey": 1}}`:   `config "spill.x\n\u202ey" is not a setting`,
		`{"\u001b.x": 1}`:                `config "\x1b.x" is not a setting: groups`,
		`{"a b": 1}`:                     `config "a b" is not a setting`,
		`{"größe": 1}`:                   `config größe is not a setting`,
		`{"grace": "1s", "grace": "1s"}`: `config grace is given twice`,
	} {
		path := write(t, content)
		_, err := config.Load(config.Sources{File: &path})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %q, want %q", content, err, want)
		}
	}
}
