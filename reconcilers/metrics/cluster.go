package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// clusterState is what is known of one cluster.
type clusterState struct {
	// owners are what each owner came to when it was last compared. What
	// belongs to no owner stands under a reference that names its scope only.
	owners map[providers.OwnerRef]*ownerState
	// scopes are where the cluster lives.
	scopes     map[providers.Scope]*scopeState
	unusable   unusable
	errors     map[string]float64 // by provider
	staleAfter time.Duration
	budgets    map[policies.Action]int
}

type scopeState struct {
	success             time.Time
	checked, notChecked int
}

// ownerState is what one owner came to.
type ownerState struct {
	resources map[resourceKey]int
	findings  map[findingKey]int
	blocked   map[blockedKey]int
	held      map[blockedKey]time.Time // since when what is blocked was seen
	oldest    map[policies.Severity]time.Time
	ignored   int
	expiry    time.Time
}

type resourceKey struct{ provider, kind, status string }

type findingKey struct{ provider, pool, kind, rule, severity, action, status string }

type blockedKey struct{ action, gate string }

func newClusterState() *clusterState {
	return &clusterState{owners: map[providers.OwnerRef]*ownerState{}, scopes: map[providers.Scope]*scopeState{}, unusable: unusable{}, errors: map[string]float64{}}
}

func newOwnerState() *ownerState {
	return &ownerState{resources: map[resourceKey]int{}, findings: map[findingKey]int{}, blocked: map[blockedKey]int{}, held: map[blockedKey]time.Time{}, oldest: map[policies.Severity]time.Time{}}
}

// allow takes over what the policies allow at once.
func (c *clusterState) allow(e *policies.Effective, cluster *inventory.Cluster) {
	machines := 0
	for _, o := range cluster.Owners {
		if o.Machine != nil {
			machines++
		}
	}
	c.budgets = map[policies.Action]int{}
	for _, action := range []policies.Action{policies.Patch, policies.Replace} {
		if n, bounded := e.ClusterBudget(action, machines); bounded {
			c.budgets[action] = n
		}
	}
}

// inSync counts resources in sync.
func (o *ownerState) inSync(refs []detector.ResourceRef) {
	for _, r := range refs {
		o.resources[resourceKey{r.Provider, r.Kind, string(detector.InSync)}]++
	}
}

// decision counts one decision. seen keeps a resource of which several rules
// decide parts from counting twice.
func (o *ownerState) decision(d *policies.Decision, seen map[resourceID]bool) {
	f := &d.Finding
	id := resourceID{f.Resource, f.Status}
	if !seen[id] && f.Status != detector.InSync { // that one is listed among those in sync
		seen[id] = true
		o.resources[resourceKey{f.Resource.Provider, f.Resource.Kind, string(f.Status)}]++
	}
	switch {
	case d.Ignored != nil:
		o.ignored++
		if e := d.Ignored.ExpiresAt; !e.IsZero() && (o.expiry.IsZero() || e.Before(o.expiry)) {
			o.expiry = e
		}
		return
	case d.Action == policies.Ignore, d.Mode == policies.ModeOff, f.Status == detector.InSync, f.Status == detector.Foreign:
		return
	}
	o.findings[findingKey{f.Resource.Provider, f.Pool, f.Resource.Kind, d.Rule.ID, string(d.Severity), string(d.Action), string(f.Status)}]++
	for _, b := range d.Blocked {
		key := blockedKey{string(d.Action), b.By}
		o.blocked[key]++
		earliest(o.held, key, d.FirstSeen)
	}
	earliest(o.oldest, d.Severity, d.FirstSeen)
}

// earliest keeps the earliest time of each key; the zero time is none.
func earliest[K comparable](of map[K]time.Time, key K, t time.Time) {
	if !t.IsZero() && (of[key].IsZero() || t.Before(of[key])) {
		of[key] = t
	}
}

