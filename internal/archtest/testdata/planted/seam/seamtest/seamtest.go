// Package seamtest may know owners, and no provider.
package seamtest

import (
	_ "github.com/corral-world/corral/internal/managed"
	_ "github.com/corral-world/corral/internal/owner"
	_ "github.com/corral-world/corral/providers/local" // want "seam/seamtest may not import"
	_ "github.com/corral-world/corral/seam"
)
