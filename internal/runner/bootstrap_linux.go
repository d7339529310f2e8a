package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-world/corral/internal/owner"
)

// A bootstrap is this program started again in the target's place: it holds
// until it was put where it belongs, and then becomes the target.
//
//	parent                                   bootstrap
//	  | start: the target's session,            |
//	  | streams and directory; control          |
//	  | socket on descriptor 3                  |
//	  | <------------------------ ready record  |
//	  |                                         | waits
//	  | puts the process into its range,        |
//	  | and verifies that the kernel did        |
//	  | -- request: path, dir, argv, env -----> |
//	  | ---------------------------------- EOF> |
//	  |                                         | chdir
//	  | <------------------------- exec record  |
//	  |                                         | execve: the socket closes
//	  | <--------------------------------- EOF  |
//	  |
//	  | or, where chdir or execve fail:
//	  | <---------- error record: step, errno   |
//	  | <--------------------------------- EOF  | exits
//
// An error record wins over everything. EOF after the exec record means that
// the target started. EOF without it is a failed start: nothing of the target ran.
const (
	verbBootstrap = "bootstrap"

	recordReady = 'R'
	recordExec  = 'X'
	recordError = 'E' // followed by the step, and errno in 32 bits

	stepChdir = 'd'
	stepExec  = 'x'
)

// stepSupervisor is the start of a supervisor by its nursery.
const stepSupervisor = 's'

var verbs = map[string]func(){
	verbBootstrap: bootstrap,
	verbProbe:     func() { leave(0) },
	Guardian:      guard,
	verbSubtree:   guardSubtree,
	verbSupervise: supervise,
	verbNursery:   nursery,
	verbOrphan:    orphan,
}

// Select is the variable, and all of the environment, that has this program run
// as a runner.
func Select(verb string) string { return selector + "=" + verb }

// verbProbe does nothing, successfully.
const verbProbe = "probe"

// Probe is a request whose target is known to be good: this program itself, as
// a runner that ends at once.
func Probe(stdio [3]*os.File) owner.Request {
	return owner.Request{
		Path:  "/proc/self/exe",
		Argv:  []string{"corral-runner"},
		Dir:   "/",
		Env:   []string{Select(verbProbe)},
		Stdio: stdio,
	}
}

// maxRequestBytes bounds what a bootstrap reads: the system takes less in one
// execve (a quarter of the stack's limit, at most 6 MiB).
const maxRequestBytes = 16 << 20

// maxRecordBytes is more than a bootstrap has to say.
const maxRecordBytes = 64

// Held is a bootstrap that waits to become the target.
type Held struct {
	*Direct
	control *os.File
	ready   bool // it has said so
}

// Hold starts a bootstrap for r. It runs nothing of the target's before Release.
func Hold(r owner.Request) (*Held, error) {
	if !Linked() {
		return nil, ErrNotLinked
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		_ = unix.Close(pair[0])
		return nil, os.NewSyscallError("fcntl", err)
	}
	control := os.NewFile(uintptr(pair[0]), "control")
	direct, err := start(launch{
		// The magic link is this program even when its file was replaced.
		path:  "/proc/self/exe",
		argv:  []string{"corral-runner"},
		env:   []string{Select(verbBootstrap)},
		dir:   "/",
		files: []*os.File{r.Stdio[0], r.Stdio[1], r.Stdio[2], theirs},
		// Execve keeps session and terminal.
		terminal: r.Terminal,
		cgroup:   -1,
	})
	if err != nil {
		_ = control.Close()
		return nil, err
	}
	return &Held{Direct: direct, control: control}, nil
}

// WaitReady waits until the bootstrap holds with every thread that it needs: a
// limit on them would otherwise be its end. Call it at most once.
func (h *Held) WaitReady(ctx context.Context) error {
	unblock := context.AfterFunc(ctx, func() { _ = h.control.SetReadDeadline(time.Unix(1, 0)) })
	defer unblock()
	var record [1]byte
	_, err := io.ReadFull(h.control, record[:])
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrLost, err)
	case record[0] != recordReady:
		return fmt.Errorf("%w: it wrote %q", ErrLost, record)
	}
	h.ready = true
	return nil
}

// ErrLost is matched when a bootstrap ended without a word.
var ErrLost = errors.New("bootstrap ended before it started the target")

// Become has the bootstrap become the target of r, and returns nil once it has.
// An error is the system's own about chdir or execve, as a plain start's would
// be, ctx's cause, or one that matches ErrLost. After ctx's cause the target may
// run; after the others it does not.
func (h *Held) Become(ctx context.Context, r owner.Request) error {
	defer h.control.Close()
	unblock := context.AfterFunc(ctx, func() { _ = h.control.SetDeadline(time.Unix(1, 0)) })
	defer unblock()
	err := h.become(r)
	if ctx.Err() != nil && errors.Is(err, ErrLost) {
		return context.Cause(ctx)
	}
	return err
}

func (h *Held) become(r owner.Request) error {
	if requestBytes(r) > maxRequestBytes {
		return syscall.E2BIG // as execve would have it
	}
	if err := h.send(r); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	records, err := io.ReadAll(io.LimitReader(h.control, maxRecordBytes))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	if !h.ready {
		records = bytes.TrimPrefix(records, []byte{recordReady})
	}
	return readRecords(records)
}

