package seam

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Env is an ordered list of overrides over a world's scrubbed base environment.
// Later entries win. An override is not scrubbed: who names a credential
// deliberately gets it through.
type Env []EnvVar

// An EnvVar is one override.
type EnvVar struct {
	Name  string // not empty, no NUL, no "=" after the first byte ("=C:" is a name on Windows)
	Value string // no NUL
	Unset bool   // remove Name from the base; Value is ignored
}

// Set overrides name.
func Set(name, value string) EnvVar { return EnvVar{Name: name, Value: value} }

// Unset removes name.
func Unset(name string) EnvVar { return EnvVar{Name: name, Unset: true} }

// Apply returns base with the overrides applied, as sorted "name=value"
// strings, each name once. foldCase compares names without regard to case, as
// Windows does; the last writer's spelling is kept.
func (e Env) Apply(base []string, foldCase bool) []string {
	fold := func(name string) string {
		if foldCase {
			return strings.ToUpper(name)
		}
		return name
	}
	entries := make(map[string]string, len(base)+len(e))
	for _, entry := range base {
		name, _ := cutEntry(entry)
		entries[fold(name)] = entry
	}
	for _, v := range e {
		if v.Unset {
			delete(entries, fold(v.Name))
		} else {
			entries[fold(v.Name)] = v.Name + "=" + v.Value
		}
	}
	environ := make([]string, 0, len(entries))
	for _, entry := range entries {
		environ = append(environ, entry)
	}
	slices.Sort(environ)
	return environ
}

// cutEntry splits "name=value"; the name of "=C:=C:\dir" is "=C:".
func cutEntry(entry string) (name, value string) {
	if entry == "" {
		return "", ""
	}
	i := strings.IndexByte(entry[1:], '=')
	if i < 0 {
		return entry, ""
	}
	return entry[:i+1], entry[i+2:]
}

func (e Env) validate() *FieldError {
	for i, v := range e {
		field := fmt.Sprintf("Env[%d]", i)
		switch {
		case v.Name == "":
			return &FieldError{field + ".Name", "is empty"}
		case strings.IndexByte(v.Name, 0) >= 0:
			return &FieldError{field + ".Name", "contains a NUL byte"}
		case strings.IndexByte(v.Name[1:], '=') >= 0:
			return &FieldError{field + ".Name", `contains "="`}
		case strings.IndexByte(v.Value, 0) >= 0:
			return &FieldError{field + ".Value", fmt.Sprintf("(%s) contains a NUL byte", quoteArg(v.Name))}
		}
	}
	return nil
}

// A Scrub is the rule by which a world's base environment is made from the
// environment of the process that hosts it. The zero Scrub is the deny rule.
//
// Deny: a variable is dropped when its name, in any case, contains one of
// KEY, PASSWORD, PASSWD, PASSPHRASE, SECRET, TOKEN or CREDENTIAL; begins with
// CORRAL_; is SSH_AUTH_SOCK or GPG_AGENT_INFO (agents that act for the user); or
// begins with BASH_FUNC_ (functions that a bash exported: code, which would
// replace commands in every shell below); and when its value is a URL with a password in it or holds a PEM private key.
// Proxy variables (names that end in _PROXY) are kept whatever their value.
// The rule is a heuristic: a secret under an innocent name passes.
//
// Allow: with AllowOnly, a variable is kept only when its name matches Allow,
// and the deny rule is not consulted.
type Scrub struct {
	// AllowOnly keeps nothing but what Allow matches.
	AllowOnly bool

	// Allow lists names, or patterns in the syntax of path.Match, that are
	// kept in either mode. Names are compared in any case.
	Allow []string

	// Deny lists further names or patterns to drop. Allow wins over Deny.
	Deny []string
}

// Validate refuses malformed patterns with a [FieldError].
func (s Scrub) Validate() error {
	for _, list := range []struct {
		field    string
		patterns []string
	}{{"Allow", s.Allow}, {"Deny", s.Deny}} {
		for i, pattern := range list.patterns {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				return &FieldError{fmt.Sprintf("%s[%d]", list.field, i), fmt.Sprintf("is not a pattern: %q", pattern)}
			}
		}
	}
	return nil
}

// Apply splits environ, in the form of os.Environ, into the entries that are
// kept and the sorted names of those that are dropped. Values of dropped
// entries are not returned, so the names may be shown.
func (s Scrub) Apply(environ []string) (kept, dropped []string) {
	for _, entry := range environ {
		name, value := cutEntry(entry)
		if s.keeps(name, value) {
			kept = append(kept, entry)
		} else {
			dropped = append(dropped, name)
		}
	}
	slices.SortFunc(dropped, cmp.Compare)
	return kept, slices.Compact(dropped)
}

func (s Scrub) keeps(name, value string) bool {
	upper := strings.ToUpper(name)
	switch {
	case matchesAny(s.Allow, upper):
		return true
	case s.AllowOnly, matchesAny(s.Deny, upper):
		return false
	}
	return !looksPrivate(upper) && (strings.HasSuffix(upper, "_PROXY") || !holdsSecret(value))
}

func matchesAny(patterns []string, upper string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(strings.ToUpper(pattern), upper)
		return ok && err == nil
	})
}

// EnvPrefix begins the names of variables that are Corral's own. Ambient ones
// are facts about an outer world and are never passed on.
const EnvPrefix = "CORRAL_"

func looksPrivate(upper string) bool {
	if strings.HasPrefix(upper, EnvPrefix) || strings.HasPrefix(upper, "BASH_FUNC_") || upper == "SSH_AUTH_SOCK" || upper == "GPG_AGENT_INFO" {
		return true
	}
	return slices.ContainsFunc(
		[]string{"KEY", "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "CREDENTIAL"},
		func(word string) bool { return strings.Contains(upper, word) })
}

func holdsSecret(value string) bool {
	if strings.Contains(value, "-----BEGIN ") && strings.Contains(value, "PRIVATE KEY-----") {
		return true
	}
	if !strings.Contains(value, "://") || !strings.Contains(value, "@") {
		return false
	}
	u, err := url.Parse(value)
	if err != nil {
		// Passwords are often not escaped as a URL asks; what stands before
		// the "@" is judged by its shape alone.
		_, authority, _ := strings.Cut(value, "://")
		userinfo, _, found := strings.Cut(authority, "@")
		return found && strings.Contains(userinfo, ":")
	}
	password, ok := u.User.Password()
	return ok && password != ""
}
