package detector

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// Claims are the results of the owners that were compared with one snapshot.
type Claims struct {
	Results  []Result
	Snapshot *providers.Snapshot
}

// DoubleClaims turns what two machines of a scope claim at once into Unknown
// for each of them: which of the two it belongs to cannot be told, so nothing
// may be done to it. Clusters may share resources, such as a VPC, and are left
// alone. Field counts stay: the fields were compared, if not for whom. results
// hold every owner of the scope; it is pure, and gives its argument back where
// nothing is claimed twice.
func DoubleClaims(results []Result, snap *providers.Snapshot) []Result {
	return DoubleClaimsIn(Claims{results, snap})[0]
}

// DoubleClaimsIn is [DoubleClaims] for one place that was read under several
// identities: the claims of scopes that differ in Identity only, of all owners
// of each. It gives the results of each, in order.
func DoubleClaimsIn(place ...Claims) [][]Result {
	claimants := map[providers.ID][]claimant{}
	out := make([][]Result, len(place))
	for p := range place {
		out[p] = place[p].Results
		for i := range out[p] {
			if out[p][i].Owner.Machine == nil {
				continue
			}
			me := claimant{p, i}
			for _, id := range out[p][i].Wanted {
				if on := claimants[id]; len(on) == 0 || on[len(on)-1] != me {
					claimants[id] = append(on, me)
				}
			}
		}
	}
	for id, on := range claimants {
		if len(on) < 2 {
			continue
		}
		for _, c := range on {
			if &out[c.part][0] == &place[c.part].Results[0] {
				out[c.part] = slices.Clone(out[c.part])
			}
			out[c.part][c.index] = contested(out[c.part][c.index], id, others(out, on, c), place[c.part].Snapshot)
		}
	}
	return out
}

// claimant is a result among those of a place.
type claimant struct{ part, index int }

// others names the other claimants, in order.
func others(results [][]Result, on []claimant, self claimant) string {
	var names []string
	for _, c := range on {
		if c != self {
			names = append(names, results[c.part][c.index].Owner.Ref.String())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// contested replaces what a result says of one resource.
func contested(r Result, id providers.ID, rivals string, snap *providers.Snapshot) Result {
	same := func(ref ResourceRef) bool { return ref.Kind == id.Kind && ref.ID == id.Name }
	want, have := &providers.Resource{ID: id}, snap.Resources[id]
	findings := make([]Finding, 0, len(r.Findings)+1)
	for _, f := range r.Findings {
		if !same(f.Resource) {
			findings = append(findings, f)
		} else if f.Want != nil {
			want = f.Want
		}
	}
	r.InSync = slices.DeleteFunc(slices.Clone(r.InSync), same)
	v := single(r.Owner, snap, want, have, Unknown, "claimed by two objects: also by "+rivals)
	r.Findings = append(findings, v.findings...)
	Sort(r.Findings)
	return r
}

// Vanished is a cluster of which nothing wanted was seen in one of the places
// that it is read from.
type Vanished struct {
	Cluster ClusterRef
	// Resources counts the wanted resources that were looked for.
	Resources int
	// Kinds of them, in order.
	Kinds []string
}

// AllAbsent gives the clusters of which every wanted resource that could be
// looked for is absent, and none was seen even as gone. Its VPC and its
// machines vanishing together are rather the wrong account, region or
// permissions than a loss: the caller checks the caller's identity before it
// believes a word. It looks at results before [Settle]; ordered by cluster.
//
// Nodes are read elsewhere than all else, from the cluster itself, so that they
// are told apart: Nodes that are there say nothing of an account that shows no
// instances, nor instances of an API server that shows no Nodes.
func AllAbsent(results []Result) []Vanished {
	absent := map[source]*Vanished{}
	seen := map[source]bool{}
	for i := range results {
		r := &results[i]
		cluster := r.Cluster()
		for _, ref := range r.InSync {
			seen[source{cluster, ref.Kind == providers.KindNode}] = true
		}
		for _, f := range r.Findings {
			from := source{cluster, f.Resource.Kind == providers.KindNode}
			if !f.Tentative {
				seen[from] = seen[from] || f.Have != nil
				continue
			}
			v := absent[from]
			if v == nil {
				v = &Vanished{Cluster: cluster}
				absent[from] = v
			}
			v.Resources++
			v.Kinds = append(v.Kinds, f.Resource.Kind)
		}
	}
	var out []Vanished
	for from, v := range absent {
		if !seen[from] {
			slices.Sort(v.Kinds)
			v.Kinds = slices.Compact(v.Kinds)
			out = append(out, *v)
		}
	}
	slices.SortFunc(out, func(a, b Vanished) int {
		return cmp.Or(strings.Compare(a.Cluster.Namespace, b.Cluster.Namespace), strings.Compare(a.Cluster.Name, b.Cluster.Name),
			slices.Compare(a.Kinds, b.Kinds))
	})
	return out
}

// source is where a cluster's resources are read from: its cloud, or its own API
// server.
type source struct {
	cluster ClusterRef
	nodes   bool
}

// Doubt leaves the tentative absences of a result Unknown for a reason that
// the caller knows, so that they are not confirmed: the wrong account, for one.
// Without kinds it doubts those of every kind.
func Doubt(r Result, reason string, kinds ...string) Result {
	r.Findings = slices.Clone(r.Findings)
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Tentative && (len(kinds) == 0 || slices.Contains(kinds, f.Resource.Kind)) {
			f.Tentative, f.Reason = false, oneLine(reason)
		}
	}
	Sort(r.Findings)
	return r
}

// Unread is the result for an owner of which nothing could be compared: its
// scope or identity cannot be used, its cloud did not answer, its kind is not
// modelled (all [NotChecked]), or its own spec is at fault ([Unknown]). The one
// finding is about the owner itself.
func Unread(owner *providers.Owner, scope providers.Scope, status Status, reason string) Result {
	w := &providers.Resource{
		ID:   providers.ID{Kind: owner.Ref.Kind, Name: owner.Ref.Namespace + "/" + owner.Ref.Name},
		Name: owner.Ref.Name, Owner: owner.Ref,
	}
	v := single(owner, &providers.Snapshot{Scope: scope}, w, nil, status, oneLine(reason))
	v.findings[0].Want = nil // no cloud has such a resource
	return Result{Owner: owner, Findings: v.findings, NotChecked: v.notChecked, Unnamed: []string{AnyKind}}
}
