package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// terminalColumns is 0 where f is not a terminal.
func terminalColumns(f *os.File) int {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	columns := 0
	_ = conn.Control(func(fd uintptr) {
		var info windows.ConsoleScreenBufferInfo
		if windows.GetConsoleScreenBufferInfo(windows.Handle(fd), &info) == nil {
			columns = int(info.Window.Right-info.Window.Left) + 1
		}
	})
	return columns
}
