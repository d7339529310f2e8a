package archtest

// module is the path of the module under test.
const module = "github.com/corral-world/corral"

const (
	fx  = "go.uber.org/fx"
	sys = "golang.org/x/sys"
)

// A layer says what the packages that its path matches may import, beside the
// standard library. A path, here and in module, is relative to the module and
// matches one package, or with /... that package and all below it. The layer
// with the longest matching path decides. Every package may import those below it.
type layer struct {
	path     string
	module   []string // packages of this module
	external []string // other modules, with all their packages
	fx       bool     // a file named module.go may import fx as well
	reason   string
}

// anything, as the only entry of module or external, allows every import.
const anything = "..."

var layers = []layer{
	{
		path:   "seam",
		reason: "a world, and whoever uses one, takes on nothing but the contracts",
	},
	{
		path:   "seam/seamtest",
		module: []string{"seam", "internal/owner", "internal/managed"},
		reason: "the suite and its world must run where no provider does",
	},
	{
		path:     "internal/...",
		module:   []string{"seam", "internal/..."},
		external: []string{sys},
		reason:   "internal packages are below the providers",
	},
	{
		path:   "internal/owner",
		module: []string{"seam"},
		reason: "owner is the contract between the packages that own ranges",
	},
	{
		path:     "internal/managed",
		module:   []string{"seam", "internal/owner"},
		external: []string{sys},
		reason:   "managed works with any owner and knows none",
	},
	{
		path:     "internal/cgroup",
		module:   []string{"seam", "internal/owner", "internal/process"},
		external: []string{sys},
		reason:   "a cgroup is a range, whoever made it",
	},
	{
		path:     "internal/systemd",
		external: []string{sys, "github.com/godbus/dbus/v5"},
		reason:   "systemd asks for units, and knows nothing of ranges",
	},
	{
		path:     "internal/wire",
		module:   []string{"seam", "internal/..."},
		external: []string{sys, "github.com/hashicorp/yamux"},
		reason:   "wire is the protocol alone, for both its ends",
	},
	{
		path:     "internal/agent",
		module:   []string{"seam", "internal/...", "fsworld", "providers/local"},
		external: []string{sys},
		reason:   "the far end serves the local world and nothing above it",
	},
	{
		path:   "providers/...",
		module: []string{"seam", "internal/..."},
		external: []string{
			sys,
			"github.com/creack/pty",
			"github.com/godbus/dbus/v5",
		},
		fx:     true,
		reason: "providers meet only in app, by the seams",
	},
	{
		path:   "providers/local/...",
		module: []string{"seam", "internal/...", "providers/fallback"},
		external: []string{
			sys,
			"github.com/creack/pty",
			"github.com/godbus/dbus/v5",
		},
		fx:     true,
		reason: "local chooses among the owners of this host, of which fallback has some",
	},
	{
		path:     "providers/sandbox/...",
		module:   []string{"seam", "internal/..."},
		external: []string{sys, "github.com/landlock-lsm/go-landlock", "github.com/elastic/go-seccomp-bpf"},
		fx:       true,
		reason:   "providers meet only in app, by the seams",
	},
	{
		path:     "fsworld/...",
		module:   []string{"seam", "internal/..."},
		external: []string{sys, "github.com/bmatcuk/doublestar/v4", "github.com/fsnotify/fsnotify"},
		fx:       true,
		reason:   "the two halves of a world meet only in app, by the seams",
	},
	{
		path:   "consumers/jobs/...",
		module: []string{"seam"},
		fx:     true,
		reason: "consumers see only the seams",
	},
	{
		path:   "consumers/bash/...",
		module: []string{"seam", "consumers/jobs", "consumers/ptyshell"},
		fx:     true,
		reason: "consumers see only the seams, and bash also jobs and shells on terminals",
	},
	{
		path:     "consumers/ptyshell/...",
		module:   []string{"seam", "consumers/jobs"},
		external: []string{"github.com/charmbracelet/x/ansi", "github.com/clipperhouse/displaywidth"},
		fx:       true,
		reason:   "consumers see only the seams, and ptyshell also jobs",
	},
	{
		path:     "consumers/lsp/...",
		module:   []string{"seam"},
		external: []string{"go.lsp.dev/protocol", "go.lsp.dev/jsonrpc2", "go.lsp.dev/uri"},
		fx:       true,
		reason:   "consumers see only the seams",
	},
	{
		path:     "consumers/files/...",
		module:   []string{"seam"},
		external: []string{"github.com/bmatcuk/doublestar/v4", "github.com/aymanbagabas/go-udiff"},
		fx:       true,
		reason:   "consumers see only the seams",
	},
	{
		path:     "app/...",
		module:   []string{anything},
		external: []string{anything},
		reason:   "app is where the parts meet",
	},
	{
		path:   "cmd/...",
		module: []string{"app/...", "providers/local"},
		reason: "a program is local.Main and a front door",
	},
}

// forTests is what test files may import beside what their package may.
var forTests = layer{
	module: []string{"seam", "seam/seamtest", "internal/testproc", "fsworld", "providers/..."},
	external: []string{
		sys,
		"github.com/google/go-cmp",
		"github.com/rogpeppe/go-internal",
		"go.uber.org/goleak",
		"golang.org/x/tools",
		"pgregory.net/rapid",
	},
	reason: "a test may run on a world of this host, and must not need what is above its package",
}

// Whoever starts a process has to own its range, so only these packages, and
// tests, may.
var mayStart = []string{"providers/...", "internal/runner/...", "internal/testproc/..."}

// starters are the functions that start a process, by package. To import
// os/exec is enough: it has no other purpose.
var starters = map[string][]string{
	"os":                       {"StartProcess"},
	"syscall":                  {"ForkExec", "StartProcess", "CreateProcess", "CreateProcessAsUser"},
	"golang.org/x/sys/windows": {"CreateProcess", "CreateProcessAsUser"},
}
