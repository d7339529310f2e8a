// Command embed runs one command in an execution world of its own.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"go.uber.org/fx"

	"github.com/corral-world/corral/app"
	"github.com/corral-world/corral/providers/local"
	"github.com/corral-world/corral/seam"
)

func main() {
	check(local.Main())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var world *seam.World
	corral, err := app.New(app.Options{}, fx.Populate(&world))
	check(err)
	check(corral.Run(ctx, func(ctx context.Context) error {
		p, err := world.Subprocess().Spawn(ctx, seam.Spec{
			Argv: []string{"sh", "-c", "sleep 600 & echo hello"}, Dir: "/",
			Stdout: seam.Output{Mode: seam.Inherit}, Grace: time.Second,
		})
		if err != nil {
			return err
		}
		end, err := seam.Settle(ctx, p, 0, seam.KillSurvivors)
		fmt.Println(end.Outcome.End, end.Outcome.ExitCode, "survivors:", len(end.Survivors), "empty:", end.Empty == nil)
		return err
	}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
