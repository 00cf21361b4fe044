package sweep

import (
	"maps"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
)

// Reading is one scope as it was seen, and what comparing with it came to.
type Reading struct {
	Scope    providers.Scope
	Snapshot *providers.Snapshot
	// Confirmation is what reading absences again gave; nil if there were
	// none, or it failed.
	Confirmation *providers.Confirmation

	err     error
	units   []*unit
	owners  []*inventory.Owner
	results []detector.Result
	unseen  detector.Unseen
	orphans []detector.Finding
}

// Settled is the snapshot as it stood after confirmation, nil if nothing was
// read: with what was found alive then, and the ids of what was not.
func (r *Reading) Settled() *providers.Snapshot {
	if r.Snapshot == nil {
		return nil
	}
	out := *r.Snapshot
	out.Resources = maps.Clone(out.Resources)
	out.Serves = nil
	for _, u := range r.units {
		out.Serves = append(out.Serves, u.served()...)
	}
	if r.Confirmation != nil {
		maps.Copy(out.Resources, r.Confirmation.Resources)
	}
	for i := range r.results {
		for _, f := range r.results[i].Findings {
			if f.Status == detector.Missing && f.Have == nil {
				out.ConfirmedAbsent = append(out.ConfirmedAbsent, f.Want.ID)
			}
		}
	}
	return &out
}

// served names the unit in a saved snapshot: its cluster, or owner by owner
// where the cluster lives in several scopes.
func (u *unit) served() []string {
	if len(u.owners) == len(u.cluster.Owners) {
		return []string{refOf(u.cluster).String()}
	}
	out := make([]string, len(u.owners))
	for i, o := range u.owners {
		out[i] = o.Ref.String()
	}
	return out
}

func refOf(c *inventory.Cluster) detector.ClusterRef {
	return detector.ClusterRef{Namespace: c.Object.Namespace, Name: c.Object.Name}
}
