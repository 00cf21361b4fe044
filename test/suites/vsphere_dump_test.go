package suites

import (
	"maps"
	"slices"
	"testing"
)

func TestDump(t *testing.T) {
	e := vsphereEnv(t, nil)
	p := vsphereProvider(t, e)
	owners := e.Owners()
	scope, err := p.Scope(t.Context(), owners[0])
	if err != nil {
		t.Fatal(err)
	}
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		want, err := p.Desired(o, snap)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			t.Log(o.Ref, w.ID, w.Name, w.Unchecked, w.Unsettled, w.Unknown, w.Warnings)
			for _, p := range slices.Sorted(maps.Keys(w.Fields)) {
				have := snap.Resources[w.ID]
				h := ""
				if have != nil {
					h = have.Fields[p].Value.Text()
				}
				t.Log("   ", p, "=", w.Fields[p].Value.Text(), w.Fields[p].Match, w.Fields[p].Mutability, "|", h)
			}
		}
	}
	for _, r := range snap.OfKind("VirtualMachine")[:2] {
		t.Log(r.ID, r.Name, r.Unknown, r.Closed, r.Warnings)
		for _, p := range slices.Sorted(maps.Keys(r.Fields)) {
			t.Log(p, "=", r.Fields[p].Value.Text())
		}
	}
	for _, c := range e.Log.Calls() {
		t.Log(c.Method)
	}
}
