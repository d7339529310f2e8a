package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// There are no terminals on Windows yet, so nothing is ever passed through.

type keys struct{}

func startKeys(*os.File, io.Writer, func()) (*keys, error) {
	return nil, fmt.Errorf("pass the terminal through: %w", errors.ErrUnsupported)
}

func (*keys) stop() {}

type sizes struct{}

func watchSize(func()) *sizes { return &sizes{} }

func (*sizes) stop() {}
