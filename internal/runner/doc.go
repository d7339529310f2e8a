// Package runner starts target processes for owners and observes them: every
// fork that a launch costs is made here.
//
// A target starts in a session of its own, with no controlling terminal,
// descriptors 0 to 2 and nothing else, default signal dispositions and an empty
// signal mask, whatever state this process is in. Three things make it so: the
// start itself (session, mask), and before it [CloseOnExec] (descriptors) and
// [RestoreSignals] (signals that this process ignores).
package runner
