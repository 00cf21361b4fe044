package node

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/providers"
)

// A provider that is closed leaves no connection and no goroutine behind, be it
// that a cluster answered or not, and answers for no Node any more.
func TestCloseLeavesNothing(t *testing.T) {
	w := newWorld(t)
	m1, m2 := w.owner("c1", "m1"), w.owner("c2", "m2")
	w.node("m1")
	w.replace("c2", kubeconfigTo(closedAddress(t), nil))
	before := goleak.IgnoreCurrent()
	snap := w.observe(m1, m2)
	if w.covers(snap, "c1") != "" || w.covers(snap, "c2") == "" {
		t.Fatalf("c1: %s, c2: %s", w.covers(snap, "c1"), w.covers(snap, "c2"))
	}
	if err := w.provider.Close(); err != nil {
		t.Fatal(err)
	}
	w.fronts["c1"].server.CloseClientConnections() // the front's own side
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*Server).Serve"))
	id := idOf(clusterOf(m1), "m1")
	c, err := w.provider.Confirm(t.Context(), snap.Scope, []providers.ID{id})
	if err != nil || c.Unconfirmed[id] == nil {
		t.Errorf("closed, and it says %+v, %v", c, err)
	}
}
