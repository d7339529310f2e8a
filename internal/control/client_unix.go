//go:build unix

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Runtime is a runtime of this user, as it answered.
type Runtime struct {
	// Owner is the process that owns the ranges, as this pid namespace numbers
	// it; 0 where it is in none that is seen from here.
	Owner  int
	Ranges []Range
	// Err is why it did not answer.
	Err error

	registry Registry
	socket   string
}

// answerTime is how long a runtime may take to list its ranges: one that is
// stopped never does.
const answerTime = 3 * time.Second

const maxResponseBytes = 64 << 20

// Runtimes asks every runtime of this user for its ranges. A registry that can't
// be read is an error, beside the answers of others.
func Runtimes(ctx context.Context) ([]Runtime, error) {
	var runtimes []Runtime
	var errs []error
	for _, r := range Registries() {
		sockets, err := r.sockets()
		errs = append(errs, err)
		for _, socket := range sockets {
			runtimes = append(runtimes, Runtime{registry: r, socket: socket})
		}
	}
	var asking sync.WaitGroup
	for i := range runtimes {
		asking.Go(func() { runtimes[i].list(ctx) })
	}
	asking.Wait()
	var live []Runtime
	for _, r := range runtimes {
		if errors.Is(r.Err, errDead) {
			r.sweep()
			continue
		}
		live = append(live, r)
	}
	return live, errors.Join(errs...)
}

// errDead is matched where nobody listens any more.
var errDead = errors.New("nobody listens")

func (r *Runtime) list(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("no answer for %v", answerTime))
	defer cancel()
	response, err := r.ask(ctx, Request{Op: opList})
	r.Ranges, r.Err = response.Ranges, err
}

// Stop asks for the end of the range name, and returns nil once the runtime has
// said that it is proven empty, and has ended where it was there for that range
// alone. ctx bounds the waiting.
func (r *Runtime) Stop(ctx context.Context, name string, force bool) error {
	if _, err := r.ask(ctx, Request{Op: opStop, Name: name, Force: force}); err != nil {
		return err
	}
	if !strings.HasPrefix(r.socket, detachedPrefix) || r.Owner == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("process %d, its keeper, does not end", r.Owner))
	defer cancel()
	return waitEnd(ctx, r.Owner)
}

// Detached is the runtime that keeps the detached range name.
func (r Registry) Detached(name string) *Runtime {
	return &Runtime{registry: r, socket: detachedPrefix + name + socketSuffix}
}

// Members lists who lives in the one range of a runtime that keeps one.
func (r *Runtime) Members(ctx context.Context) (Range, error) {
	r.list(ctx)
	if r.Err != nil {
		return Range{}, r.Err
	}
	if len(r.Ranges) != 1 {
		return Range{}, ErrNoRange
	}
	return r.Ranges[0], nil
}

func (r *Runtime) ask(ctx context.Context, request Request) (Response, error) {
	var response Response
	dir, err := open(r.registry.dir)
	if err != nil {
		return response, errors.Join(errDead, err)
	}
	conn, err := net.DialUnix("unix", nil, address(dir, r.socket))
	_ = dir.Close()
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return response, errDead
	}
	if err != nil {
		return response, err
	}
	defer conn.Close()
	peer, err := peerOf(conn)
	if err != nil {
		return response, err
	}
	r.Owner = peer.pid
	if strings.HasPrefix(r.socket, detachedPrefix) && r.Owner != 0 {
		wake(r.Owner) // what it keeps can stop it, and has nobody else to answer for it
	}
	unblock := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer unblock()
	err = json.NewEncoder(conn).Encode(request)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(conn, maxResponseBytes)).Decode(&response)
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return response, context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return response, errors.New("it ended before it answered")
	case err != nil:
		return response, err
	case response.Error != nil && response.Error.Code == CodeNoRange:
		return response, fmt.Errorf("%w: %w", ErrNoRange, response.Error)
	case response.Error != nil:
		return response, response.Error
	}
	return response, nil
}

// listenTime is more than a runtime needs from making its socket to listening on
// it, when it looks like a dead one's.
const listenTime = 10 * time.Second

// sweep removes what a dead runtime has left. A detached range's name may be
// taken again at this moment, so its socket goes with its lock.
func (r *Runtime) sweep() {
	info, err := os.Lstat(filepath.Join(r.registry.dir, r.socket))
	if err != nil || time.Since(info.ModTime()) < listenTime {
		return
	}
	name, detached := strings.CutPrefix(r.socket, detachedPrefix)
	if !detached {
		_ = os.Remove(filepath.Join(r.registry.dir, r.socket)) // its name is never used again
		return
	}
	held, err := r.registry.Reserve(strings.TrimSuffix(name, socketSuffix))
	if err != nil {
		return
	}
	_ = os.Remove(filepath.Join(r.registry.dir, r.socket))
	_ = held.Release()
}
