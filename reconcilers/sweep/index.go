package sweep

import (
	"slices"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// maxReferrers bounds the owners that are read for one resource that none of
// them wants. A group that a thousand machines are in is cheaper to sweep for.
const maxReferrers = 64

// index tells whom an event is about: which owners want a resource, and which
// ones what it hangs together with. It is changed under Daemon.mu alone.
type index struct {
	wanted map[providers.ID][]*claim
	// related are resources that nobody wants by themselves: the volume of a
	// wanted instance, the interface that a group is on.
	related map[providers.ID][]*claim
	// crowded are related to more owners than are read one by one.
	crowded map[providers.ID]bool
}

// claim is one owner, and its cluster.
type claim struct {
	owner   providers.OwnerRef
	cluster detector.ClusterRef
}

func newIndex() *index {
	return &index{wanted: map[providers.ID][]*claim{}, related: map[providers.ID][]*claim{}, crowded: map[providers.ID]bool{}}
}

// newIndexOf makes the index of a whole reading. It knows no cloud: a resource
// is related to another if a field of either holds the other's id.
func newIndexOf(results []detector.Result, snap *providers.Snapshot) *index {
	x := newIndex()
	for i := range results {
		x.add(&results[i])
	}
	byName := make(map[string]providers.ID, len(snap.Resources))
	for id := range snap.Resources {
		if id.Name != "" {
			byName[id.Name] = id
		}
	}
	for id, r := range snap.Resources {
		claims := x.wanted[id]
		for _, f := range r.Fields.All() {
			for _, text := range f.Value.Elements() {
				other, ok := byName[text]
				switch {
				case !ok || other == id:
				case len(claims) == 0:
					x.relate(id, x.wanted[other])
				case len(x.wanted[other]) == 0:
					x.relate(other, claims)
				}
			}
		}
	}
	return x
}

// add enters what one owner wants.
func (x *index) add(r *detector.Result) {
	c := &claim{owner: r.Owner.Ref, cluster: r.Cluster()}
	for _, id := range r.Wanted {
		x.wanted[id] = withClaim(x.wanted[id], c)
	}
}

// withClaim adds a claim that is not there yet.
func withClaim(claims []*claim, c *claim) []*claim {
	if slices.ContainsFunc(claims, func(x *claim) bool { return *x == *c }) {
		return claims
	}
	return append(claims, c)
}

func (x *index) relate(id providers.ID, claims []*claim) {
	if x.crowded[id] {
		return
	}
	for _, c := range claims {
		x.related[id] = withClaim(x.related[id], c)
	}
	if len(x.related[id]) > maxReferrers {
		delete(x.related, id)
		x.crowded[id] = true
	}
}

// owners gives whom a resource is about; crowded says that they are too many.
func (x *index) owners(id providers.ID) (owners []*claim, crowded bool) {
	if owners = x.wanted[id]; len(owners) > 0 {
		return owners, len(owners) > maxReferrers
	}
	return x.related[id], x.crowded[id]
}

// authors remembers who changed a resource last. It is bounded: what was told
// longest ago goes first.
type authors struct {
	limit int
	by    map[providers.ID]author
	order []providers.ID
}

type author struct {
	name  string
	event int64 // Unix seconds
}

const (
	// maxAuthors bounds what is remembered of one scope.
	maxAuthors = 10_000
	// maxAuthorName bounds a name. An IAM role's ARN has up to 2048 characters,
	// of which the first tell whose it is.
	maxAuthorName = 256
)

func newAuthors(limit int) *authors {
	return &authors{limit: limit, by: map[providers.ID]author{}}
}

// put remembers the author of an event; an older event than the known one says
// nothing.
func (a *authors) put(id providers.ID, name string, at int64) {
	if len(name) > maxAuthorName {
		name = name[:maxAuthorName]
	}
	old, known := a.by[id]
	if name == "" || known && at < old.event {
		return
	}
	if !known {
		a.order = append(a.order, id)
	}
	a.by[id] = author{name: name, event: at}
	for len(a.by) > a.limit {
		delete(a.by, a.order[0])
		a.order = a.order[1:]
	}
}

// drop forgets an author whose change is no drift.
func (a *authors) drop(id providers.ID) {
	if _, known := a.by[id]; !known {
		return
	}
	delete(a.by, id)
	a.order = slices.DeleteFunc(a.order, func(x providers.ID) bool { return x == id })
}
