package metrics

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// Sink keeps what outcomes say, and is the collector of the series that follow
// from it. It is a [sweep.Sink] and a [sweep.Meter].
type Sink struct {
	// Status, if not nil, tells which breakers are open: [sweep.Daemon.Status].
	// It is set before anything is collected.
	Status func() sweep.Status
	// Elected is closed when this process is the one that reads and acts. It
	// too is set before anything is collected.
	Elected <-chan struct{}

	sweepDuration, eventLag *prometheus.HistogramVec
	reads, sinkErrors       *prometheus.CounterVec

	mu       sync.Mutex
	clusters map[detector.ClusterRef]*clusterState
	off      map[detector.ClusterRef]bool // those that are switched off
}

var (
	_ sweep.Sink           = (*Sink)(nil)
	_ sweep.Meter          = (*Sink)(nil)
	_ prometheus.Collector = (*Sink)(nil)
)

// NewSink makes a Sink; the caller registers it.
func NewSink() *Sink {
	vec := func(s *Series, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: s.Name, Help: s.Help, Buckets: buckets}, s.Labels)
	}
	count := func(s *Series) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: s.Name, Help: s.Help}, s.Labels)
	}
	return &Sink{
		sweepDuration: vec(sweepDuration, []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}),
		eventLag:      vec(eventLag, []float64{.1, .25, .5, 1, 2, 3, 5, 10, 30, 60, 300}),
		reads:         count(reads), sinkErrors: count(sinkErrors),
		clusters: map[detector.ClusterRef]*clusterState{}, off: map[detector.ClusterRef]bool{},
	}
}

// Consume implements [sweep.Sink]. It never fails.
func (s *Sink) Consume(_ context.Context, o *sweep.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Inventory == nil || o.Result == nil {
		return nil
	}
	for _, ref := range o.Gone { // C68
		delete(s.clusters, ref)
		delete(s.off, ref)
	}
	s.count(o)
	decisions := map[detector.ClusterRef][]*policies.Decision{}
	for i := range o.Result.Decisions {
		d := &o.Result.Decisions[i]
		decisions[d.Finding.Cluster] = append(decisions[d.Finding.Cluster], d)
	}
	for _, c := range o.Inventory.Clusters {
		ref := detector.ClusterRef{Namespace: c.Object.Namespace, Name: c.Object.Name}
		effective := o.Policies.For(ref, c.Object.Labels)
		if effective.Mode.Lowered(c.Object.Annotations) == policies.ModeOff {
			delete(s.clusters, ref)
			s.off[ref] = true
			continue
		}
		delete(s.off, ref)
		state := s.clusters[ref]
		if state == nil {
			state = newClusterState()
			s.clusters[ref] = state
		}
		state.staleAfter = effective.Schedule.StaleAfter.Duration
		state.allow(effective, c)
		state.take(o, ref, decisions[ref])
		state.prune(c)
	}
	return nil
}

// count counts the reads that this was, place by place.
func (s *Sink) count(o *sweep.Outcome) {
	began := map[providers.Scope]time.Time{}
	for i := range o.Result.Clusters {
		if c := &o.Result.Clusters[i]; !c.TakenAt.IsZero() {
			began[c.Scope] = c.TakenAt
		}
	}
	for scope, at := range began {
		s.reads.WithLabelValues(word(scope.Provider), word(o.Cause)).Inc()
		if !o.Targeted() && o.At.After(at) {
			s.sweepDuration.WithLabelValues(word(scope.Provider)).Observe(o.At.Sub(at).Seconds())
		}
	}
}

// take replaces what is known of those owners that an outcome is about. One
// whose cloud could not be read keeps what was known, until that is stale.
func (c *clusterState) take(o *sweep.Outcome, ref detector.ClusterRef, decisions []*policies.Decision) {
	fresh, listed := map[providers.OwnerRef]*ownerState{}, map[providers.OwnerRef]bool{}
	var scopes []string
	for i := range o.Result.Clusters {
		r := &o.Result.Clusters[i]
		if r.Ref != ref {
			continue
		}
		scopes = append(scopes, r.Scope.String())
		if !o.Targeted() {
			c.takeScope(r)
			c.leave(o.Scopes[ref])
		}
		for _, owner := range r.Owners {
			listed[owner.Ref] = true
			if c.isNews(o, r, owner.Ref) {
				fresh[owner.Ref] = newOwnerState()
				fresh[owner.Ref].inSync(owner.InSync)
			}
		}
	}
	if len(scopes) == 0 {
		return
	}
	orphans := orphanSlot(scopes)
	if !o.Targeted() {
		fresh[orphans] = newOwnerState()
	}
	seen := map[resourceID]bool{}
	for _, d := range decisions {
		owner := d.Finding.Owner
		if d.Finding.Orphan() {
			owner = orphans
		}
		if fresh[owner] == nil && !listed[owner] && !o.Targeted() { // what is never compared
			fresh[owner] = newOwnerState()
		}
		if state := fresh[owner]; state != nil {
			state.decision(d, seen)
		}
	}
	maps.Copy(c.owners, fresh)
}

