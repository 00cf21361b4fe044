package sweep

import (
	"fmt"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

func TestIndex(t *testing.T) {
	snap := &providers.Snapshot{Resources: map[providers.ID]*providers.Resource{}}
	put := func(id providers.ID, fields map[string]providers.Value) {
		r := &providers.Resource{ID: id}
		for path, v := range fields {
			r.Set(path, providers.Field{Value: v})
		}
		snap.Resources[id] = r
	}
	id := func(kind, name string) providers.ID { return providers.ID{Kind: kind, Name: name} }
	var results []detector.Result
	for i := range maxReferrers + 1 {
		name := fmt.Sprintf("i-%d", i)
		groups := []string{"sg-all"}
		if i < 2 {
			groups = append(groups, "sg-few", "sg-wanted")
		}
		put(id(providers.KindInstance, name), map[string]providers.Value{"/securityGroups": providers.Set(groups...), "/name": providers.String(name)})
		results = append(results, detector.Result{Owner: &providers.Owner{Ref: providers.OwnerRef{Name: name}, Cluster: &clusterv1.Cluster{}}, Wanted: []providers.ID{id(providers.KindInstance, name)}})
	}
	results = append(results, detector.Result{Owner: &providers.Owner{Ref: providers.OwnerRef{Name: "cluster"}, Cluster: &clusterv1.Cluster{}}, Wanted: []providers.ID{id(providers.KindSecurityGroup, "sg-wanted")}})
	for _, name := range []string{"sg-all", "sg-few", "sg-wanted"} {
		put(id(providers.KindSecurityGroup, name), nil)
	}
	put(id(providers.KindVolume, "vol-1"), map[string]providers.Value{"/attachedTo": providers.String("i-1")})
	put(id(providers.KindVolume, "vol-free"), nil)
	x := newIndexOf(results, snap)
	tests := map[providers.ID]struct {
		owners  int
		crowded bool
	}{
		id(providers.KindInstance, "i-0"):            {1, false},
		id(providers.KindVolume, "vol-1"):            {1, false},
		id(providers.KindVolume, "vol-free"):         {0, false},
		id(providers.KindSecurityGroup, "sg-few"):    {2, false},
		id(providers.KindSecurityGroup, "sg-wanted"): {1, false}, // whoever wants it, not whoever is in it
		id(providers.KindSecurityGroup, "sg-all"):    {0, true},
		id(providers.KindInstance, "unknown"):        {0, false},
	}
	for id, want := range tests {
		if owners, crowded := x.owners(id); len(owners) != want.owners || crowded != want.crowded {
			t.Errorf("%s is about %d owners (crowded %v), want %d (%v)", id, len(owners), crowded, want.owners, want.crowded)
		}
	}
	x.add(&results[0])
	if owners, _ := x.owners(id(providers.KindInstance, "i-0")); len(owners) != 1 {
		t.Errorf("an owner that was read again claims its instance %d times", len(owners))
	}
}

func TestAuthors(t *testing.T) {
	a := newAuthors(3)
	id := func(i int) providers.ID { return providers.ID{Kind: providers.KindInstance, Name: fmt.Sprint(i)} }
	for i := range 5 {
		a.put(id(i), "eve", int64(i))
	}
	if len(a.by) != 3 || len(a.order) != 3 || a.by[id(1)].name != "" || a.by[id(4)].name != "eve" {
		t.Errorf("bounded to 3, it knows %v", a.by)
	}
	a.put(id(4), "mallory", 1) // an event that came late
	a.put(id(3), "", 100)
	if a.by[id(4)].name != "eve" || a.by[id(3)].name != "eve" {
		t.Errorf("after late and nameless events: %v", a.by)
	}
	a.drop(id(4))
	a.drop(id(99))
	if len(a.by) != 2 || len(a.order) != 2 {
		t.Errorf("after a drop: %v, %v", a.by, a.order)
	}
}

// TestQueueAfterItsEnd keeps nobody waiting and holds on to nothing.
func TestQueueAfterItsEnd(t *testing.T) {
	q := newQueue()
	before := q.put(&Outcome{})
	q.close()
	after := q.put(&Outcome{})
	for _, d := range []*delivery{before, after} {
		select {
		case <-d.done:
		default:
			t.Error("an outcome that nobody takes is waited for")
		}
	}
	if len(q.waiting) > 0 {
		t.Errorf("%d outcomes are kept", len(q.waiting))
	}
}
