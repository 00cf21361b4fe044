package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// readTargets reads some owners of a site again: their clusters' objects, live,
// and by one Confirm call what they want. The rest of the picture is the last
// bulk read; one that is too old is taken anew first. Whoever calls has the
// turn. The error is [errElsewhere] where none of them lives here.
func (d *Daemon) readTargets(ctx context.Context, s *site, targets []target, cause string) (*Outcome, error) {
	if d.outdated(s, targets) {
		if _, err := d.sweepNow(ctx, s, cause); err != nil {
			return nil, err
		}
		if s.snap == nil {
			return nil, errElsewhere
		}
	}
	refs := map[detector.ClusterRef]bool{}
	for _, t := range targets {
		refs[t.cluster] = true
	}
	inv, err := d.load(ctx, slices.SortedFunc(maps.Keys(refs), compareRefs), true)
	if err != nil {
		return nil, fmt.Errorf("list the objects of %d clusters: %w", len(refs), err)
	}
	set := d.Policies()
	r := &targeted{daemon: d, sweeper: d.sweeper(set), site: s, inv: inv, asked: map[providers.OwnerRef]bool{}, ids: map[providers.ID]bool{}}
	if err := r.locate(ctx, targets); err != nil {
		return nil, err
	}
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	r.compare()
	s.snap = r.merged()
	j := &judgement{daemon: d, site: s, inv: inv, set: set, units: r.units, readings: r.readings(), cause: cause}
	out := j.decide(ctx)
	out.Owners = r.asked
	if cause == CauseVerify {
		out.Wanted, out.Seen = r.compared()
	}
	d.mu.Lock()
	for i := range r.reading.results {
		s.index.add(&r.reading.results[i])
	}
	s.status.retargeted = j.at
	d.mu.Unlock()
	return out, nil
}

// sweepNow sweeps a site in the course of something else.
func (d *Daemon) sweepNow(ctx context.Context, s *site, cause string) (*delivery, error) {
	d.mu.Lock()
	s.status.begun = d.Clock.Now()
	d.mu.Unlock()
	told, err := d.sweep(ctx, s, cause)
	d.afterSweep(ctx, s, cause, err)
	return told, err
}

// outdated reports whether the last bulk read is too old for some owner's
// policy.
func (d *Daemon) outdated(s *site, targets []target) bool {
	if s.snap == nil {
		return true
	}
	age := d.Clock.Since(s.snap.TakenAt)
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(targets, func(t target) bool {
		e := policies.Builtin().For(t.cluster, nil)
		if c := d.clusters[t.cluster]; c != nil {
			e = c.effective
		}
		return age > e.MaxSnapshotAge()
	})
}

// targeted is one targeted read under way.
type targeted struct {
	daemon  *Daemon
	sweeper *Sweeper
	site    *site
	inv     *inventory.Inventory
	units   []*unit
	// asked are the owners that the read is about, also those that are gone.
	asked map[providers.OwnerRef]bool
	// ids are read again: what the owners want, and what events named.
	ids          map[providers.ID]bool
	view         *providers.Snapshot
	confirmation *providers.Confirmation
	reading      *Reading
}

// find gives the targets' owners that are among the objects.
func (r *targeted) find(targets []target) map[detector.ClusterRef]map[providers.OwnerRef]bool {
	out := map[detector.ClusterRef]map[providers.OwnerRef]bool{}
	for _, t := range targets {
		asked := t.owner
		for _, c := range r.inv.Clusters {
			if refOf(c) != t.cluster {
				continue
			}
			if o := ownerIn(c, t.owner); o != nil {
				if out[t.cluster] == nil {
					out[t.cluster] = map[providers.OwnerRef]bool{}
				}
				out[t.cluster][o.Ref] = true
				asked = o.Ref // a record of an earlier release may spell its version otherwise
			}
		}
		r.asked[asked] = true
		maps.Copy(r.ids, t.ids)
	}
	return out
}

