//go:build unix

package bash_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/corral-world/corral/consumers/bash"
	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/fsworld"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

func Example() {
	ctx := context.Background()
	files, err := fsworld.New("host")
	if err != nil {
		fmt.Println(err)
		return
	}
	runtime, err := local.New(local.Config{WorldID: "host"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = runtime.Close(ctx) }()
	world, err := seam.NewWorld(files, runtime)
	if err != nil {
		fmt.Println(err)
		return
	}
	config := bash.DefaultConfig()
	config.Dir = os.TempDir()
	config.Jobs = jobs.New(jobs.Config{})
	sh, err := bash.New(world, config)
	if err != nil {
		fmt.Println(err)
		return
	}

	// In the foreground.
	result, err := sh.Run(ctx, bash.Request{Script: "echo hello; echo oops >&2; exit 3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Render())

	// Out of time.
	result, err = sh.Run(ctx, bash.Request{Script: "sleep 60", Timeout: 100 * time.Millisecond})
	fmt.Println(result.TimedOut, result.Empty, err)

	// In the background.
	job, err := sh.Start(ctx, bash.Request{Owner: "me", Script: "echo done"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if job, err = config.Jobs.Wait(ctx, "me", job.ID); err != nil {
		fmt.Println(err)
		return
	}
	output, err := config.Jobs.Read("me", job.ID, jobs.Cursor{})
	fmt.Printf("%s is %s: %q %v\n", job.ID, job.Status, output.Stdout.Data, err)
	// Output:
	// hello
	// [stderr]
	// oops
	// [exit code: 3]
	// true <nil> <nil>
	// bash-1 is completed: "done\n" <nil>
}

func ExampleEnvironment() {
	managed := bash.NewEnvironment()
	remove, err := managed.Contribute(bash.Contributor{
		Name: "tickets",
		Keys: map[string]string{"CORRAL_TICKET": "the ticket that the owner works on"},
		Values: func(_ context.Context, owner string) (map[string]string, error) {
			return map[string]string{"CORRAL_TICKET": "T-" + owner}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer remove()
	env, err := managed.Snapshot(context.Background(), "17")
	for _, v := range env {
		fmt.Println(v.Name, v.Value)
	}
	fmt.Println(err)
	// Output:
	// CORRAL_OWNER 17
	// CORRAL_SHELL 1
	// CORRAL_TICKET T-17
	// <nil>
}
