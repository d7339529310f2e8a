package local

import (
	"os"
	"syscall"

	"github.com/corral-world/corral/internal/runner"
)

// cleanInheritable keeps this process's descriptors and ignored signals from
// the next target.
func cleanInheritable() error {
	runner.RestoreSignals()
	return runner.CloseOnExec()
}

func ignores(sig os.Signal) bool {
	n, ok := sig.(syscall.Signal)
	return ok && runner.Ignores(n)
}
