package sweep

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Sweeper runs sweeps. It is safe for concurrent use.
type Sweeper struct {
	// Providers by name.
	Providers map[string]providers.Provider
	// Policies decide; nil means the built-in ones.
	Policies *policies.Set
	// Now is the clock.
	Now func() time.Time
	// CreationGrace is passed on to the detector; zero is its default.
	CreationGrace time.Duration
	// History of earlier findings by [policies.HistoryKey]; it may be nil.
	History map[string]policies.History
	// Progress, if not nil, is told in a few words what is being done.
	Progress func(string)
}

// Result is what one sweep came to, in a stable order.
type Result struct {
	Clusters  []ClusterResult
	Decisions []policies.Decision
	// Readings are what was seen, one for each scope.
	Readings []Reading
}

// ClusterResult is one cluster that was looked at, by one provider.
type ClusterResult struct {
	Ref      detector.ClusterRef
	Provider string
	// Scope and TakenAt are zero where nothing could be read.
	Scope               providers.Scope
	TakenAt             time.Time
	Checked, NotChecked int
	Owners              []OwnerResult
	// Unusable is the reason of the [providers.ScopeError] for which there is
	// no scope; empty where there is one, or another reason.
	Unusable string
}

// OwnerResult is one owner that was looked at.
type OwnerResult struct {
	Ref    providers.OwnerRef
	Pool   string
	Source string
	InSync []detector.ResourceRef
}

// unit is those of one cluster's owners that share a scope, or those that have
// none.
type unit struct {
	cluster  *inventory.Cluster
	provider string
	owners   []*inventory.Owner
	scope    providers.Scope
	// errs say, owner by owner, why there is no scope; nil where there is.
	errs []error
}

// Run compares and decides. It writes nothing anywhere. What cannot be read
// is in the result as NotChecked or Unknown; the error is for a cancelled
// context alone.
func (s *Sweeper) Run(ctx context.Context, inv *inventory.Inventory) (*Result, error) {
	units := s.locate(ctx, inv)
	readings := s.observe(ctx, units)
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return nil, err
	}
	for _, r := range readings {
		r.unseen = unseen(inv, units, r)
	}
	s.compare(ctx, readings)
	return s.decide(inv, units, readings), nil
}

func (s *Sweeper) say(format string, args ...any) {
	if s.Progress != nil {
		s.Progress(fmt.Sprintf(format, args...))
	}
}

// scopeConcurrency bounds how many identities are tried at once.
const scopeConcurrency = 8

// locate asks for each owner's scope, and makes the units. The machines of one
// cluster may live in several: deployment zones name vCenters of their own. The
// infrastructure cluster is asked first, and where it has no scope its machines
// have none, so that a dead endpoint is not tried once for each.
func (s *Sweeper) locate(ctx context.Context, inv *inventory.Inventory) []*unit {
	s.say("Checking identities of %d clusters", len(inv.Clusters))
	found := make([][]*unit, len(inv.Clusters))
	var g errgroup.Group
	g.SetLimit(scopeConcurrency)
	for i, c := range inv.Clusters {
		g.Go(func() error {
			found[i] = s.locateCluster(ctx, c, nil)
			return nil
		})
	}
	_ = g.Wait()
	return slices.Concat(found...)
}

// locateCluster makes the units of a cluster, or where only is not nil, of those
// of its owners alone.
func (s *Sweeper) locateCluster(ctx context.Context, c *inventory.Cluster, only map[providers.OwnerRef]bool) []*unit {
	first := map[string]place{} // what the infrastructure cluster was told
	for _, o := range c.Owners {
		if o.Machine == nil {
			first[o.Provider] = s.place(ctx, o)
		}
	}
	var out []*unit
	byScope := map[place]*unit{}
	for _, o := range c.Owners {
		if only != nil && !only[o.Ref] {
			continue
		}
		at, asked := first[o.Provider]
		if o.Machine != nil && at.err == nil || !asked {
			at = s.place(ctx, o)
		}
		key := place{provider: o.Provider, scope: at.scope}
		u := byScope[key]
		if u == nil {
			u = &unit{cluster: c, provider: o.Provider, scope: at.scope}
			byScope[key] = u
			out = append(out, u)
		}
		u.owners = append(u.owners, o)
		if at.err != nil {
			u.errs = append(u.errs, at.err)
		}
	}
	return out
}

// place is the answer to where an owner's resources live.
type place struct {
	provider string
	scope    providers.Scope
	err      error
}

func (s *Sweeper) place(ctx context.Context, o *inventory.Owner) place {
	p := s.Providers[o.Provider]
	if p == nil {
		return place{err: fmt.Errorf("provider %s is not part of this program", o.Provider)}
	}
	scope, err := p.Scope(ctx, &o.Owner)
	if err != nil {
		return place{err: err}
	}
	return place{scope: scope}
}

// observe reads each scope once, for all clusters in it.
func (s *Sweeper) observe(ctx context.Context, units []*unit) []*Reading {
	readings := readingsOf(units)
	var g errgroup.Group
	g.SetLimit(scopeConcurrency)
	for _, r := range readings {
		g.Go(func() error {
			s.say("Reading %s", r.Scope)
			r.Snapshot, r.err = s.Providers[r.Scope.Provider].Observe(ctx, r.Scope)
			return nil
		})
	}
	_ = g.Wait()
	return readings
}

// readingsOf makes a reading of each scope among the units, in order.
func readingsOf(units []*unit) []*Reading {
	byScope := map[providers.Scope]*Reading{}
	var readings []*Reading
	for _, u := range units {
		if u.errs != nil {
			continue
		}
		r := byScope[u.scope]
		if r == nil {
			r = &Reading{Scope: u.scope}
			byScope[u.scope] = r
			readings = append(readings, r)
		}
		r.units = append(r.units, u)
	}
	slices.SortFunc(readings, func(a, b *Reading) int { return strings.Compare(scopeKey(a.Scope), scopeKey(b.Scope)) })
	return readings
}

