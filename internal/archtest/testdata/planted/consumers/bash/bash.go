// Package bash may know jobs.
package bash

import (
	"os"
	_ "os/exec" // want "consumers/bash may not import os/exec"
	. "syscall" // want "a dot import of syscall"

	_ "github.com/corral-world/corral/consumers/jobs"
	_ "github.com/corral-world/corral/consumers/lsp"   // want "consumers/bash may not import"
	_ "github.com/corral-world/corral/providers/local" // want "consumers see only the seams"
)

var _ = os.StartProcess // want "consumers/bash may not use os.StartProcess"
