package local

import (
	"fmt"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// selectLauncher chooses the owner of every launch.
func selectLauncher(forced seam.Kind) (owner.Launcher, error) {
	launcher := strongestLauncher()
	switch forced {
	case "", launcher.Containment().Kind:
		return launcher, nil
	case seam.KindScope, seam.KindCgroup, seam.KindJob, seam.KindReaper, seam.KindGroup, seam.KindTree:
		return nil, &seam.OpError{Op: "select containment", Code: seam.CodeContainment,
			Err: fmt.Errorf("containment %q: %s", forced, noOwner)}
	}
	return nil, &seam.OpError{Op: "select containment", Code: seam.CodeInvalid,
		Err: &seam.FieldError{Field: "Containment", Problem: fmt.Sprintf("names no kind: %q", forced)}}
}

// noOwner is why a kind is not chosen.
const noOwner = "this version of Corral has no such owner for this system"
