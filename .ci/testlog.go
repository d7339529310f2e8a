// Command testlog turns the output of go test -json on its standard input into
// what go test prints without -v, and writes every skipped test with its reason
// to a file, which go test itself does not offer without printing everything.
// go test's exit status is the verdict; testlog fails only if it cannot do its work.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is the part of a test2json event that is used here.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// running is what a package has said and not been shown yet.
type running struct {
	own   strings.Builder // output of no particular test
	tests map[string]*strings.Builder
	order []string // of tests
}

func (r *running) output(test string) *strings.Builder {
	if test == "" {
		return &r.own
	}
	out := r.tests[test]
	if out == nil {
		out = new(strings.Builder)
		r.tests[test] = out
		r.order = append(r.order, test)
	}
	return out
}

// forget drops a test that ended well: what is left when its package ends has failed or never ended.
func (r *running) forget(test string) {
	delete(r.tests, test)
	r.order = slices.DeleteFunc(r.order, func(t string) bool { return t == test })
}

// show prints what is left. The seed of the order in which tests ran is of use only after a failure.
func (r *running) show(failed bool) {
	for _, test := range r.order {
		for line := range strings.Lines(r.tests[test].String()) {
			if !strings.HasPrefix(line, "=== ") {
				fmt.Print(line)
			}
		}
	}
	for line := range strings.Lines(r.own.String()) {
		if failed || line != "PASS\n" && !strings.HasPrefix(line, "-test.shuffle ") {
			fmt.Print(line)
		}
	}
}

type report struct {
	packages map[string]*running
	ended    int // tests and subtests
	skips    []string
}

func (r *report) event(e event) {
	p := r.packages[e.Package]
	if p == nil {
		p = &running{tests: make(map[string]*strings.Builder)}
		r.packages[e.Package] = p
	}
	switch e.Action {
	case "output":
		p.output(e.Test).WriteString(e.Output)
		return
	case "build-output":
		fmt.Print(e.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	if e.Test != "" {
		r.ended++
		if e.Action == "skip" {
			r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(p.output(e.Test).String())))
		}
		if e.Action != "fail" {
			p.forget(e.Test)
		}
		return
	}
	p.show(e.Action == "fail")
	delete(r.packages, e.Package)
}

// position is all that a bare t.Skip logs.
var position = regexp.MustCompile(`^\S+\.go:\d+:$`)

// reason is what a test logged, without the lines in which the testing package announces it.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if len(said) == 0 || position.MatchString(said[len(said)-1]) {
		said = append(said, "no reason given")
	}
	return strings.Join(said, " ")
}

func run(skipsFile string) error {
	r := report{packages: make(map[string]*running)}
	in := bufio.NewReader(os.Stdin) // a Scanner's longest line would be a limit on what a test may print
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			break
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Print(string(line))
			continue
		}
		r.event(e)
	}
	for _, p := range r.packages { // go test was ended from outside
		p.show(true)
	}
	fmt.Printf("%d tests and subtests, %d skipped\n", r.ended, len(r.skips))
	slices.Sort(r.skips)
	var all strings.Builder
	for _, skip := range r.skips {
		all.WriteString(skip + "\n")
	}
	return os.WriteFile(skipsFile, []byte(all.String()), 0o666)
}

func main() {
	skips := flag.String("skips", "skips", "`file` for the skipped tests")
	flag.Parse()
	if err := run(*skips); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}
