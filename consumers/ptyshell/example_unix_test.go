//go:build unix

package ptyshell_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/fsworld"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

func Example() {
	if err := example(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// prompt "" in /
	// prompt "/\n" in /
	// continuation "" in /
	// prompt "hello\n" in /
	// stdin_read "name? " in /
	// prompt "you\n" in /
	// session_exit "exit\n" exit 3
}

func example() (err error) {
	ctx := context.Background()
	runtime, err := local.New(local.Config{WorldID: "host"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runtime.Close(ctx)) }()
	files, err := fsworld.New("host")
	if err != nil {
		return err
	}
	world, err := seam.NewWorld(files, runtime)
	if err != nil {
		return err
	}
	config := ptyshell.DefaultConfig()
	config.Dir = "/"
	shells, err := ptyshell.New(world, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shells.Close(ctx)) }()
	session, err := shells.Open(ctx, ptyshell.Open{Owner: "me"})
	if err != nil {
		return err
	}
	for _, text := range []string{"cd /", "pwd", "cat <<END\nhello", "END", "read -p 'name? ' x", "you", "exit 3"} {
		result, err := session.Send(ctx, ptyshell.Request{Text: text, Submit: true})
		if err != nil {
			return err
		}
		if result.Exit != nil {
			fmt.Printf("%s %q exit %d\n", result.Reason, result.Output, result.Exit.ExitCode)
			break
		}
		fmt.Printf("%s %q in %s\n", result.Reason, result.Output, result.Dir)
	}
	return nil
}