// send sends the request, and its end.
func (h *Held) send(r owner.Request) error {
	if err := WriteRequest(h.control, r); err != nil {
		return err
	}
	conn, err := h.control.SyscallConn()
	if err != nil {
		return err
	}
	var shutErr error
	err = conn.Control(func(fd uintptr) { shutErr = unix.Shutdown(int(fd), unix.SHUT_WR) })
	return errors.Join(err, os.NewSyscallError("shutdown", shutErr))
}

// Abandon gives up a bootstrap that was not released: it ends by itself, and is
// killed for good measure. The caller reaps it.
func (h *Held) Abandon() {
	_ = h.control.Close()
	_ = h.Direct.Kill()
}

// readRecords judges what a bootstrap wrote before its end of the socket closed.
func readRecords(records []byte) error {
	var started bool
	for len(records) > 0 {
		switch {
		case records[0] == recordExec && !started:
			started, records = true, records[1:]
		case records[0] == recordError && len(records) == 6 && (records[1] == stepChdir || records[1] == stepExec):
			errno := syscall.Errno(binary.LittleEndian.Uint32(records[2:]))
			if errno == 0 {
				return fmt.Errorf("%w: for no reason of the system's", ErrLost)
			}
			if records[1] == stepChdir {
				return &os.PathError{Op: "chdir", Path: "", Err: errno}
			}
			return errno
		default:
			return fmt.Errorf("%w: it wrote %q", ErrLost, records)
		}
	}
	if !started {
		return ErrLost
	}
	return nil
}

// WriteRequest writes a request: lists of strings, each a count or length of 32
// bits and the bytes as they are; names of files and variables need not be text.
func WriteRequest(w io.Writer, r owner.Request) error {
	buffered := bufio.NewWriter(w)
	for _, list := range [][]string{head(r), r.Argv, r.Env} {
		writeUint32(buffered, len(list))
		for _, s := range list {
			writeUint32(buffered, len(s))
			_, _ = buffered.WriteString(s) // the first error is Flush's
		}
	}
	return buffered.Flush()
}

// head is the first list of a request; wordTerminal in it is its Terminal.
func head(r owner.Request) []string {
	if r.Terminal {
		return []string{r.Path, r.Dir, wordTerminal}
	}
	return []string{r.Path, r.Dir}
}

const wordTerminal = "terminal"

// requestBytes is the length of what WriteRequest writes.
func requestBytes(r owner.Request) int {
	const prefix = 4
	n := 0
	for _, list := range [][]string{head(r), r.Argv, r.Env} {
		n += prefix
		for _, s := range list {
			n += prefix + len(s)
		}
	}
	return n
}

func writeUint32(w *bufio.Writer, n int) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(n))
	_, _ = w.Write(b[:]) // the first error is Flush's
}

// ReadRequest is strict: what is not exactly a request is an error.
func ReadRequest(r *bufio.Reader) (request owner.Request, err error) {
	var words []string
	for _, list := range []*[]string{&words, &request.Argv, &request.Env} {
		if *list, err = readStrings(r); err != nil {
			return request, err
		}
	}
	request.Terminal = len(words) == 3 && words[2] == wordTerminal
	if len(words) != 2 && !request.Terminal || words[0] == "" || len(request.Argv) == 0 {
		return request, errors.New("malformed request")
	}
	request.Path, request.Dir = words[0], words[1]
	return request, nil
}

// readWholeRequest reads a request and the end that follows it.
func readWholeRequest(r io.Reader) (owner.Request, error) {
	buffered := bufio.NewReader(io.LimitReader(r, maxRequestBytes+1))
	request, err := ReadRequest(buffered)
	if err != nil {
		return request, err
	}
	switch _, err := buffered.ReadByte(); err {
	case io.EOF:
		return request, nil
	case nil:
		return request, errors.New("bytes after the request")
	default:
		return request, err
	}
}

func readStrings(r *bufio.Reader) ([]string, error) {
	count, err := readUint32(r)
	if err != nil {
		return nil, err
	}
	var list []string
	for range count {
		n, err := readUint32(r)
		if err != nil {
			return nil, err
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		list = append(list, string(b))
	}
	return list, nil
}

func readUint32(r *bufio.Reader) (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	n := binary.LittleEndian.Uint32(b[:])
	if n > maxRequestBytes {
		return 0, errors.New("request too long")
	}
	return n, nil
}

// bootstrap is the runner's side. It never returns.
func bootstrap() {
	control := os.NewFile(controlFD, "control")
	unix.CloseOnExec(controlFD)
	if _, err := control.Write([]byte{recordReady}); err != nil {
		leave(exitProtocol)
	}
	request, err := readWholeRequest(control)
	if err != nil {
		// Who started it gave it up; there is nobody to tell.
		leave(exitProtocol)
	}
	if err := syscall.Chdir(request.Dir); err != nil {
		bootstrapFailed(control, stepChdir, err)
	}
	if _, err := control.Write([]byte{recordExec}); err != nil {
		leave(exitProtocol)
	}
	// Exec restores the limit on descriptors that Go raised at its start, and
	// handlers become default dispositions; mask and umask are as they came.
	bootstrapFailed(control, stepExec, syscall.Exec(request.Path, request.Argv, request.Env))
}

func bootstrapFailed(control *os.File, step byte, err error) {
	_, _ = control.Write(errorRecord(step, err))
	syscall.Exit(127)
}

// errorRecord says at which step a start failed: d for chdir, x for execve, s
// for the start of the runner itself.
func errorRecord(step byte, err error) []byte {
	record := []byte{recordError, step, 0, 0, 0, 0}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		binary.LittleEndian.PutUint32(record[2:], uint32(errno))
	}
	return record
}
