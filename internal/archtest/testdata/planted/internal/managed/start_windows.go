package managed

import (
	sc "syscall"

	"golang.org/x/sys/windows"
)

var _ = sc.ForkExec // want "internal/managed may not use syscall.ForkExec"

func start() {
	windows.CreateProcess(nil) // want "internal/managed may not use golang.org/x/sys/windows.CreateProcess"
}
