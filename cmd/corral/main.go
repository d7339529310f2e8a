// Command corral runs commands, and ends with them everything that they started.
package main

import (
	"fmt"
	"os"

	"github.com/corral-world/corral/app/cli"
	"github.com/corral-world/corral/providers/local"
)

func main() { os.Exit(run()) }

func run() int {
	if err := local.Main(); err != nil {
		fmt.Fprintln(os.Stderr, "corral:", err)
		return 125
	}
	return cli.Program{
		Args:    os.Args[1:],
		Environ: os.Environ(),
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
	}.Main()
}
