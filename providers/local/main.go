package local

import (
	"os"

	"github.com/corral-world/corral/internal/runner"
)

// Main is the first line of every embedder's main function, and of a TestMain.
// It returns at once, unless this process is one that Corral started for its
// own purposes; such a process it never returns from.
//
// It also keeps what this process was started with from the targets:
// descriptors above 2 become close-on-exec, and signals that are ignored get
// the default disposition in children, while this process goes on ignoring
// them (see [Ignores]). Every launch does that again, for what was opened or
// ignored since; [Config.KeepInheritable] opts out there, and not calling Main
// opts out here.
//
// The error is one of the operating system's, and leaves the process as it was.
func Main() error {
	runner.Main(verbs)
	return cleanInheritable()
}

// Ignores reports whether this process was started with sig ignored, as by
// nohup(1), which the os/signal package can't tell once Main has run.
func Ignores(sig os.Signal) bool { return ignores(sig) }
