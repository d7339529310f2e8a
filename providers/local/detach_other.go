//go:build !linux

package local

import (
	"context"

	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

var verbs map[string]func()

// keepable: no owner of this system can be asked by another process.
func keepable(seam.Kind) bool { return false }

func (r *Runtime) launchDetached(context.Context, owner.Launcher, string, *seam.Spec) (*managed.Process, error) {
	panic("a kind that is not keepable")
}

func describeProcess(int) (seam.Member, bool) { return seam.Member{}, false }
