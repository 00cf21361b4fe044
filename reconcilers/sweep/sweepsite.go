package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

func (d *Daemon) sweeper(set *policies.Set) *Sweeper {
	return &Sweeper{Providers: d.Providers, Policies: set, Now: d.Clock.Now, CreationGrace: d.CreationGrace}
}

// sweep reads a whole site: the objects of its clusters, live, then the cloud,
// once for all of them. Whoever calls has the turn. An error means that nothing
// came of it, and the last verdict stays.
func (d *Daemon) sweep(ctx context.Context, s *site, why string) (*delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	d.mu.Lock()
	refs := slices.SortedFunc(maps.Keys(s.members), compareRefs)
	d.mu.Unlock()
	if len(refs) == 0 {
		return nil, nil
	}
	inv, err := d.load(ctx, refs, false)
	if err != nil {
		return nil, fmt.Errorf("list the objects of %d clusters: %w", len(refs), err)
	}
	set := d.Policies()
	sw := d.sweeper(set)
	units := sw.locate(ctx, inv)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	mine := d.settle(s, refs, units)
	if !s.located() {
		return d.sweepUnlocated(ctx, s, inv, mine, why)
	}
	readings := readingsOf(mine)
	if len(readings) == 0 {
		return nil, nil // everything of it lives elsewhere now
	}
	r := readings[0]
	s.snap = nil // two snapshots of ten thousand machines are too much memory
	r.Snapshot, r.err = sw.Providers[r.Scope.Provider].Observe(ctx, r.Scope)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	j := &judgement{daemon: d, site: s, inv: inv, set: set, units: mine, readings: readings, whole: true, cause: why}
	if r.err != nil {
		err := fmt.Errorf("read %s: %w", r.Scope, r.err)
		if d.stale(s, refs) {
			j.cause = CauseStale
			return d.tell(j.decide(ctx)), err
		}
		return nil, err
	}
	r.unseen = d.unseen(inv, units, r)
	sw.compare(ctx, []*Reading{r})
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s.snap = confirmed(r)
	fresh := newIndexOf(r.results, s.snap)
	out := j.decide(ctx)
	d.swept(s, r, inv, fresh)
	return d.tell(out), nil
}

// sweepUnlocated is about owners that have no scope. What their identities lack
// is said at once; a cloud that does not answer is a failure like any other.
func (d *Daemon) sweepUnlocated(ctx context.Context, s *site, inv *inventory.Inventory, mine []*unit, why string) (*delivery, error) {
	var transient error
	for _, u := range mine {
		for _, err := range u.errs {
			var at *providers.ScopeError
			if !errors.As(err, &at) || at.Reason == providers.ReasonUnreachable {
				transient = err
			}
		}
	}
	d.mu.Lock()
	refs := slices.SortedFunc(maps.Keys(s.members), compareRefs)
	now := d.Clock.Now()
	for _, ref := range refs {
		if m := s.members[ref]; m != nil && transient == nil {
			m.read = now
			d.plan(d.clusters[ref], m)
		}
	}
	d.mu.Unlock()
	if len(refs) == 0 {
		return nil, nil // each of its owners has a scope
	}
	j := &judgement{daemon: d, site: s, inv: inv, set: d.Policies(), units: mine, whole: true, cause: why}
	if transient != nil {
		if d.stale(s, refs) {
			j.cause = CauseStale
			return d.tell(j.decide(ctx)), transient
		}
		return nil, transient
	}
	d.mu.Lock()
	s.status.partial, s.status.aside = "", ""
	for _, u := range mine {
		s.status.partial = providers.Redact(oneLine(u.errs[0].Error()))
	}
	d.mu.Unlock()
	return d.tell(j.decide(ctx)), nil
}

