// Package cli may import what it likes, and start nothing.
package cli

import (
	_ "os/exec" // want "app/cli may not import os/exec"

	_ "github.com/corral-world/corral/consumers/bash"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/fx"
)
