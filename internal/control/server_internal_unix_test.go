//go:build unix

package control

import (
	"context"
	"net"
	"testing"
	"time"
)

type noRanges struct{}

func (noRanges) Ranges(context.Context) []Range                { return nil }
func (noRanges) Stop(context.Context, string, bool, int) error { return nil }

// A request that comes when the server's patience is over does not hold up its
// end, however long the asker stays.
func TestRequestsAtTheEnd(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for range 200 {
		s, err := Default().Listen(noRanges{})
		if err != nil {
			t.Fatal(err)
		}
		conns := make([]net.Conn, 8)
		for i := range conns {
			if conns[i], err = net.Dial("unix", s.path); err != nil {
				t.Fatal(err)
			}
		}
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			for _, conn := range conns {
				_, _ = conn.Write([]byte(`{"op":"list"}` + "\n")) // it may have been refused
			}
		}()
		s.stop()
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("it does not end")
		}
		<-asked
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}
