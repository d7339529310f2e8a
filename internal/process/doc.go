// Package process knows single processes by what can't be another's: a pidfd,
// or a number together with a start time.
package process
