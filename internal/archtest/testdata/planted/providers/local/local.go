// Package local may start processes, and know no other provider.
package local

import (
	_ "os/exec"

	_ "github.com/corral-world/corral/fsworld" // want "providers/local may not import"
	_ "github.com/creack/pty"
	_ "go.uber.org/fx" // want "providers/local/local.go may not import fx"
	_ "golang.org/x/sys/unix"
)
