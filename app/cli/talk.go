package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/corral-world/corral/app/config"
	"github.com/corral-world/corral/consumers/ptyshell"
	"github.com/corral-world/corral/seam"
)

// An op is one line of what a program says to corral shell --json.
type op struct {
	Op string          `json:"op"`
	ID json.RawMessage `json:"id,omitempty"`

	// Of send and wait.
	Text    string `json:"text"`
	Submit  *bool  `json:"submit"`
	Force   bool   `json:"force"`
	Timeout string `json:"timeout"`

	Signal string `json:"signal"`

	// Of read.
	Offset int  `json:"offset"`
	Count  *int `json:"count"`

	// Of resize.
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// Ops.
const (
	opOpen   = "open" // of an answer alone
	opSend   = "send"
	opWait   = "wait"
	opCancel = "cancel"
	opSignal = "signal"
	opRead   = "read"
	opResize = "resize"
	opClose  = "close"
)

// defaultCount is how many lines a read is for that does not say.
const defaultCount = 500

// An answer's head.
type answer struct {
	Op    string          `json:"op"`
	ID    json.RawMessage `json:"id,omitempty"`
	Error *failure        `json:"error,omitempty"`
}

type openAnswer struct {
	answer
	Name        string            `json:"name"`
	Dir         string            `json:"dir"`
	Containment containmentReport `json:"containment"`
}

type sendAnswer struct {
	answer
	Reason          ptyshell.Reason `json:"reason"`
	Output          string          `json:"output"`
	Truncated       bool            `json:"truncated"`
	Status          *int            `json:"status"`
	Dir             *string         `json:"dir"`
	Foreground      *programReport  `json:"foreground"`
	EchoOff         bool            `json:"echo_off"`
	AlternateScreen bool            `json:"alternate_screen"`
	Canceled        bool            `json:"canceled"`
	Exit            *exitReport     `json:"exit"`
}

type programReport struct {
	PGID int      `json:"pgid"`
	Argv []string `json:"argv"`
}

type exitReport struct {
	ExitCode *int         `json:"exit_code"`
	Signal   *string      `json:"signal"`
	Cause    seam.EndKind `json:"cause"`
}

type readAnswer struct {
	answer
	Text      string `json:"text"`
	Begin     int    `json:"begin"`
	End       int    `json:"end"`
	Total     int    `json:"total"`
	Truncated bool   `json:"truncated"`
}

type signalAnswer struct {
	answer
	PGID int `json:"pgid"`
}

type cancelAnswer struct {
	answer
	Canceled bool `json:"canceled"` // false: no send was waiting
}

type closeAnswer struct {
	answer
	Exit       *exitReport `json:"exit"` // null unless the shell ended by itself
	Empty      bool        `json:"empty"`
	EmptyError *string     `json:"empty_error"`
}

func reportExit(o *seam.Outcome) *exitReport {
	if o == nil {
		return nil
	}
	r := &exitReport{Cause: o.End}
	if o.Signal.Number != 0 {
		r.Signal = &o.Signal.Name
	} else if o.End != seam.EndLost {
		r.ExitCode = &o.ExitCode
	}
	return r
}

// talk answers a program's ops, one after the other but for cancels.
type talk struct {
	session *ptyshell.Session
	in      io.Reader
	out     io.Writer

	ops     chan op // closed at the end of the input
	inErr   error   // why it ended, once ops is closed
	waiting []op    // for the active send
	active  *ptyshell.Sending
	current op // of active
}

func newTalk(session *ptyshell.Session, in io.Reader, out io.Writer) *talk {
	return &talk{session: session, in: in, out: out, ops: make(chan op)}
}

// run talks until the input ends, the shell does, or ctx. Then it closes the
// session and returns the exit code.
func (t *talk) run(ctx context.Context, closeSession func(context.Context) error) (int, error) {
	info := t.session.Info()
	err := t.write(openAnswer{answer{Op: opOpen}, info.Range, info.Dir, reportContainment(info.Containment)})
	over := make(chan struct{})
	defer close(over)
	// Not joined: a read of the program's input can't be interrupted. It ends with
	// the input or with this process, and hands on nothing after over is closed.
	go t.read(over)

	end := answer{Op: opClose}
	for err == nil && ctx.Err() == nil && !t.ended() {
		if t.active == nil && len(t.waiting) > 0 {
			next := t.waiting[0]
			t.waiting = t.waiting[1:]
			if next.Op == opClose {
				end.ID = next.ID
				break
			}
			err = t.do(ctx, next)
			continue
		}
		if t.active == nil && t.ops == nil {
			err = t.inErr
			break
		}
		var settled <-chan struct{}
		if t.active != nil {
			settled = t.active.Settled()
		}
		select {
		case next, ok := <-t.ops:
			switch {
			case !ok:
				t.ops = nil // what came before is done all the same
			case next.Op == opCancel:
				err = t.write(cancelAnswer{answer{Op: next.Op, ID: next.ID}, t.active != nil && t.active.Cancel()})
			default:
				t.waiting = append(t.waiting, next)
			}
		case <-settled:
			err = t.finish()
		case <-ctx.Done():
		}
	}
	exit := t.session.Info().Exit // nil for one that is ended now
	empty := closeSession(context.Background())
	code := 0
	if exit != nil {
		code = exitOfShell(*exit)
	}
	if empty != nil && code == 0 {
		code = exitFailure
	}
	return code, errors.Join(err, t.write(closeAnswer{end, reportExit(exit), empty == nil, textOf(empty)}))
}

// ended: the shell has ended, and the send that saw it was answered.
func (t *talk) ended() bool { return t.active == nil && t.session.Info().Exit != nil }

// read reads ops until the input ends. What is no op ends it too, because what
// follows can't be relied upon.
func (t *talk) read(over <-chan struct{}) {
	defer close(t.ops)
	lines := bufio.NewScanner(t.in)
	lines.Buffer(nil, maxInputBytes)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var next op
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&next)
		if err == nil && decoder.More() {
			err = errors.New("there is more than one object on the line")
		}
		if err != nil {
			t.inErr = &usageError{"standard input", "is not understood: " + err.Error()}
			return
		}
		select {
		case t.ops <- next:
		case <-over:
			return
		}
	}
	if err := lines.Err(); err != nil {
		t.inErr = &usageError{"standard input", "can't be read: " + err.Error()}
	}
}

