// Package config reads Corral's configuration: built-in defaults, one JSON file,
// environment variables and flags, each overriding the one before.
//
// Everything is checked while it is read, also what is overridden afterwards,
// and nothing else is done. An [Error] names the setting and where it came from.
package config

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/corral-world/corral/seam"
)

// Config is the whole of Corral's configuration. The comments name the settings
// as the file and [Set] do; the variable of "spill.max_bytes" is
// CORRAL_SPILL_MAX_BYTES.
type Config struct {
	// Containment, "containment", forces a kind. Empty, in settings "auto": the
	// strongest that is to be had.
	Containment seam.Kind

	// Scrub, "env.mode" ("deny" or "allow"), "env.allow" and "env.deny", is how
	// the base environment of commands is made.
	Scrub seam.Scrub

	Grace time.Duration // "grace", between TERM and KILL
	Drain time.Duration // "drain", after the direct exit

	// OutputMaxBytes, "output.max_bytes", is how much of the end of a collected
	// stream is kept in memory.
	OutputMaxBytes int64

	Spill Spill
	Log   Log
}

// Spill says where complete streams are kept that outgrow memory.
type Spill struct {
	Dir        string        // "spill.dir"; empty: the system's directory for temporary files
	MaxBytes   int64         // "spill.max_bytes", of one stream; 0: no files
	QuotaBytes int64         // "spill.quota_bytes", of all streams together
	Keep       time.Duration // "spill.keep", after the end; 0: not at all
}

// Log says what is logged, and how.
type Log struct {
	Level  slog.Level // "log.level": debug, info, warn, error
	Format string     // "log.format": text, json
}

// Log formats.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// Default is the configuration where nothing else is said.
func Default() Config {
	return Config{
		Grace:          3 * time.Second,
		Drain:          500 * time.Millisecond,
		OutputMaxBytes: 256 << 10,
		Spill: Spill{
			MaxBytes:   256 << 20,
			QuotaBytes: 1 << 30,
			Keep:       24 * time.Hour,
		},
		Log: Log{Level: slog.LevelWarn, Format: FormatText},
	}
}

// An Error is a setting that can't be used, or a file that can't be read.
type Error struct {
	Setting string // "" where the file as a whole is at fault
	Problem string // completes the sentence that Setting begins
	Origin  string // "file /etc/corral.json", "env CORRAL_GRACE", "flag --grace"
	Err     error  // the system's, where a file can't be read; may be nil
}

func (e *Error) Error() string {
	if e.Setting == "" {
		return fmt.Sprintf("config %s: %s", e.Origin, e.Problem)
	}
	space := " "
	if strings.HasPrefix(e.Problem, "[") { // of one item of a list
		space = ""
	}
	return fmt.Sprintf("config %s%s%s (%s)", shown(e.Setting), space, e.Problem, e.Origin)
}

// shown is a setting's name as a message shows it. One from a file can be
// anything, also what would mislead a terminal; it is quoted then.
func shown(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '"' || !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// A Value is one setting as it is in effect.
type Value struct {
	Setting string
	Value   any    // a string, an integer or a list of strings, as in the file
	Origin  string // as in Error, or "default"
}

// Loaded is a configuration and where it is from.
type Loaded struct {
	Config
	File    string   // the file that was read; "" if none was
	Unknown []string // variables that begin with CORRAL_ and are no setting
	origins map[string]string
}

// IsSet reports whether anything but the default gave setting its value.
func (l *Loaded) IsSet(setting string) bool { return l.origins[setting] != "" }

// Values lists every setting, in the order of the documentation.
func (l *Loaded) Values() []Value {
	var values []Value
	for _, s := range settings() {
		origin := l.origins[s.name]
		if origin == "" {
			origin = "default"
		}
		values = append(values, Value{Setting: s.name, Value: s.show(&l.Config), Origin: origin})
	}
	return values
}
