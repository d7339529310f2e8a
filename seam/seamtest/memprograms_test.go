package seamtest_test

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/corral-world/corral/seam"
	"github.com/corral-world/corral/seam/seamtest"
)

// verbs are the verbs of internal/testproc as programs of a memory world.
var verbs = map[string]seamtest.MemProgram{
	"args": func(p *seamtest.MemProc) int {
		for _, arg := range p.Argv[1:] {
			p.Printf("%q\n", arg)
		}
		return 0
	},
	"bomb": func(p *seamtest.MemProc) int {
		p.Printf("ready\n")
		return bomb(p, number(p, 1))
	},
	"cat": func(p *seamtest.MemProc) int {
		_, err := io.Copy(p.Stdout, p.Stdin)
		return exitCode(err)
	},
	"cwd": func(p *seamtest.MemProc) int {
		p.Printf("%s\n", p.Dir)
		return 0
	},
	"daemon": func(p *seamtest.MemProc) int {
		grandchild := make(chan int, 1)
		middle := p.Go(seamtest.MemChild{}, func(p *seamtest.MemProc) int {
			grandchild <- p.Go(seamtest.MemChild{}, sleep).PID
			return 0
		})
		<-middle.Done()
		p.Printf("ready %d\n", <-grandchild)
		return 0
	},
	"env": func(p *seamtest.MemProc) int {
		for _, entry := range p.Env {
			p.Printf("%q\n", entry)
		}
		return 0
	},
	"exit": func(p *seamtest.MemProc) int { return number(p, 1) },
	"family": func(p *seamtest.MemProc) int {
		p.Printf("ready %d\n", ignoring(p).PID)
		return sleep(p)
	},
	"flood": func(p *seamtest.MemProc) int {
		n, chunk := number(p, 1), number(p, 2)
		out := bufio.NewWriterSize(p.Stdout, chunk)
		for i := 0; n > 0; i++ {
			text := fmt.Sprintf("%07d\n", i)
			if _, err := io.WriteString(out, text[:min(n, len(text))]); err != nil {
				return 1
			}
			n -= len(text)
		}
		return exitCode(out.Flush())
	},
	"hold-pipe": func(p *seamtest.MemProc) int {
		p.Printf("ready %d\n", p.Go(seamtest.MemChild{Streams: true}, sleep).PID)
		return 0
	},
	"ignore-term": func(p *seamtest.MemProc) int {
		p.IgnoreTerm()
		p.Printf("ready\n")
		return sleep(p)
	},
	"kill-self": func(p *seamtest.MemProc) int {
		p.Kill(p.Argv[1])
		return 0
	},
	"late": func(p *seamtest.MemProc) int {
		child := p.Go(seamtest.MemChild{Streams: true}, func(c *seamtest.MemProc) int {
			<-p.Done()
			c.Sleep(50 * time.Millisecond)
			c.Printf("late\n")
			return sleep(c)
		})
		p.Printf("ready %d\n", child.PID)
		return 0
	},
	"lines": func(p *seamtest.MemProc) int {
		p.Printf("ready\n")
		for in := bufio.NewScanner(p.Stdin); in.Scan(); {
			p.Printf("got %q\n", in.Text())
		}
		return 0
	},
	"many": func(p *seamtest.MemProc) int {
		for range number(p, 1) {
			p.Go(seamtest.MemChild{}, sleep)
		}
		p.Printf("ready\n")
		return sleep(p)
	},
	"print": func(p *seamtest.MemProc) int {
		for out, err := p.Argv[1], p.Argv[2]; out+err != ""; {
			n, m := min(len(out), 3), min(len(err), 2)
			p.Printf("%s", out[:n])
			if _, writeErr := io.WriteString(p.Stderr, err[:m]); writeErr != nil {
				return 1
			}
			out, err = out[n:], err[m:]
		}
		return 0
	},
	"signals": func(p *seamtest.MemProc) int {
		term, signals := p.TrapTerm(), p.Terminal.Signals()
		p.Printf("ready\n")
		for {
			select {
			case name := <-signals:
				p.Printf("got %s\n", name)
			case <-term:
			case <-p.Context().Done():
				return 0
			}
		}
	},
	"sleep": func(p *seamtest.MemProc) int {
		p.Printf("ready\n")
		return sleep(p)
	},
	"stdin-kind": func(p *seamtest.MemProc) int {
		kind := "pipe"
		if p.StdinMode == seam.Null {
			kind = "null"
		}
		p.Printf("%s\n", kind)
		return 0
	},
	"setsid":   survivor,
	"survivor": survivor,
	"survivor-ignoring-term": func(p *seamtest.MemProc) int {
		p.Printf("ready %d\n", ignoring(p).PID)
		return 0
	},
	"terminal": func(p *seamtest.MemProc) int {
		cols, rows := p.Terminal.Size()
		p.Printf("terminal %dx%d\n", cols, rows)
		return 0
	},
	"winch": func(p *seamtest.MemProc) int {
		p.Printf("ready\n")
		for {
			select {
			case <-p.Terminal.Resized():
				cols, rows := p.Terminal.Size()
				p.Printf("size %dx%d\n", cols, rows)
			case <-p.Context().Done():
				return 0
			}
		}
	},
	"trap-term": func(p *seamtest.MemProc) int {
		term := p.TrapTerm()
		p.Printf("ready\n")
		select {
		case <-term:
			p.Printf("term\n")
		case <-p.Context().Done():
		}
		return number(p, 1)
	},
}

const lifetime = 1000 * time.Hour // longer than what the suite calls forever

func sleep(p *seamtest.MemProc) int {
	p.Sleep(lifetime)
	return 0
}

// ignoring starts a child that ignores TERM, and returns when it does.
func ignoring(p *seamtest.MemProc) *seamtest.MemProc {
	ready := make(chan struct{})
	child := p.Go(seamtest.MemChild{}, func(p *seamtest.MemProc) int {
		p.IgnoreTerm()
		close(ready)
		return sleep(p)
	})
	<-ready
	return child
}

func survivor(p *seamtest.MemProc) int {
	p.Printf("ready %d\n", p.Go(seamtest.MemChild{}, sleep).PID)
	return 0
}

func bomb(p *seamtest.MemProc, left int) int {
	if left == 0 {
		return sleep(p)
	}
	p.Go(seamtest.MemChild{}, func(p *seamtest.MemProc) int { return bomb(p, left-1) })
	return 0
}

func number(p *seamtest.MemProc, i int) int {
	n, err := strconv.Atoi(p.Argv[i])
	if err != nil {
		panic(err)
	}
	return n
}

func exitCode(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

// programs are the verbs in the place where a memory world has its programs.
func programs() map[string]seamtest.MemProgram {
	files := make(map[string]seamtest.MemProgram)
	for verb, program := range verbs {
		files["/bin/"+verb] = program
	}
	return files
}

func memArgv(verb string, args ...string) []string { return append([]string{"/bin/" + verb}, args...) }
