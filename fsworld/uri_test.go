package fsworld_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/corral-world/corral/fsworld"
)

func TestPosixURI(t *testing.T) {
	for path, want := range map[string]string{
		"/":                  "file:///",
		"/tmp/x.go":          "file:///tmp/x.go",
		"/tmp/a b#c%d/é.go":  "file:///tmp/a%20b%23c%25d/%C3%A9.go",
		"/q?x=1&y=2":         "file:///q%3Fx=1&y=2",
		"/a:b/c@d/e+f;g,h":   "file:///a:b/c@d/e+f;g,h",
		"/~user/[x]{y}|z^\"": "file:///~user/%5Bx%5D%7By%7D%7Cz%5E%22",
		`/back\slash`:        "file:///back%5Cslash",
		"/not utf-8 \xff":    "file:///not%20utf-8%20%FF",
		"/tab\tnl\n":         "file:///tab%09nl%0A",
	} {
		if got := fsworld.PosixURI(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

func TestWindowsURI(t *testing.T) {
	for path, want := range map[string]string{
		`C:\`:                 "file:///C:/",
		`C:\a b\x.go`:         "file:///C:/a%20b/x.go",
		`c:/a#b/é.go`:         "file:///c:/a%23b/%C3%A9.go",
		`D:\100%\{x}`:         "file:///D:/100%25/%7Bx%7D",
		`\\srv\share\x`:       "file://srv/share/x",
		`\\srv\share\a b\é`:   "file://srv/share/a%20b/%C3%A9",
		`\\wsl$\Debian\home`:  "file://wsl$/Debian/home",
		`\\srv@SSL\share\x`:   "file://srv%40SSL/share/x",
		`\\?\C:\very\long`:    "file:///C:/very/long",
		`\\?\UNC\srv\share\x`: "file://srv/share/x",
		`\\.\pipe\x`:          "",
		`\\?\Volume{1-2}\x`:   "",
		`\rooted`:             "",
		`C:relative`:          "",
		`relative`:            "",
		"":                    "",
		`\\`:                  "",
	} {
		got, err := fsworld.WindowsURI(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %s, %v; want %q", path, got, err, want)
		}
	}
}

func TestStripVerbatim(t *testing.T) {
	for path, want := range map[string]string{
		`\\?\C:\x`:          `C:\x`,
		`\\?\unc\srv\share`: `\\srv\share`,
		`\\?\UNC\`:          `\\?\UNC\`,
		`\\?\Volume{1-2}\x`: `\\?\Volume{1-2}\x`,
		`\\.\C:\x`:          `\\.\C:\x`,
		`C:\x`:              `C:\x`,
	} {
		if got := fsworld.StripVerbatim(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

func FuzzFileURI(f *testing.F) {
	for _, path := range []string{"/tmp/a b#c%d/é.go", `C:\a b\x.go`, `\\srv\share\x`, "/\xff\x00?*", "/a//b;c:d@e"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") {
			if u := parse(t, fsworld.PosixURI(path)); u.Host != "" || u.Path != path {
				t.Errorf("%q came back as host %q, path %q", path, u.Host, u.Path)
			}
		}
		uri, err := fsworld.WindowsURI(path)
		if err != nil {
			return
		}
		slashed := strings.ReplaceAll(fsworld.StripVerbatim(path), `\`, "/")
		if rest, unc := strings.CutPrefix(slashed, "//"); unc {
			// net/url refuses escapes in a host that RFC 3986 allows.
			server, share, _ := strings.Cut(rest, "/")
			encoded, rest, _ := strings.Cut(strings.TrimPrefix(uri, "file://"), "/")
			if got, err := url.PathUnescape(encoded); err != nil || got != server {
				t.Errorf("server of %q came back as %q, %v", path, got, err)
			}
			if got, err := url.PathUnescape(rest); err != nil || got != share {
				t.Errorf("share of %q came back as %q, %v", path, got, err)
			}
			return
		}
		if u := parse(t, uri); u.Host != "" || u.Path != "/"+slashed {
			t.Errorf("%q came back as host %q, path %q", path, u.Host, u.Path)
		}
	})
}

func parse(t *testing.T, uri string) *url.URL {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme != "file" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		t.Fatalf("%s is not plainly a file: %+v", uri, u)
	}
	return u
}
