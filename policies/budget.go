package policies

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

func minHealthyGate(r *run, c *candidate) (Block, bool) {
	f := &c.Finding
	if !c.disruptive || f.Pool == "" || c.cluster == nil || c.owner == nil {
		return open, false
	}
	pool, known := c.cluster.Pools[f.Pool]
	if !known || pool.Desired <= 0 {
		return blocked("it is not known how many machines of %s are ready", f.Pool)
	}
	ready := pool.Ready - r.leaving(c)
	if !c.owner.Ready.False() {
		ready--
	}
	others := pool.Desired - 1
	for _, m := range c.effective.safety.minHealthy {
		if need := m.of(others); ready < need {
			return blocked("%d of the %d other machines of %s are ready, fewer than %s (%d), by the policy at %s",
				max(ready, 0), others, f.Pool, m.String(), need, m.Position)
		}
	}
	return open, false
}

// leaving counts the other ready machines of the candidate's pool that this
// run has chosen to disrupt: the facts still count them as ready.
func (r *run) leaving(c *candidate) int {
	f := &c.Finding
	owners := map[providers.OwnerRef]bool{}
	for _, t := range r.taken {
		if t.disruptive && t.ready && t.Cluster == f.Cluster && t.Pool == f.Pool && !sameOwner(t.Owner, f.Owner) &&
			(c.Mode != ModeEnforce || t.mode == ModeEnforce) {
			owners[t.Owner] = true
		}
	}
	return len(owners)
}

// of gives the minimum among n others; a percentage is rounded up, and a
// number never asks for more than there are.
func (m *minimum) of(n int) int {
	if m.Type == intstr.Int {
		return min(int(m.IntVal), n)
	}
	p, err := parsePercent(m.StrVal)
	if err != nil {
		return n
	}
	return (n*p + 99) / 100
}

func haltedGate(r *run, c *candidate) (Block, bool) {
	if c.Action != Replace {
		return open, false
	}
	for _, other := range r.InFlight {
		if other.Failed != "" && other.Action == Replace && other.Cluster == c.Finding.Cluster && other.Pool == c.Finding.Pool {
			return blocked("the replacement of %s failed: %s", other.Owner.Name, other.Failed)
		}
	}
	return open, false
}

func budgetGate(r *run, c *candidate) (Block, bool) {
	if r.InFlight == nil {
		return blocked("it is not known what is in flight")
	}
	flights := r.inFlightFor(c)
	for _, other := range flights {
		if sameOwner(other.Owner, c.Finding.Owner) && other.Failed == "" && (other.mode == "" || other.Action != c.Action) {
			return blocked("%s of this object is in flight, begun by %s", other.Action, other.By)
		}
	}
	for _, b := range c.effective.budgets {
		if !b.actions.has(c.Action) || !b.applies(c) {
			continue
		}
		total, known := r.size(b.Scope, c)
		if b.Max.Type == intstr.String && !known {
			return blocked("it is not known how many machines %s has, of which %s are allowed", b.describe(c), b.Max.StrVal)
		}
		used := b.used(flights, c)
		if allowed := allowance(b.Max, total); used >= allowed {
			return blocked("%d in flight in %s, at most %d by the budget at %s", used, b.describe(c), allowed, b.Position)
		}
	}
	return open, false
}

// allowance is a budget's number: a percentage is rounded down, but one above
// 0% allows at least one, since a budget that can never be used helps nobody.
func allowance(limit intstr.IntOrString, total int) int {
	if limit.Type == intstr.Int {
		return int(limit.IntVal)
	}
	p, err := parsePercent(limit.StrVal)
	if err != nil || p == 0 || total <= 0 {
		return 0
	}
	return max(total*p/100, 1)
}

// ClusterBudget is how many owners of the cluster may be in flight at once for an
// action, by those of its budgets that count in the cluster as a whole, if it has
// so many machines. Without such a budget bounded is false.
func (e *Effective) ClusterBudget(action Action, machines int) (n int, bounded bool) {
	for _, b := range e.budgets {
		if b.Scope != v1alpha1.ScopeCluster || !b.actions.has(action) {
			continue
		}
		if allowed := allowance(b.Max, machines); !bounded || allowed < n {
			n, bounded = allowed, true
		}
	}
	return n, bounded
}

