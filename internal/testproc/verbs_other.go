//go:build !unix

package testproc

func platformVerbs() map[string]func([]string) { return nil }
