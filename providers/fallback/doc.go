// Package fallback owns ranges on hosts where no native owner is to be had.
// What it promises is less, and it says what can escape.
package fallback

// An OwnerError is a launch that failed for what was to own it, not for its
// target.
type OwnerError struct{ Err error }

func (e *OwnerError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *OwnerError) Unwrap() error { return e.Err }
