package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// decode reads a file's content. It is stricter than encoding/json: names have
// one spelling and occur once, text is UTF-8, and nothing follows the object.
func (l *Loaded) decode(data []byte, origin string) error {
	fail := func(format string, args ...any) error {
		return &Error{Problem: fmt.Sprintf(format, args...), Origin: origin}
	}
	if !utf8.Valid(data) {
		return fail("is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	var root json.RawMessage
	if err := d.Decode(&root); err != nil {
		return fail("%s", explainSyntax(err, data))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fail("something follows the object, at line %d", lineOf(data, d.InputOffset()))
	}
	if root[0] != '{' {
		return fail("holds %s, and must hold an object", typeOf(root))
	}
	return l.decodeObject("", root, origin)
}

// decodeObject reads the settings whose names begin with prefix.
func (l *Loaded) decodeObject(prefix string, object json.RawMessage, origin string) error {
	seen := make(map[string]bool)
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // "{": the object has been decoded once already
	for d.More() {
		token, _ := d.Token()
		key, _ := token.(string)
		name := prefix + key
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return &Error{Setting: name, Problem: err.Error(), Origin: origin}
		}
		switch {
		case strings.Contains(key, "."):
			return &Error{Setting: name, Problem: "is not a setting: groups are objects", Origin: origin}
		case seen[name]:
			return &Error{Setting: name, Problem: "is given twice", Origin: origin}
		}
		seen[name] = true
		if err := l.decodeSetting(name, value, origin); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loaded) decodeSetting(name string, value json.RawMessage, origin string) error {
	all := settings()
	if i := slices.IndexFunc(all, func(s setting) bool { return s.name == name }); i >= 0 {
		if err := all[i].setJSON(&l.Config, value); err != nil {
			return &Error{Setting: name, Problem: err.Error(), Origin: origin}
		}
		l.origins[name] = origin
		return nil
	}
	isGroup := slices.ContainsFunc(all, func(s setting) bool { return strings.HasPrefix(s.name, name+".") })
	switch {
	case !isGroup:
		return &Error{Setting: name, Problem: "is not a setting", Origin: origin}
	case value[0] != '{':
		return &Error{Setting: name, Problem: "is " + typeOf(value) + ", and must be an object", Origin: origin}
	}
	return l.decodeObject(name+".", value, origin)
}

func explainSyntax(err error, data []byte) string {
	if errors.Is(err, io.EOF) {
		return "is empty, and must hold an object"
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("is not JSON: %v, at line %d", err, lineOf(data, syntax.Offset))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "is not JSON: it ends too early"
	}
	return "is not JSON: " + err.Error()
}

func lineOf(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}
