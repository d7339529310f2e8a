// Package seam holds the contracts of an execution world: one filesystem half
// ([FS]) and one subprocess half ([Subprocess]) that name the same paths,
// executables and processes. Consumers are written against these interfaces
// and nothing else, so one consumer runs on this host, over a wire, in a pod.
//
// # Ranges
//
// A command and everything that it starts is one managed range with one owner,
// chosen before the command's first instruction. [Process.Terminate] asks the
// range to stop. [Process.WaitEmpty] returns nil only with proof that nothing
// lives in the range as the launch's [Containment] defines it; Complete and the
// named Escapes travel with that answer.
//
// # Verbs
//
// Verbs mean one thing everywhere. Signal and Terminate request and never
// block. Wait… observes: its context bounds the waiting, never the thing waited
// for. Close ends and joins, and may be called again.
//
// # Defaults
//
// The seam has none. Zero values are stated field by field; where a budget has
// no sensible zero ([Spec.Grace]) zero is refused. Consumers decide, providers
// obey or refuse.
//
// # Conformance
//
// Package seamtest is the definition of a conforming world: each of its cases
// names the rule that it checks.
package seam
