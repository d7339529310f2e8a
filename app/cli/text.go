package cli

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// quoteArgv shows argv in at most maxRunes. What processes say of themselves
// may be meant to mislead a terminal, so nothing that is not plain is shown as
// it is.
func quoteArgv(argv []string, maxRunes int) string {
	var words []string
	for _, arg := range argv {
		arg = arg[:min(len(arg), utf8.UTFMax*(maxRunes+1))] // what is shown, and more
		plain := func(r rune) bool { return r != '"' && r != '\'' && r != '\\' && r > ' ' && strconv.IsPrint(r) }
		if arg == "" || !utf8.ValidString(arg) || strings.ContainsFunc(arg, func(r rune) bool { return !plain(r) }) {
			arg = strconv.Quote(arg)
		}
		words = append(words, arg)
	}
	text := strings.Join(words, " ")
	if utf8.RuneCountInString(text) <= maxRunes {
		return text
	}
	if maxRunes < 1 {
		return ""
	}
	return string([]rune(text)[:maxRunes-1]) + "…"
}

// plainText is a text of another process's, in quotes where it holds what is not
// plain: see quoteArgv.
func plainText(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// isSet reports whether a variable is set and not empty.
func isSet(environ []string, name string) bool {
	for _, entry := range environ {
		if n, value, ok := strings.Cut(entry, "="); ok && n == name {
			return value != ""
		}
	}
	return false
}
