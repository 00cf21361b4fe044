package sweep

import (
	"fmt"
	"sync"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// calmSweeps is how many sweeps in a row must be calm before a breaker closes.
const calmSweeps = 2

// breakers hold back everything in a cluster, or in one of its zones, of which
// too much drifts at once, until it has been calm for a while. Without that,
// the gate would open as soon as repairs had brought the share down a little,
// whatever the cause. They start closed: after a restart the first sweep opens
// them anew.
type breakers struct {
	mu   sync.Mutex
	open map[breakerKey]int // how many sweeps have been calm
}

// breakerKey is a cluster, or one zone of it.
type breakerKey struct {
	cluster detector.ClusterRef
	zone    string
}

// update takes in what is known to drift in a cluster: it opens at once, and
// closes only on complete sweeps. results hold the cluster's owners with those
// findings alone that no policy ignores.
func (b *breakers) update(ref detector.ClusterRef, results []detector.Result, ratio float64, sweep bool) {
	const nothing = 1e-9 // a ratio that any drift exceeds
	groups := func(ratio float64, atLeast int) map[string]bool {
		out := map[string]bool{}
		for _, m := range detector.MassDrifts(results, providers.Scope{}, detector.Threshold{Ratio: max(ratio, nothing), AtLeast: atLeast}) {
			out[m.Zone] = true
		}
		return out
	}
	// One alone is never too many.
	over, half, some := groups(ratio, 2), groups(ratio/2, 2), groups(nothing, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, calm := range b.open {
		switch {
		case key.cluster != ref || !sweep && !over[key.zone]:
		case over[key.zone], half[key.zone]:
			b.open[key] = 0
		case !some[key.zone], calm+1 >= calmSweeps:
			delete(b.open, key)
		default:
			b.open[key] = calm + 1
		}
	}
	for zone := range over {
		if b.open == nil {
			b.open = map[breakerKey]int{}
		}
		if _, is := b.open[breakerKey{ref, zone}]; !is {
			b.open[breakerKey{ref, zone}] = 0
		}
	}
}

// facts says which breakers are open.
func (b *breakers) facts(ref detector.ClusterRef, f policies.ClusterFacts) policies.ClusterFacts {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.Breaker = policies.No()
	if _, open := b.open[breakerKey{cluster: ref}]; open {
		f.Breaker = policies.Yes(breakerWhy("the cluster"))
	}
	for zone, facts := range f.Zones {
		if _, open := b.open[breakerKey{ref, zone}]; open && zone != "" {
			facts.Breaker = policies.Yes(breakerWhy("zone " + zone))
			f.Zones[zone] = facts
		}
	}
	return f
}

// breakerWhy has no number in it: it would change with each read.
func breakerWhy(where string) string {
	return fmt.Sprintf("the breaker of %s is open: more than safety.maxDriftRatio of it drifted at once; it closes after %d sweeps in a row with at most half of that, or one with nothing", where, calmSweeps)
}

// openIn gives the open breakers of a cluster: "" for the whole of it, else the
// zone.
func (b *breakers) openIn(ref detector.ClusterRef) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for key := range b.open {
		if key.cluster == ref {
			out = append(out, key.zone)
		}
	}
	return out
}

func (b *breakers) forget(ref detector.ClusterRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.open {
		if key.cluster == ref {
			delete(b.open, key)
		}
	}
}
