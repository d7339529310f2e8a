// Command corral goes through app.
package main

import (
	_ "github.com/corral-world/corral/app/cli"
	_ "github.com/corral-world/corral/fsworld" // want "cmd/corral may not import"
	_ "github.com/corral-world/corral/providers/local"
	_ "github.com/spf13/cobra" // want "cmd/corral may not import github.com/spf13/cobra"
)
