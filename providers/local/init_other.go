//go:build !linux

package local

// Init does the work of a container's first process: Linux containers' alone.
func Init() (code int, ran bool, err error) { return 0, false, nil }
