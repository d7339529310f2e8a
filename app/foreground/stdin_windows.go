package foreground

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

func openNonblocking(path string) (*os.File, error) { return os.Open(path) }

func isClosedPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}

func awaitWriter(*os.File) error { return nil }
