package seamtest

import (
	"net/url"
	"strings"

	"github.com/corral-world/corral/seam"
)

const (
	ruleContains = "Contains reports whether child is parent or lies below it, by identity and by whole path components"
	ruleURI      = "FileURI is the target as a percent-encoded file: URI (RFC 8089) in the syntax of the world's platform"
)

// fsPathCases check what is said about targets without looking at files.
var fsPathCases = []fsCase{
	{
		name: "process-path", rule: "ProcessPath is the canonical absolute path under which a process of the same world opens the target",
		run: func(e *fsEnv) {
			e.mkdir("sub")
			e.write("sub/file", "x")
			for _, name := range []string{"sub/file", "sub", "missing/file"} {
				want := e.resolve(name)
				path := e.processPath(want)
				got, err := e.FS.Resolve(e.ctx, path, "")
				switch {
				case err != nil:
					e.errorf("Resolve of the process path %q of %s: %w", path, name, err)
				case got.Key != want.Key:
					e.errorf("the process path %q of %s resolves to key %q, want %q", path, name, got.Key, want.Key)
				case got.Display != path:
					e.errorf("the process path %q of %s is not canonical, or not displayed as spelt: %q", path, name, got.Display)
				}
			}
		},
	},
	{
		name: "uri", rule: ruleURI,
		run: func(e *fsEnv) {
			e.mkdir("a b#c%d")
			e.write("a b#c%d/é%20.go", "x")
			for _, name := range []string{"a b#c%d/é%20.go", "a b#c%d", "missing+file;x=1&y@z"} {
				t := e.resolve(name)
				uri, err := e.FS.FileURI(t)
				if err != nil {
					e.fatalf("FileURI(%q): %w", t.Display, err)
				}
				if i := strings.IndexFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"<>\^{|}`+"`", r) }); i >= 0 {
					e.errorf("%s: %q may not stand in a URI", uri, uri[i:i+1])
				}
				u, err := url.Parse(uri)
				if err != nil {
					e.fatalf("%s: %w", uri, err)
				}
				if want := e.processPath(t); !strings.HasPrefix(uri, "file://") || u.Fragment != "" || u.RawQuery != "" || !names(u, want) {
					e.errorf("%s does not name %q", uri, want)
				}
			}
		},
	},
	{
		name: "contains", rule: ruleContains,
		run: func(e *fsEnv) {
			for _, dir := range []string{"root", "root/sub", "root-evil", "root/..dots"} {
				e.mkdir(dir)
			}
			e.write("root/sub/file", "x")
			e.write("root-evil/file", "x")
			e.wantContains("root", "root", true)
			e.wantContains("root", "root/sub", true)
			e.wantContains("root", "root/sub/file", true)
			e.wantContains("root", "root/..dots", true)
			e.wantContains("root", "root/missing/file", true)
			e.wantContains("missing", "missing/file", true)
			e.wantContains("root/sub/../sub", "root/sub/file", true)
			e.wantContains("root", "root-evil", false)
			e.wantContains("root", "root-evil/file", false)
			e.wantContains("root/sub", "root", false)
			e.wantContains("root", "root/../root-evil/file", false)
			e.wantContains("missing", "root", false)
		},
	},
	{
		name: "contains-root", rule: ruleContains,
		run: func(e *fsEnv) {
			root := e.dir
			for range len(e.dir) { // more than it has components
				parent := e.resolvePath(root + e.Separator + "..")
				path := e.processPath(parent)
				if path == root {
					break
				}
				root = path
			}
			if ok, err := e.FS.Contains(e.resolvePath(root), e.resolve("x")); err != nil || !ok {
				e.errorf("Contains(%q, %q) = %v, %v; want true", root, e.path("x"), ok, err)
			}
		},
	},
	{
		name: "contains-links", rule: ruleContains, needs: needSymlink,
		run: func(e *fsEnv) {
			e.mkdir("real")
			e.mkdir("real/sub")
			e.mkdir("outside")
			e.write("outside/secret", "x")
			e.symlink("real", "root")
			e.symlink(e.rel("../outside"), "real/way-out")
			e.wantContains("root", "real/sub", true)
			e.wantContains("real", "root/sub/new", true)
			e.wantContains("root", "root/sub", true)
			e.wantContains("root", "root/way-out", false)
			e.wantContains("root", "root/way-out/secret", false)
			e.wantContains("real", "root/way-out/new", false)
			e.wantContains("outside", "root/way-out/secret", true)
		},
	},
	{
		name: "foreign", rule: "targets of another FS are refused with CodeForeignPath",
		run: func(e *fsEnv) {
			e.mkdir("sub")
			e.write("file", "x")
			own := e.resolve("file")
			foreign, foreignDir := own, e.resolve("sub")
			foreign.WorldID += "-other"
			foreignDir.WorldID += "-other"
			for _, t := range []seam.Target{foreign, {}, {Key: own.Key, Display: own.Display}} {
				_, err := e.FS.ProcessPath(t)
				e.wantCode("ProcessPath", err, seam.CodeForeignPath)
				_, err = e.FS.FileURI(t)
				e.wantCode("FileURI", err, seam.CodeForeignPath)
				_, err = e.FS.Contains(t, own)
				e.wantCode("Contains, parent", err, seam.CodeForeignPath)
				_, err = e.FS.Contains(own, t)
				e.wantCode("Contains, child", err, seam.CodeForeignPath)
				_, err = e.FS.Contains(t, t)
				e.wantCode("Contains, both", err, seam.CodeForeignPath)
				_, err = e.FS.Stat(e.ctx, t)
				e.wantCode("Stat", err, seam.CodeForeignPath)
				e.wantCode("OpenText", e.openAndClose(e.ctx, t), seam.CodeForeignPath)
				_, err = e.FS.ReadBytes(e.ctx, t, 100)
				e.wantCode("ReadBytes", err, seam.CodeForeignPath)
			}
			_, err := e.FS.List(e.ctx, foreignDir)
			e.wantCode("List", err, seam.CodeForeignPath)
		},
	},
}

// names reports whether a file: URI is the absolute path, in POSIX, drive or
// UNC syntax.
func names(u *url.URL, path string) bool {
	switch {
	case strings.HasPrefix(path, "/"):
		return u.Host == "" && u.Path == path
	case strings.HasPrefix(path, `\\`):
		return "//"+u.Host+u.Path == strings.ReplaceAll(path, `\`, "/")
	default:
		return u.Host == "" && u.Path == "/"+strings.ReplaceAll(path, `\`, "/")
	}
}

func (e *fsEnv) wantContains(parent, child string, want bool) {
	got, err := e.FS.Contains(e.resolve(parent), e.resolve(child))
	if err != nil || got != want {
		e.errorf("Contains(%s, %s) = %v, %v; want %v", parent, child, got, err, want)
	}
}
