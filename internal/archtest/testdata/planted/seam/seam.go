package seam

import (
	_ "context"

	_ "github.com/corral-world/corral/internal/owner" // want "seam may not import github.com/corral-world/corral/internal/owner"
	_ "golang.org/x/sys/unix"                         // want "seam may not import golang.org/x/sys/unix: a world"
)
