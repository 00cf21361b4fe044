package sweep

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Intervals of looking for Clusters. Each load sees them all too; this is for
// when nothing is loaded.
const (
	censusInterval = 10 * time.Minute
	// unaided is the interval where no trigger tells of new Clusters.
	unaided = time.Minute
)

// census is when the Clusters are listed next.
type census struct {
	due      time.Time
	running  bool
	failures int
}

// runCensus lists the Clusters and nothing else.
func (d *Daemon) runCensus(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	_, err := d.load(ctx, []detector.ClusterRef{}, false)
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.wake()
	now := d.Clock.Now()
	d.census.running = false
	wait := censusInterval
	if d.Triggers == nil {
		wait = unaided
	}
	if err != nil && ctx.Err() == nil {
		d.census.failures++
		wait = backoff(siteKey{}, d.census.failures, now)
		logr.FromContextOrDiscard(ctx).Error(errors.New(providers.Redact(oneLine(err.Error()))), "Clusters could not be listed", "retryAfter", wait.String())
	} else {
		d.census.failures = 0
	}
	d.census.due = now.Add(wait)
}

// load loads the objects of some clusters, and takes over what it sees of all
// Clusters by the way.
func (d *Daemon) load(ctx context.Context, refs []detector.ClusterRef, narrow bool) (*inventory.Inventory, error) {
	selection := inventory.Selection{Exactly: make([]types.NamespacedName, len(refs)), Narrow: narrow}
	for i, ref := range refs {
		selection.Exactly[i] = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	d.mu.Lock()
	d.loads++
	load := d.loads
	for _, ref := range refs {
		if c := d.clusters[ref]; c == nil || c.effective.CountsEverywhere() {
			selection.Others = busy
		}
	}
	d.mu.Unlock()
	inv, err := d.Load(ctx, selection)
	if err != nil {
		return nil, err
	}
	d.noteClusters(ctx, load, inv)
	return inv, nil
}

// busy chooses the machines that count as in flight.
func busy(m *clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() || remediating(m) }

// noteClusters takes over which Clusters there are, unless a load that began
// later has told already.
func (d *Daemon) noteClusters(ctx context.Context, load int, inv *inventory.Inventory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if load < d.applied {
		return
	}
	d.applied = load
	now, set := d.Clock.Now(), d.Policies()
	there := map[detector.ClusterRef]bool{}
	note := func(c *clusterv1.Cluster) {
		ref := detector.ClusterRef{Namespace: c.Namespace, Name: c.Name}
		there[ref] = true
		d.noteCluster(c, ref, set, now)
	}
	for _, c := range inv.Clusters {
		note(c.Object)
	}
	for _, e := range inv.Elsewhere {
		if e.Object != nil {
			note(e.Object)
		}
	}
	var gone []detector.ClusterRef
	for _, ref := range slices.SortedFunc(maps.Keys(d.clusters), compareRefs) {
		if !there[ref] {
			d.forgetCluster(ref)
			gone = append(gone, ref)
		}
	}
	if len(gone) > 0 {
		logr.FromContextOrDiscard(ctx).Info("Clusters are gone", "count", len(gone))
		d.tell(&Outcome{At: now, Cause: CauseOwnerChanged, Inventory: &inventory.Inventory{}, Result: &Result{}, Gone: gone, Policies: set})
	}
	d.wake()
}

func (d *Daemon) noteCluster(object *clusterv1.Cluster, ref detector.ClusterRef, set *policies.Set, now time.Time) {
	asked := object.Annotations[v1alpha1.AnnotationSweepNow]
	c := d.clusters[ref]
	if c != nil && c.uid != object.UID {
		d.forgetCluster(ref)
		c = nil
	}
	if c == nil {
		// The first read answers whatever stands in the annotation: nothing
		// needs to be kept beyond the process, and a restart reads anyway.
		c = &cluster{ref: ref, object: clusterOwner(object), slim: slimCluster(ref), uid: object.UID, swept: asked, labels: object.Labels, effective: set.For(ref, object.Labels), coverage: map[siteKey]coverage{}}
		c.since = now
		if !d.started.IsZero() && now.Sub(d.started) < d.StartSpread {
			c.since = now.Add(jitter(c.uid, d.started, d.StartSpread))
		}
		d.clusters[ref] = c
		d.join(siteKey{cluster: ref}, ref)
		return
	}
	if !maps.Equal(c.labels, object.Labels) {
		c.labels, c.effective = object.Labels, set.For(ref, object.Labels)
		for _, s := range d.sites {
			if m := s.members[ref]; m != nil {
				d.plan(c, m)
			}
		}
	}
	if asked != c.swept {
		c.swept = asked
		if asked != "" {
			d.askCluster(ref, now, CauseRequested)
		}
	}
}

// askCluster asks for a sweep of every site of a cluster.
func (d *Daemon) askCluster(ref detector.ClusterRef, at time.Time, why string) {
	for _, s := range d.sites {
		if s.members[ref] != nil {
			s.ask(at, why)
		}
	}
}

// join makes a cluster that is known a member of a site, which it makes where
// needed.
func (d *Daemon) join(key siteKey, ref detector.ClusterRef) *site {
	s := d.sites[key]
	if s == nil {
		s = newSite(key)
		d.sites[key] = s
	}
	if s.members[ref] != nil {
		return s
	}
	m := &member{}
	s.members[ref] = m
	d.plan(d.clusters[ref], m)
	return s
}

// leave ends a membership. A site without members goes when nobody reads it.
func (d *Daemon) leave(s *site, ref detector.ClusterRef) {
	delete(s.members, ref)
	if c := d.clusters[ref]; c != nil {
		delete(c.coverage, s.key)
	}
	if len(s.members) == 0 && s.running == "" {
		d.drop(s)
	}
}

// drop forgets a site that no cluster lives in.
func (d *Daemon) drop(s *site) {
	if s.watch != nil {
		s.watch.cancel()
		s.watch = nil
	}
	delete(d.sites, s.key)
}

// forgetCluster drops all that is known of a cluster that is gone.
func (d *Daemon) forgetCluster(ref detector.ClusterRef) {
	for _, s := range d.sites {
		if s.members[ref] != nil {
			d.leave(s, ref)
		}
	}
	d.forgetOwners(ref, slices.Collect(maps.Keys(d.known[ref]))...)
	if c := d.clusters[ref]; c != nil {
		d.memory.forget(c.object) // to which orphans belong
	}
	d.breakers.forget(ref)
	delete(d.known, ref)
	delete(d.clusters, ref)
}

// forgetOwners drops what is known of owners that are gone.
func (d *Daemon) forgetOwners(ref detector.ClusterRef, owners ...providers.OwnerRef) {
	for _, owner := range owners {
		k := d.known[ref][owner]
		if k == nil {
			continue
		}
		delete(d.known[ref], owner)
		if s := d.sites[k.site]; s != nil {
			delete(s.gates, owner)
			delete(s.targets, owner)
		}
	}
	d.memory.forget(owners...)
}
