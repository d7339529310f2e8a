package seam

// A Kind names the mechanism that owns a range.
type Kind string

// Kinds of containment, strongest first.
const (
	KindScope  Kind = "scope"  // Linux: a transient systemd scope
	KindCgroup Kind = "cgroup" // Linux: a cgroup v2 directory of its own
	KindJob    Kind = "job"    // Windows: a kill-on-close Job object
	KindReaper Kind = "reaper" // Linux: a subreaping supervisor
	KindGroup  Kind = "group"  // POSIX: a session and its process groups
	KindTree   Kind = "tree"   // Windows: an identity-fenced process tree
)

// Containment says what an owner promises for a launch.
type Containment struct {
	Kind Kind
	// Complete: nothing leaves the range by ordinary means, and the range dies
	// with its runtime however that dies.
	Complete bool
	// Escapes names what can leave the range, in plain words. A complete
	// containment can have some: asking another service to start a process.
	Escapes []string
	// Reason says why a stronger containment was not chosen; "" where none exists.
	Reason string
}

// Completeness is the least that a caller accepts.
type Completeness uint8

// Requirements on containment.
const (
	AnyContainment Completeness = iota
	CompleteContainment
)