// isNews reports whether an outcome says something about an owner that is not
// known already.
func (c *clusterState) isNews(o *sweep.Outcome, r *sweep.ClusterResult, owner providers.OwnerRef) bool {
	if o.Targeted() && !o.Owners[owner] {
		return false
	}
	return !r.TakenAt.IsZero() || c.owners[owner] == nil || o.Cause == sweep.CauseStale
}

// orphanSlot is where decisions about what no infrastructure object wants are
// kept: they come from sweeps alone.
func orphanSlot(scopes []string) providers.OwnerRef {
	return providers.OwnerRef{Name: "orphans in " + strings.Join(scopes, " ")}
}

func (c *clusterState) takeScope(r *sweep.ClusterResult) {
	if r.Scope == (providers.Scope{}) && r.Provider == "" {
		return // a cluster of which nothing is compared
	}
	scope := r.Scope
	scope.Provider = r.Provider
	if r.TakenAt.IsZero() {
		c.errors[r.Provider]++
		if r.Unusable != "" {
			c.unusable.because(scope, r.Unusable)
		}
		return
	}
	c.unusable.used(scope)
	if c.errors[r.Provider] == 0 {
		c.errors[r.Provider] = 0 // a counter is there before it counts
	}
	c.scopes[scope] = &scopeState{success: r.TakenAt, checked: r.Checked, notChecked: r.NotChecked}
}

// leave forgets places that the cluster has no owners in any more, as after a
// change of its identity: nobody reads them, and they would look ever staler.
func (c *clusterState) leave(lives []providers.Scope) {
	if len(lives) == 0 {
		return // not known
	}
	gone := func(scope providers.Scope) bool { return !slices.Contains(lives, scope) }
	maps.DeleteFunc(c.scopes, func(scope providers.Scope, _ *scopeState) bool { return gone(scope) })
	maps.DeleteFunc(c.unusable, func(scope providers.Scope, _ string) bool { return scope.Account != "" && gone(scope) })
}

// prune drops owners that do not exist any more.
func (c *clusterState) prune(cluster *inventory.Cluster) {
	live := make(map[providers.OwnerRef]bool, len(cluster.Owners))
	for _, o := range cluster.Owners {
		live[o.Ref] = true
	}
	for i := range cluster.Uncompared {
		live[cluster.Uncompared[i].Ref] = true
	}
	for owner := range c.owners {
		if owner.Kind != "" && !live[owner] {
			delete(c.owners, owner)
		}
	}
}

// EventLag implements [sweep.Meter].
func (s *Sink) EventLag(scope providers.Scope, lag time.Duration) {
	s.eventLag.WithLabelValues(word(scope.Provider)).Observe(max(lag, 0).Seconds())
}

// SweepFailed implements [sweep.Meter].
func (s *Sink) SweepFailed(scope providers.Scope, clusters []detector.ClusterRef, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range clusters {
		if s.off[ref] {
			continue // by an annotation, which a failed sweep has not seen
		}
		if s.clusters[ref] == nil {
			s.clusters[ref] = newClusterState()
		}
		s.clusters[ref].errors[scope.Provider]++
		s.clusters[ref].unusable.because(scope, reasonOf(err))
	}
}

// Expect has the failures of each sink counted from zero: a series that comes with
// the first failure has no rate of it.
func (s *Sink) Expect(sinks ...sweep.Sink) {
	for _, sink := range sinks {
		s.sinkErrors.WithLabelValues(sinkName(sink))
	}
}

// SinkFailed implements [sweep.Meter].
func (s *Sink) SinkFailed(sink sweep.Sink, _ error) {
	s.sinkErrors.WithLabelValues(sinkName(sink)).Inc()
}

// Describe implements [prometheus.Collector].
func (s *Sink) Describe(to chan<- *prometheus.Desc) {
	for _, c := range s.vectors() {
		c.Describe(to)
	}
	for _, d := range []*Series{resources, findings, findingsIgnored, findingsBlocked, oldestFinding, ignoreExpiry,
		coverage, breaker, sweepSuccess, sweepStale, sweepErrors, oldestBlocked, budgetLimit, cloudUnusable, readsWaiting, leader} {
		to <- d.desc
	}
}

// Collect implements [prometheus.Collector].
func (s *Sink) Collect(to chan<- prometheus.Metric) {
	for _, c := range s.vectors() {
		c.Collect(to)
	}
	s.collectLeader(to)
	status := s.status()
	collectWaiting(status, to)
	open := breakers(status)
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, c := range s.clusters {
		c.collect(ref, sender{to: to})
		if is, known := open[ref]; known {
			sender{to: to}.within(ref.Namespace, ref.Name).gauge(breaker, is)
		}
	}
}

// breakers asks for each cluster whether any of its breakers is open. What is
// held back does not tell: where policies only observe nothing is.
func breakers(status sweep.Status) map[detector.ClusterRef]float64 {
	out := map[detector.ClusterRef]float64{}
	for _, c := range status.Clusters {
		out[c.Ref] = 0
		if len(c.Breakers) > 0 {
			out[c.Ref] = 1
		}
	}
	return out
}

func (s *Sink) vectors() []prometheus.Collector {
	return []prometheus.Collector{s.sweepDuration, s.eventLag, s.reads, s.sinkErrors}
}
