package sweep

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Status is what the daemon does now, and what it did last.
type Status struct {
	// Clusters and Scopes are ordered by name.
	Clusters []ClusterStatus
	Scopes   []ScopeStatus
}

// ClusterStatus is how one cluster stands. Times are zero where nothing of the
// kind happened, or will.
type ClusterStatus struct {
	Ref  detector.ClusterRef
	Mode policies.Mode
	// Scopes that its owners live in.
	Scopes []providers.Scope
	// LastSweep is when its clouds were last read in full: the oldest of its
	// scopes. NextSweep is when the first of them is read again.
	LastSweep, NextSweep time.Time
	// Took is how long the last sweep took.
	Took time.Duration
	// Stale says that LastSweep lies further back than StaleAfter.
	Stale      bool
	StaleAfter time.Duration
	// Checked and NotChecked count fields at the last sweep.
	Checked, NotChecked int
	// Breakers that are open: "" is that of the cluster, others of zones.
	Breakers []string
	// Errors say why the last reads failed, or were not complete.
	Errors []string
}

// ScopeStatus is how one scope stands, or one cluster's owners without a scope.
type ScopeStatus struct {
	Scope providers.Scope
	// Unlocated is the cluster whose owners have no scope.
	Unlocated detector.ClusterRef
	Clusters  []detector.ClusterRef
	// SnapshotAt is when the last bulk read was taken, and RereadAt when some
	// of it was last read again.
	SnapshotAt, RereadAt time.Time
	// Running is what is being read now; empty for nothing.
	Running  string
	Failures int
	Error    string
	// Events reports whether the cloud tells of changes, and EventsOff why not.
	Events    bool
	EventsOff string
	LastEvent time.Time
	// Waiting counts the owners that are about to be read again.
	Waiting int
}

// Status gives a copy; it may be asked at any time.
func (d *Daemon) Status() Status {
	d.init()
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Clock.Now()
	var out Status
	for _, ref := range slices.SortedFunc(maps.Keys(d.clusters), compareRefs) {
		out.Clusters = append(out.Clusters, d.clusterStatus(d.clusters[ref], now))
	}
	for _, key := range slices.SortedFunc(maps.Keys(d.sites), func(a, b siteKey) int { return strings.Compare(a.String(), b.String()) }) {
		out.Scopes = append(out.Scopes, d.scopeStatus(d.sites[key]))
	}
	return out
}

func (d *Daemon) clusterStatus(c *cluster, now time.Time) ClusterStatus {
	out := ClusterStatus{Ref: c.ref, Mode: c.effective.Mode, StaleAfter: c.effective.Schedule.StaleAfter.Duration, Breakers: d.breakers.openIn(c.ref)}
	slices.Sort(out.Breakers)
	first := true
	for _, s := range d.sites {
		m := s.members[c.ref]
		if m == nil {
			continue
		}
		if first || m.read.Before(out.LastSweep) {
			out.LastSweep, first = m.read, false
		}
		if at, _ := s.sweepDue(); !at.IsZero() && (out.NextSweep.IsZero() || at.Before(out.NextSweep)) {
			out.NextSweep = at
		}
		out.Took = max(out.Took, s.status.took)
		out.Stale = out.Stale || c.effective.Mode != policies.ModeOff && isStale(c, m, now)
		sum := c.coverage[s.key]
		out.Checked, out.NotChecked = out.Checked+sum.checked, out.NotChecked+sum.notChecked
		if s.located() {
			out.Scopes = append(out.Scopes, s.key.scope)
		}
		if s.status.err != "" {
			out.Errors = append(out.Errors, s.status.err)
		}
	}
	slices.Sort(out.Errors)
	slices.SortFunc(out.Scopes, func(a, b providers.Scope) int { return cmp.Compare(scopeKey(a), scopeKey(b)) })
	return out
}

func (d *Daemon) scopeStatus(s *site) ScopeStatus {
	out := ScopeStatus{
		Scope: s.key.scope, Unlocated: s.key.cluster, Clusters: slices.SortedFunc(maps.Keys(s.members), compareRefs),
		SnapshotAt: s.status.snapshotAt, RereadAt: s.status.retargeted, Running: s.running, Failures: s.failures, Error: s.status.err,
		LastEvent: s.status.lastEvent, Waiting: len(s.targets),
	}
	_, can := d.Providers[s.key.scope.Provider].(providers.Watcher)
	switch {
	case !can:
		out.EventsOff = "its provider has no events"
	case s.watch == nil:
		out.EventsOff = "it was not read yet"
	default:
		out.Events, out.EventsOff = s.watch.off == "", s.watch.off
	}
	return out
}

// stopped forgets what runs no more.
func (d *Daemon) stopped() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sites {
		s.watch, s.running = nil, ""
	}
}
