package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// ownedBy is the containment that a host is known to give, by its TESTHOST_
// variables (see internal/testhost): session, delegated, user manager.
var ownedBy = map[string]string{
	"user-manager no yes": "cgroup",
	"login no yes":        "scope",
	"none yes no":         "cgroup",
	"none no no":          "reaper",
}

// TestOwners: whatever this host gives, a command and what detaches itself from
// it end with corral, and corral has proved it when it says so.
func TestOwners(t *testing.T) {
	const script = `setsid sleep 600 &
		(setsid python3 -c "import os,time; os.fork() and os._exit(0); time.sleep(600)" &)
		echo started`
	for _, c := range []struct {
		name string
		argv []string
	}{
		{"the end", []string{"corral", "exec", "--json", "--", "bash", "-c", script}},
		// The inner one is given no time to end its range itself.
		{"the end of an outer range", []string{"-exit", "124", "corral", "exec", "--json", "--timeout", "3s", "--grace", "1ms", "--",
			"corral", "exec", "--", "bash", "-c", script + "; sleep 600"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "oracle", c.argv...)
			cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, stdout, stderr.Bytes())
			}
			line, rest, _ := strings.Cut(string(stdout), "\n")
			if rest != "EMPTY\n" {
				t.Errorf("the oracle says %q", rest)
			}
			var report struct {
				Empty       bool
				Containment struct {
					Kind     string
					Complete bool
				}
				Stdout struct{ Text string }
			}
			if err := json.Unmarshal([]byte(line), &report); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			if !report.Empty || !strings.Contains(report.Stdout.Text, "started\n") {
				t.Errorf("got %s", line)
			}
			host := strings.Join([]string{os.Getenv("TESTHOST_SESSION"), os.Getenv("TESTHOST_DELEGATE"), os.Getenv("TESTHOST_MANAGER")}, " ")
			if want, ok := ownedBy[host]; ok && os.Getuid() != 0 && report.Containment.Kind != want {
				t.Errorf("on the host %q: %+v, want %s", host, report.Containment, want)
			}
			t.Logf("on the host %q: %s", host, report.Containment.Kind)
		})
	}
}