// locate finds the owners among the objects, and leaves out those that live in
// other places.
func (r *targeted) locate(ctx context.Context, targets []target) error {
	d := r.daemon
	byCluster := r.find(targets)
	var units []*unit
	var last error
	for _, c := range r.inv.Clusters {
		if only := byCluster[refOf(c)]; only != nil {
			units = append(units, r.sweeper.locateCluster(ctx, c, only)...)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, u := range units {
		if u.errs == nil && u.scope == r.site.key.scope {
			r.units = append(r.units, u)
			continue
		}
		d.mu.Lock()
		if d.clusters[refOf(u.cluster)] == nil {
			last = errGone
		} else if u.errs != nil {
			last = u.errs[0]
			d.join(siteKey{cluster: refOf(u.cluster)}, refOf(u.cluster))
		} else {
			last = errElsewhere
			other := d.join(siteKey{scope: u.scope}, refOf(u.cluster))
			for _, o := range u.owners {
				other.target(target{owner: o.Ref, cluster: refOf(u.cluster), cause: CauseOwnerChanged}, d.Clock.Now())
			}
		}
		for _, o := range u.owners {
			delete(r.asked, o.Ref)
			d.forgetOwners(refOf(u.cluster), o.Ref)
		}
		d.mu.Unlock()
	}
	if len(r.units) == 0 && last != nil {
		return last
	}
	return nil
}

// ownerIn finds an owner of a cluster. One with another UID is another object.
func ownerIn(c *inventory.Cluster, ref providers.OwnerRef) *inventory.Owner {
	for _, o := range c.Owners {
		if o.Ref.Kind == ref.Kind && o.Ref.Namespace == ref.Namespace && o.Ref.Name == ref.Name &&
			(o.Ref.UID == ref.UID || ref.UID == "" || o.Ref.UID == "") {
			return o
		}
	}
	return nil
}

// confirmRounds bounds how often wants are worked out again: what is seen may
// resolve a name to another id.
const confirmRounds = 3

// read asks the cloud for what the owners want, live, and lays it over the
// last snapshot.
func (r *targeted) read(ctx context.Context) error {
	base := r.site.snap
	r.view = &providers.Snapshot{Scope: base.Scope, TakenAt: r.daemon.Clock.Now(), Coverage: base.Coverage, Resources: maps.Clone(base.Resources)}
	r.confirmation = &providers.Confirmation{Resources: map[providers.ID]*providers.Resource{}, Unconfirmed: map[providers.ID]error{}}
	p := r.sweeper.Providers[base.Scope.Provider]
	done := map[providers.ID]bool{}
	for range confirmRounds {
		ids := r.unasked(p, done)
		if len(ids) == 0 {
			return nil
		}
		c, err := p.Confirm(ctx, base.Scope, ids)
		if err != nil {
			return fmt.Errorf("read %d resources in %s again: %w", len(ids), base.Scope, err)
		}
		r.lay(ids, c)
	}
	// What nobody has asked the cloud for is not absent from it.
	left := &providers.Confirmation{Unconfirmed: map[providers.ID]error{}}
	ids := r.unasked(p, done)
	for _, id := range ids {
		left.Unconfirmed[id] = errRestless
	}
	r.lay(ids, left)
	return nil
}

// errRestless is of what came to be wanted too late to be read.
var errRestless = errors.New("what is wanted is another resource with each answer")

// unasked gives what the owners want by now and was not asked for, and notes that
// it is.
func (r *targeted) unasked(p providers.Provider, done map[providers.ID]bool) []providers.ID {
	r.want(p)
	var ids []providers.ID
	for id := range r.ids {
		if !done[id] {
			ids = append(ids, id)
			done[id] = true
		}
	}
	slices.SortFunc(ids, func(a, b providers.ID) int { return strings.Compare(a.String(), b.String()) })
	return ids
}

// want adds what the owners want, as far as it has an id.
func (r *targeted) want(p providers.Provider) {
	for _, u := range r.units {
		for _, o := range u.owners {
			want, err := p.Desired(&o.Owner, r.view)
			if err != nil {
				continue // comparing says so
			}
			for i := range want {
				if w := &want[i]; w.ID.Name != "" && w.Unchecked == "" {
					r.ids[w.ID] = true
				}
			}
		}
	}
}

// lay puts what was just read over the view: what exists, what does not, and
// what could not be read, of which the older picture proves nothing.
func (r *targeted) lay(ids []providers.ID, c *providers.Confirmation) {
	maps.Copy(r.confirmation.Resources, c.Resources)
	maps.Copy(r.confirmation.Unconfirmed, c.Unconfirmed)
	for _, id := range ids {
		seen, old := c.Resources[id], r.view.Resources[id]
		err, failed := c.Unconfirmed[id]
		switch {
		case seen != nil:
			r.view.Resources[id] = seen
		case !failed:
			delete(r.view.Resources, id)
		case old != nil:
			doubtful := *old
			doubtful.Unknown = "it could not be read again"
			if err != nil {
				doubtful.Unknown += ": " + providers.Redact(oneLine(err.Error()))
			}
			r.view.Resources[id] = &doubtful
		}
	}
}

// merged is the picture to keep, as old as its bulk read. What could not be read
// is in it as it was before.
func (r *targeted) merged() *providers.Snapshot {
	out := *r.view
	out.TakenAt = r.site.snap.TakenAt
	if len(r.confirmation.Unconfirmed) > 0 {
		out.Resources = maps.Clone(out.Resources)
	}
	for id := range r.confirmation.Unconfirmed {
		if old := r.site.snap.Resources[id]; old != nil {
			out.Resources[id] = old
		}
	}
	return &out
}

// compared gives what the owners want and what there is of it.
func (r *targeted) compared() ([]providers.Resource, map[providers.ID]*providers.Resource) {
	p := r.sweeper.Providers[r.view.Scope.Provider]
	var wanted []providers.Resource
	seen := map[providers.ID]*providers.Resource{}
	for _, o := range r.reading.owners {
		want, err := p.Desired(&o.Owner, r.view)
		if err != nil {
			continue // its findings say so
		}
		wanted = append(wanted, want...)
		for i := range want {
			if have := r.view.Resources[want[i].ID]; have != nil {
				seen[want[i].ID] = have
			}
		}
	}
	return wanted, seen
}

// compare runs the owners against the view. What was absent has just been read
// live, so nothing needs to be confirmed any more.
func (r *targeted) compare() {
	p := r.sweeper.Providers[r.view.Scope.Provider]
	opt := detector.Options{Now: r.sweeper.Now(), CreationGrace: r.sweeper.CreationGrace}
	reading := &Reading{Scope: r.view.Scope, Snapshot: r.view, Confirmation: r.confirmation, units: r.units}
	r.reading = reading
	moved := reading.moved()
	for _, u := range r.units {
		reading.owners = append(reading.owners, u.owners...)
	}
	for _, o := range reading.owners {
		reading.results = append(reading.results, compareOwner(p, &o.Owner, r.view, moved, opt))
	}
	n := len(reading.results)
	rivals, kin := r.others()
	reading.results = detector.DoubleClaims(append(reading.results, rivals...), r.view)[:n]
	reading.doubt(append(slices.Clone(reading.results), kin...))
	for i := range reading.results {
		reading.results[i] = detector.Settle(reading.results[i], r.view, r.confirmation, opt)
	}
}

// others gives what is known of other owners: those that want the same
// resources, and those of the same clusters.
func (r *targeted) others() (rivals, kin []detector.Result) {
	d := r.daemon
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := map[providers.OwnerRef]bool{}
	for _, o := range r.reading.owners {
		fresh[o.Ref] = true
	}
	met := map[providers.OwnerRef]bool{}
	for i := range r.reading.results {
		for _, id := range r.reading.results[i].Wanted {
			for _, c := range r.site.index.wanted[id] {
				if k := d.known[c.cluster][c.owner]; k != nil && !fresh[c.owner] && !met[c.owner] && slices.Contains(k.result.Wanted, id) {
					met[c.owner] = true
					rivals = append(rivals, k.result)
				}
			}
		}
	}
	for _, c := range r.inv.Clusters {
		there := make(map[providers.OwnerRef]bool, len(c.Owners))
		for _, o := range c.Owners {
			there[o.Ref] = true
		}
		for owner, k := range d.known[refOf(c)] {
			if there[owner] && !fresh[owner] && k.site == r.site.key {
				kin = append(kin, k.result)
			}
		}
	}
	return rivals, kin
}

func (r *targeted) readings() []*Reading { return []*Reading{r.reading} }
