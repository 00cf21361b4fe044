package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// status asks the daemon. The lock must not be held, for the daemon may wait for
// it.
func (s *Sink) status() sweep.Status {
	if s.Status == nil {
		return sweep.Status{}
	}
	return s.Status()
}

// collectLeader tells whether this process works. Every process has the series:
// where no one's is 1 nothing is looked at.
func (s *Sink) collectLeader(to chan<- prometheus.Metric) {
	value := 0.0
	select {
	case <-s.Elected:
		value = 1
	default:
	}
	sender{to: to}.gauge(leader, value)
}

func collectWaiting(status sweep.Status, to chan<- prometheus.Metric) {
	waiting := map[string]float64{}
	for i := range status.Scopes {
		if scope := &status.Scopes[i]; scope.Scope.Provider != "" {
			waiting[scope.Scope.Provider] += float64(scope.Waiting)
		}
	}
	for provider, n := range waiting {
		sender{to: to}.gauge(readsWaiting, n, provider)
	}
}
