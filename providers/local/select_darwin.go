package local

import (
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/providers/fallback"
)

func strongestLauncher() owner.Launcher {
	return fallback.Group{Reason: "this version of Corral has no stronger owner for this system"}
}
