//go:build unix

package local

import "github.com/corral-world/corral/internal/control"

// listen answers for this runtime from now on, where it can: a launch does not
// fail for want of somebody who could ask for it.
func (r *Runtime) listen() {
	if r.keeps {
		return // it has a socket of its name
	}
	server, err := control.Default().Listen(answers{r})
	if err != nil {
		r.logger.Warn("ranges of this process can't be listed or stopped by name", "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = server
}

func (r *Runtime) stopListening() error {
	r.mu.Lock()
	server := r.server
	r.server = nil
	r.mu.Unlock()
	if server == nil {
		return nil
	}
	return server.Close()
}
