package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// PolicySource is what became of one policy file or object.
type PolicySource struct {
	// Name is the object's name, or the file's path.
	Name string
	// Object tells an object from a file.
	Object bool
	// Valid says that its newest version is in effect.
	Valid bool
}

// Policies is the collector of the series about policy sources.
type Policies struct {
	mu      sync.Mutex
	sources []PolicySource
}

var _ prometheus.Collector = (*Policies)(nil)

// Set replaces all sources.
func (p *Policies) Set(sources []PolicySource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sources = sources
}

// Describe implements [prometheus.Collector].
func (p *Policies) Describe(to chan<- *prometheus.Desc) {
	to <- policyInfo.desc
	to <- policyValid.desc
}

// Collect implements [prometheus.Collector].
func (p *Policies) Collect(to chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sources {
		kind, valid := "file", 0.0
		if s.Object {
			kind = "object"
		}
		if s.Valid {
			valid = 1
		}
		sender{to: to}.gauge(policyInfo, 1, s.Name, kind)
		sender{to: to}.gauge(policyValid, valid, s.Name)
	}
}
