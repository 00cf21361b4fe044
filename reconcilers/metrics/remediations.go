package metrics

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
)

// Remediations is the collector of the series about Remediation objects. It
// reads them from a cache when it is asked.
type Remediations struct {
	reader client.Reader
	sink   *Sink

	repairs *prometheus.HistogramVec

	mu       sync.Mutex
	attempts map[detector.ClusterRef]map[attemptKey]float64
}

type attemptKey struct{ action, outcome string }

var _ prometheus.Collector = (*Remediations)(nil)

// NewRemediations makes the collector and has it told of changes by the cache.
// The sink knows which clusters there are.
func NewRemediations(ctx context.Context, c cache.Cache, sink *Sink) (*Remediations, error) {
	r := &Remediations{reader: c, sink: sink, repairs: newRepairs(), attempts: map[detector.ClusterRef]map[attemptKey]float64{}}
	informer, err := c.GetInformer(ctx, &v1alpha1.Remediation{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch Remediations: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, now any) {
		old, ok1 := before.(*v1alpha1.Remediation)
		rem, ok2 := now.(*v1alpha1.Remediation)
		if ok1 && ok2 {
			r.changed(old, rem)
		}
	}})
	return r, err
}

// newRepairs makes the histogram of times to repair, from seconds to a week.
func newRepairs() *prometheus.HistogramVec {
	s := repairDuration
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: s.Name, Help: s.Help,
		Buckets: []float64{10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600}}, s.Labels)
}

// repaired observes how long drift was there that has just been seen repaired.
func (r *Remediations) repaired(before, now *v1alpha1.Remediation) {
	if now.Status.Phase != v1alpha1.PhaseSucceeded || before.Status.Phase == v1alpha1.PhaseSucceeded || now.Status.EndedAt == nil {
		return
	}
	since := now.CreationTimestamp.Time
	if first := now.Spec.FirstSeen; first != nil {
		since = first.Time
	}
	r.repairs.WithLabelValues(word(now.Spec.Scope.Provider), word(string(now.Spec.Action))).Observe(max(now.Status.EndedAt.Sub(since).Seconds(), 0))
}

// changed counts the attempts that have ended since.
func (r *Remediations) changed(before, now *v1alpha1.Remediation) {
	r.repaired(before, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := map[int32]string{}
	for _, a := range before.Status.Attempts {
		ended[a.Number] = a.Outcome
	}
	for _, a := range now.Status.Attempts {
		if a.Outcome == "" || a.Outcome == ended[a.Number] {
			continue
		}
		ref := clusterOf(now)
		if r.attempts[ref] == nil {
			r.attempts[ref] = map[attemptKey]float64{}
		}
		r.attempts[ref][attemptKey{string(now.Spec.Action), a.Outcome}]++
	}
}

// clusterOf names a record's cluster as labels do: anybody may make a record by
// hand, and two that labels do not tell apart must be one series.
func clusterOf(r *v1alpha1.Remediation) detector.ClusterRef {
	return detector.ClusterRef{Namespace: r.Namespace, Name: word(r.Spec.ClusterName)}
}

// Describe implements [prometheus.Collector].
func (r *Remediations) Describe(to chan<- *prometheus.Desc) {
	for _, s := range []*Series{remediations, remediationsInFlight, remediationsBlocked, remediationsFailing, remediationsContested, attempts} {
		to <- s.desc
	}
	r.repairs.Describe(to)
}

// Collect implements [prometheus.Collector].
func (r *Remediations) Collect(to chan<- prometheus.Metric) {
	r.repairs.Collect(to)
	list := &v1alpha1.RemediationList{}
	// The objects are only read, and a scrape should cost little.
	if err := r.reader.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		to <- prometheus.NewInvalidMetric(remediations.desc, err)
		return
	}
	sums := map[detector.ClusterRef]*remediationSums{}
	for i := range list.Items {
		rem := &list.Items[i]
		if sums[clusterOf(rem)] == nil {
			sums[clusterOf(rem)] = &remediationSums{phases: map[remediationKey]float64{}, flying: map[remediationKey]float64{}, blocked: map[remediationKey]float64{}, failing: map[string]float64{}}
		}
		sums[clusterOf(rem)].add(rem)
	}
	for ref, s := range sums {
		s.collect(sender{to: to}.within(ref.Namespace, ref.Name))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref, counts := range r.attempts {
		if sums[ref] == nil && !r.sink.knows(ref) {
			delete(r.attempts, ref)
			continue
		}
		for k, n := range counts {
			sender{to: to}.within(ref.Namespace, ref.Name).counter(attempts, n, k.action, k.outcome)
		}
	}
}

// remediationKey is an action with a phase, a gate or a pool.
type remediationKey struct{ action, of string }

type remediationSums struct {
	phases, flying, blocked map[remediationKey]float64
	failing                 map[string]float64 // by action
	contested               float64
}

func (s *remediationSums) add(r *v1alpha1.Remediation) {
	action, phase := string(r.Spec.Action), r.Status.Phase
	if phase == "" {
		phase = v1alpha1.PhasePending // it was made a moment ago
	}
	s.phases[remediationKey{action, string(phase)}]++
	if phase.InFlight() {
		s.flying[remediationKey{action, word(r.Spec.Pool)}]++
	}
	if failing(r) {
		s.failing[action]++
	}
	if phase.Ended() && phase != v1alpha1.PhaseLatched {
		return
	}
	for _, b := range r.Status.Blocked {
		s.blocked[remediationKey{action, word(b.By)}]++
	}
	if contested(r) {
		s.contested++
	}
}

// failing: it was tried and did not work. Between attempts a record is Blocked, as
// others are too.
func failing(r *v1alpha1.Remediation) bool {
	switch r.Status.Phase {
	case v1alpha1.PhaseFailed:
		return true
	case v1alpha1.PhaseSucceeded, v1alpha1.PhaseCancelled, v1alpha1.PhaseLatched:
		return false
	}
	for _, a := range slices.Backward(r.Status.Attempts) {
		if a.Outcome != "" { // it has ended
			return a.Outcome == v1alpha1.OutcomeFailed || a.Outcome == v1alpha1.OutcomeNoEffect
		}
	}
	return false
}

// contested: somebody sets back what was repaired, whoever it is.
func contested(r *v1alpha1.Remediation) bool {
	n := len(r.Status.Attempts)
	return r.Status.ContestedBy != "" || n > 0 && r.Status.Attempts[n-1].Outcome == v1alpha1.OutcomeReverted
}

func (s *remediationSums) collect(at sender) {
	for k, n := range s.phases {
		at.gauge(remediations, n, k.action, k.of)
	}
	for k, n := range s.flying {
		at.gauge(remediationsInFlight, n, k.of, k.action)
	}
	for k, n := range s.blocked {
		at.gauge(remediationsBlocked, n, k.action, k.of)
	}
	for action, n := range s.failing {
		at.gauge(remediationsFailing, n, action)
	}
	at.gauge(remediationsContested, s.contested)
}

// knows reports whether the cluster was swept, and is still there.
func (s *Sink) knows(ref detector.ClusterRef) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clusters[ref] != nil
}
