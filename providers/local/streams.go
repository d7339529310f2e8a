package local

import (
	"fmt"
	"os"

	"github.com/corral-world/corral/internal/managed"
	"github.com/corral-world/corral/seam"
)

// stdio is both ends of what a launch has for its standard streams.
type stdio interface {
	// files are the target's ends, and whether they are a terminal.
	files() (target [3]*os.File, terminal bool)
	// closeTarget closes the target's ends, after it has them or never will.
	closeTarget()
	closeOurs()
	// hand gives our ends to who works with them.
	hand(r *Runtime, spec *seam.Spec, params *managed.Params)
}

// streams are both ends of a launch's standard streams.
type streams struct {
	target [3]*os.File // the target's ends
	shared [3]bool     // target[i] is this process's own and stays open
	ours   [3]*os.File // our ends of pipes; nil elsewhere
}

// openStreams opens what spec asks for. Nothing is left open on an error.
func openStreams(spec *seam.Spec) (*streams, error) {
	s := new(streams)
	modes := [3]seam.Mode{spec.Stdin.Mode, spec.Stdout.Mode, spec.Stderr.Mode}
	inherited := [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
	for i, mode := range modes {
		var err error
		switch mode {
		case seam.Null:
			s.target[i], err = os.OpenFile(os.DevNull, os.O_RDWR, 0)
		case seam.Inherit:
			s.target[i], s.shared[i] = inherited[i], true
		case seam.Pipe, seam.Data, seam.Collect:
			s.target[i], s.ours[i], err = openPipe(i == 0)
		}
		if err != nil {
			s.closeTarget()
			s.closeOurs()
			return nil, fmt.Errorf("open stream %d: %w", i, err)
		}
	}
	return s, nil
}

func (s *streams) files() (target [3]*os.File, terminal bool) { return s.target, false }

func (s *streams) closeTarget() {
	for i, f := range s.target {
		if f != nil && !s.shared[i] {
			_ = f.Close() // a descriptor that nothing was written through
		}
	}
}

func (s *streams) closeOurs() {
	for _, f := range s.ours {
		if f != nil {
			_ = f.Close() // a descriptor that nothing was written through
		}
	}
}

func (s *streams) hand(r *Runtime, spec *seam.Spec, params *managed.Params) {
	switch spec.Stdin.Mode {
	case seam.Pipe:
		params.Stdin = r.handOut(s.ours[0])
	case seam.Data:
		params.Feed = s.ours[0]
	}
	for stream, output := range []seam.Output{seam.Stdout: spec.Stdout, seam.Stderr: spec.Stderr} {
		f := s.ours[stream+1]
		switch output.Mode {
		case seam.Pipe:
			pipe := r.handOut(f)
			if seam.Stream(stream) == seam.Stdout {
				params.Stdout = pipe
			} else {
				params.Stderr = pipe
			}
		case seam.Collect:
			params.Collectors[stream] = managed.NewCollector(managed.CollectorParams{
				Source:        collectFrom(f),
				MaxBytes:      output.MaxBytes,
				SpillMaxBytes: output.SpillMaxBytes,
				SpillName:     params.Name + "-" + seam.Stream(stream).String(),
				Store:         r.spill,
			})
		}
	}
}
