package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

func strongestLauncher() owner.Launcher { return noLauncher{} }

// noLauncher refuses every launch: a Windows owner is not built yet.
type noLauncher struct{}

// Containment implements [owner.Launcher].
func (noLauncher) Containment() seam.Containment {
	return seam.Containment{Kind: "none", Reason: noOwner}
}

// Launch implements [owner.Launcher].
func (noLauncher) Launch(context.Context, owner.Request) (owner.Direct, owner.Owner, error) {
	return nil, nil, fmt.Errorf("%s: %w", noOwner, errors.ErrUnsupported)
}
