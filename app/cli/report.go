package cli

import (
	"time"
	"unicode/utf8"

	"github.com/corral-world/corral/seam"
)

// execReport is the object of corral exec --json.
type execReport struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	endReport
}

// bashReport is the object of corral bash --json.
type bashReport struct {
	Name      string  `json:"name"`
	Script    string  `json:"script"`
	Text      string  `json:"text"` // as a model reads it
	TimedOut  bool    `json:"timed_out"`
	Aborted   bool    `json:"aborted"`
	TimeoutMS int64   `json:"timeout_ms"`
	Job       *string `json:"job"` // that survivors were kept as
	endReport
}

// endReport is how a command and its range ended. Null stands for what does not
// apply or is not known.
type endReport struct {
	ExitCode    *int              `json:"exit_code"` // null unless the command exited
	Signal      *string           `json:"signal"`
	Cause       seam.EndKind      `json:"cause"`
	CauseDetail *string           `json:"cause_detail"`
	DurationMS  int64             `json:"duration_ms"`
	Usage       *usageReport      `json:"usage"`
	Containment containmentReport `json:"containment"`
	Survivors   []memberReport    `json:"survivors"`
	Empty       bool              `json:"empty"`
	EmptyError  *string           `json:"empty_error"`
	Stdout      *streamReport     `json:"stdout"`
	Stderr      *streamReport     `json:"stderr"`
	Error       *failure          `json:"error,omitempty"`
}

type usageReport struct {
	UserMS      int64  `json:"user_ms"`
	SystemMS    int64  `json:"system_ms"`
	MaxRSS      int64  `json:"max_rss_bytes"`
	PeakMemByte *int64 `json:"peak_mem_bytes"`
}

type containmentReport struct {
	Kind     seam.Kind `json:"kind"`
	Complete bool      `json:"complete"`
	Escapes  []string  `json:"escapes"`
}

type memberReport struct {
	PID   int      `json:"pid"`
	Argv  []string `json:"argv"`
	AgeMS *int64   `json:"age_ms"`
}

type streamReport struct {
	// Text is the end of the stream that was kept, whole characters of it.
	// Bytes that are not UTF-8 are replaced, which InvalidUTF8 tells.
	Text        string `json:"text"`
	InvalidUTF8 bool   `json:"invalid_utf8"`
	Bytes       int64  `json:"bytes"`     // of the whole stream
	Truncated   bool   `json:"truncated"` // text is not the whole stream
	Cut         bool   `json:"cut"`       // a process outside the range held the stream open

	Spill          *string `json:"spill"` // the file that holds the whole stream
	SpillWithdrawn *string `json:"spill_withdrawn"`
}

func reportEnd(v verdict) endReport {
	outcome := v.Ending.Outcome
	r := endReport{
		Cause:       outcome.End,
		CauseDetail: textOf(outcome.Cause),
		DurationMS:  outcome.Duration.Milliseconds(),
		Usage:       reportUsage(outcome.Usage),
		Containment: reportContainment(v.Process.Containment()),
		Survivors:   make([]memberReport, 0, len(v.Ending.Survivors)),
		Empty:       v.Ending.Empty == nil,
		EmptyError:  textOf(v.Ending.Empty),
		Stdout:      reportStream(v.Process.Output(seam.Stdout)),
		Stderr:      reportStream(v.Process.Output(seam.Stderr)),
		Error:       v.complaint,
	}
	if outcome.Signal.Number != 0 {
		r.Signal = &outcome.Signal.Name
	} else if outcome.End != seam.EndLost {
		r.ExitCode = &outcome.ExitCode
	}
	for _, m := range v.Ending.Survivors {
		r.Survivors = append(r.Survivors, reportMember(m))
	}
	return r
}

func reportUsage(u *seam.Usage) *usageReport {
	if u == nil {
		return nil
	}
	r := &usageReport{UserMS: u.UserCPU.Milliseconds(), SystemMS: u.SystemCPU.Milliseconds(), MaxRSS: u.MaxRSSBytes}
	if u.PeakMemBytes > 0 {
		r.PeakMemByte = &u.PeakMemBytes
	}
	return r
}

func reportContainment(c seam.Containment) containmentReport {
	return containmentReport{Kind: c.Kind, Complete: c.Complete, Escapes: append([]string{}, c.Escapes...)}
}

func reportMember(m seam.Member) memberReport {
	r := memberReport{PID: m.PID, Argv: append([]string{}, m.Argv...)}
	if !m.Started.IsZero() {
		ms := time.Since(m.Started).Milliseconds()
		r.AgeMS = &ms
	}
	return r
}

// reportStream is nil for a stream that was not collected.
func reportStream(output seam.OutputReader) *streamReport {
	if output == nil {
		return nil
	}
	kept := output.ReadFrom(0).WholeRunes()
	spill := output.Spill()
	r := &streamReport{
		Text:           string(kept.Data), // encoding/json replaces what is not UTF-8
		InvalidUTF8:    !utf8.Valid(kept.Data),
		Bytes:          kept.Next(),
		Truncated:      kept.Lost > 0,
		Cut:            kept.Cut,
		SpillWithdrawn: textOf(spill.Withdrawn),
	}
	if spill.Path != "" {
		r.Spill = &spill.Path
	}
	return r
}

func textOf(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}
