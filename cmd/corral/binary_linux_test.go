package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// build builds the package in dir as users do and returns the program.
func build(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", program, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v\n%s", dir, err, out)
	}
	return program
}

var initClock = regexp.MustCompile(`(?m)^init .* ([0-9.]+) ms clock,`)

// TestInitBudget: package initialisation of corral takes at most 5 ms. The
// least of several runs is what the packages themselves cost.
func TestInitBudget(t *testing.T) {
	const budget = 5 * time.Millisecond
	program := build(t, ".")
	least := time.Hour
	for range 10 {
		cmd := exec.CommandContext(t.Context(), program, "--version")
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("corral --version: %v\n%s", err, stderr.Bytes())
		}
		lines := initClock.FindAllStringSubmatch(stderr.String(), -1)
		if len(lines) < 10 {
			t.Fatalf("no trace in %q", stderr.String())
		}
		var sum float64
		for _, line := range lines {
			ms, err := strconv.ParseFloat(line[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += ms
		}
		least = min(least, time.Duration(sum*float64(time.Millisecond)))
	}
	t.Logf("package initialisation takes %v", least)
	if least > budget {
		t.Errorf("package initialisation takes %v, budget %v", least, budget)
	}
}

// TestEmbed builds and runs the program of another module that embeds a world.
func TestEmbed(t *testing.T) {
	program := build(t, filepath.Join("..", "..", "testdata", "embed"))
	cmd := exec.CommandContext(t.Context(), "oracle", program)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, got, stderr.Bytes())
	}
	if want := "hello\nexited 0 survivors: 1 empty: true\nEMPTY\n"; string(got) != want {
		t.Errorf("printed %q, want %q\n%s", got, want, stderr.Bytes())
	}
}
