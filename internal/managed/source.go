package managed

import (
	"io"
	"sync"
)

// A Source is a stream that is collected. ReadAll and Close are called by the
// collecting goroutine, Interrupt by any other.
type Source interface {
	// ReadAll hands over the stream chunk by chunk until it ends, and reports
	// whether it did, or was interrupted or failed. A chunk is valid only
	// during the call.
	ReadAll(consume func(chunk []byte)) (atEOF bool)

	// Interrupt makes ReadAll take what is there and return. It may be called
	// more than once.
	Interrupt()

	io.Closer
}

// bufferBytes is what one read takes: the capacity of a Linux pipe.
const bufferBytes = 64 << 10

// buffers are shared between streams: a stream that is silent holds none.
var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// ReaderSource collects from a reader whose Close ends a blocked Read.
type ReaderSource struct {
	Reader io.ReadCloser
	once   sync.Once
}

// ReadAll implements [Source].
func (s *ReaderSource) ReadAll(consume func([]byte)) bool {
	buf := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buf)
	for {
		n, err := s.Reader.Read(buf[:])
		consume(buf[:n])
		if err != nil {
			return err == io.EOF
		}
	}
}

// Interrupt implements [Source].
func (s *ReaderSource) Interrupt() { _ = s.Close() }

// Close implements [Source].
func (s *ReaderSource) Close() (err error) {
	s.once.Do(func() { err = s.Reader.Close() })
	return err
}
