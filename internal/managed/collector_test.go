package managed_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/corral-world/corral/internal/managed"
)

// What is kept is the end of the stream, whatever its chunks, and is read from
// every offset.
func TestCollectorKeepsTail(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, seed))
	for round := range 2000 {
		limit := 1 + random.IntN(20)
		var stream []byte
		source := new(fakeSource)
		for range random.IntN(8) {
			chunk := make([]byte, random.IntN(2*limit+2))
			for i := range chunk {
				chunk[i] = byte(len(stream) + i)
			}
			stream = append(stream, chunk...)
			source.chunks = append(source.chunks, chunk)
		}
		c := collectAll(managed.CollectorParams{Source: source, MaxBytes: int64(limit)})
		for offset := -1; offset <= len(stream)+1; offset++ {
			from := min(max(offset, len(stream)-limit, 0), len(stream))
			got := c.ReadFrom(int64(offset))
			if !bytes.Equal(got.Data, stream[from:]) || got.Offset != int64(from) || got.Lost != int64(max(from-max(offset, 0), 0)) || !got.Ended || got.Cut {
				t.Fatalf("round %d, limit %d, %d bytes, from %d: %+v, want %v at %d", round, limit, len(stream), offset, got, stream[from:], from)
			}
		}
	}
}

func TestCollectorSpill(t *testing.T) {
	errCreate, errWrite, errClose, errWithdraw := errors.New("no file"), errors.New("disk full"), errors.New("no close"), errors.New("no removal")
	stream := func(sizes ...int) (chunks [][]byte) {
		for _, size := range sizes {
			chunks = append(chunks, bytes.Repeat([]byte{byte('a' + len(chunks))}, size))
		}
		return chunks
	}
	for _, c := range []struct {
		name    string
		chunks  [][]byte
		store   *fakeStore
		reason  []error // that the spill was withdrawn for; none: it is complete
		created int
		over    bool // withdrawn because of its bound
	}{
		{name: "fits in memory", chunks: stream(4, 6), store: &fakeStore{}},
		{name: "complete", chunks: stream(4, 7, 30), store: &fakeStore{}, created: 1},
		{name: "complete from one chunk", chunks: stream(11), store: &fakeStore{}, created: 1},
		{name: "complete after memory was just full", chunks: stream(10, 1), store: &fakeStore{}, created: 1},
		{name: "exactly the bound", chunks: stream(10, 40), store: &fakeStore{}, created: 1},
		{name: "over the bound", chunks: stream(10, 40, 1, 5), store: &fakeStore{}, created: 1, over: true},
		{name: "first chunk over the bound", chunks: stream(51), store: &fakeStore{}, over: true},
		{name: "first overflow over the bound", chunks: stream(10, 41, 1), store: &fakeStore{}, over: true},
		{name: "create fails", chunks: stream(11, 1, 1), store: &fakeStore{createErr: errCreate}, reason: []error{errCreate}, created: 1},
		{name: "first write fails", chunks: stream(5, 6, 1), store: &fakeStore{writeErr: errWrite}, reason: []error{errWrite}, created: 1},
		{name: "second write fails", chunks: stream(5, 6, 1), store: &fakeStore{writeErr: errWrite, writeLimit: 5}, reason: []error{errWrite}, created: 1},
		{name: "later write fails", chunks: stream(5, 6, 9, 9), store: &fakeStore{writeErr: errWrite, writeLimit: 12}, reason: []error{errWrite}, created: 1},
		{name: "close fails", chunks: stream(11), store: &fakeStore{closeErr: errClose}, reason: []error{errClose}, created: 1},
		{
			name: "write and removal fail", chunks: stream(11),
			store: &fakeStore{writeErr: errWrite, withdrawErr: errWithdraw}, reason: []error{errWrite, errWithdraw}, created: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := collectAll(managed.CollectorParams{
				Source: &fakeSource{chunks: c.chunks}, MaxBytes: 10, SpillMaxBytes: 50, Store: c.store,
			})
			whole := bytes.Join(c.chunks, nil)
			if w := got.ReadFrom(0); !bytes.Equal(w.Data, whole[max(len(whole)-10, 0):]) {
				t.Errorf("the tail is %q of %q", w.Data, whole)
			}
			spill := got.Spill()
			if c.store.created != c.created {
				t.Errorf("%d files were made, want %d", c.store.created, c.created)
			}
			failed := c.over || len(c.reason) > 0
			if (spill.Withdrawn != nil) != failed || (spill.Path != "") != (c.created > 0 && !failed) {
				t.Errorf("spill %+v", spill)
			}
			for _, reason := range c.reason {
				if !errors.Is(spill.Withdrawn, reason) {
					t.Errorf("withdrawn for %v, want %v", spill.Withdrawn, reason)
				}
			}
			switch {
			case c.created == 0 || c.store.createErr != nil:
			case failed && !c.store.withdrawn:
				t.Error("the file was not withdrawn")
			case !failed && (!c.store.closed || !bytes.Equal(c.store.data, whole)):
				t.Errorf("the file holds %q, closed %v; want all of %q", c.store.data, c.store.closed, whole)
			}
		})
	}
}

// A stream whose end fails is cut.
func TestCollectorCloseFails(t *testing.T) {
	c := collectAll(managed.CollectorParams{
		Source: &fakeSource{chunks: [][]byte{[]byte("x")}, closeErr: errors.New("no close")}, MaxBytes: 10,
	})
	if w := c.ReadFrom(0); !w.Cut || !w.Ended || string(w.Data) != "x" {
		t.Errorf("window %+v, want x, cut", w)
	}
}

// A window is the caller's own.
func TestCollectorCopies(t *testing.T) {
	c := collectAll(managed.CollectorParams{Source: &fakeSource{chunks: [][]byte{[]byte("kept")}}, MaxBytes: 10})
	clear(c.ReadFrom(0).Data)
	if w := c.ReadFrom(0); string(w.Data) != "kept" {
		t.Errorf("window %+v, want what was collected", w)
	}
}
