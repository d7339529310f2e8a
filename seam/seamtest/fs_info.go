package seamtest

import (
	"errors"
	iofs "io/fs"
	"time"

	"github.com/corral-world/corral/seam"
)

// fsInfoCases check Stat, Lstat and versions.
var fsInfoCases = []fsCase{
	{
		name: "stat", rule: "Stat describes what the target names",
		run: func(e *fsEnv) {
			e.mkdir("dir")
			e.write("empty", "")
			e.write("file", "12345")
			e.wantInfo("dir", seam.TypeDir, 0)
			e.wantInfo("empty", seam.TypeFile, 0)
			e.wantInfo("file", seam.TypeFile, 5)
		},
	},
	{
		name: "stat-links", rule: "Stat follows symbolic links", needs: needSymlink,
		run: func(e *fsEnv) {
			e.mkdir("dir")
			e.write("dir/file", "12345")
			e.symlink("dir", "link")
			e.symlink(e.rel("link/file"), "file")
			e.wantInfo("link", seam.TypeDir, 0)
			e.wantInfo("file", seam.TypeFile, 5)
			e.wantInfo("link/file", seam.TypeFile, 5)
		},
	},
	{
		name: "stat-other", rule: "a file that is neither regular nor a directory nor a symbolic link is TypeOther", needs: needFIFO,
		run: func(e *fsEnv) {
			e.mkfifo("fifo")
			e.wantInfo("fifo", seam.TypeOther, 0)
		},
	},
	{
		name: "stat-absent", rule: "absence is CodeNotFound",
		run: func(e *fsEnv) {
			for _, name := range []string{"missing", "missing/file"} {
				_, err := e.FS.Stat(e.ctx, e.resolve(name))
				e.wantAbsent("Stat "+name, err)
				_, err = e.FS.Lstat(e.ctx, e.path(name), "")
				e.wantAbsent("Lstat "+name, err)
			}
		},
	},
	{
		name: "stat-late", rule: "a target outlives its file: absence is seen when it begins, and is CodeNotFound also where a file has taken a directory's place", needs: needRemove,
		run: func(e *fsEnv) {
			e.mkdir("dir")
			e.write("dir/file", "x")
			t := e.resolve("dir/file")
			e.stat(t)
			e.remove("dir/file")
			_, err := e.FS.Stat(e.ctx, t)
			e.wantAbsent("Stat of the removed file", err)
			e.remove("dir")
			e.write("dir", "now a file")
			_, err = e.FS.Stat(e.ctx, t)
			e.wantAbsent("Stat below a file", err)
		},
	},
	{
		name: "lstat", rule: "Lstat describes the file at path, as in Resolve",
		run: func(e *fsEnv) {
			e.mkdir("dir")
			e.write("dir/file", "12345")
			for _, c := range []struct {
				path, dir string
				want      seam.Target
			}{
				{e.path("dir/file"), "", e.resolve("dir/file")},
				{"file", e.path("dir"), e.resolve("dir/file")},
				{e.path("dir"), "ignored", e.resolve("dir")},
				{e.path("dir/.."), "", e.resolve("dir/..")},
			} {
				got, err := e.FS.Lstat(e.ctx, c.path, c.dir)
				if want := e.stat(c.want); err != nil || got != want {
					e.errorf("Lstat(%q, %q) = %+v, %v; want %+v as of Stat", c.path, c.dir, got, err, want)
				}
			}
		},
	},
	{
		name: "lstat-links", rule: "Lstat does not follow the last component", needs: needSymlink,
		run: func(e *fsEnv) {
			e.mkdir("dir")
			e.write("dir/file", "12345")
			e.symlink("dir", "link")
			e.symlink("file", "dir/file-link")
			e.symlink("missing", "dangling")
			for name, want := range map[string]seam.FileType{
				"link":           seam.TypeSymlink,
				"dangling":       seam.TypeSymlink,
				"link/file-link": seam.TypeSymlink,
				"link/file":      seam.TypeFile,
			} {
				if got, err := e.FS.Lstat(e.ctx, e.path(name), ""); err != nil || got.Type != want {
					e.errorf("Lstat %s: type %q, %v; want %q", name, got.Type, err, want)
				}
			}
		},
	},
	{
		name: "version-stable", rule: "versions are equal while the file does not change",
		run: func(e *fsEnv) {
			e.write("file", "x")
			t := e.resolve("file")
			before := e.stat(t)
			if _, err := e.FS.ReadBytes(e.ctx, t, 10); err != nil {
				e.fatalf("ReadBytes: %w", err)
			}
			e.write("sibling", "x")
			if after := e.stat(t); after.Version != before.Version || before.Version == "" {
				e.errorf("version %q became %q, and nothing happened", before.Version, after.Version)
			}
		},
	},
	{
		name: "version-changes", rule: "Version changes whenever the file does, also when size and modification time are put back",
		run: func(e *fsEnv) {
			rewrite := func(data string) {
				e.write("file", data)
				if e.SetModTime != nil {
					e.planted(e.SetModTime(e.path("file"), time.Unix(1e9, 0)))
				}
			}
			rewrite("aaaa")
			t := e.resolve("file")
			before := e.stat(t)
			rewrite("longer")
			if e.stat(t).Version == before.Version {
				e.errorf("version %q stayed when the size changed", before.Version)
			}
			// The clock that a world stamps changes with ticks, some every
			// 10 ms: rewriting goes on until it must have.
			rewrite("aaaa")
			before = e.stat(t)
			for start := time.Now(); ; {
				rewrite("bbbb")
				if e.stat(t).Version != before.Version {
					return
				}
				if time.Since(start) > 250*time.Millisecond {
					e.fatalf("version %q stayed when the content changed", before.Version)
				}
			}
		},
	},
}

// wantInfo checks what Stat says of name.
func (e *fsEnv) wantInfo(name string, want seam.FileType, sizeBytes int64) {
	info := e.stat(e.resolve(name))
	if info.Type != want {
		e.errorf("type of %s is %q, want %q", name, info.Type, want)
	}
	if want == seam.TypeFile && info.SizeBytes != sizeBytes {
		e.errorf("size of %s is %d, want %d", name, info.SizeBytes, sizeBytes)
	}
	if info.Mode.IsDir() != (want == seam.TypeDir) || info.Mode.IsRegular() != (want == seam.TypeFile) {
		e.errorf("mode of %s is %v, its type %q", name, info.Mode, want)
	}
	if info.Version == "" {
		e.errorf("%s has no version", name)
	}
}

func (e *fsEnv) wantAbsent(what string, err error) {
	e.wantCode(what, err, seam.CodeNotFound)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		e.errorf("%s: the error does not match fs.ErrNotExist: %w", what, err)
	}
}
