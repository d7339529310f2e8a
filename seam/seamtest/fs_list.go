package seamtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corral-world/corral/seam"
)

// fsListCases check List.
var fsListCases = []fsCase{
	{
		name: "list", rule: "List describes the direct children of a directory",
		run: func(e *fsEnv) {
			e.mkdir("dir")
			e.mkdir("dir/sub")
			e.write("dir/sub/deeper", "x")
			e.write("dir/.hidden", "x")
			e.write("dir/file", "12345")
			e.mkdir("empty")
			e.wantNames("dir", ".hidden", "file", "sub")
			e.wantNames("empty")
		},
	},
	{
		name: "list-order", rule: "children are ordered by name, byte by byte",
		run: func(e *fsEnv) {
			names := []string{"z", "é", "a", "B", "a.b", "a-b", "a0", "a b", "10", "9", "_", "ab"}
			for _, name := range names {
				e.write(name, "")
			}
			slices.Sort(names)
			e.wantNames(".", names...)
		},
	},
	{
		name: "list-many", rule: "List describes the direct children of a directory: all of them",
		run: func(e *fsEnv) {
			var names []string
			for i := range 600 {
				name := fmt.Sprintf("%04d", i)
				names = append(names, name)
				e.write(name, "")
			}
			e.wantNames(".", names...)
		},
	},
	{
		name: "list-children", rule: "an entry has what Lstat says of the child, and the target that its path resolves to",
		run: func(e *fsEnv) {
			e.mkdir("dir")
			e.mkdir("dir/sub")
			e.write("dir/file", "12345")
			for _, entry := range e.list(e.resolve("dir")) {
				e.wantEntry("dir", entry)
			}
		},
	},
	{
		name: "list-other", rule: "a file that is neither regular nor a directory nor a symbolic link is TypeOther", needs: needFIFO,
		run: func(e *fsEnv) {
			e.mkdir("dir")
			e.mkfifo("dir/fifo")
			entries := e.list(e.resolve("dir"))
			if len(entries) != 1 || entries[0].Info.Type != seam.TypeOther {
				e.errorf("got %+v, want one entry of type other", entries)
			}
		},
	},
	{
		name: "list-links", rule: "Info describes the child itself, not what a symbolic link points to; Target is resolved through it", needs: needSymlink,
		run: func(e *fsEnv) {
			e.mkdir("dir")
			e.mkdir("far")
			e.write("far/file", "12345")
			e.symlink(e.rel("../far"), "dir/to-dir")
			e.symlink(e.rel("to-dir/file"), "dir/to-file")
			e.symlink("dir", "link")
			for _, dir := range []string{"dir", "link"} {
				for _, entry := range e.list(e.resolve(dir)) {
					e.wantEntry(dir, entry)
					if entry.Info.Type != seam.TypeSymlink {
						e.errorf("type of %s is %q, want %q", entry.Name, entry.Info.Type, seam.TypeSymlink)
					}
				}
			}
		},
	},
	{
		name: "list-dangling", rule: "a child that dangles is listed with type TypeOther", needs: needSymlink,
		run: func(e *fsEnv) {
			e.mkdir("dir")
			e.write("dir/file", "x")
			e.symlink("nowhere", "dir/dangling")
			e.symlink("loop", "dir/loop")
			e.symlink(e.rel("file/x"), "dir/through-file")
			e.wantNames("dir", "dangling", "file", "loop", "through-file")
			for _, entry := range e.list(e.resolve("dir")) {
				if entry.Name != "file" && entry.Info.Type != seam.TypeOther {
					e.errorf("type of %s is %q, want %q", entry.Name, entry.Info.Type, seam.TypeOther)
				}
				if entry.Name == "dangling" && entry.Target.Key != e.resolve("dir/nowhere").Key {
					e.errorf("target of %s has key %q, want that of what it names, %q", entry.Name, entry.Target.Key, e.resolve("dir/nowhere").Key)
				}
				if entry.Target.WorldID != e.FS.WorldID() || entry.Target.Key == "" {
					e.errorf("target of %s is %+v", entry.Name, entry.Target)
				}
			}
		},
	},
	{
		name: "list-not-dir", rule: "a file in place of the directory is CodeNotDir, absence CodeNotFound",
		run: func(e *fsEnv) {
			e.write("file", "x")
			_, err := e.FS.List(e.ctx, e.resolve("file"))
			e.wantCode("List of a file", err, seam.CodeNotDir)
			_, err = e.FS.List(e.ctx, e.resolve("missing"))
			e.wantAbsent("List", err)
		},
	},
}

func (e *fsEnv) wantNames(dir string, want ...string) {
	var got []string
	for _, entry := range e.list(e.resolve(dir)) {
		got = append(got, entry.Name)
	}
	if !slices.Equal(got, want) {
		e.errorf("names in %s are %s, want %s", dir, brief(strings.Join(got, " ")), brief(strings.Join(want, " ")))
	}
}

// wantEntry checks a child of dir, one that does not dangle.
func (e *fsEnv) wantEntry(dir string, entry seam.Entry) {
	if want := e.resolve(dir + "/" + entry.Name); entry.Target != want {
		e.errorf("target of %s is %+v, want %+v", entry.Name, entry.Target, want)
	}
	want, err := e.FS.Lstat(e.ctx, e.path(dir+"/"+entry.Name), "")
	if err != nil || entry.Info != want {
		e.errorf("info of %s is %+v, want %+v (%v)", entry.Name, entry.Info, want, err)
	}
}

// brief quotes s, shortened.
func brief(s string) string {
	const most = 60
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
}
