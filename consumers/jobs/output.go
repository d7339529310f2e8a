package jobs

import "github.com/corral-world/corral/seam"

// A Cursor is how far a job's output has been read. The zero Cursor is the
// beginning. It belongs to its reader: the registry keeps none, so readers take
// nothing from each other.
type Cursor struct{ Stdout, Stderr int64 }

// Output is what a job printed since a cursor.
type Output struct {
	Info           Info
	Stdout, Stderr seam.Window // whole characters; empty where the stream is not collected
	StdoutSpill    seam.Spill
	StderrSpill    seam.Spill
	Next           Cursor // where to read on
}

// Read returns what the owner's job printed since the cursor, while it runs and
// after its end. Info is read first: when it says that the job has ended, the
// output is all there will be.
func (r *Registry) Read(owner, id string, since Cursor) (Output, error) {
	r.mu.Lock()
	j, err := r.find(owner, id)
	if err != nil {
		r.mu.Unlock()
		return Output{}, err
	}
	out := Output{Info: j.info, Next: since}
	r.mu.Unlock()
	if stdout := j.output[seam.Stdout]; stdout != nil {
		out.Stdout, out.StdoutSpill = stdout.ReadFrom(since.Stdout).WholeRunes(), stdout.Spill()
		out.Next.Stdout = out.Stdout.Next()
	}
	if stderr := j.output[seam.Stderr]; stderr != nil {
		out.Stderr, out.StderrSpill = stderr.ReadFrom(since.Stderr).WholeRunes(), stderr.Spill()
		out.Next.Stderr = out.Stderr.Next()
	}
	return out, nil
}
