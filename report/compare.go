package report

import (
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// compare places the present findings against a previous report, carries
// firstSeen over, and says what became of the previous ones. all holds the
// present findings with the ignored ones: a finding that is silenced now is
// not resolved.
func compare(previous, now *Report, all []Finding) *Comparison {
	before := make(map[string]*Finding, len(previous.Findings))
	for i := range previous.Findings {
		f := &previous.Findings[i]
		before[f.Fingerprint] = f
	}
	present := make(map[string]bool, len(all))
	for i := range all {
		f := &all[i]
		present[f.Fingerprint] = true
		if old, ok := before[f.Fingerprint]; ok {
			f.Since = SinceUnchanged
			f.FirstSeen = earliest(f.FirstSeen, old.FirstSeen, timeOf(previous.Generated))
			continue
		}
		f.Since = SinceNew
		f.FirstSeen = earliest(f.FirstSeen, timeOf(now.Generated))
	}

	c := &Comparison{Previous: previous.Generated, Resolved: []Finding{}, Unverified: []Finding{}}
	scope := newLookedFor(now, all)
	for i := range previous.Findings {
		old := previous.Findings[i]
		if present[old.Fingerprint] || !old.Trouble() {
			continue
		}
		old.Since = ""
		if scope.covers(&old) {
			c.Resolved = append(c.Resolved, old)
		} else {
			c.Unverified = append(c.Unverified, old)
		}
	}
	sortFindings(c.Resolved)
	sortFindings(c.Unverified)
	return c
}

func earliest(times ...*time.Time) *time.Time {
	var first *time.Time
	for _, t := range times {
		if t != nil && (first == nil || t.Before(*first)) {
			first = t
		}
	}
	return first
}

func countSince(r *Report) {
	for i := range r.Findings {
		switch r.Findings[i].Since {
		case SinceNew:
			r.Compared.New++
		case SinceUnchanged:
			r.Compared.Unchanged++
		}
	}
}

// lookedFor knows what the present scan could have found: unknown is never
// absence, also not the absence of drift.
type lookedFor struct {
	clusters map[detector.ClusterRef]bool
	owners   map[ownerKey]bool
	// unread holds kinds of an owner, and of a cluster as the zero owner,
	// of which something was not compared.
	unread map[unreadKey]bool
	// troubled clusters and objects met a problem in the scan itself.
	troubled map[detector.ClusterRef]bool
}

type ownerKey struct {
	cluster               detector.ClusterRef
	kind, namespace, name string
}

type unreadKey struct {
	owner    ownerKey
	kind, id string
}

func keyOf(cluster detector.ClusterRef, o *providers.OwnerRef) ownerKey {
	return ownerKey{cluster, o.Kind, o.Namespace, o.Name}
}

func newLookedFor(r *Report, all []Finding) *lookedFor {
	l := &lookedFor{
		clusters: map[detector.ClusterRef]bool{},
		owners:   map[ownerKey]bool{},
		unread:   map[unreadKey]bool{},
		troubled: map[detector.ClusterRef]bool{},
	}
	for i := range r.Clusters {
		c := &r.Clusters[i]
		ref := detector.ClusterRef{Namespace: c.Namespace, Name: c.Name}
		l.clusters[ref] = c.SnapshotTime != nil
		for j := range c.Owners {
			l.owners[keyOf(ref, &c.Owners[j].OwnerRef)] = true
		}
	}
	for i := range all {
		f := &all[i]
		if f.Status != detector.NotChecked && f.Status != detector.Unknown {
			continue
		}
		owner := keyOf(f.Cluster, &f.Owner)
		l.unread[unreadKey{owner, f.Resource.Kind, f.Resource.ID}] = true
		l.unread[unreadKey{ownerKey{cluster: f.Cluster}, f.Resource.Kind, ""}] = true
	}
	for i := range r.Problems {
		if c := r.Problems[i].Cluster; c != nil {
			l.troubled[*c] = true
		}
	}
	return l
}

// covers says whether the previous finding would show now if it were still
// so. An owner that is gone takes its findings with it only where the cluster
// was read without a problem: otherwise the owner may just not have loaded.
func (l *lookedFor) covers(f *Finding) bool {
	if !l.clusters[f.Cluster] {
		return false
	}
	kind := f.Resource.Kind
	if f.Owner == (providers.OwnerRef{}) {
		return !l.unread[unreadKey{ownerKey{cluster: f.Cluster}, kind, ""}]
	}
	owner := keyOf(f.Cluster, &f.Owner)
	if !l.owners[owner] {
		return !l.troubled[f.Cluster]
	}
	for _, id := range []string{f.Resource.ID, ""} {
		// A finding without a kind says that nothing of the owner was compared.
		if l.unread[unreadKey{owner, kind, id}] || l.unread[unreadKey{owner, "", id}] {
			return false
		}
	}
	return true
}
