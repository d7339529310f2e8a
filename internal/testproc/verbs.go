package testproc

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// exit CODE.
func exit(args []string) { leave(arg(args, 0, 0)) }

// printBoth OUT ERR writes each to its stream, in turns and in chunks of odd
// sizes.
func printBoth(args []string) {
	if len(args) != 2 {
		fatalf(exitUsage, "want OUT and ERR")
	}
	out, err := args[0], args[1]
	for size := 1; len(out)+len(err) > 0; size = size%7 + 2 {
		out = writeSome(os.Stdout, out, size)
		err = writeSome(os.Stderr, err, size)
	}
}

func writeSome(f *os.File, s string, n int) (rest string) {
	n = min(n, len(s))
	if n > 0 {
		_, err := f.WriteString(s[:n])
		check(err)
	}
	return s[n:]
}

// cat writes what it reads, as it comes.
func cat([]string) {
	_, err := io.Copy(os.Stdout, plain{os.Stdin})
	check(err)
}

// plain hides ReadFrom and WriteTo, which splice.
type plain struct{ io.Reader }

// env prints the environment, an entry a line, quoted.
func env([]string) {
	entries := os.Environ()
	slices.Sort(entries)
	for _, entry := range entries {
		fmt.Printf("%q\n", entry)
	}
}

// cwd prints the working directory.
func cwd([]string) {
	dir, err := os.Getwd()
	check(err)
	fmt.Println(dir)
}

// printArgs prints its arguments, one a line, quoted.
func printArgs(args []string) {
	for _, a := range args {
		fmt.Printf("%q\n", a)
	}
}

// sleep prints "ready", unless it has an argument, and sleeps, with default
// signal dispositions.
func sleep(args []string) {
	if len(args) == 0 {
		fmt.Println("ready")
	}
	rest()
}

// flood N CHUNK writes the first N bytes of the endless text "0000000\n
// 0000001\n…", CHUNK bytes at a time.
func flood(args []string) {
	n, chunk := arg(args, 0, 0), arg(args, 1, 4096)
	text := make([]byte, 0, n+8)
	for i := 0; len(text) < n; i++ {
		text = fmt.Appendf(text, "%07d\n", i)
	}
	for part := range slices.Chunk(text[:n], chunk) {
		_, err := os.Stdout.Write(part)
		check(err)
	}
}

// rest sleeps for the lifetime.
func rest() { time.Sleep(lifetime) } //nolint:forbidigo // it is what these programs are for

// allocate N touches N bytes of memory.
func allocate(args []string) {
	memory := make([]byte, arg(args, 0, 0))
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	fmt.Println(len(memory))
}
