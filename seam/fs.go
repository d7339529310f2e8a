package seam

import (
	"context"
	"io"
	iofs "io/fs"
)

// FS is the filesystem half of one execution world. All methods may be called
// concurrently. Contexts bound calls; an ended one gives [CodeAborted], also
// when it ended during the call, so that an abort is never read as absence.
//
// Mutation is not part of FS yet: it joins with the file tools, as an interface
// of its own.
type FS interface {
	WorldID() string
	Paths
	Reader
}

// Paths answers questions about names.
type Paths interface {
	// Resolve names the file at path, which may be absent. A relative path is
	// taken from dir, which must be absolute; an absolute path ignores dir.
	// Two spellings that reach one file, through whatever symbolic links, give
	// targets with equal keys, and a missing file keeps its key when it is
	// created.
	//
	// Errors: CodeInvalid for an empty path, a NUL byte, or a relative dir;
	// CodeNotFound where a regular file stands in for a directory of path.
	Resolve(ctx context.Context, path, dir string) (Target, error)

	// ProcessPath is the canonical absolute path under which a process of the
	// same world opens t.
	ProcessPath(t Target) (string, error)

	// FileURI is t as a percent-encoded file: URI (RFC 8089) in the syntax of
	// the world's platform.
	FileURI(t Target) (string, error)

	// Contains reports whether child is parent or lies below it, by identity
	// and by whole path components.
	Contains(parent, child Target) (bool, error)
}

// A Target is a resolved name. Key is opaque: it may be compared, stored and
// sent back, never parsed. Targets of another FS are refused with
// [CodeForeignPath].
type Target struct {
	WorldID string
	Key     string // identity: equal exactly when the file is the same
	Display string // absolute, symbolic links as they were spelt
}

// Reader reads.
type Reader interface {
	// Stat describes what t names, following symbolic links.
	// Absence is [CodeNotFound].
	Stat(ctx context.Context, t Target) (FileInfo, error)

	// Lstat describes the file at path (as in Resolve) without following its
	// last component.
	Lstat(ctx context.Context, path, dir string) (FileInfo, error)

	// OpenText reads a regular file that must be UTF-8 without NUL bytes in
	// its first 8192; newlines are as stored. Reads fail with CodeNotText where
	// the text breaks off being text, at a byte boundary of a whole character.
	// ctx bounds the reads too: one that finds it ended fails with CodeAborted.
	// The caller closes it. Opening never blocks on a FIFO or device
	// (CodeNotRegular).
	OpenText(ctx context.Context, t Target) (io.ReadCloser, error)

	// ReadBytes reads a regular file of at most maxBytes; a larger one is
	// CodeTooLarge, never truncated, also when it grows while being read. A
	// negative maxBytes is CodeInvalid.
	ReadBytes(ctx context.Context, t Target, maxBytes int64) ([]byte, error)

	// List describes the direct children of a directory, ordered by name, byte
	// by byte. A file in its place is CodeNotDir.
	// A child that vanished or dangles is listed with type TypeOther.
	List(ctx context.Context, t Target) ([]Entry, error)
}

// ReadText reads the whole of a text file, as [Reader.OpenText] does.
func ReadText(ctx context.Context, r Reader, t Target) (string, error) {
	text, err := r.OpenText(ctx, t)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(text)
	if closeErr := text.Close(); err == nil {
		err = closeErr
	}
	return string(data), err
}

// A FileType is a kind of file.
type FileType string

// Kinds of file. TypeSymlink is reported by Lstat and List only.
const (
	TypeFile    FileType = "file"
	TypeDir     FileType = "directory"
	TypeSymlink FileType = "symlink"
	TypeOther   FileType = "other"
)

// FileInfo describes a file.
type FileInfo struct {
	Type      FileType
	SizeBytes int64 // meaningful for TypeFile
	Mode      iofs.FileMode
	// Version changes whenever the file does, also when size and modification
	// time are put back. Opaque; compare for equality.
	Version string
}

// An Entry is one child in a listing. Info describes the child itself, not
// what a symbolic link points to; Target is resolved through it.
type Entry struct {
	Name   string
	Target Target
	Info   FileInfo
}