// settle takes over where the owners of some clusters live, of which these are
// the units, and gives those of the site. A cluster that has joined the site
// meanwhile is not among them, and stays.
func (d *Daemon) settle(s *site, refs []detector.ClusterRef, units []*unit) []*unit {
	d.mu.Lock()
	defer d.mu.Unlock()
	var mine []*unit
	here := map[detector.ClusterRef]bool{}
	for _, u := range units {
		ref := refOf(u.cluster)
		if d.clusters[ref] == nil {
			continue // gone meanwhile
		}
		switch {
		case u.errs == nil:
			d.join(siteKey{scope: u.scope}, ref)
		case s.located():
			d.join(siteKey{cluster: ref}, ref)
		}
		if s.located() && u.errs == nil && u.scope == s.key.scope || !s.located() && u.errs != nil {
			mine = append(mine, u)
			here[ref] = true
		}
	}
	for _, ref := range refs {
		if !here[ref] && s.members[ref] != nil {
			d.depart(s, ref)
		}
	}
	return mine
}

// depart has a cluster go that no unit of the site is of, if it has where to.
func (d *Daemon) depart(s *site, ref detector.ClusterRef) {
	elsewhere := d.livesSomewhere(s, ref)
	switch {
	case s.located():
		d.leave(s, ref)
		if d.clusters[ref] != nil && !elsewhere {
			// It has no owners for now. Of no place it would never be read again.
			d.join(siteKey{cluster: ref}, ref)
		}
	case elsewhere:
		d.leave(s, ref) // found; it is read there
		d.clusters[ref].located = true
	}
}

// livesSomewhere reports whether a cluster is a member of any scope.
func (d *Daemon) livesSomewhere(but *site, ref detector.ClusterRef) bool {
	for _, s := range d.sites {
		if s != but && s.members[ref] != nil {
			return true
		}
	}
	return false
}

// unseen leaves out of what may own resources of a scope those clusters that
// are known to live elsewhere.
func (d *Daemon) unseen(inv *inventory.Inventory, units []*unit, r *Reading) detector.Unseen {
	out := unseen(inv, units, r)
	d.mu.Lock()
	defer d.mu.Unlock()
	out.Clusters = slices.DeleteFunc(out.Clusters, func(ref detector.ClusterRef) bool {
		known := false
		for _, s := range d.sites {
			if s.members[ref] == nil {
				continue
			}
			if !s.located() || s.key.scope.Provider == r.Scope.Provider && s.key.scope.Account == r.Scope.Account && s.key.scope.Region == r.Scope.Region {
				return false
			}
			known = true
		}
		return known
	})
	return out
}

// confirmed is a snapshot with what was found alive when it was read again.
func confirmed(r *Reading) *providers.Snapshot {
	if r.Confirmation == nil || len(r.Confirmation.Resources) == 0 {
		return r.Snapshot
	}
	out := *r.Snapshot
	out.Resources = maps.Clone(out.Resources)
	maps.Copy(out.Resources, r.Confirmation.Resources)
	return &out
}

// stale reports whether the owners of a site have not been read for longer than
// a policy lets a read count as fresh, and that was not said yet.
func (d *Daemon) stale(s *site, refs []detector.ClusterRef) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.staleTold {
		return false
	}
	now := d.Clock.Now()
	for _, ref := range refs {
		if m, c := s.members[ref], d.clusters[ref]; m != nil && c != nil && isStale(c, m, now) {
			s.staleTold = true
			return true
		}
	}
	return false
}

func isStale(c *cluster, m *member, now time.Time) bool {
	since := m.read
	if since.IsZero() {
		since = c.since
	}
	return now.Sub(since) > c.effective.Schedule.StaleAfter.Duration
}

// swept takes down a sweep that came to something.
func (d *Daemon) swept(s *site, r *Reading, inv *inventory.Inventory, fresh *index) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.index, s.staleTold = fresh, false
	s.status.snapshotAt = r.Snapshot.TakenAt
	var missing, aside []string
	for part, err := range r.Snapshot.Coverage {
		if err == nil {
			continue
		}
		text := part + ": " + providers.Redact(oneLine(err.Error()))
		if _, alone := providers.PartOfCluster(part); alone {
			aside = append(aside, text)
		} else {
			missing = append(missing, text)
		}
	}
	slices.Sort(missing)
	slices.Sort(aside)
	s.status.partial, s.status.aside = strings.Join(missing, "; "), strings.Join(aside, "; ")
	for _, c := range inv.Clusters {
		m := s.members[refOf(c)]
		if m == nil {
			continue
		}
		m.read = r.Snapshot.TakenAt
		d.plan(d.clusters[refOf(c)], m)
	}
}
