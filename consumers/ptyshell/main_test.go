package ptyshell_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/corral-world/corral/providers/local"
)

func TestMain(m *testing.M) {
	if err := local.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
