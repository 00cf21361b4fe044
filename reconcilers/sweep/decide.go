package sweep

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// decide gathers the findings and facts of all readings and hands them to the
// policies.
func (s *Sweeper) decide(inv *inventory.Inventory, units []*unit, readings []*Reading) *Result {
	in := input(inv, s.Now(), s.Policies)
	if in.History = s.History; in.History == nil {
		in.History = map[string]policies.History{}
	}
	for _, c := range inv.Clusters {
		in.Findings = append(in.Findings, uncompared(c)...)
	}
	results := resultsOf(units, readings)
	in.Findings = append(in.Findings, findingsOf(units, readings, results)...)
	out := assemble(units, readings, results)
	out.withoutOwners(inv)
	out.Decisions = policies.Decide(in)
	return out
}

// input has the facts that the objects show, with no finding and no history.
func input(inv *inventory.Inventory, now time.Time, set *policies.Set) policies.Input {
	in := policies.Input{
		Now:      now,
		Policies: set,
		Clusters: map[detector.ClusterRef]policies.ClusterFacts{},
		Owners:   map[providers.OwnerRef]policies.OwnerFacts{},
		InFlight: []policies.InFlight{},
	}
	for _, c := range inv.Clusters {
		facts, lags := map[*inventory.Owner]policies.OwnerFacts{}, lagging(c)
		for _, o := range c.Owners {
			facts[o] = ownerFacts(c, o, lags)
		}
		for _, o := range c.Owners {
			f := facts[o]
			f.Spare = spare(c, o, facts)
			in.Owners[o.Ref] = f
		}
		in.Clusters[refOf(c)] = clusterFacts(c, facts)
		in.InFlight = append(in.InFlight, inFlight(refOf(c), c)...)
	}
	return in
}

// findingsOf gives what comparing came to: of owners, and orphans.
func findingsOf(units []*unit, readings []*Reading, results map[*inventory.Owner]detector.Result) []detector.Finding {
	var out []detector.Finding
	for _, r := range readings {
		out = append(out, r.orphans...)
	}
	for _, u := range units {
		for _, o := range u.owners {
			out = append(out, results[o].Findings...)
		}
	}
	return out
}

// assemble makes the result but for its decisions.
func assemble(units []*unit, readings []*Reading, results map[*inventory.Owner]detector.Result) *Result {
	out := &Result{}
	for _, r := range readings {
		out.Readings = append(out.Readings, *r)
	}
	for _, u := range units {
		cluster := ClusterResult{Ref: refOf(u.cluster), Provider: u.provider, Scope: u.scope, Unusable: u.unusable()}
		for _, o := range u.owners {
			r := results[o]
			cluster.Checked += r.Checked
			cluster.NotChecked += r.NotChecked
			cluster.Owners = append(cluster.Owners, OwnerResult{Ref: o.Ref, Pool: o.Pool, Source: o.Source, InSync: r.InSync})
		}
		out.Clusters = append(out.Clusters, cluster)
	}
	out.takenAt(readings)
	return out
}

// unusable is why the owners have no scope, where a provider says so.
func (u *unit) unusable() string {
	for _, err := range u.errs {
		var at *providers.ScopeError
		if errors.As(err, &at) {
			return at.Reason
		}
	}
	return ""
}

// resultsOf finds each owner's result, making one for those whose cloud could
// not be read.
func resultsOf(units []*unit, readings []*Reading) map[*inventory.Owner]detector.Result {
	out := map[*inventory.Owner]detector.Result{}
	for _, r := range readings {
		for i, o := range r.owners {
			out[o] = r.results[i]
		}
		if r.err == nil {
			continue
		}
		for _, u := range r.units {
			for _, o := range u.owners {
				out[o] = unread(o, r.Scope, fmt.Errorf("%s could not be read: %w", r.Scope, r.err))
			}
		}
	}
	for _, u := range units {
		if u.errs == nil {
			continue
		}
		for i, o := range u.owners {
			out[o] = unread(o, u.scope, u.errs[i])
		}
	}
	return out
}

func (r *Result) takenAt(readings []*Reading) {
	for i := range r.Clusters {
		for _, reading := range readings {
			if reading.Snapshot != nil && reading.Scope == r.Clusters[i].Scope {
				r.Clusters[i].TakenAt = reading.Snapshot.TakenAt
			}
		}
	}
}

// withoutOwners lists clusters of which no owner is compared, so that they do
// not vanish from the report.
func (r *Result) withoutOwners(inv *inventory.Inventory) {
	for _, c := range inv.Clusters {
		ref := refOf(c)
		i := slices.IndexFunc(r.Clusters, func(x ClusterResult) bool { return x.Ref == ref })
		if i < 0 {
			r.Clusters = append(r.Clusters, ClusterResult{Ref: ref})
			i = len(r.Clusters) - 1
		}
		r.Clusters[i].NotChecked += len(c.Uncompared)
	}
}

// unread is the result of an owner whose cloud could not be read.
func unread(o *inventory.Owner, scope providers.Scope, err error) detector.Result {
	reason := err.Error()
	var at *providers.ScopeError
	if errors.As(err, &at) {
		reason = at.Reason + ": " + reason
	}
	scope.Provider = o.Provider
	return detector.Unread(&o.Owner, scope, detector.NotChecked, reason)
}

// uncompared names what belongs to a cluster and is not compared.
func uncompared(c *inventory.Cluster) []detector.Finding {
	out := make([]detector.Finding, 0, len(c.Uncompared))
	for _, u := range c.Uncompared {
		out = append(out, notChecked(detector.Finding{
			Cluster:  refOf(c),
			Owner:    u.Ref,
			Resource: detector.ResourceRef{Provider: u.Provider, Kind: u.Ref.Kind, Name: u.Ref.Name},
			Reason:   u.Reason,
		}))
	}
	return out
}

func notChecked(f detector.Finding) detector.Finding {
	f.Status = detector.NotChecked
	f.Fingerprint = detector.Fingerprint(&f)
	return f
}
