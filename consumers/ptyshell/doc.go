// Package ptyshell keeps shells on terminals for a harness: persistent, owned,
// and always with an account of what state a terminal is in and how that is
// known.
//
// # Readiness
//
// A send types, and settles when the terminal is ready for more. [Result] names
// the evidence, in this order of strength:
//
//   - [ReasonPrompt], [ReasonContinuation]: the shell printed a mark of its
//     prompt, one that output can't forge because it holds a secret of the
//     session, after what was typed, and owns the terminal. Marks are events:
//     they settle a send at once.
//   - [ReasonStdinRead]: the system shows that who owns the terminal waits to
//     read it. That holds for any program, and for a shell that lost its marks
//     (PS1= and PROMPT_COMMAND=, another shell by exec). It is looked for in
//     pauses of 5 to 250 ms, only while a send waits.
//   - [ReasonInferredIdle]: silence, and nothing else.
//   - [ReasonTimeout], [ReasonSessionExit].
//
// A session that nobody sends to has two goroutines, which wait for the terminal,
// and costs no processor time.
//
// # Sends
//
// A session takes one send at a time. The slot is reserved before anything else
// happens and is free again when every call of the terminal that the send made
// has returned: text of one send never reaches, and an interrupt of one never
// hits, another. A send that is canceled interrupts with a real SIGINT. Its
// deadline holds throughout; a call that hangs keeps the slot, and closing the
// session is the way out.
//
// Text is for the shell. Where another program owns the terminal it is refused
// with that program's name, unless it is meant for it (Request.Force).
//
// # What is kept
//
// Output is kept as lines: UTF-8 with replacements, without escape sequences and
// control characters; CR and CRLF end lines. What was typed at a prompt is kept
// as it was typed, not as the line editor showed it.
//
// # Concurrency
//
// All methods of all types may be called concurrently.
package ptyshell
