package sweep

import (
	"slices"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
)

// unseen gathers what may own resources of a reading's scope and has no owner
// in it, so that nothing is called an orphan on the strength of a tag alone.
func unseen(inv *inventory.Inventory, units []*unit, r *Reading) detector.Unseen {
	out := detector.Unseen{Objects: map[detector.ClusterRef]providers.OwnerRef{}, Held: map[detector.ClusterRef]string{}, Unlisted: inv.Unlisted}
	provider := r.Scope.Provider
	for _, c := range inv.Elsewhere {
		if c.Provider == "" || c.Provider == provider {
			out.Clusters = append(out.Clusters, detector.ClusterRef{Namespace: c.Key.Namespace, Name: c.Key.Name})
		}
	}
	for _, u := range units {
		if u.provider == provider && !slices.Contains(r.units, u) && !u.elsewhere(r.Scope) {
			out.Clusters = append(out.Clusters, refOf(u.cluster))
		}
	}
	for _, u := range r.units {
		u.unseen(&out, provider)
	}
	if at := slices.IndexFunc(inv.Problems, func(p inventory.Problem) bool { return p.Reason == inventory.Unreadable }); at >= 0 && out.Unlisted == "" {
		out.Unlisted = inv.Problems[at].Object + " could not be read"
	}
	return out
}

// unseen adds what hides owners of the unit's cluster.
func (u *unit) unseen(out *detector.Unseen, provider string) {
	ref := refOf(u.cluster)
	if c := u.cluster.Object; c.Spec.Paused != nil && *c.Spec.Paused {
		// C63: clusterctl move pauses a Cluster first, and then its objects go
		// one after the other, or come.
		out.Held[ref] = "Cluster " + ref.String() + " is paused, as it is while its objects are moved"
	}
	for _, o := range u.cluster.Uncompared {
		if _, ok := out.Objects[ref]; !ok && (o.Provider == "" || o.Provider == provider) {
			out.Objects[ref] = o.Ref
		}
	}
}

// elsewhere reports that the unit is certainly in another place than the
// scope: another identity may see the same place.
func (u *unit) elsewhere(s providers.Scope) bool {
	return u.errs == nil && (u.scope.Account != s.Account || u.scope.Region != s.Region)
}
