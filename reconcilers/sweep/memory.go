package sweep

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

const (
	// apart is how far apart two reads must be to count as two.
	apart = 5 * time.Second
	// maxRemembered bounds the findings that are remembered. Those that were
	// not seen for longest go first.
	maxRemembered = 200_000
)

// memory knows since when, and in how many reads, each drift was seen. It is
// what graces are counted by.
type memory struct {
	mu       sync.Mutex
	findings map[string]*remembered
	// met are the owners that were read since the start: of any other, a
	// drift may be older than it seems.
	met map[providers.OwnerRef]bool
}

// remembered is one finding, by its fingerprint.
type remembered struct {
	owner    providers.OwnerRef
	resource providers.ID
	first    time.Time
	counted  time.Time // the read that was counted last
	seen     time.Time
	count    int
	follow   int
}

func newMemory() *memory {
	return &memory{findings: map[string]*remembered{}, met: map[providers.OwnerRef]bool{}}
}

// note takes in the findings of one read. Of an owner that was not met before,
// records of an earlier process tell how old its drift is.
func (m *memory) note(at time.Time, findings []detector.Finding, records map[string]policies.History) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range findings {
		f := &findings[i]
		if f.Status != detector.Drifted && f.Status != detector.Missing && f.Status != detector.Unexpected {
			continue
		}
		r := m.findings[f.Fingerprint]
		if r == nil {
			r = &remembered{owner: f.Owner, resource: providers.ID{Kind: f.Resource.Kind, Name: f.Resource.ID}, first: at}
			if old := records[policies.HistoryKey(f.Owner, f.Fingerprint)].FirstSeen; !m.met[f.Owner] && !old.IsZero() && old.Before(at) {
				r.first = old
			}
			m.findings[f.Fingerprint] = r
		}
		if r.count == 0 || at.Sub(r.counted) >= apart {
			r.count, r.counted = r.count+1, at
		}
		r.seen = at
	}
	m.shed()
}

// settle forgets what the owners that were read at a time do not show any more.
// What could not be told this time is not resolved: unknown holds those
// resources, and owners as such.
func (m *memory) settle(at time.Time, read map[providers.OwnerRef]bool, unknown func(providers.OwnerRef, providers.ID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for fingerprint, r := range m.findings {
		if read[r.owner] && r.seen.Before(at) && !unknown(r.owner, r.resource) {
			delete(m.findings, fingerprint)
		}
	}
	for owner := range read {
		m.met[owner] = true
	}
}

// forget drops owners that are gone.
func (m *memory) forget(owners ...providers.OwnerRef) {
	if len(owners) == 0 {
		return
	}
	gone := make(map[providers.OwnerRef]bool, len(owners))
	for _, o := range owners {
		gone[o] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.findings, func(_ string, r *remembered) bool { return gone[r.owner] })
	maps.DeleteFunc(m.met, func(o providers.OwnerRef, _ bool) bool { return gone[o] })
}

// history adds what is remembered to the records.
func (m *memory) history(records map[string]policies.History) map[string]policies.History {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]policies.History, len(records)+len(m.findings))
	maps.Copy(out, records)
	for fingerprint, r := range m.findings {
		key := policies.HistoryKey(r.owner, fingerprint)
		h := out[key]
		h.FirstSeen, h.Observations = r.first, r.count
		out[key] = h
	}
	return out
}

// mayFollow reports whether a drift may be read again soon to be counted, and
// takes one of its turns.
func (m *memory) mayFollow(fingerprint string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.findings[fingerprint]
	if r == nil || r.follow >= maxFollowUps {
		return false
	}
	r.follow++
	return true
}

// shed keeps the memory bounded.
func (m *memory) shed() {
	if len(m.findings) <= maxRemembered {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(m.findings), func(a, b string) int {
		return cmp.Or(m.findings[a].seen.Compare(m.findings[b].seen), cmp.Compare(a, b))
	})
	for _, fingerprint := range oldest[:len(oldest)-maxRemembered*9/10] {
		delete(m.findings, fingerprint)
	}
}
