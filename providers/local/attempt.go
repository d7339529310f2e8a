package local

import "github.com/corral-world/corral/seam"

// An Attempt is one way to own launches that was tried, in the order of
// strength, and why it is not used.
type Attempt struct {
	Kind  seam.Kind
	Where string
	Err   error // nil for the one that is used
}
