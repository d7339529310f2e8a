package seamtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// faults are ways to get the contract wrong, each seen by the cases named.
var faults = []struct {
	name  string
	fault func(b *broken)
	cases []string
}{
	{"world not in targets", func(b *broken) {
		b.key(func(_ string, t seam.Target) seam.Target { t.WorldID = ""; return t })
	}, []string{"resolve-world"}},
	{"dir ignored", func(b *broken) {
		b.resolve = func(ctx context.Context, name, _ string) (seam.Target, error) {
			return b.MemFS.Resolve(ctx, name, "/")
		}
	}, []string{"resolve-relative", "resolve-invalid"}},
	{"dir put before absolute paths", func(b *broken) {
		b.resolve = func(ctx context.Context, name, dir string) (seam.Target, error) {
			return b.MemFS.Resolve(ctx, dir+"/"+name, "/")
		}
	}, []string{"resolve-relative"}},
	{"key as spelt", func(b *broken) {
		b.key(func(abs string, t seam.Target) seam.Target { t.Key = "mem:" + abs; return t })
	}, []string{"resolve-spellings", "resolve-links", "contains-links"}},
	{"key cleaned, links kept", func(b *broken) {
		b.key(func(abs string, t seam.Target) seam.Target { t.Key = "mem:" + path.Clean(abs); return t })
	}, []string{"resolve-links", "resolve-dangling", "resolve-missing-links", "contains-links", "resolve-parent-of-link"}},
	{"lexical parent", func(b *broken) {
		b.resolve = func(ctx context.Context, name, dir string) (seam.Target, error) {
			if name == "" {
				return b.MemFS.Resolve(ctx, name, dir)
			}
			return b.MemFS.Resolve(ctx, path.Clean(name), dir)
		}
	}, []string{"resolve-parent-of-link", "resolve-file-as-dir"}},
	{"key of the missing is as spelt", func(b *broken) {
		b.key(func(abs string, t seam.Target) seam.Target {
			if _, err := b.MemFS.Stat(context.Background(), t); err != nil {
				t.Key = "mem:" + abs
			}
			return t
		})
	}, []string{"resolve-missing-links", "resolve-dangling"}},
	{"key of the missing is another", func(b *broken) {
		b.key(func(_ string, t seam.Target) seam.Target {
			if _, err := b.MemFS.Stat(context.Background(), t); err != nil {
				t.Key += "?"
			}
			return t
		})
	}, []string{"resolve-missing"}},
	{"key folds", func(b *broken) {
		b.key(func(_ string, t seam.Target) seam.Target { t.Key = strings.ReplaceAll(t.Key, " ", "%20"); return t })
	}, []string{"resolve-distinct"}},
	{"display canonical", func(b *broken) {
		b.key(func(_ string, t seam.Target) seam.Target { t.Display, _ = b.MemFS.ProcessPath(t); return t })
	}, []string{"resolve-display"}},
	{"missing files refused", func(b *broken) {
		b.resolve = func(ctx context.Context, name, dir string) (seam.Target, error) {
			t, err := b.MemFS.Resolve(ctx, name, dir)
			if err == nil {
				_, err = b.MemFS.Stat(ctx, t)
			}
			return t, err
		}
	}, []string{"resolve-missing", "stat-absent", "text-absent", "bytes-absent"}},
	{"empty path is dir, NUL passes", func(b *broken) {
		b.resolve = func(ctx context.Context, name, dir string) (seam.Target, error) {
			return b.MemFS.Resolve(ctx, "./"+strings.ReplaceAll(name, "\x00", "?"), dir)
		}
	}, []string{"resolve-invalid"}},
	{"invalid is an I/O error", func(b *broken) { b.errorsAs(recode(seam.CodeInvalid, seam.CodeIO)) },
		[]string{"resolve-invalid", "bytes-negative"}},
	{"file as directory is an I/O error", func(b *broken) {
		b.resolve = func(ctx context.Context, name, dir string) (seam.Target, error) {
			t, err := b.MemFS.Resolve(ctx, name, dir)
			return t, recode(seam.CodeNotFound, seam.CodeIO)(err)
		}
	}, []string{"resolve-file-as-dir"}},

	{"process path as displayed", func(b *broken) {
		b.process = func(t seam.Target) (string, error) { return t.Display, nil }
	}, []string{"resolve-links", "foreign"}},
	{"process path is the key", func(b *broken) {
		b.process = func(t seam.Target) (string, error) { return t.Key, nil }
	}, []string{"process-path", "foreign"}},
	{"URI by concatenation", func(b *broken) {
		b.uri = func(t seam.Target) (string, error) {
			p, err := b.MemFS.ProcessPath(t)
			return "file://" + p, err
		}
	}, []string{"uri"}},
	{"URI without authority's slashes", func(b *broken) {
		b.uri = func(t seam.Target) (string, error) {
			uri, err := b.MemFS.FileURI(t)
			return strings.Replace(uri, "file://", "file:", 1), err
		}
	}, []string{"uri"}},
	{"containment by prefix", func(b *broken) {
		b.contains = func(p, c seam.Target) (bool, error) { return strings.HasPrefix(c.Key, p.Key), nil }
	}, []string{"contains", "foreign"}},
	{"containment as displayed", func(b *broken) {
		b.contains = func(p, c seam.Target) (bool, error) {
			return p.Display == c.Display || strings.HasPrefix(c.Display, p.Display+"/"), nil
		}
	}, []string{"contains-links", "contains-root"}},
	{"a root not inside itself", func(b *broken) {
		b.contains = func(p, c seam.Target) (bool, error) {
			ok, err := b.MemFS.Contains(p, c)
			return ok && p.Key != c.Key, err
		}
	}, []string{"contains"}},
	{"two dots taken for the parent", func(b *broken) {
		b.contains = func(p, c seam.Target) (bool, error) {
			ok, err := b.MemFS.Contains(p, c)
			return ok && !strings.Contains(c.Key, "/.."), err
		}
	}, []string{"contains"}},
	{"foreign targets read", func(b *broken) {
		b.stat = func(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
			t.WorldID = b.WorldID()
			return b.MemFS.Stat(ctx, t)
		}
	}, []string{"foreign"}},

	{"sizes in blocks", func(b *broken) {
		b.stat = func(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
			info, err := b.MemFS.Stat(ctx, t)
			info.SizeBytes = (info.SizeBytes + 511) / 512
			return info, err
		}
	}, []string{"stat", "stat-links", "lstat"}},
	{"links not followed by Stat", func(b *broken) {
		b.stat = func(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
			return b.MemFS.Lstat(ctx, t.Display, "")
		}
	}, []string{"stat-links"}},
	{"links followed by Lstat", func(b *broken) {
		b.lstat = func(ctx context.Context, name, dir string) (seam.FileInfo, error) {
			t, err := b.MemFS.Resolve(ctx, name, dir)
			if err != nil {
				return seam.FileInfo{}, err
			}
			return b.MemFS.Stat(ctx, t)
		}
	}, []string{"lstat-links", "list-links"}},
	{"FIFO taken for a file", func(b *broken) {
		file := func(info seam.FileInfo) seam.FileInfo {
			if info.Type == seam.TypeOther {
				info.Type = seam.TypeFile
			}
			return info
		}
		b.stat = func(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
			info, err := b.MemFS.Stat(ctx, t)
			return file(info), err
		}
		b.entries(func(_ context.Context, entries []seam.Entry) []seam.Entry {
			for i := range entries {
				entries[i].Info = file(entries[i].Info)
			}
			return entries
		})
	}, []string{"stat-other", "list-other", "list-dangling"}},
	{"absence is no error", func(b *broken) {
		b.stat = func(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
			info, err := b.MemFS.Stat(ctx, t)
			if errors.Is(err, iofs.ErrNotExist) {
				return seam.FileInfo{}, nil
			}
			return info, err
		}
	}, []string{"stat-absent", "stat-late"}},
	{"versions of sizes", func(b *broken) {
		b.stat = func(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
			info, err := b.MemFS.Stat(ctx, t)
			info.Version = string(rune('a' + info.SizeBytes))
			return info, err
		}
	}, []string{"version-changes"}},
	{"versions of nothing", func(b *broken) {
		var n atomic.Int64
		b.stat = func(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
			info, err := b.MemFS.Stat(ctx, t)
			info.Version = fmt.Sprint(n.Add(1))
			return info, err
		}
	}, []string{"version-stable"}},

	{"newlines normalised", func(b *broken) {
		b.text(func(data []byte) io.Reader {
			return bytes.NewReader(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
		})
	}, []string{"text"}},
	{"anything is text", func(b *broken) {
		b.text(func(data []byte) io.Reader { return bytes.NewReader(data) })
	}, []string{"text-nul", "text-invalid", "text-error-last", "text-close", "abort-reading"}},
	{"bad characters replaced", func(b *broken) {
		b.text(func(data []byte) io.Reader { return bytes.NewReader(bytes.ToValidUTF8(data, []byte("\ufffd"))) })
	}, []string{"text-invalid"}},
	{"text ends where it breaks off", func(b *broken) {
		b.openText = func(ctx context.Context, t seam.Target) (io.ReadCloser, error) {
			text, err := b.MemFS.OpenText(ctx, t)
			return &silent{text}, err
		}
	}, []string{"text-nul", "text-invalid"}},
	{"each read decoded by itself", func(b *broken) {
		b.text(func(data []byte) io.Reader { return &chunky{rest: data} })
	}, []string{"text-chunks"}},
	{"links not read through", func(b *broken) {
		b.readBytes = func(ctx context.Context, t seam.Target, n int64) ([]byte, error) {
			if info, err := b.MemFS.Lstat(ctx, t.Display, ""); err == nil && info.Type == seam.TypeSymlink {
				return nil, &seam.OpError{Op: "read", Code: seam.CodeNotRegular}
			}
			return b.MemFS.ReadBytes(ctx, t, n)
		}
	}, []string{"text-links"}},
	{"directories are absent to readers", func(b *broken) { b.errorsAs(recode(seam.CodeNotRegular, seam.CodeNotFound)) },
		[]string{"read-not-regular", "read-fifo"}},
	{"opening a FIFO waits", func(b *broken) {
		b.openText = func(ctx context.Context, t seam.Target) (io.ReadCloser, error) {
			if info, err := b.MemFS.Stat(ctx, t); err == nil && info.Type == seam.TypeOther {
				select {} // the suite abandons it
			}
			return b.MemFS.OpenText(ctx, t)
		}
	}, []string{"read-fifo"}},
	{"bytes cut at the bound", func(b *broken) {
		b.readBytes = func(ctx context.Context, t seam.Target, n int64) ([]byte, error) {
			data, err := b.MemFS.ReadBytes(ctx, t, 1<<30)
			return data[:min(int64(len(data)), max(n, 0))], err
		}
	}, []string{"bytes-bound", "bytes-negative"}},
	{"bound exclusive", func(b *broken) {
		b.readBytes = func(ctx context.Context, t seam.Target, n int64) ([]byte, error) {
			return b.MemFS.ReadBytes(ctx, t, n-1)
		}
	}, []string{"bytes-bound"}},
	{"bytes as text", func(b *broken) {
		b.readBytes = func(ctx context.Context, t seam.Target, n int64) ([]byte, error) {
			text, err := seam.ReadText(ctx, b.MemFS, t)
			return []byte(text), err
		}
	}, []string{"bytes"}},

	{"listing unordered", func(b *broken) {
		b.entries(func(_ context.Context, entries []seam.Entry) []seam.Entry { slices.Reverse(entries); return entries })
	}, []string{"list", "list-order"}},
	{"listing in dictionary order", func(b *broken) {
		b.entries(func(_ context.Context, entries []seam.Entry) []seam.Entry {
			slices.SortFunc(entries, func(a, b seam.Entry) int {
				return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
			})
			return entries
		})
	}, []string{"list-order"}},
	{"listing of one batch", func(b *broken) {
		b.entries(func(_ context.Context, entries []seam.Entry) []seam.Entry { return entries[:min(len(entries), 512)] })
	}, []string{"list-many"}},
	{"hidden files left out", func(b *broken) {
		b.entries(func(_ context.Context, entries []seam.Entry) []seam.Entry {
			return slices.DeleteFunc(entries, func(e seam.Entry) bool { return e.Name[0] == '.' })
		})
	}, []string{"list"}},
	{"entries without version", func(b *broken) {
		b.entries(func(_ context.Context, entries []seam.Entry) []seam.Entry {
			for i := range entries {
				entries[i].Info.Version = ""
			}
			return entries
		})
	}, []string{"list-children", "list-links"}},
	{"entries describe what links name", func(b *broken) {
		b.entries(func(ctx context.Context, entries []seam.Entry) []seam.Entry {
			for i := range entries {
				if info, err := b.MemFS.Stat(ctx, entries[i].Target); err == nil {
					entries[i].Info = info
				}
			}
			return entries
		})
	}, []string{"list-links"}},
	{"entries name the links", func(b *broken) {
		list := b.list
		b.list = func(ctx context.Context, t seam.Target) ([]seam.Entry, error) {
			entries, err := list(ctx, t)
			for i := range entries {
				entries[i].Target.Key = t.Key + "/" + entries[i].Name
			}
			return entries, err
		}
	}, []string{"list-links", "list-dangling"}},
	{"dangling links left out", func(b *broken) {
		b.entries(func(ctx context.Context, entries []seam.Entry) []seam.Entry {
			return slices.DeleteFunc(entries, func(e seam.Entry) bool {
				_, err := b.MemFS.Stat(ctx, e.Target)
				return err != nil
			})
		})
	}, []string{"list-dangling"}},
	{"listing a file gives nothing", func(b *broken) {
		b.list = func(ctx context.Context, t seam.Target) ([]seam.Entry, error) {
			entries, err := b.MemFS.List(ctx, t)
			if seam.CodeOf(err) == seam.CodeNotDir {
				return nil, nil
			}
			return entries, err
		}
	}, []string{"list-not-dir", "read-fifo"}},

	{"context ignored", func(b *broken) {
		m := b.MemFS
		b.resolve = func(ctx context.Context, path, dir string) (seam.Target, error) {
			return m.Resolve(context.WithoutCancel(ctx), path, dir)
		}
	}, []string{"abort-before"}},
	{"context looked at before only", func(b *broken) {
		b.stat = func(ctx context.Context, t seam.Target) (seam.FileInfo, error) {
			if ctx.Err() != nil {
				return b.MemFS.Stat(ctx, t)
			}
			return b.MemFS.Stat(context.WithoutCancel(ctx), t)
		}
	}, []string{"abort-during"}},
	{"cause forgotten", func(b *broken) {
		b.errorsAs(func(err error) error {
			if seam.CodeOf(err) == seam.CodeAborted {
				return &seam.OpError{Op: "op", Code: seam.CodeAborted, Err: context.Canceled}
			}
			return err
		})
	}, []string{"abort-before", "abort-during"}},
	{"plain errors", func(b *broken) {
		b.errorsAs(func(err error) error {
			if err != nil {
				return errors.New(err.Error())
			}
			return nil
		})
	}, []string{"resolve-invalid", "stat-absent", "bytes-absent", "list-not-dir", "abort-before"}},
	{"errors without operation", func(b *broken) {
		b.errorsAs(func(err error) error {
			if op, ok := errors.AsType[*seam.OpError](err); ok {
				return &seam.OpError{Code: op.Code, Err: op.Err}
			}
			return err
		})
	}, []string{"resolve-invalid", "stat-absent", "abort-before"}},
	{"one caller at a time", func(b *broken) {
		meet := make(chan struct{})
		b.readBytes = func(ctx context.Context, t seam.Target, n int64) ([]byte, error) {
			select {
			case meet <- struct{}{}:
				return nil, &seam.OpError{Op: "read", Code: seam.CodeIO}
			case <-meet:
			case <-time.After(20 * time.Millisecond):
			}
			return b.MemFS.ReadBytes(ctx, t, n)
		}
	}, []string{"concurrent"}},
}

// TestFSCases breaks a conforming filesystem in each way and looks whether the
// suite sees it. A case that no fault can fail checks nothing.
func TestFSCases(t *testing.T) {
	failed := make(map[string]bool)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			cfg := memConfig()
			b := newBroken(cfg.FS.(*seamtest.MemFS))
			f.fault(b)
			cfg.FS, cfg.Patience = b, 5*time.Second
			if strings.Contains(f.name, "waits") {
				cfg.Patience = time.Second
			}
			var got []string
			for _, v := range seamtest.CheckFS(cfg) {
				got = append(got, v.Case)
				failed[v.Case] = true
				if v.Rule == "" || !strings.Contains(v.Error(), v.Rule) {
					t.Errorf("%s: the message does not quote the rule: %v", v.Case, v)
				}
			}
			for _, want := range f.cases {
				if !slices.Contains(got, want) {
					t.Errorf("case %s saw nothing; failed: %v", want, got)
				}
			}
		})
	}
	for _, name := range seamtest.FSCases() {
		if !failed[name] {
			t.Errorf("case %s is failed by no fault", name)
		}
	}
}

// TestFSSkips holds a world to the contract that can plant nothing unusual.
func TestFSSkips(t *testing.T) {
	cfg := memConfig()
	cfg.Symlink, cfg.Mkfifo, cfg.Remove = nil, nil, nil
	seamtest.TestFS(t, cfg)
	if violations := seamtest.CheckFS(seamtest.FSConfig{}); len(violations) == 0 {
		t.Error("a configuration without a filesystem passes")
	}
}
