package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/corral-world/corral/consumers/jobs"
	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

func Example() {
	ctx := context.Background()
	listening := make(chan struct{})
	world := seamtest.NewMemWorld(seamtest.MemConfig{Programs: map[string]seamtest.MemProgram{
		"/bin/serve": func(p *seamtest.MemProc) int {
			_, _ = io.WriteString(p.Stdout, "listening\n")
			close(listening)
			<-p.Context().Done()
			return 0
		},
	}})
	ended := make(chan jobs.Info, 1)
	registry := jobs.New(jobs.Config{Notify: func(info jobs.Info) { ended <- info }})

	job, err := registry.Start(ctx, jobs.Spec{Owner: "me", Kind: "server"}, func(ctx context.Context) (seam.Process, error) {
		return world.Spawn(ctx, seam.Spec{
			Argv: []string{"serve"}, Dir: "/", Grace: time.Second, Drain: time.Second,
			Stdout: seam.Output{Mode: seam.Collect, MaxBytes: 1 << 16},
		})
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.ID, job.Status)
	_, err = registry.Get("you", job.ID)
	fmt.Println(err, errors.Is(err, jobs.ErrNotFound))

	<-listening
	if _, err := registry.Kill("me", job.ID, "no longer needed"); err != nil {
		fmt.Println(err)
		return
	}
	job = <-ended
	fmt.Printf("%s: %s (%v)\n", job.ID, job.Status, job.Cause)

	output, err := registry.Read("me", job.ID, jobs.Cursor{})
	fmt.Printf("%q %v\n", output.Stdout.Data, err)
	fmt.Println(errors.Join(registry.Close(ctx), world.Close(ctx)))
	// Output:
	// server-1 running
	// job "server-1": no such job true
	// server-1: killed (job killed: no longer needed)
	// "listening\n" <nil>
	// <nil>
}
