package runner

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
)

// selector is the variable by which this program knows that it was started as
// a runner, and as which. A runner's environment holds nothing else: a target's
// never carries it.
const selector = "CORRAL_RUNNER"

// controlFD is the descriptor on which a runner talks to who started it.
const controlFD = 3

// linked is set once Main has run: from then on this program can be started
// again as a runner.
var linked atomic.Bool

// Linked reports whether this program's main function calls Main, without which
// it can't be started as a runner.
func Linked() bool { return linked.Load() }

// ErrNotLinked is why an owner that needs a runner can't be used.
var ErrNotLinked = errors.New("runner not linked: the program's main function does not begin with local.Main")

// Main turns this process into the runner that it was started as, and then does
// not return. In every other process it returns at once. more are verbs of the
// caller's, which end by [Leave].
func Main(more map[string]func()) {
	linked.Store(true)
	verb, ok := os.LookupEnv(selector)
	if !ok {
		return
	}
	run, ok := verbs[verb]
	if !ok {
		run, ok = more[verb]
	}
	if !ok {
		leave(exitProtocol)
	}
	run()
	leave(exitProtocol) // a runner's verb does not return
}

// leave ends a runner at once: os.Exit would first give a race detector a second
// for its last words, which every launch of a test would wait for.
func leave(code int) { syscall.Exit(code) }

// Leave ends a runner whose verb is the caller's.
func Leave(code int) { leave(code) }

// exitProtocol is a runner's exit code when it was not talked to as it expects.
const exitProtocol = 125
