package cli

import (
	"runtime"
	"runtime/debug"
)

// version tells what was built, from what the linker recorded.
func version() string {
	name := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		name = info.Main.Version
	}
	return name + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
