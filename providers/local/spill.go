package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/seam"
)

// SpillConfig says where complete streams are kept that outgrow memory.
type SpillConfig struct {
	// Dir is where the runtime makes its private directory. Empty: os.TempDir.
	Dir string

	// QuotaBytes bounds all files of the runtime together; a stream that would
	// exceed it has its file withdrawn. 0: DefaultQuotaBytes.
	QuotaBytes int64

	// Keep lets complete files outlive Close, for about this long: the next
	// runtime that starts after it removes them. 0: Close removes them.
	Keep time.Duration
}

// DefaultQuotaBytes is what spill files of one runtime may take together.
const DefaultQuotaBytes = 1 << 30

func (c SpillConfig) validate() *seam.FieldError {
	switch {
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return &seam.FieldError{Field: "Spill.Dir", Problem: fmt.Sprintf("is not absolute: %q", c.Dir)}
	case c.QuotaBytes < 0:
		return &seam.FieldError{Field: "Spill.QuotaBytes", Problem: "is negative"}
	case c.Keep < 0:
		return &seam.FieldError{Field: "Spill.Keep", Problem: "is negative"}
	}
	return nil
}

func (c SpillConfig) root() string {
	if c.Dir != "" {
		return c.Dir
	}
	return os.TempDir()
}

func (c SpillConfig) quota() int64 {
	if c.QuotaBytes != 0 {
		return c.QuotaBytes
	}
	return DefaultQuotaBytes
}

// A private directory holds ownerLock, on which its runtime has a lock for as
// long as it lives, keptUntil where the runtime has ended and left files, and
// leftRanges where it has ranges that nothing but a process of ours would end.
const (
	ownerLock  = "owner.lock"
	keptUntil  = "kept-until"
	leftRanges = "ranges"
)

// spillPrefix begins the names of this user's private directories. A directory
// becomes one, by renaming, only when its lock is held: so a lock that can be
// taken means a dead owner.
func spillPrefix() string { return fmt.Sprintf("corral-spill-%d-", os.Getuid()) }

// privateDir is the one directory that a runtime has to itself, made when it is
// first needed: for spill files, and for what a runtime has to know that comes
// after this one died.
type privateDir struct {
	config SpillConfig

	mu     sync.Mutex
	closed bool
	dir    string // "" before open
	lock   *os.File
	files  int   // created so far
	bytes  int64 // in files that were not withdrawn
}

var _ managed.Store = (*privateDir)(nil)

// open makes the directory, once.
func (d *privateDir) open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return seam.ErrClosed
	}
	if d.dir != "" {
		return nil
	}
	temporary, err := os.MkdirTemp(d.config.root(), ".new-"+spillPrefix())
	if err != nil {
		return err
	}
	// The umask is the harness's, and may keep out the harness itself.
	if err := os.Chmod(temporary, 0o700); err != nil {
		return errors.Join(err, os.RemoveAll(temporary))
	}
	lock, err := os.OpenFile(filepath.Join(temporary, ownerLock), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = tryLock(lock)
	}
	dir := filepath.Join(d.config.root(), strings.TrimPrefix(filepath.Base(temporary), ".new-"))
	if err == nil {
		err = os.Rename(temporary, dir)
	}
	if err != nil {
		if lock != nil {
			_ = lock.Close()
		}
		return errors.Join(err, os.RemoveAll(temporary))
	}
	d.dir, d.lock = dir, lock
	return nil
}

