package local

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/corral-world/corral/internal/control"
	"github.com/corral-world/corral/internal/owner"
	"github.com/corral-world/corral/internal/process"
	"github.com/corral-world/corral/internal/runner"
)

// A harness that ends before it knew of a start takes the range with it: nobody
// would know of one that lived on.
func TestDetachedNotKept(t *testing.T) {
	r, err := New(Config{WorldID: "test", Spill: SpillConfig{Dir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	options := keepOptions{Name: "unkept-" + newName(), WorldID: "test", Registry: control.Default().Dir(), SpillDir: t.TempDir(), Grace: time.Hour}
	conn, err := r.startKeeper(t.Context(), &options)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(conn).Encode(options); err != nil {
		t.Fatal(err)
	}
	if err := runner.WriteRequest(conn, owner.Request{Path: "/bin/sleep", Argv: []string{"sleep", "600"}, Dir: "/"}); err != nil {
		t.Fatal(err)
	}
	events := json.NewDecoder(conn)
	var event keepEvent
	if err := events.Decode(&event); err != nil || event.Started == nil {
		t.Fatalf("%+v, %v", event, err)
	}
	found, err := control.At(options.Registry).Detached(options.Name).Members(t.Context())
	if err != nil || len(found.Members) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	if err := conn.CloseWrite(); err != nil { // as its end would
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	empty := false
	for event = (keepEvent{}); events.Decode(&event) == nil; event = (keepEvent{}) {
		empty = event.Empty
	}
	if !empty {
		t.Error("it did not say that nothing is left")
	}
	if _, alive := process.Describe(found.Members[0].PID); alive {
		t.Error("it lives on")
	}
	_ = conn.Close()
}
