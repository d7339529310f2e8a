package local

import (
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/providers/fallback"
)

func strongestLauncher() owner.Launcher {
	group := fallback.NewGroup()
	group.Reason = noOwner
	return group
}