func (t *talk) write(v any) error { return writeJSON(t.out, v) }

// do does one op. The error is of answering.
func (t *talk) do(ctx context.Context, o op) error {
	head := answer{Op: o.Op, ID: o.ID}
	fail := func(err error) error {
		f := explainShell(err)
		head.Error = &f
		return t.write(head)
	}
	switch o.Op {
	case opSend, opWait:
		request, err := o.request()
		if err != nil {
			return fail(err)
		}
		if t.active, err = t.session.Start(ctx, request); err != nil {
			return fail(err)
		}
		t.current = o
		return nil
	case opSignal:
		pgid, err := t.session.Signal(ctx, o.Signal)
		if err != nil {
			return fail(err)
		}
		return t.write(signalAnswer{head, pgid})
	case opRead:
		count := defaultCount
		if o.Count != nil {
			count = *o.Count
		}
		page, err := t.session.Read(o.Offset, count)
		if err != nil {
			return fail(err)
		}
		return t.write(readAnswer{head, page.Text, page.Begin, page.End, page.Total, page.Truncated})
	case opResize:
		if err := t.session.Resize(o.Cols, o.Rows); err != nil {
			return fail(err)
		}
		return t.write(head)
	}
	return fail(&usageError{"op", fmt.Sprintf("is no operation: %q", o.Op)})
}

func (o op) request() (ptyshell.Request, error) {
	if o.Op == opWait && o.Text != "" {
		return ptyshell.Request{}, &usageError{"text", "is for send"}
	}
	request := ptyshell.Request{Text: o.Text, Force: o.Force, Submit: o.Op == opSend && (o.Submit == nil || *o.Submit)}
	if o.Timeout != "" {
		d, err := config.Duration(o.Timeout)
		if err == nil && d <= 0 {
			err = fmt.Errorf("is %v, and must be greater than 0", d)
		}
		if err != nil {
			return request, &usageError{"timeout", err.Error()}
		}
		request.Timeout = d
	}
	return request, nil
}

// finish answers the send that has settled.
func (t *talk) finish() error {
	result, err := t.active.Wait(context.Background()) // it has settled
	head := answer{Op: t.current.Op, ID: t.current.ID}
	t.active = nil
	if err != nil {
		f := explainShell(err)
		head.Error = &f
		return t.write(head)
	}
	a := sendAnswer{
		answer: head, Reason: result.Reason, Output: result.Output, Truncated: result.Truncated,
		Status: result.Status, EchoOff: result.EchoOff, AlternateScreen: result.AlternateScreen,
		Canceled: result.Canceled, Exit: reportExit(result.Exit),
	}
	if result.Dir != "" {
		a.Dir = &result.Dir
	}
	if p := result.Foreground; p != nil {
		a.Foreground = &programReport{p.PGID, append([]string{}, p.Argv...)}
	}
	return t.write(a)
}

// explainShell classifies an error of a session.
func explainShell(err error) failure {
	f := explain(err)
	switch {
	case errors.Is(err, ptyshell.ErrOccupied):
		f.Code = "occupied"
	case errors.Is(err, ptyshell.ErrSendActive):
		f.Code = "send_active"
	case errors.Is(err, ptyshell.ErrExited):
		f.Code = string(seam.CodeEnded)
	case errors.Is(err, ptyshell.ErrClosing):
		f.Code = string(seam.CodeClosed)
	}
	if field, ok := errors.AsType[*seam.FieldError](err); ok {
		f.Field = field.Field
	}
	return f
}
