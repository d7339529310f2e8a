package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corral-world/corral/seam"
)

// A codec reads and shows values of one type. Errors complete a sentence that
// begins with the setting's name.
type codec[T any] struct {
	fromJSON func(json.RawMessage) (T, error)
	fromText func(string) (T, error)
	show     func(T) any
}

// The codecs of settings. They are functions of their input alone.
var (
	texts     = stringCodec("a string", func(s string) (string, error) { return s, nil }, itself[string])
	durations = stringCodec(`a duration such as "3s"`, Duration, time.Duration.String)
	kinds     = stringCodec("a kind of containment", parseKind, showKind)
	levels    = stringCodec("a level", parseLevel, showLevel)

	scrubModes = stringCodec(`"deny" or "allow"`, parseScrubMode, func(allowOnly bool) string {
		if allowOnly {
			return "allow"
		}
		return "deny"
	})

	sizes = codec[int64]{fromJSON: sizeFromJSON, fromText: Size, show: func(n int64) any { return n }}

	lists = codec[[]string]{fromJSON: listFromJSON, fromText: listFromText, show: func(l []string) any {
		return append([]string{}, l...)
	}}
)

// stringCodec is for what the file, too, has as a string.
func stringCodec[T any](want string, parse func(string) (T, error), show func(T) string) codec[T] {
	return codec[T]{
		fromJSON: func(raw json.RawMessage) (T, error) {
			var s string
			if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
				var zero T
				return zero, fmt.Errorf("is %s, and must be %s", typeOf(raw), want)
			}
			return parse(s)
		},
		fromText: parse,
		show:     func(v T) any { return show(v) },
	}
}

func oneOf(words ...string) codec[string] {
	return stringCodec("a string", func(s string) (string, error) { return pick(s, words...) }, itself[string])
}

func itself[T any](v T) T { return v }

func pick(s string, words ...string) (string, error) {
	if slices.Contains(words, s) {
		return s, nil
	}
	return "", fmt.Errorf("is %q, and must be one of %s", s, strings.Join(words, ", "))
}

// typeOf names the type of a JSON value.
func typeOf(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// Duration reads a duration such as "500ms". The error completes a sentence.
func Duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf(`is %q, and must be a duration such as "3s"`, s)
	}
	return d, nil
}

var errSize = errors.New(`an integer, or a size such as "64MiB"`)

// Size reads a number of bytes, with or without a unit: B, the powers of 1024
// KiB to TiB, or those of 1000, kB to TB. The error completes a sentence.
func Size(s string) (int64, error) {
	digits := strings.TrimLeft(s, "-0123456789")
	number, unit := s[:len(s)-len(digits)], digits
	n, err := strconv.ParseInt(number, 10, 64)
	scale, known := units()[unit]
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && known && (n > math.MaxInt64/scale || n < math.MinInt64/scale):
		return 0, fmt.Errorf("is %q, which is too large", s)
	case err != nil || !known:
		return 0, fmt.Errorf("is %q, and must be %w", s, errSize)
	}
	return n * scale, nil
}

func units() map[string]int64 {
	return map[string]int64{
		"": 1, "B": 1,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	}
}

func sizeFromJSON(raw json.RawMessage) (int64, error) {
	var s string
	if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return Size(s)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("is %s, which is too large", raw)
	case err != nil && typeOf(raw) == "a number":
		return 0, fmt.Errorf("is %s, and must be %w", raw, errSize)
	case err != nil:
		return 0, fmt.Errorf("is %s, and must be %w", typeOf(raw), errSize)
	}
	return n, nil
}

// listFromText splits at commas; names hold none.
func listFromText(s string) ([]string, error) {
	var list []string
	for item := range strings.SplitSeq(s, ",") {
		list = append(list, strings.TrimSpace(item))
	}
	return list, nil
}

func listFromJSON(raw json.RawMessage) ([]string, error) {
	const want = "must be a list of strings"
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		return nil, fmt.Errorf("is %s, and %s", typeOf(raw), want)
	}
	var list []string
	for i, item := range items {
		item = bytes.TrimSpace(item)
		var s string
		if item[0] != '"' || json.Unmarshal(item, &s) != nil {
			return nil, fmt.Errorf("[%d] is %s, and %s", i, typeOf(item), want)
		}
		list = append(list, s)
	}
	return list, nil
}

func parseKind(s string) (seam.Kind, error) {
	kind, err := pick(s, "auto", string(seam.KindScope), string(seam.KindCgroup), string(seam.KindJob),
		string(seam.KindReaper), string(seam.KindGroup), string(seam.KindTree))
	if kind == "auto" {
		kind = ""
	}
	return seam.Kind(kind), err
}

func showKind(k seam.Kind) string {
	if k == "" {
		return "auto"
	}
	return string(k)
}

func parseScrubMode(s string) (allowOnly bool, err error) {
	mode, err := pick(s, "deny", "allow")
	return mode == "allow", err
}

func parseLevel(s string) (slog.Level, error) {
	word, err := pick(s, "debug", "info", "warn", "error")
	if err != nil {
		return 0, err
	}
	var level slog.Level
	return level, level.UnmarshalText([]byte(word))
}

func showLevel(l slog.Level) string { return strings.ToLower(l.String()) }
