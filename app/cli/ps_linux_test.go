package cli_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/corral-world/corral/internal/control"
	"github.com/corral-world/corral/seam"
)

// liar is a process of this user that answers as no runtime would.
type liar struct{}

const misleading = "\x1b]0;title\x07\nevil"

func (liar) Ranges(context.Context) []control.Range {
	return []control.Range{{Name: "web" + misleading, Kind: misleading, Argv: []string{misleading}}, {Name: "web"}}
}

func (liar) Stop(context.Context, string, bool, int) error { return errors.New(misleading) }

// What others say of their ranges can't mislead a terminal.
func TestLiesAreShownAsText(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	server, err := control.Default().Listen(liar{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, args := range [][]string{{"ps"}, {"stop", "--owner", "OWNER", "web"}} {
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "OWNER", strconv.Itoa(os.Getpid()))
		}
		_, stdout, stderr := runInMemory(seam.Containment{}, args...)
		if shown := stdout + stderr; strings.ContainsAny(shown, "\x1b\x07") || strings.Contains(shown, "\nevil") || !strings.Contains(shown, "evil") {
			t.Errorf("%v: %q", args, shown)
		}
	}
}
