package local

import (
	"fmt"

	"github.com/corral-world/corral/seam"
)

// checkKind refuses a forced containment that is none.
func checkKind(forced seam.Kind) error {
	switch forced {
	case "", seam.KindScope, seam.KindCgroup, seam.KindJob, seam.KindReaper, seam.KindGroup, seam.KindTree:
		return nil
	}
	return &seam.OpError{Op: "select containment", Code: seam.CodeInvalid,
		Err: &seam.FieldError{Field: "Containment", Problem: fmt.Sprintf("names no kind: %q", forced)}}
}

// notToBeHad is the error of a forced containment that this host does not give.
func notToBeHad(forced seam.Kind, reason string) error {
	return &seam.OpError{Op: "select containment", Code: seam.CodeContainment,
		Err: fmt.Errorf("containment %q is not to be had: %s", forced, reason)}
}

// noOwner is why a kind is not chosen that is not built.
const noOwner = "this version of Corral has no such owner for this system"
