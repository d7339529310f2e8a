package fsworld_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/corral-world/corral/fsworld"
	"github.com/corral-world/corral/seam"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("hello, world\n"), 0o644); err != nil {
		fmt.Println(err)
		return
	}

	host, err := fsworld.New("host")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	file, err := host.Resolve(ctx, "hello.txt", dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := seam.ReadText(ctx, host, file)
	fmt.Printf("%q %v\n", text, err)
	_, err = host.ReadBytes(ctx, file, 5)
	fmt.Println(seam.CodeOf(err))
	// Output:
	// "hello, world\n" <nil>
	// too_large
}