func scopeKey(s providers.Scope) string { return s.String() + "\x00" + s.Identity }

// compare runs desired state and detector over each reading, sets apart what
// is claimed twice, and confirms what seems to be gone.
func (s *Sweeper) compare(ctx context.Context, readings []*Reading) {
	opt := detector.Options{Now: s.Now(), CreationGrace: s.CreationGrace}
	each := func(do func(*Reading)) {
		var g errgroup.Group
		g.SetLimit(scopeConcurrency)
		for _, r := range readings {
			if r.err == nil {
				g.Go(func() error { do(r); return nil })
			}
		}
		_ = g.Wait()
	}
	each(func(r *Reading) {
		s.say("Comparing %s", r.Scope)
		for _, u := range r.units {
			r.owners = append(r.owners, u.owners...)
		}
		r.results = s.compareOwners(r.owners, r.Snapshot, r.moved(), opt)
	})
	s.claims(readings, opt)
	each(func(r *Reading) { s.settle(ctx, r, opt) })
}

// compareOwners compares each owner with a snapshot of its place.
func (s *Sweeper) compareOwners(owners []*inventory.Owner, snap *providers.Snapshot, moved map[*clusterv1.Cluster]string, opt detector.Options) []detector.Result {
	p := s.Providers[snap.Scope.Provider]
	results := make([]detector.Result, len(owners))
	inParallel(len(owners), func(i int) {
		results[i] = compareOwner(p, &owners[i].Owner, snap, moved, opt)
	})
	return results
}

// settle doubts what is too bad to be true, confirms the other absences, and
// looks for what nobody wants.
func (s *Sweeper) settle(ctx context.Context, r *Reading, opt detector.Options) {
	p := s.Providers[r.Scope.Provider]
	r.doubt(r.results)
	if ids := detector.Unconfirmed(r.results...); len(ids) > 0 {
		s.say("Confirming %d absences in %s", len(ids), r.Scope)
		confirmation := r.confirm(ctx, p, ids)
		for i := range r.results {
			r.results[i] = detector.Settle(r.results[i], r.Snapshot, confirmation, opt)
		}
	}
	r.orphans = detector.Orphans(r.results, r.Snapshot, r.unseen)
}

// compareOwner compares one owner with a snapshot.
func compareOwner(p providers.Provider, owner *providers.Owner, snap *providers.Snapshot, moved map[*clusterv1.Cluster]string, opt detector.Options) detector.Result {
	if why := moved[owner.Cluster]; why != "" {
		return detector.Unread(owner, snap.Scope, detector.NotChecked, why)
	}
	want, err := p.Desired(owner, snap)
	if err != nil {
		return detector.Unread(owner, snap.Scope, detector.Unknown, "its spec gives no desired state: "+err.Error())
	}
	return detector.Compare(owner, want, snap, opt)
}

// moved gives the clusters that clusterctl is taking away, with why: their
// objects go one after the other, and none of that is a loss (C63).
func (r *Reading) moved() map[*clusterv1.Cluster]string {
	out := map[*clusterv1.Cluster]string{}
	for _, u := range r.units {
		if object := leaving(u.cluster); object != "" {
			out[u.cluster.Object] = object + " is being moved to another management cluster"
		}
	}
	return out
}

// doubt disbelieves the loss of whole clusters. That all of one cluster's
// resources vanish is rarer than reading the wrong place or having lost the
// permission to see them.
// all are the results by which to tell: those of the reading, and what is known
// of other owners of its clusters.
func (r *Reading) doubt(all []detector.Result) {
	for _, v := range detector.AllAbsent(all) {
		if v.Resources == 1 && r.sees(v) {
			continue
		}
		reason := fmt.Sprintf("every resource of the cluster (%s) is absent from %s, which says more about the place that was read, or about what the identity may see, than about the cluster: check account, region, server and permissions",
			strings.Join(v.Kinds, ", "), r.Scope)
		if v.Kinds[0] == providers.KindNode {
			reason = "every Node of the cluster is absent from the API server that its kubeconfig Secret leads to, which says more about that server than about the cluster: check the Secret"
		}
		for i := range r.results {
			if r.results[i].Cluster() == v.Cluster {
				r.results[i] = detector.Doubt(r.results[i], reason, v.Kinds...)
			}
		}
	}
}

// sees reports that others of the kind that a cluster has lost its only one of
// were seen, so that the place is right and shows them. Nodes of other clusters
// are in other places.
func (r *Reading) sees(v detector.Vanished) bool {
	return slices.ContainsFunc(r.Snapshot.OfKind(v.Kinds[0]), func(have *providers.Resource) bool {
		return have.ID.Kind != providers.KindNode || strings.HasPrefix(have.ID.Name, v.Cluster.String()+"/")
	})
}

// confirm reads absences again. A failure leaves each of them unconfirmed.
func (r *Reading) confirm(ctx context.Context, p providers.Provider, ids []providers.ID) *providers.Confirmation {
	c, err := p.Confirm(ctx, r.Scope, ids)
	if err == nil {
		r.Confirmation = c
		return c
	}
	c = &providers.Confirmation{Unconfirmed: map[providers.ID]error{}}
	for _, id := range ids {
		c.Unconfirmed[id] = err
	}
	return c
}

// inParallel calls f for each index, on all processors.
func inParallel(n int, f func(int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				f(i)
			}
		})
	}
	wg.Wait()
}
