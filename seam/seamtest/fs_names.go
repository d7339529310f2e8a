package seamtest

import (
	"errors"
	iofs "io/fs"
	"strings"

	"github.com/corral-world/corral/seam"
)

const (
	ruleSameKey = "two spellings that reach one file, through whatever symbolic links, give targets with equal keys"
	ruleMissing = "a missing file keeps its key when it is created"
	ruleLookup  = "the path that FS resolves is the path that a process opens"
)

// fsNameCases check Resolve.
var fsNameCases = []fsCase{
	{
		name: "resolve-world", rule: "a target carries the WorldID of its FS, which is not empty",
		run: func(e *fsEnv) {
			if id := e.FS.WorldID(); id == "" || e.resolve("x").WorldID != id {
				e.errorf("FS.WorldID() = %q, Target.WorldID = %q", id, e.resolve("x").WorldID)
			}
		},
	},
	{
		name: "resolve-relative", rule: "a relative path is taken from dir; an absolute path ignores dir",
		run: func(e *fsEnv) {
			e.mkdir("sub")
			e.write("sub/file", "x")
			want := e.resolve("sub/file")
			for _, c := range []struct{ path, dir string }{
				{"file", e.path("sub")},
				{e.rel("sub/file"), e.dir},
				{e.path("sub/file"), "not absolute"},
				{e.path("sub/file"), e.path("elsewhere")},
			} {
				got, err := e.FS.Resolve(e.ctx, c.path, c.dir)
				if err != nil || got.Key != want.Key {
					e.errorf("Resolve(%q, %q) = %q, %v; want key %q", c.path, c.dir, got.Key, err, want.Key)
				}
			}
		},
	},
	{
		name: "resolve-spellings", rule: ruleSameKey,
		run: func(e *fsEnv) {
			e.mkdir("sub")
			e.mkdir("sub/deep")
			e.write("file", "x")
			e.wantSame("file", "sub/../file", "sub/deep/../../file", "sub/./../file")
			e.wantSame("sub", "sub/.", "sub/deep/..")
		},
	},
	{
		name: "resolve-distinct", rule: "keys are equal exactly when the file is the same",
		run: func(e *fsEnv) {
			names := []string{"a", "ab", "a b", "a%20b", "a.b", "sub", "sub/a", "missing", "missing/a"}
			e.mkdir("sub")
			for _, name := range []string{"a", "ab", "a b", "a%20b", "a.b", "sub/a"} {
				e.write(name, "x")
			}
			seen := make(map[string]string)
			for _, name := range names {
				key := e.resolve(name).Key
				if other, ok := seen[key]; ok {
					e.errorf("%q and %q have one key, %q", name, other, key)
				}
				seen[key] = name
			}
		},
	},
	{
		name: "resolve-links", rule: ruleSameKey, needs: needSymlink,
		run: func(e *fsEnv) {
			e.mkdir("real")
			e.mkdir("real/sub")
			e.write("real/sub/file", "x")
			e.symlink("file", "real/sub/same-dir")
			e.symlink("real", "dir")
			e.symlink(e.path("dir"), "absolute")
			e.symlink(e.rel("absolute/sub"), "chain")
			e.symlink(e.rel("../real/sub"), "real/up")
			e.wantSame("real/sub/file", "real/sub/same-dir", "dir/sub/file", "absolute/sub/file", "chain/file", "dir/up/same-dir")
			e.wantSame("real/sub", "chain", "dir/sub", "real/up")
		},
	},
	{
		name: "resolve-missing", rule: ruleMissing,
		run: func(e *fsEnv) {
			e.wantKeyKept("file", "file")
			e.wantKeyKept("new/deep/file", "new/deep/file", "new", "new/deep")
		},
	},
	{
		name: "resolve-missing-links", rule: ruleMissing, needs: needSymlink,
		run: func(e *fsEnv) {
			e.mkdir("real")
			e.symlink("real", "dir")
			e.wantKeyKept("dir/file", "real/file")
			e.wantKeyKept("dir/new/file", "real/new/file", "real/new")
		},
	},
	{
		name: "resolve-dangling", rule: ruleMissing + ", also through a link that dangles until then", needs: needSymlink,
		run: func(e *fsEnv) {
			e.mkdir("real")
			e.symlink(e.rel("real/late"), "link")
			e.symlink("link", "link-to-link")
			before := e.resolve("link-to-link")
			if want := e.resolve("real/late"); before.Key != want.Key {
				e.errorf("key of the dangling link is %q, of the file it names %q", before.Key, want.Key)
			}
			e.write("real/late", "x")
			if after := e.resolve("link-to-link"); after.Key != before.Key {
				e.errorf("key was %q, is %q once the file exists", before.Key, after.Key)
			}
		},
	},
	{
		name: "resolve-parent-of-link", rule: ruleLookup, needs: needSymlink,
		run: func(e *fsEnv) {
			e.mkdir("far")
			e.mkdir("far/away")
			e.write("near", "beside the link")
			e.write("far/near", "beside what the link names")
			e.symlink(e.rel("far/away"), "link")
			want := "far/near"
			if e.Lexical {
				want = "near"
			}
			e.wantSame(want, "link/../near")
		},
	},
	{
		name: "resolve-display", rule: "Display is absolute, symbolic links as they were spelt", needs: needSymlink,
		run: func(e *fsEnv) {
			e.mkdir("real")
			e.write("real/file", "x")
			e.symlink("real", "link")
			for _, c := range []struct{ path, dir, want string }{
				{e.path("link/file"), "", e.path("link/file")},
				{e.rel("link/file"), e.dir, e.path("link/file")},
				{"file", e.path("link"), e.path("link/file")},
				{e.path("real/missing"), "", e.path("real/missing")},
			} {
				got, err := e.FS.Resolve(e.ctx, c.path, c.dir)
				if err != nil || got.Display != c.want {
					e.errorf("Resolve(%q, %q).Display = %q, %v; want %q", c.path, c.dir, got.Display, err, c.want)
				}
			}
		},
	},
	{
		name: "resolve-invalid", rule: "CodeInvalid for an empty path, a NUL byte, or a relative dir",
		run: func(e *fsEnv) {
			for _, c := range []struct{ path, dir string }{
				{"", e.dir},
				{"", ""},
				{"a\x00b", e.dir},
				{e.path("a\x00b"), ""},
				{"a", ""},
				{"a", "relative"},
				{"a", "."},
			} {
				_, err := e.FS.Resolve(e.ctx, c.path, c.dir)
				what := "Resolve(" + quote(c.path) + ", " + quote(c.dir) + ")"
				e.wantCode(what, err, seam.CodeInvalid)
				if err != nil && !errors.Is(err, iofs.ErrInvalid) {
					e.errorf("%s: the error does not match fs.ErrInvalid: %w", what, err)
				}
				_, err = e.FS.Lstat(e.ctx, c.path, c.dir)
				e.wantCode("Lstat("+quote(c.path)+", "+quote(c.dir)+")", err, seam.CodeInvalid)
			}
		},
	},
	{
		name: "resolve-file-as-dir", rule: "CodeNotFound where a regular file stands in for a directory of path",
		run: func(e *fsEnv) {
			e.write("file", "x")
			for _, name := range []string{"file/x", "file/x/y", "file/../file"} {
				if name == "file/../file" && e.Lexical {
					continue
				}
				_, err := e.FS.Resolve(e.ctx, e.path(name), "")
				e.wantCode("Resolve "+name, err, seam.CodeNotFound)
				if err != nil && !errors.Is(err, iofs.ErrNotExist) {
					e.errorf("the error does not match fs.ErrNotExist: %w", err)
				}
			}
		},
	},
}

// wantSame checks that all names have one key, and the same process path.
func (e *fsEnv) wantSame(name string, others ...string) {
	want := e.resolve(name)
	for _, other := range others {
		got := e.resolve(other)
		if got.Key != want.Key {
			e.errorf("key of %s is %q, of %s %q", other, got.Key, name, want.Key)
		}
		if got, want := e.processPath(got), e.processPath(want); got != want {
			e.errorf("process path of %s is %q, of %s %q", other, got, name, want)
		}
	}
}

// wantKeyKept checks that name, which is missing, has the same key once dirs
// and file have been made.
func (e *fsEnv) wantKeyKept(name, file string, dirs ...string) {
	before := e.resolve(name)
	for _, dir := range dirs {
		e.mkdir(dir)
	}
	e.write(file, "x")
	if after := e.resolve(name); after.Key != before.Key {
		e.errorf("key of %s was %q, is %q once it exists", name, before.Key, after.Key)
	}
	if want := e.resolve(file); before.Key != want.Key {
		e.errorf("key of %s was %q, the file is %q", name, before.Key, want.Key)
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, "\x00", `\x00`) + `"` }
