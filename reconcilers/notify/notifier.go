package notify

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// Notifier tells its routes of what is new. It is a [sweep.Sink], a runnable
// for a manager and a [prometheus.Collector], and safe for concurrent use.
type Notifier struct {
	routes []*route

	mu    sync.Mutex
	state *state
}

var (
	_ sweep.Sink           = (*Notifier)(nil)
	_ prometheus.Collector = (*Notifier)(nil)
)

// New makes a notifier that sends nothing before [Notifier.Start]. The reader
// serves Secrets, and may be nil if no route names one; the clock may be nil.
func New(config Config, reader client.Reader, c clock.Clock) (*Notifier, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("notifications: %w", err)
	}
	if c == nil {
		c = clock.RealClock{}
	}
	n := &Notifier{state: newState(c.Now())}
	for _, r := range config.Routes {
		if r.URL.Secret != nil && reader == nil {
			return nil, fmt.Errorf("notifications: route %s: its URL is in a Secret, and there is no API server to read it from", r.Name)
		}
		n.routes = append(n.routes, newRoute(r, c, reader))
	}
	return n, nil
}

// Check reads the URL of each route and says which cannot be used as they are.
// Nothing is sent.
func (n *Notifier) Check(ctx context.Context) map[string]error {
	out := map[string]error{}
	for _, r := range n.routes {
		if _, err := r.URL.read(ctx, r.reader); err != nil {
			out[r.Name] = err
		}
	}
	return out
}

// Consume implements [sweep.Sink]. It never blocks and gives no error: what
// cannot be sent is the routes' own concern.
func (n *Notifier) Consume(_ context.Context, outcome *sweep.Outcome) error {
	if len(n.routes) == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.offer(n.state.learn(outcome))
	return nil
}

// Remediated tells of a Remediation whose phase is one that somebody should
// know of: Latched, Failed, AwaitingApproval, Succeeded. It may be called as
// often as one likes, and never blocks; a phase is told of once. The record is
// not modified.
func (n *Notifier) Remediated(r *v1alpha1.Remediation) {
	if len(n.routes) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if one := n.state.phase(r); one != nil {
		n.offer([]*news{one})
	}
}

// offer hands news to the routes. The lock keeps their order.
func (n *Notifier) offer(all []*news) {
	if len(all) == 0 {
		return
	}
	for _, r := range n.routes {
		r.offer(all)
	}
}

// Start sends until the context ends, and returns when every route has
// stopped. What waits then is lost: whoever starts next tells of what is open.
func (n *Notifier) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	for name, err := range n.Check(ctx) {
		log.Info("A notification route cannot be used as it is", "route", name, "reason", err.Error())
	}
	var routes sync.WaitGroup
	for _, r := range n.routes {
		routes.Go(func() { r.run(ctx) })
	}
	routes.Wait()
	return nil
}

// NeedLeaderElection makes a manager start it on the leader alone.
func (*Notifier) NeedLeaderElection() bool { return true }

var (
	sentDesc = prometheus.NewDesc("holdfast_notifications_total",
		"Messages to a notification route: sent, tries that were retried, dead (given up); and news dropped for want of room.", []string{"route", "outcome"}, nil)
	waitingDesc = prometheus.NewDesc("holdfast_notifications_waiting",
		"Pieces of news that wait for a notification route.", []string{"route"}, nil)
)

// Describe implements [prometheus.Collector].
func (*Notifier) Describe(out chan<- *prometheus.Desc) {
	out <- sentDesc
	out <- waitingDesc
}

// Collect implements [prometheus.Collector].
func (n *Notifier) Collect(out chan<- prometheus.Metric) {
	for _, r := range n.routes {
		r.mu.Lock()
		for _, outcome := range []string{outcomeSent, outcomeRetried, outcomeDead, outcomeDropped} {
			out <- prometheus.MustNewConstMetric(sentDesc, prometheus.CounterValue, float64(r.counts[outcome]), r.Name, outcome)
		}
		out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(r.waits.size()), r.Name)
		r.mu.Unlock()
	}
}
