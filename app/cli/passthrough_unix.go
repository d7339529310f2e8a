//go:build unix

package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// keys copies what a person types. One goroutine does, which stop ends and joins:
// it reads only what is there, so that none is left reading what is for the next
// program at the terminal.
type keys struct {
	wake   *os.File // closed by stop
	copier sync.WaitGroup
}

// startKeys begins to copy. gone is called when there is nobody to type any more.
func startKeys(from *os.File, to io.Writer, gone func()) (*keys, error) {
	stopped, wake, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pass the terminal through: %w", err)
	}
	k := &keys{wake: wake}
	// Its mode is the terminal's user's, so it is not made non-blocking.
	in, stop := int32(from.Fd()), int32(stopped.Fd())
	k.copier.Go(func() {
		defer stopped.Close()
		buf := make([]byte, 4<<10)
		for {
			fds := []unix.PollFd{{Fd: stop, Events: unix.POLLIN}, {Fd: in, Events: unix.POLLIN}}
			if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
				gone()
				return
			}
			switch {
			case fds[0].Revents != 0:
				return
			case fds[1].Revents == 0:
				continue
			}
			n, err := unix.Read(int(in), buf)
			if err == unix.EINTR || err == unix.EAGAIN {
				continue
			}
			if n <= 0 {
				gone()
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return // the command has ended
			}
		}
	})
	return k, nil
}

func (k *keys) stop() {
	_ = k.wake.Close()
	k.copier.Wait()
}

// sizes tells of changes of the terminal's size. One goroutine does, which stop
// ends and joins.
type sizes struct {
	changed chan os.Signal
	watcher sync.WaitGroup
}

func watchSize(changed func()) *sizes {
	s := &sizes{changed: make(chan os.Signal, 1)}
	signal.Notify(s.changed, syscall.SIGWINCH)
	s.watcher.Go(func() {
		for range s.changed {
			changed()
		}
	})
	return s
}

func (s *sizes) stop() {
	signal.Stop(s.changed)
	close(s.changed)
	s.watcher.Wait()
}
