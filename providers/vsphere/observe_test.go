package vsphere

import (
	"maps"
	"slices"
	"testing"

	"github.com/holdfast-io/holdfast/providers"
)

func TestObserveDump(t *testing.T) {
	sim := startSim(t, nil)
	_, snap := observe(t, newTestProvider(t), sim.owner())
	for k, v := range snap.Coverage {
		t.Log(k, v)
	}
	for _, r := range snap.OfKind(providers.KindVirtualMachine)[:1] {
		t.Log(r.ID, r.Name, r.Unknown, r.Closed, r.Warnings)
		for _, p := range slices.Sorted(maps.Keys(r.Fields)) {
			t.Log(p, "=", r.Fields[p].Value.Text())
		}
	}
	for id, r := range snap.Resources {
		if id.Kind != providers.KindVirtualMachine {
			t.Log(id, r.Fields["/path"].Value.Text())
		}
	}
}
