// Package managed may know no owner.
package managed

import (
	_ "github.com/corral-world/corral/internal/owner"
	_ "github.com/corral-world/corral/internal/runner" // want "internal/managed may not import"
	_ "golang.org/x/sys/unix"
)
