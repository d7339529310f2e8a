// Package runner may start processes.
package runner

import (
	"os"
	_ "os/exec"
)

var _ = os.StartProcess
