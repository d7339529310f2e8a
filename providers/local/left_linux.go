package local

import (
	"os"
	"strings"

	"github.com/corral-world/corral/internal/runner"
)

// bootID tells one boot of the system from another (random(4)).
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

func endSubtree(base, prefix string) {
	if strings.HasPrefix(prefix, unitPrefix) {
		runner.EndSubtree(base, prefix)
	}
}
