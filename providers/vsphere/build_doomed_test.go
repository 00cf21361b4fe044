package vsphere

import (
	"testing"

	"github.com/holdfast-io/holdfast/providers"
)

// What is not known is not gone.
func TestBuildDoomedInDoubt(t *testing.T) {
	w := newBuildWorld(t)
	o := w.machine("control-plane", "doubt")
	scope, err := w.p.Scope(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*providers.Snapshot){
		"machines not read":    func(s *providers.Snapshot) { s.Coverage[providers.KindVirtualMachine] = providers.ErrNotRead },
		"clones not read":      func(s *providers.Snapshot) { delete(s.Coverage, kindClone) },
		"an empty vCenter":     func(s *providers.Snapshot) { s.Resources = map[providers.ID]*providers.Resource{} },
		"its name, no UUID":    func(s *providers.Snapshot) { unnamed(s, "doubt") },
		"a clone of its name":  func(s *providers.Snapshot) { cloneOf(s, "doubt") },
		"a clone of any name?": func(s *providers.Snapshot) { cloneOf(s, "") },
	} {
		snap, err := w.p.Observe(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		spoil(snap)
		if doomed, err := w.p.Doomed(o, snap); err == nil {
			t.Errorf("%s: doomed are %v", name, doomed)
		}
	}
}

func unnamed(s *providers.Snapshot, name string) {
	r := &providers.Resource{ID: virtualMachine("vm-999"), Name: name, Unknown: "no UUID"}
	r.Set("/moid", field(providers.String("vm-999")))
	s.Resources[r.ID] = r
}

func cloneOf(s *providers.Snapshot, name string) {
	r := &providers.Resource{ID: providers.ID{Kind: kindClone, Name: "task-1/" + name}, Name: name}
	s.Resources[r.ID] = r
}
