// Package testproc is the programs that tests start: a test binary becomes one
// by executing itself, so that tests need nothing of the host but their own
// file.
//
//	func TestMain(m *testing.M) {
//		testproc.Main()
//		os.Exit(m.Run())
//	}
//
//	spec.Argv = testproc.Command("exit", "7")
//
// A program that has reached the state that its verb is about prints a line
// that begins with "ready". Every program ends by itself: after its lifetime at
// the latest, whatever becomes of the test.
//
// [Verbs] lists the verbs. A verb that no test uses has no place here, and this
// package's own test says so.
package testproc

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// lifetime bounds every program. It is longer than a test run.
const lifetime = 10 * time.Minute

// Exit codes of programs that came to no good.
const (
	exitUsage   = 97 // the test called it wrongly
	exitBroken  = 98 // the system refused it something
	exitExpired = 99 // its lifetime was over
)

// marker, before the verb, is what tells a program from a test run. It is an
// argument: worlds do as they like with the environment.
const marker = "testproc:"

// Command returns the argument vector that runs a verb in this binary, whose
// main function, or TestMain, begins with [Main]. It panics on an unknown verb.
func Command(verb string, args ...string) []string {
	if _, ok := verbs[verb]; !ok {
		panic(fmt.Sprintf("testproc has no verb %q; it has %q", verb, Verbs()))
	}
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{exe, marker + verb}, args...)
}

// Verbs returns the verbs of this platform.
func Verbs() []string { return slices.Sorted(maps.Keys(verbs)) }

// Main returns at once, unless this process was started by a [Command]: then it
// is that program, and ends here.
func Main() {
	if len(os.Args) < 2 {
		return
	}
	verb, ok := strings.CutPrefix(os.Args[1], marker)
	if !ok {
		return
	}
	run, ok := verbs[verb]
	if !ok {
		fatalf(exitUsage, "unknown verb")
	}
	time.AfterFunc(lifetime, func() { leave(exitExpired) })
	run(os.Args[2:])
	leave(0)
}

// verbs are the programs by name. They return to exit with code 0. The map is
// made by init because programs start each other.
var verbs map[string]func(args []string)

func init() {
	verbs = map[string]func([]string){
		"allocate": allocate,
		"args":     printArgs,
		"cat":      cat,
		"cwd":      cwd,
		"env":      env,
		"exit":     exit,
		"flood":    flood,
		"print":    printBoth,
		"sleep":    sleep,
	}
	maps.Copy(verbs, platformVerbs())
}

// leave exits. Where os.Exit gives a race detector a second for its last words,
// this does not: a program is there to be short.
func leave(code int) { syscall.Exit(code) }

func fatalf(code int, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", strings.Join(os.Args[1:], " "), fmt.Sprintf(format, args...))
	leave(code)
}

func check(err error) {
	if err != nil {
		fatalf(exitBroken, "%v", err)
	}
}

// arg returns args[i] as a number, or fallback where there is none.
func arg(args []string, i, fallback int) int {
	if i >= len(args) {
		return fallback
	}
	var n int
	if _, err := fmt.Sscanf(args[i], "%d", &n); err != nil {
		fatalf(exitUsage, "argument %d: %v", i, err)
	}
	return n
}
