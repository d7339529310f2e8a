package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/lmittmann/tint"

	"github.com/corral-world/corral/app/config"
)

// console is standard error: lines of log and, where it is a terminal, one line
// of progress below them, which is taken back before anything else is written.
type console struct {
	out     io.Writer
	columns int // of the terminal; 0: it is none

	mu    sync.Mutex
	shown bool // the line of progress is on the screen
}

func newConsole(out io.Writer) *console {
	c := &console{out: out}
	if f, ok := out.(*os.File); ok {
		c.columns = terminalColumns(f)
	}
	return c
}

// Write implements [io.Writer]. What can't be written is lost: there is no
// better place to say so.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	return c.out.Write(p)
}

func (c *console) line(s string) { _, _ = io.WriteString(c, s+"\n") }

// clear takes the line of progress back. mu is held.
func (c *console) clear() {
	if c.shown {
		c.shown = false
		_, _ = io.WriteString(c.out, "\r\x1b[K")
	}
}

// logger logs to the console.
func (c *console) logger(log config.Log, environ []string) *slog.Logger {
	if log.Format == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(c, &slog.HandlerOptions{Level: log.Level}))
	}
	return slog.New(tint.NewTextHandler(c, &tint.Options{
		Level:       log.Level,
		NoColor:     c.columns == 0 || isSet(environ, "NO_COLOR"),
		ReplaceAttr: dress,
	}))
}

// dress makes a record recognisable among a command's own output: without the
// time, and with our name.
func dress(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.TimeKey:
		return slog.Attr{}
	case a.Key == slog.MessageKey:
		a.Value = slog.StringValue("corral: " + a.Value.String())
	}
	return a
}

// Progress is shown when a command has run for progressAfter.
const (
	progressAfter = 2 * time.Second
	progressEvery = time.Second
)

// progress shows that argv is running, if the console is a terminal, until stop
// is called, which takes the line back and joins the one who writes it.
func (c *console) progress(argv []string) (stop func()) {
	if c.columns == 0 {
		return func() {}
	}
	started := time.Now()
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for wait := progressAfter; ; wait = progressEvery {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
				c.show(time.Since(started), argv)
			case <-done:
				timer.Stop()
				return
			}
		}
	})
	return func() {
		close(done)
		writer.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.clear()
	}
}

// announce tells once that argv is running, if the console is a terminal, unless
// stop is called before.
func (c *console) announce(argv []string) (stop func()) {
	if c.columns == 0 {
		return func() {}
	}
	timer := time.AfterFunc(progressAfter, func() {
		c.line(fmt.Sprintf("corral: still running after %v: %s", progressAfter, quoteArgv(argv, c.columns/2)))
	})
	return func() { timer.Stop() }
}

func (c *console) show(elapsed time.Duration, argv []string) {
	text := fmt.Sprintf("corral: %v  ", elapsed.Round(time.Second))
	text += quoteArgv(argv, max(c.columns-1-len(text), 0))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	c.shown = true
	_, _ = io.WriteString(c.out, text)
}
