package fsworld

import (
	"errors"
	"strings"
)

// posixURI is an absolute POSIX path as a file: URI. Bytes that are not UTF-8
// are encoded as they are.
func posixURI(path string) string {
	return "file://" + percentEncode(path, pathBytes)
}

var errDevicePath = errors.New("a device path has no file: URI")

// windowsURI is an absolute Windows path as a file: URI: RFC 8089, appendix E.2
// for drives and E.3.1 for UNC.
func windowsURI(path string) (string, error) {
	path = strings.ReplaceAll(stripVerbatim(path), `\`, "/")
	switch {
	case len(path) >= 3 && path[1] == ':' && path[2] == '/':
		return "file:///" + percentEncode(path, pathBytes), nil
	case strings.HasPrefix(path, "//") && len(path) > 2 && !strings.ContainsRune("./?", rune(path[2])):
		server, rest, _ := strings.Cut(path[2:], "/")
		return "file://" + percentEncode(server, hostBytes) + "/" + percentEncode(rest, pathBytes), nil
	default:
		return "", errDevicePath
	}
}

// stripVerbatim removes the prefix that tells Windows not to parse a path,
// from drive and UNC paths: the two forms name one file.
func stripVerbatim(path string) string {
	rest, ok := strings.CutPrefix(path, `\\?\`)
	switch {
	case !ok:
		return path
	case len(rest) >= 3 && rest[1] == ':' && rest[2] == '\\':
		return rest
	case len(rest) > 4 && strings.EqualFold(rest[:4], `UNC\`):
		return `\\` + rest[4:]
	default:
		return path
	}
}

// What may stand for itself in a URI beside letters and digits (RFC 3986): in a
// registered name, and in a path. An "@" or ":" in the former would begin
// something else; WebDAV servers are spelt with one (\\server@SSL\share).
const (
	hostBytes = "-._~!$&'()*+,;="
	pathBytes = hostBytes + ":@/"
)

// percentEncode encodes every byte of s but letters, digits and plain.
func percentEncode(s, plain string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(plain, c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
