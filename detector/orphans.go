package detector

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// Orphans gives a finding for each seen resource that carries the ownership
// tag of a cluster among the results and that no owner wants. Tags of clusters
// without an owner among the results say nothing, since their objects were not
// compared; what else may own resources of the scope is in unseen. It is pure.
//
//   - Unexpected: the tag names one cluster, and its owners name all that they
//     want;
//   - Unknown: an owner of the cluster may be about to be given the resource,
//     or an object of it was not compared, or the tag names several clusters
//     (of one name in two namespaces, or with several tags), also unseen ones:
//     a tag alone never makes a claim;
//   - Foreign: it belongs to another controller or a person.
//
// Kinds that were not read in full give none: what was left out may be what
// an owner's claim rests on.
func Orphans(results []Result, snap *providers.Snapshot, unseen Unseen) []Finding {
	scope := newClaims(results)
	scope.unseen = unseen
	var out []Finding
	for id, have := range snap.Resources {
		if len(have.ClusterTags) == 0 || have.Gone != "" || scope.wanted[id] > 0 {
			continue
		}
		if err, known := snap.Covered(id.Kind, ""); err != nil || !known {
			continue
		}
		if clusters := scope.tagged(have.ClusterTags); len(clusters) > 0 {
			out = append(out, scope.orphan(clusters, have, snap))
		}
	}
	Sort(out)
	return out
}

// Orphan reports a finding of [Orphans]: it belongs to a cluster, whose Cluster
// object stands for its owner, and to no infrastructure object.
func (f *Finding) Orphan() bool {
	return f.Want == nil && f.Have != nil && f.Owner.Kind == "Cluster" && strings.HasPrefix(f.Owner.APIVersion, "cluster.x-k8s.io/")
}

// Unseen is what may own resources of a scope and is not among its results:
// not selected, read under another identity, or not to be compared at all.
type Unseen struct {
	// Clusters that may be in the scope; only their names matter, by which
	// ownership tags could mean them.
	Clusters []ClusterRef
	// Objects that were not compared, by cluster, the first of each.
	Objects map[ClusterRef]providers.OwnerRef
	// Held says, by cluster, why its objects may be fewer than they should be:
	// it is paused, as while clusterctl moves it.
	Held map[ClusterRef]string
	// Unlisted, if not empty, says why there may be clusters of any name that
	// nobody knows of.
	Unlisted string
}

// named gives the unseen clusters that one of the tags names.
func (u Unseen) named(tags []string) []ClusterRef {
	var out []ClusterRef
	for _, c := range u.Clusters {
		if slices.Contains(tags, c.Name) {
			out = append(out, c)
		}
	}
	return out
}

// claims is what the owners of one scope want, together.
type claims struct {
	// wanted counts the owners that name a resource.
	wanted map[providers.ID]int
	// clusters by name: several where namespaces share a name.
	clusters map[string][]*providers.Owner
	// unnamed gives, by cluster and kind, an owner that names no id yet.
	unnamed map[ClusterRef]map[string]providers.OwnerRef
	unseen  Unseen
}

func newClaims(results []Result) *claims {
	c := &claims{
		wanted:   make(map[providers.ID]int, len(results)),
		clusters: map[string][]*providers.Owner{},
		unnamed:  map[ClusterRef]map[string]providers.OwnerRef{},
	}
	for i := range results {
		r := &results[i]
		for _, id := range r.Wanted {
			c.wanted[id]++
		}
		c.addCluster(r.Owner)
		c.addUnnamed(r)
	}
	return c
}

func (c *claims) addCluster(o *providers.Owner) {
	same := func(k *providers.Owner) bool { return clusterOf(k) == clusterOf(o) }
	if !slices.ContainsFunc(c.clusters[o.Cluster.Name], same) {
		c.clusters[o.Cluster.Name] = append(c.clusters[o.Cluster.Name], o)
	}
}

func (c *claims) addUnnamed(r *Result) {
	cluster := r.Cluster()
	for _, kind := range r.Unnamed {
		kinds := c.unnamed[cluster]
		if kinds == nil {
			kinds = map[string]providers.OwnerRef{}
			c.unnamed[cluster] = kinds
		}
		if first, ok := kinds[kind]; !ok || r.Owner.Ref.String() < first.String() {
			kinds[kind] = r.Owner.Ref
		}
	}
}

// tagged gives the known clusters that tags name, in order of namespace and
// name.
func (c *claims) tagged(names []string) []*providers.Owner {
	var out []*providers.Owner
	for i, name := range names {
		if !slices.Contains(names[:i], name) {
			out = append(out, c.clusters[name]...)
		}
	}
	slices.SortFunc(out, func(a, b *providers.Owner) int {
		return strings.Compare(clusterOf(a).String(), clusterOf(b).String())
	})
	return out
}

// orphan makes the finding. Its owner is the Cluster object: no infrastructure
// object wants the resource.
func (c *claims) orphan(clusters []*providers.Owner, have *providers.Resource, snap *providers.Snapshot) Finding {
	owner := &providers.Owner{Cluster: clusters[0].Cluster, Ref: clusterObject(clusters[0])}
	f := newFinding(owner, snap, nil, have)
	f.Status, f.Reason = c.judge(clusters, have)
	if f.Status == Unexpected {
		f.Diffs = []Diff{{Path: statePath, Have: stateOf(have), Type: Added}}
	}
	f.Fingerprint = Fingerprint(&f)
	return f
}

func (c *claims) judge(clusters []*providers.Owner, have *providers.Resource) (Status, string) {
	cluster := clusterOf(clusters[0])
	if have.ForeignTo != "" {
		return Foreign, "belongs to " + oneLine(have.ForeignTo)
	}
	if names := c.namesakes(clusters, have); len(names) > 1 {
		return Unknown, "its ownership tags fit several clusters: " + strings.Join(names, ", ")
	}
	if c.unseen.Unlisted != "" {
		return Unknown, "its ownership tag may mean another cluster of that name: " + oneLine(c.unseen.Unlisted)
	}
	if have.Unknown != "" {
		return Unknown, oneLine(have.Unknown)
	}
	if why := c.unseen.Held[cluster]; why != "" {
		return Unknown, "belongs to no object, and " + oneLine(why)
	}
	if object, ok := c.unseen.Objects[cluster]; ok {
		return Unknown, fmt.Sprintf("belongs to no object that was compared, and %s was not", object)
	}
	for _, kind := range []string{have.ID.Kind, AnyKind} {
		if owner, ok := c.unnamed[cluster][kind]; ok {
			return Unknown, fmt.Sprintf("belongs to no object yet, and may be what %s waits for", owner)
		}
	}
	return Unexpected, fmt.Sprintf("carries the ownership tag of cluster %s and belongs to no object", cluster)
}

// namesakes gives every cluster that a resource's tags fit, in order.
func (c *claims) namesakes(clusters []*providers.Owner, have *providers.Resource) []string {
	var names []string
	for _, o := range clusters {
		names = append(names, clusterOf(o).String())
	}
	for _, other := range c.unseen.named(have.ClusterTags) {
		names = append(names, other.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func clusterObject(o *providers.Owner) providers.OwnerRef {
	ref := providers.RefOf(o.Cluster)
	if ref.Kind == "" { // typed objects lose their type meta when they are read
		ref.Kind, ref.APIVersion = "Cluster", "cluster.x-k8s.io/v1beta2"
	}
	return ref
}

func stateOf(have *providers.Resource) providers.Value {
	if state, ok := have.Fields.Lookup(statePath); ok && !state.Value.IsAbsent() {
		return state.Value
	}
	return providers.String("present")
}
