package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/corral-world/corral/seam"
)

// A setting is one value of the configuration, and how it is read and shown.
type setting struct {
	name string
	// set reads a value as the file has it, or as a variable or flag has it.
	// The error completes the sentence that name begins.
	setJSON func(*Config, json.RawMessage) error
	setText func(*Config, string) error
	show    func(*Config) any
}

// variable is the environment variable of the setting.
func (s setting) variable() string {
	return seam.EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.name, ".", "_"))
}

// maxOutputBytes bounds what one stream may take of memory: it is held several
// times over while it is reported.
const maxOutputBytes = 1 << 30

func settings() []setting {
	return []setting{
		entry("containment", func(c *Config) *seam.Kind { return &c.Containment }, kinds, nil),
		entry("env.mode", func(c *Config) *bool { return &c.Scrub.AllowOnly }, scrubModes, nil),
		entry("env.allow", func(c *Config) *[]string { return &c.Scrub.Allow }, lists, checkPatterns),
		entry("env.deny", func(c *Config) *[]string { return &c.Scrub.Deny }, lists, checkPatterns),
		entry("grace", func(c *Config) *time.Duration { return &c.Grace }, durations, above[time.Duration](0)),
		entry("drain", func(c *Config) *time.Duration { return &c.Drain }, durations, atLeast[time.Duration](0)),
		entry("output.max_bytes", func(c *Config) *int64 { return &c.OutputMaxBytes }, sizes, between[int64](1, maxOutputBytes)),
		entry("spill.dir", func(c *Config) *string { return &c.Spill.Dir }, texts, checkDir),
		entry("spill.max_bytes", func(c *Config) *int64 { return &c.Spill.MaxBytes }, sizes, atLeast[int64](0)),
		entry("spill.quota_bytes", func(c *Config) *int64 { return &c.Spill.QuotaBytes }, sizes, atLeast[int64](1)),
		entry("spill.keep", func(c *Config) *time.Duration { return &c.Spill.Keep }, durations, atLeast[time.Duration](0)),
		entry("log.level", func(c *Config) *slog.Level { return &c.Log.Level }, levels, nil),
		entry("log.format", func(c *Config) *string { return &c.Log.Format }, oneOf(FormatText, FormatJSON), nil),
	}
}

// entry makes a setting of a field, its codec, and a check of its own.
func entry[T any](name string, field func(*Config) *T, c codec[T], check func(T) error) setting {
	store := func(config *Config, v T, err error) error {
		if err == nil && check != nil {
			err = check(v)
		}
		if err == nil {
			*field(config) = v
		}
		return err
	}
	return setting{
		name: name,
		setJSON: func(config *Config, raw json.RawMessage) error {
			v, err := c.fromJSON(raw)
			return store(config, v, err)
		},
		setText: func(config *Config, text string) error {
			v, err := c.fromText(text)
			return store(config, v, err)
		},
		show: func(config *Config) any { return c.show(*field(config)) },
	}
}

func above[T int64 | time.Duration](limit T) func(T) error {
	return func(v T) error {
		if v <= limit {
			return fmt.Errorf("is %v, and must be greater than %v", v, limit)
		}
		return nil
	}
}

func atLeast[T int64 | time.Duration](limit T) func(T) error {
	return func(v T) error {
		if v < limit {
			return fmt.Errorf("is %v, and must be at least %v", v, limit)
		}
		return nil
	}
}

func between[T int64 | time.Duration](low, high T) func(T) error {
	return func(v T) error {
		if v < low || v > high {
			return fmt.Errorf("is %v, and must be between %v and %v", v, low, high)
		}
		return nil
	}
}

func checkPatterns(patterns []string) error {
	for i, p := range patterns {
		if strings.ContainsAny(p, "\x00=") {
			return fmt.Errorf("[%d] is no pattern of a name: %q", i, p)
		}
	}
	if err := (seam.Scrub{Allow: patterns}).Validate(); err != nil {
		_, problem, _ := strings.Cut(err.Error(), "Allow")
		return fmt.Errorf("%s", problem)
	}
	return nil
}

func checkDir(dir string) error {
	if strings.ContainsRune(dir, 0) || dir != "" && !filepath.IsAbs(dir) {
		return fmt.Errorf("is not an absolute path: %q", dir)
	}
	return nil
}
