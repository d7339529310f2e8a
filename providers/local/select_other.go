//go:build !linux

package local

import (
	"context"

	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/seam"
)

// selection is the one owner that this system has.
type selection struct{ launcher owner.Launcher }

func newSelection(forced seam.Kind, _ *privateDir) (*selection, error) {
	if err := checkKind(forced); err != nil {
		return nil, err
	}
	launcher := strongestLauncher()
	if forced != "" && forced != launcher.Containment().Kind {
		return nil, notToBeHad(forced, noOwner)
	}
	return &selection{launcher}, nil
}

func (s *selection) choose(context.Context) (owner.Launcher, error) { return s.launcher, nil }

func (s *selection) last() []Attempt {
	return []Attempt{{Kind: s.launcher.Containment().Kind, Where: "this system"}}
}

func (s *selection) Close(context.Context) error { return nil }
