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
	if code, ran, err := local.Init(); ran {
		if err != nil {
			fmt.Fprintln(os.Stderr, "corral: as first process:", err)
			return 125
		}
		return code
	}
	return cli.Program{
		Args:    os.Args[1:],
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
	}.Main()
}