type resourceID struct {
	detector.ResourceRef
	status detector.Status
}

// collect sums up the owners and sends the cluster's series.
func (c *clusterState) collect(ref detector.ClusterRef, send sender) {
	sum := newOwnerState()
	for _, o := range c.owners {
		sum.add(o)
	}
	at := send.within(ref.Namespace, ref.Name)
	for k, n := range sum.resources {
		at.gauge(resources, float64(n), k.provider, k.kind, k.status)
	}
	for k, n := range sum.findings {
		at.gauge(findings, float64(n), k.provider, k.pool, k.kind, k.rule, k.severity, k.action, k.status)
	}
	for k, n := range sum.blocked {
		at.gauge(findingsBlocked, float64(n), k.action, k.gate)
	}
	for k, t := range sum.held {
		at.gauge(oldestBlocked, seconds(t), k.action, k.gate)
	}
	for severity, t := range sum.oldest {
		at.gauge(oldestFinding, seconds(t), string(severity))
	}
	at.gauge(findingsIgnored, float64(sum.ignored))
	if !sum.expiry.IsZero() {
		at.gauge(ignoreExpiry, seconds(sum.expiry))
	}
	if c.staleAfter > 0 {
		at.gauge(sweepStale, c.staleAfter.Seconds())
	}
	for action, n := range c.budgets {
		at.gauge(budgetLimit, float64(n), string(action))
	}
	for provider, n := range c.errors {
		at.counter(sweepErrors, n, provider)
	}
	c.collectScopes(at)
	c.unusable.collect(at)
}

func (c *clusterState) collectScopes(at sender) {
	byProvider := map[string]*scopeState{}
	for scope, s := range c.scopes {
		sum := byProvider[scope.Provider]
		if sum == nil {
			sum = &scopeState{success: s.success}
			byProvider[scope.Provider] = sum
		}
		sum.checked += s.checked
		sum.notChecked += s.notChecked
		if s.success.Before(sum.success) { // a cluster is as fresh as its stalest part
			sum.success = s.success
		}
	}
	for provider, s := range byProvider {
		if !s.success.IsZero() {
			at.gauge(sweepSuccess, seconds(s.success), provider)
		}
		if all := s.checked + s.notChecked; all > 0 {
			at.gauge(coverage, float64(s.checked)/float64(all), provider)
		}
	}
}

func (o *ownerState) add(other *ownerState) {
	for k, n := range other.resources {
		o.resources[k] += n
	}
	for k, n := range other.findings {
		o.findings[k] += n
	}
	for k, n := range other.blocked {
		o.blocked[k] += n
	}
	for k, t := range other.held {
		earliest(o.held, k, t)
	}
	for severity, t := range other.oldest {
		earliest(o.oldest, severity, t)
	}
	o.ignored += other.ignored
	if e := other.expiry; !e.IsZero() && (o.expiry.IsZero() || e.Before(o.expiry)) {
		o.expiry = e
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// sender makes metrics of values.
type sender struct {
	to     chan<- prometheus.Metric
	labels []string
}

// within gives a sender whose metrics begin with these labels.
func (s sender) within(labels ...string) sender {
	return sender{to: s.to, labels: append(append([]string(nil), s.labels...), labels...)}
}

func (s sender) gauge(of *Series, value float64, labels ...string) {
	s.send(of, prometheus.GaugeValue, value, labels)
}

func (s sender) counter(of *Series, value float64, labels ...string) {
	s.send(of, prometheus.CounterValue, value, labels)
}

func (s sender) send(of *Series, kind prometheus.ValueType, value float64, labels []string) {
	all := append(append([]string(nil), s.labels...), labels...)
	for i := range all {
		all[i] = word(all[i])
	}
	m, err := prometheus.NewConstMetric(of.desc, kind, value, all...)
	if err != nil {
		m = prometheus.NewInvalidMetric(of.desc, err)
	}
	s.to <- m
}
