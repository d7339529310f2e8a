package local

import (
	"errors"
	"os"

	"github.com/corral-world/corral/seam"
)

const hasTerminals = false

// tty: this system's terminals are not built.
type tty struct{}

func openTTY(_, _ uint16) (*tty, *os.File, error) { return nil, nil, errors.ErrUnsupported }

func (*tty) Close() error                             { return nil }
func (*tty) unblock()                                 {}
func (*tty) read([]byte, func() bool) (int, error)    { return 0, errors.ErrUnsupported }
func (*tty) readNow([]byte) int                       { return 0 }
func (*tty) drain() []byte                            { return nil }
func (*tty) unread() (bool, error)                    { return false, errors.ErrUnsupported }
func (*tty) write([]byte) (int, error)                { return 0, errors.ErrUnsupported }
func (*tty) resize(_, _ uint16) error                 { return errors.ErrUnsupported }
func (*tty) owner() (int, error)                      { return 0, errors.ErrUnsupported }
func (*tty) foreground() (f seam.Foreground, _ error) { return f, errors.ErrUnsupported }
func (*tty) signal(int, string) error                 { return errors.ErrUnsupported }

type leader struct{}

func findLeader(int) leader { return leader{} }
func (leader) gone() bool   { return false }

func (*terminal) hangUp(<-chan struct{}) {}