// applies reports whether the candidate is in a scope of the budget's kind: a
// cluster's own resources are in no pool and in no zone.
func (b *budget) applies(c *candidate) bool {
	switch b.Scope {
	case v1alpha1.ScopePool:
		return c.Finding.Pool != ""
	case v1alpha1.ScopeZone:
		return c.Finding.Zone != ""
	default:
		return true
	}
}

func (b *budget) describe(c *candidate) string {
	switch b.Scope {
	case v1alpha1.ScopePool:
		return c.Finding.Pool
	case v1alpha1.ScopeZone:
		return "zone " + c.Finding.Zone
	case v1alpha1.ScopeCluster:
		return fmt.Sprintf("cluster %s", c.Finding.Cluster)
	default:
		return "all clusters"
	}
}

// used counts the other owners in flight in the candidate's scope. One whose
// replacement failed holds no slot: it halts its pool instead.
func (b *budget) used(flights []reservation, c *candidate) int {
	f := &c.Finding
	var owners []providers.OwnerRef
	for _, o := range flights {
		in := o.Failed == "" && b.actions.has(o.Action) && !sameOwner(o.Owner, f.Owner)
		if in && b.shared(&o.InFlight, f) && !slices.ContainsFunc(owners, func(x providers.OwnerRef) bool { return sameOwner(x, o.Owner) }) {
			owners = append(owners, o.Owner)
		}
	}
	return len(owners)
}

// shared reports whether what is in flight may be where the finding is.
func (b *budget) shared(o *InFlight, f *detector.Finding) bool {
	switch b.Scope {
	case v1alpha1.ScopePool:
		return o.Cluster == f.Cluster && (o.Anywhere || o.Pool == f.Pool)
	case v1alpha1.ScopeZone:
		return o.Cluster == f.Cluster && (o.Anywhere || o.Zone == f.Zone)
	case v1alpha1.ScopeCluster:
		return o.Cluster == f.Cluster
	default:
		return true
	}
}

// size gives the number of machines in the candidate's scope.
func (r *run) size(scope v1alpha1.BudgetScope, c *candidate) (n int, known bool) {
	if scope == v1alpha1.ScopeAll {
		for _, facts := range r.Clusters {
			if facts.Machines <= 0 {
				return 0, false
			}
			n += facts.Machines
		}
		return n, n > 0
	}
	if c.cluster == nil {
		return 0, false
	}
	switch scope {
	case v1alpha1.ScopePool:
		n = c.cluster.Pools[c.Finding.Pool].Desired
	case v1alpha1.ScopeZone:
		n = c.cluster.Zones[c.Finding.Zone].Machines
	default:
		n = c.cluster.Machines
	}
	return n, n > 0
}

// reopens is when fewer than limit attempts lie within the period again.
func reopens(attempts []time.Time, limit int, per time.Duration) time.Time {
	sorted := slices.SortedFunc(slices.Values(attempts), time.Time.Compare)
	return sorted[len(sorted)-limit].Add(per)
}

// inFlightFor gives what is in flight for a candidate: what has begun already
// and what this run has chosen. A decision that is executed does not wait for
// one that is only shown.
func (r *run) inFlightFor(c *candidate) []reservation {
	out := make([]reservation, 0, len(r.InFlight)+len(r.taken))
	for _, f := range r.InFlight {
		out = append(out, reservation{InFlight: f, disruptive: f.Action != Patch || f.Disruptive})
	}
	for _, t := range r.taken {
		if c.Mode != ModeEnforce || t.mode == ModeEnforce {
			out = append(out, t)
		}
	}
	return out
}

func (r *run) reserve(c *candidate) {
	f := &c.Finding
	r.taken = append(r.taken, reservation{mode: c.Mode, disruptive: c.disruptive,
		// Not known to be unready counts as ready: it is about to be lost.
		ready: c.owner == nil || !c.owner.Ready.False(),
		InFlight: InFlight{Cluster: f.Cluster, Owner: f.Owner, Pool: f.Pool, Zone: f.Zone,
			ControlPlane: f.ControlPlane, Action: c.Action, By: "this decision"}})
}

func sameOwner(a, b providers.OwnerRef) bool {
	if a.UID != "" && b.UID != "" {
		return a.UID == b.UID
	}
	return a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name
}
