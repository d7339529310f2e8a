//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalColumns is 0 where f is not a terminal.
func terminalColumns(f *os.File) int {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	columns := 0
	_ = conn.Control(func(fd uintptr) {
		size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ)
		switch {
		case err != nil:
		case size.Col == 0: // a terminal that was told no size
			columns = 80
		default:
			columns = int(size.Col)
		}
	})
	return columns
}
