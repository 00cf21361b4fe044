package sweep

import (
	"slices"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// claims sets apart what two machines claim, also where they read one place
// under two identities. Owners whose identity could not read it claim what
// another's snapshot makes of their objects.
func (s *Sweeper) claims(readings []*Reading, opt detector.Options) {
	places := map[providers.Scope][]*Reading{}
	for _, r := range readings {
		at := r.Scope
		at.Identity = ""
		places[at] = append(places[at], r)
	}
	for _, place := range places {
		at := slices.IndexFunc(place, func(r *Reading) bool { return r.err == nil })
		if at < 0 {
			continue
		}
		claims := make([]detector.Claims, len(place))
		for i, r := range place {
			if r.err == nil {
				claims[i] = detector.Claims{Results: r.results, Snapshot: r.Snapshot}
				continue
			}
			for _, u := range r.units {
				claims[i].Results = append(claims[i].Results, s.compareOwners(u.owners, place[at].Snapshot, r.moved(), opt)...)
			}
			claims[i].Snapshot = place[at].Snapshot
		}
		for i, results := range detector.DoubleClaimsIn(claims...) {
			if place[i].err == nil {
				place[i].results = results
			}
		}
	}
}
