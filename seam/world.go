package seam

import "fmt"

// A World is one filesystem and one subprocess half that name the same things:
// a path that FS resolves is the path that a process of Subprocess opens.
type World struct {
	fs         FS
	subprocess Subprocess
}

// NewWorld joins two halves. It refuses nil halves and halves whose WorldIDs
// are empty or differ, with an [OpError] of code [CodeInvalid]: halves of two
// worlds would run commands on one host and edit files on another.
//
// The World does not own its halves; whoever made them closes them.
func NewWorld(fs FS, subprocess Subprocess) (*World, error) {
	refuse := func(field, problem string) (*World, error) {
		return nil, &OpError{Op: "new world", Code: CodeInvalid, Err: &FieldError{Field: field, Problem: problem}}
	}
	switch {
	case fs == nil:
		return refuse("fs", "is nil")
	case subprocess == nil:
		return refuse("subprocess", "is nil")
	case fs.WorldID() == "":
		return refuse("fs", "has an empty world id")
	case fs.WorldID() != subprocess.WorldID():
		return refuse("subprocess", fmt.Sprintf("belongs to world %q, fs to %q", subprocess.WorldID(), fs.WorldID()))
	}
	return &World{fs: fs, subprocess: subprocess}, nil
}

// ID names the world. Decorators of a half forward it.
func (w *World) ID() string { return w.fs.WorldID() }

// FS is the filesystem half.
func (w *World) FS() FS { return w.fs }

// Subprocess is the subprocess half.
func (w *World) Subprocess() Subprocess { return w.subprocess }
