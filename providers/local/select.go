package local

import (
	"fmt"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/providers/fallback"
	"github.com/corral-world/corral/seam"
)

// selectLauncher chooses the owner of every launch.
func selectLauncher(forced seam.Kind) (owner.Launcher, error) {
	switch forced {
	case "", seam.KindGroup:
		return fallback.Group{Reason: nativeReason}, nil
	case seam.KindScope, seam.KindCgroup, seam.KindJob, seam.KindReaper, seam.KindTree:
		return nil, &seam.OpError{Op: "select containment", Code: seam.CodeContainment,
			Err: fmt.Errorf("containment %q: %s", forced, nativeReason)}
	}
	return nil, &seam.OpError{Op: "select containment", Code: seam.CodeInvalid,
		Err: &seam.FieldError{Field: "Containment", Problem: fmt.Sprintf("names no kind: %q", forced)}}
}

// nativeReason is why no stronger kind is chosen.
const nativeReason = "this version of Corral has no owner of that kind"
