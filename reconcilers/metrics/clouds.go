package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-io/holdfast/providers"
)

// Clouds is the collector of what providers ask clouds for.
type Clouds struct {
	providers map[string]providers.Metered

	mu    sync.Mutex
	codes map[string]codes // by provider
}

var _ prometheus.Collector = (*Clouds)(nil)

// NewClouds makes the collector for those providers that count their calls.
func NewClouds(all map[string]providers.Provider) *Clouds {
	c := &Clouds{providers: map[string]providers.Metered{}, codes: map[string]codes{}}
	for name, p := range all {
		if m, ok := p.(providers.Metered); ok {
			c.providers[name] = m
			c.codes[name] = codes{}
		}
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *Clouds) Describe(to chan<- *prometheus.Desc) {
	for _, s := range []*Series{cloudCalls, cloudThrottles, cloudWaits} {
		to <- s.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *Clouds) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, p := range c.providers {
		c.collect(name, p.CallStats(), sender{to: to}.within(name))
	}
}

type operationCode struct{ operation, code string }

func (c *Clouds) collect(provider string, stats []providers.CallStats, send sender) {
	calls := map[operationCode]float64{}
	throttles, waits := map[string]float64{}, map[string]float64{}
	for _, s := range stats {
		calls[operationCode{s.Operation, c.codes[provider].word(s.Code)}] += float64(s.Count)
		waits[s.Operation] += s.Waited.Seconds()
		throttles[s.Operation] += 0
		if s.Throttled {
			throttles[s.Operation] += float64(s.Count)
		}
	}
	for k, n := range calls {
		send.counter(cloudCalls, n, k.operation, k.code)
	}
	for operation, n := range throttles {
		send.counter(cloudThrottles, n, operation)
	}
	for operation, s := range waits {
		send.counter(cloudWaits, s, operation)
	}
}
