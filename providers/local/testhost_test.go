package local_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/corral-world/corral/seam"
)

// A topology is where these tests run: a test host says what it is, and then
// what it has to give is known. A kind that it silently lost fails.
type topology struct {
	auto  seam.Kind   // what is chosen
	gives []seam.Kind // what can be had
}

// topologies by the test host's TESTHOST_ variables: who, session, delegated
// (see internal/testhost), user manager.
var topologies = map[string]topology{
	"user user-manager no yes": {seam.KindCgroup, []seam.Kind{seam.KindScope, seam.KindCgroup}},
	"user login no yes":        {seam.KindScope, []seam.Kind{seam.KindScope}},
	"user none no yes":         {seam.KindScope, []seam.Kind{seam.KindScope}},
	"user none yes yes":        {seam.KindScope, []seam.Kind{seam.KindScope, seam.KindCgroup}},
	"user none yes no":         {seam.KindCgroup, []seam.Kind{seam.KindCgroup}},
	"user none no no":          {weakest, nil},
	"root user-manager no yes": {seam.KindCgroup, []seam.Kind{seam.KindScope, seam.KindCgroup}},
	"root login no yes":        {seam.KindCgroup, []seam.Kind{seam.KindScope, seam.KindCgroup}},
	"root none no yes":         {seam.KindCgroup, []seam.Kind{seam.KindScope, seam.KindCgroup}},
}

// weakest is what a Linux without usable cgroups has.
const weakest = seam.KindReaper

// here returns the topology that the test host says this is, and whether there
// is a test host.
func here(t testing.TB) (topology, bool) {
	t.Helper()
	session, ok := os.LookupEnv("TESTHOST_SESSION")
	if !ok {
		return topology{}, false
	}
	who := "user"
	if os.Getuid() == 0 {
		who = "root"
	}
	name := strings.Join([]string{who, session, os.Getenv("TESTHOST_DELEGATE"), os.Getenv("TESTHOST_MANAGER")}, " ")
	found, ok := topologies[name]
	if !ok {
		t.Fatalf("no topology %q in the table", name)
	}
	return found, true
}

// nativeKinds are those that own ranges by cgroups.
var nativeKinds = []seam.Kind{seam.KindScope, seam.KindCgroup}

// kindsHere are those of kinds that a test tries on this host. A test host is
// there for the native kinds, and TestTopology sees to it that it has them; the
// others are the same on every host, and tried where there is nothing else.
// Where nothing is known of the host each of kinds is tried.
func kindsHere(t testing.TB, kinds ...seam.Kind) []seam.Kind {
	t.Helper()
	host, ok := here(t)
	if !ok {
		return kinds
	}
	var tried []seam.Kind
	for _, kind := range kinds {
		native := slices.Contains(nativeKinds, kind)
		if native && slices.Contains(host.gives, kind) || !native && len(host.gives) == 0 {
			tried = append(tried, kind)
		}
	}
	return tried
}