// noteRanges writes down where this runtime's ranges are: in the directory base,
// with names that begin with prefix.
func (d *privateDir) noteRanges(base, prefix string) error {
	if err := d.open(); err != nil {
		return err
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	text := strings.Join([]string{boot, base, prefix}, "\n")
	return os.WriteFile(filepath.Join(d.dir, leftRanges), []byte(text), 0o600)
}

// endLeftRanges ends what a dead runtime has noted. After another boot nothing
// of it is left, and the names are someone else's.
func endLeftRanges(dir string) {
	text, err := readNote(filepath.Join(dir, leftRanges))
	if err != nil {
		return
	}
	boot, err := bootID()
	if fields := strings.Split(string(text), "\n"); err == nil && len(fields) == 3 && fields[0] == boot {
		endSubtree(fields[1], fields[2])
	}
}

// readNote reads a small file of a private directory, which may by now be
// anything: it neither blocks nor follows links.
func readNote(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	const maxBytes = 64 << 10
	return io.ReadAll(io.LimitReader(f, maxBytes))
}

// Create implements [managed.Store].
func (d *privateDir) Create(name string) (managed.SpillFile, error) {
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("private directory: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, seam.ErrClosed
	}
	d.files++
	path := filepath.Join(d.dir, fmt.Sprintf("%d-%s.log", d.files, name))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &spillFile{File: f, store: d}, nil
}

// reserve accounts for n more bytes, or fewer where n is negative.
func (d *privateDir) reserve(n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if quota := d.config.quota(); d.bytes+n > quota {
		return fmt.Errorf("spill files exceed the quota of %d bytes", quota)
	}
	d.bytes += n
	return nil
}

// Close removes the directory, or leaves it to be kept. It may be called again.
func (d *privateDir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.dir == "" {
		d.closed = true
		return nil
	}
	d.closed = true
	dir := d.dir
	var err error
	if d.config.Keep > 0 && d.bytes > 0 {
		until := time.Now().Add(d.config.Keep).UTC().Format(time.RFC3339)
		err = errors.Join(
			os.WriteFile(filepath.Join(dir, keptUntil), []byte(until), 0o600),
			os.RemoveAll(filepath.Join(dir, leftRanges)))
	} else {
		err = os.RemoveAll(dir)
	}
	return errors.Join(err, d.lock.Close())
}

// A spillFile is one file, used by one collector.
type spillFile struct {
	*os.File
	store *privateDir
	bytes int64
}

// Path implements [managed.SpillFile].
func (f *spillFile) Path() string { return f.Name() }

// Write writes, within the quota.
func (f *spillFile) Write(p []byte) (int, error) {
	if err := f.store.reserve(int64(len(p))); err != nil {
		return 0, err
	}
	f.bytes += int64(len(p))
	return f.File.Write(p)
}

// Withdraw implements [managed.SpillFile].
func (f *spillFile) Withdraw() error {
	_ = f.store.reserve(-f.bytes) // giving back is never over the quota
	_ = f.Close()                 // it may have been closed, and its content is not wanted
	return os.Remove(f.File.Name())
}

// sweep removes what dead runtimes of this user have left in the root.
func (d *privateDir) sweep() error {
	root := d.config.root()
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	var kept []keptDir
	var errs []error
	for _, entry := range entries {
		if !strings.HasPrefix(strings.TrimPrefix(entry.Name(), ".new-"), spillPrefix()) {
			continue
		}
		dir := filepath.Join(root, entry.Name())
		if info, err := entry.Info(); err != nil || !info.IsDir() || !ownedByUs(info) {
			continue // gone, or not ours to judge
		}
		left, err := d.sweepDir(dir, strings.HasPrefix(entry.Name(), ".new-"))
		errs = append(errs, err)
		if left != nil {
			kept = append(kept, *left)
		}
	}
	return errors.Join(append(errs, d.trim(kept))...)
}

// keptDir is a directory that its runtime has left to be read.
type keptDir struct {
	path  string
	until time.Time
	bytes int64
}

// unfinishedFor is how long a directory may be without a lock that is held, at
// its making.
const unfinishedFor = time.Minute

// sweepDir removes dir if its runtime is dead and wanted nothing kept.
func (d *privateDir) sweepDir(dir string, unfinished bool) (*keptDir, error) {
	if unfinished {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < unfinishedFor {
			return nil, nil
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, ownerLock), os.O_RDWR|noFollow|nonBlock, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, os.RemoveAll(dir)
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := tryLock(lock); err != nil {
		return nil, nil // its runtime lives
	}
	endLeftRanges(dir)
	text, err := readNote(filepath.Join(dir, keptUntil))
	if err == nil {
		if until, err := time.Parse(time.RFC3339, string(text)); err == nil && time.Now().Before(until) {
			return &keptDir{path: dir, until: until, bytes: sizeOf(dir)}, nil
		}
	}
	return nil, os.RemoveAll(dir)
}

// trim removes the oldest kept directories until the quota holds for them too.
func (d *privateDir) trim(kept []keptDir) error {
	slices.SortFunc(kept, func(a, b keptDir) int { return b.until.Compare(a.until) })
	var total int64
	var errs []error
	for _, k := range kept {
		if total += k.bytes; total > d.config.quota() {
			errs = append(errs, os.RemoveAll(k.path))
		}
	}
	return errors.Join(errs...)
}

func sizeOf(dir string) (total int64) {
	entries, _ := os.ReadDir(dir) // what can't be read is not counted
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}
