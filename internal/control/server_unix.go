//go:build unix

package control

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/corral-world/corral/seam"
)

// A Server answers for one runtime. It runs one goroutine, and one for each
// connection; Close joins them.
type Server struct {
	backend  Backend
	listener *net.UnixListener
	dir      string
	path     string

	stop    context.CancelFunc
	serving sync.WaitGroup
	turns   chan struct{} // holds a token for each connection that is served
}

const (
	maxConnections  = 32
	maxRequestBytes = 64 << 10
	requestTime     = 5 * time.Second // for the line of a request to come
)

// Listen answers in a registry for a runtime.
func (r Registry) Listen(b Backend) (*Server, error) {
	return r.listen(strings.ToLower(rand.Text())+socketSuffix, b)
}

// Listen answers for the range of the name, until Close.
func (n *Name) Listen(b Backend) (*Server, error) {
	socket := detachedPrefix + n.name + socketSuffix
	// What is there is a dead one's: we have the lock.
	if err := os.Remove(filepath.Join(n.registry.dir, socket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return n.registry.listen(socket, b)
}

func (r Registry) listen(socket string, b Backend) (*Server, error) {
	var listener *net.UnixListener
	for attempt := 0; ; attempt++ {
		dir, err := r.enter()
		if err != nil {
			return nil, err
		}
		listener, err = net.ListenUnix("unix", address(dir, socket))
		_ = dir.Close()
		if err == nil {
			break
		}
		// The last runtime of this user to end removes the directory.
		if attempt == 3 || !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	listener.SetUnlinkOnClose(false) // the address may name a descriptor that is closed
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{backend: b, listener: listener, dir: r.dir, path: filepath.Join(r.dir, socket), stop: stop,
		turns: make(chan struct{}, maxConnections)}
	s.serving.Go(func() { s.accept(ctx) })
	return s, nil
}

// lastAnswers is how long the answers that are under way may take at the end.
const lastAnswers = time.Second

// Close ends the server, once it has answered what it was asked, and joins it.
func (s *Server) Close() error {
	err := errors.Join(os.Remove(s.path), s.listener.Close())
	late := time.AfterFunc(lastAnswers, s.stop)
	s.serving.Wait()
	late.Stop()
	s.stop()
	_ = os.Remove(s.dir) // where nobody else is in it
	return err
}

func (s *Server) accept(ctx context.Context) {
	for {
		conn, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Of the system's means, which may come back.
			timer := time.NewTimer(100 * time.Millisecond)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			continue
		}
		select {
		case s.turns <- struct{}{}:
		case <-ctx.Done():
			_ = conn.Close()
			return
		}
		s.serving.Go(func() {
			defer func() { <-s.turns }()
			s.serve(ctx, conn)
		})
	}
}

// serve answers one request. The end of the connection ends the waiting for an
// answer that nobody would read.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	peer, err := peerOf(conn)
	if err != nil || peer.uid != os.Getuid() && peer.uid != 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unblock := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer unblock()
	_ = conn.SetReadDeadline(time.Now().Add(requestTime))
	if ctx.Err() != nil {
		return
	}
	var request Request
	decoder := json.NewDecoder(io.LimitReader(conn, maxRequestBytes))
	if err := decoder.Decode(&request); err != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	if ctx.Err() != nil {
		return // its deadline may be the one that was just taken away
	}
	var watching sync.WaitGroup
	watching.Go(func() { // ended by cancel
		_, _ = io.Copy(io.Discard, conn)
		cancel()
	})
	defer watching.Wait()
	defer cancel()
	response := s.answer(ctx, request, peer.pid)
	_ = json.NewEncoder(conn).Encode(response) // one that is gone needs none
}

func (s *Server) answer(ctx context.Context, request Request, peer int) Response {
	switch request.Op {
	case opList:
		return Response{Ranges: s.backend.Ranges(ctx)}
	case opStop:
		err := s.backend.Stop(ctx, request.Name, request.Force, peer)
		switch {
		case err == nil:
			return Response{}
		case errors.Is(err, ErrNoRange):
			return refusal(CodeNoRange, err)
		case errors.Is(err, seam.ErrUnproven):
			return refusal(CodeUnproven, err)
		}
		return refusal(seam.CodeAborted, err)
	}
	return refusal(codeUnknown, fmt.Errorf("no operation %q", request.Op))
}

func refusal(code seam.Code, err error) Response {
	return Response{Error: &Error{Code: code, Text: err.Error()}}
}
