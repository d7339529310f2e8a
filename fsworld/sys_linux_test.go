package fsworld_test

import (
	"math"
	"strings"
	"testing"

	"github.com/corral-world/corral/seam"
)

// Files of /proc say that they are empty, as a file does that grows after it
// was looked at.
func TestReadBytesGrown(t *testing.T) {
	f := newFS(t)
	target := resolve(t, f, "/proc/self/status")
	if info, err := f.Stat(t.Context(), target); err != nil || info.SizeBytes != 0 {
		t.Skipf("/proc/self/status has %d bytes, %v", info.SizeBytes, err)
	}
	if data, err := f.ReadBytes(t.Context(), target, 10); seam.CodeOf(err) != seam.CodeTooLarge || data != nil {
		t.Errorf("at most 10 bytes: %q, %v; want code too_large", data, err)
	}
	data, err := f.ReadBytes(t.Context(), target, math.MaxInt64)
	if err != nil || !strings.HasPrefix(string(data), "Name:") || !strings.HasSuffix(string(data), "\n") {
		t.Errorf("without bound: %q, %v", data, err)
	}
}
