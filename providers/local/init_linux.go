package local

import (
	"os"

	"github.com/corral-world/corral/internal/runner"
)

// Init does the work of a container's first process, where this process is one:
// it runs this program again as an ordinary process, reaps what is orphaned,
// forwards signals, and returns that program's exit code. In every other process
// it returns false at once.
//
// A program that may be started as a container's first process calls it after
// [Main], and exits with the code.
func Init() (code int, ran bool, err error) {
	if os.Getpid() != 1 {
		return 0, false, nil
	}
	code, err = runner.Init()
	return code, true, err
}
