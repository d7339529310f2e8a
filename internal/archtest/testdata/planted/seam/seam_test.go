// Package seam_test documents its tests alone.
package seam_test

import (
	_ "os/exec"

	_ "github.com/corral-world/corral/app" // want "a test of seam may not import github.com/corral-world/corral/app"
	_ "github.com/corral-world/corral/seam"
	_ "github.com/corral-world/corral/seam/seamtest"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/stretchr/testify/require" // want "a test of seam may not import github.com/stretchr/testify/require"
)
