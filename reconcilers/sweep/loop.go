package sweep

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// run starts what is due, until the context ends.
func (d *Daemon) run(ctx context.Context) {
	for ctx.Err() == nil {
		next := d.dispatch(ctx)
		wait := time.Hour
		if !next.IsZero() {
			wait = max(next.Sub(d.Clock.Now()), 0)
		}
		timer := d.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-d.poke:
		case <-d.PolicyChanges:
			d.mu.Lock()
			d.policiesAt = d.Clock.Now().Add(policyDebounce)
			d.mu.Unlock()
		}
		timer.Stop()
	}
}

// agenda is what a dispatch goes through.
type agenda struct {
	now, next time.Time
}

// reached reports whether a time has come, and keeps the earliest that has not.
func (a *agenda) reached(t time.Time) bool {
	switch {
	case t.IsZero():
		return false
	case !t.After(a.now):
		return true
	case a.next.IsZero() || t.Before(a.next):
		a.next = t
	}
	return false
}

// dispatch starts everything that is due and gives when the next thing is.
func (d *Daemon) dispatch(ctx context.Context) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &agenda{now: d.Clock.Now()}
	if a.reached(d.policiesAt) {
		d.policiesAt = time.Time{}
		d.policiesChanged(a.now)
	}
	if !d.census.running && a.reached(d.census.due) {
		d.census.running = true
		d.jobs.Go(func() { d.runCensus(ctx) })
	}
	keys := slices.SortedFunc(maps.Keys(d.sites), func(a, b siteKey) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		s := d.sites[key]
		d.tend(ctx, s)
		if a.reached(s.gateAt) {
			d.openGates(s, a.now)
		}
		if s.running == "" {
			d.dispatchSite(ctx, s, a)
		}
	}
	return a.next
}

// dispatchSite starts what is due at a site that nobody reads.
func (d *Daemon) dispatchSite(ctx context.Context, s *site, a *agenda) {
	at, why := s.sweepDue()
	if d.held(s) {
		return // wakes when the last cluster was located
	}
	if a.reached(at) {
		if d.sweeps >= d.Concurrency {
			return // wakes when a sweep ends
		}
		d.sweeps++
		s.running = "sweep"
		s.asked, s.why, s.wanted = time.Time{}, "", time.Time{}
		// A sweep reads them all, and begins now.
		s.targets, s.targetsAt = map[providers.OwnerRef]*target{}, time.Time{}
		s.status.begun = a.now
		d.jobs.Go(func() { d.runSweep(ctx, s, why) })
		return
	}
	if len(s.targets) == 0 || !a.reached(s.targetsAt) || d.reads >= 2*d.Concurrency {
		return
	}
	if !s.located() || s.failures > 0 || s.status.snapshotAt.IsZero() {
		// Nothing was read yet, or it cannot be now: the sweep will tell.
		s.targets, s.targetsAt = map[providers.OwnerRef]*target{}, time.Time{}
		if s.failures == 0 {
			s.ask(a.now, CauseEvent)
			a.next = a.now
		}
		return
	}
	targets := slices.Collect(maps.Values(s.targets))
	s.targets, s.targetsAt = map[providers.OwnerRef]*target{}, time.Time{}
	d.reads++
	s.running = "targeted read"
	d.jobs.Go(func() { d.runTargets(ctx, s, targets) })
}

// held keeps scopes waiting until it was asked once where each cluster lives:
// else a scope would be swept again for each cluster that turns out to be in it.
// One that is switched off is never asked, and nobody waits for it.
func (d *Daemon) held(s *site) bool {
	if !s.located() || !s.status.ended.IsZero() {
		return false
	}
	for _, c := range d.clusters {
		if !c.located && c.effective.Mode != policies.ModeOff {
			return true
		}
	}
	return false
}

// runSweep is a sweep as a job.
func (d *Daemon) runSweep(ctx context.Context, s *site, why string) {
	told, err := d.sweepSite(ctx, s, why)
	d.mu.Lock()
	d.sweeps--
	d.mu.Unlock()
	d.afterSweep(ctx, s, why, err)
	told.wait(ctx) // no two snapshots of a scope wait to be consumed
	d.idle(s)
}

func (d *Daemon) sweepSite(ctx context.Context, s *site, why string) (*delivery, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	defer s.give()
	return d.sweep(ctx, s, why)
}

// idle lets the next job of a site begin.
func (d *Daemon) idle(s *site) {
	d.mu.Lock()
	s.running = ""
	if len(s.members) == 0 && d.sites[s.key] == s {
		d.drop(s)
	}
	d.mu.Unlock()
	d.wake()
}

// afterSweep takes down how a sweep ended, and when the next is.
func (d *Daemon) afterSweep(ctx context.Context, s *site, why string, err error) {
	if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Clock.Now()
	s.status.ended, s.status.took = now, now.Sub(s.status.begun)
	refs := slices.SortedFunc(maps.Keys(s.members), compareRefs)
	for _, ref := range refs {
		d.clusters[ref].located = true
	}
	log := logr.FromContextOrDiscard(ctx)
	if err == nil && s.status.partial == "" {
		// What one cluster alone keeps back is no reason to read the whole scope
		// again before its time: the cluster may be away for days.
		if s.status.aside != "" && s.status.aside != s.status.err {
			log.Info("Clusters could not be read", "scope", s.key.scope.String(), "reason", s.status.aside)
		}
		s.failures, s.notBefore, s.status.err = 0, time.Time{}, s.status.aside
		log.Info("Swept", "scope", s.key.scope.String(), "cause", why, "clusters", len(refs), "took", s.status.took.String())
		return
	}
	s.failures++
	wait := backoff(s.key, s.failures, now)
	s.notBefore = now.Add(wait)
	s.ask(s.notBefore, CauseRetry)
	s.status.err = s.status.partial
	if err == nil {
		log.Info("Sweep was not complete", "scope", s.key.scope.String(), "reason", s.status.partial, "retryAfter", wait.String())
		return
	}
	s.status.err = providers.Redact(oneLine(err.Error()))
	log.Error(errors.New(s.status.err), "Sweep failed, the last verdict stays", "scope", s.key.scope.String(), "site", s.key.String(), "retryAfter", wait.String())
	if d.Meter != nil {
		d.Meter.SweepFailed(s.key.scope, d.lookedAt(refs), err)
	}
}

// lookedAt leaves out clusters that policies switch off. The lock is held.
func (d *Daemon) lookedAt(refs []detector.ClusterRef) []detector.ClusterRef {
	return slices.DeleteFunc(slices.Clone(refs), func(ref detector.ClusterRef) bool {
		c := d.clusters[ref]
		return c == nil || c.effective.Mode == policies.ModeOff
	})
}

// runTargets is a targeted read as a job.
func (d *Daemon) runTargets(ctx context.Context, s *site, targets []*target) {
	begun := d.Clock.Now()
	told, err := d.targetSite(ctx, s, targets)
	d.mu.Lock()
	d.reads--
	now := d.Clock.Now()
	s.status.targetsTook = now.Sub(begun)
	s.status.targeted = now
	if err != nil && ctx.Err() == nil {
		// What could not be read one by one is read with the rest.
		s.ask(now.Add(backoff(s.key, 1, now)), CauseRetry)
	}
	d.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Info("Targeted read failed", "scope", s.key.scope.String(), "owners", len(targets), "reason", providers.Redact(oneLine(err.Error())))
	}
	told.wait(ctx)
	logr.FromContextOrDiscard(ctx).V(1).Info("Read again", "scope", s.key.scope.String(), "owners", len(targets),
		"took", now.Sub(begun).String(), "told", d.Clock.Since(now).String())
	d.idle(s)
}

func (d *Daemon) targetSite(ctx context.Context, s *site, targets []*target) (*delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	defer s.give()
	list := make([]target, len(targets))
	for i, t := range targets {
		list[i] = *t
	}
	slices.SortFunc(list, func(a, b target) int { return strings.Compare(a.owner.String(), b.owner.String()) })
	out, err := d.readTargets(ctx, s, list, causeOf(list))
	if out == nil || err != nil && !errors.Is(err, errElsewhere) {
		return nil, err
	}
	told := d.tell(out)
	d.measure(s, list)
	return told, nil
}

// causeOf gives the cause that most wants to be known of several.
func causeOf(targets []target) string {
	for _, cause := range []string{CauseEvent, CauseRequested, CauseOwnerChanged, CauseGateOpened} {
		if slices.ContainsFunc(targets, func(t target) bool { return t.cause == cause }) {
			return cause
		}
	}
	return targets[0].cause
}

// policiesChanged works out all schedules anew, and has everything decided
// again.
func (d *Daemon) policiesChanged(now time.Time) {
	set := d.Policies()
	for _, c := range d.clusters {
		c.effective = set.For(c.ref, c.labels)
	}
	for _, s := range d.sites {
		for ref, m := range s.members {
			d.plan(d.clusters[ref], m)
		}
		s.ask(now, CausePolicyChanged)
	}
}

// plan says when a cluster is due at a site.
func (d *Daemon) plan(c *cluster, m *member) {
	switch {
	case c.effective.Mode == policies.ModeOff:
		m.due, m.why = time.Time{}, ""
	case m.read.IsZero():
		m.due, m.why = c.since, CauseStart
	default:
		m.due, m.why = nextRead(c.uid, c.effective, m.read), CauseSchedule
	}
}

// openGates has those owners read again of whom a gate has opened by now.
func (d *Daemon) openGates(s *site, now time.Time) {
	for owner, at := range s.gates {
		if at.After(now) {
			continue
		}
		delete(s.gates, owner)
		for ref, owners := range d.known {
			if k := owners[owner]; k != nil && k.site == s.key {
				s.target(target{owner: owner, cluster: ref, cause: CauseGateOpened}, now)
			}
		}
	}
	s.nextGate()
}

// nextGate finds the gate that opens first.
func (s *site) nextGate() {
	s.gateAt = time.Time{}
	for _, at := range s.gates {
		if s.gateAt.IsZero() || at.Before(s.gateAt) {
			s.gateAt = at
		}
	}
}

// target adds an owner to those that are read together, no earlier than at.
func (s *site) target(t target, at time.Time) {
	known := s.targets[t.owner]
	if known == nil {
		known = &t
		known.ids = nil
		s.targets[t.owner] = known
	}
	for id := range t.ids {
		if known.ids == nil {
			known.ids = map[providers.ID]bool{}
		}
		if len(known.ids) < maxTargets {
			known.ids[id] = true
		}
	}
	if !t.since.IsZero() && (known.since.IsZero() || t.since.Before(known.since)) {
		known.since = t.since
	}
	if known.cause != t.cause {
		known.cause = causeOf([]target{*known, t})
	}
	if len(s.targets) > maxTargets {
		s.targets, s.targetsAt = map[providers.OwnerRef]*target{}, time.Time{}
		s.askSoon(at, t.cause)
		return
	}
	// A storm is read in larger and larger batches: no sooner than the last one
	// took.
	at = at.Add(batchWindow)
	if rest := s.status.targeted.Add(s.status.targetsTook); at.Before(rest) {
		at = rest
	}
	if s.targetsAt.IsZero() || at.Before(s.targetsAt) {
		s.targetsAt = at
	}
}

// askSoon asks for a sweep that many events want, at most one a minute.
func (s *site) askSoon(at time.Time, why string) {
	if rest := s.status.begun.Add(gapInterval); !s.status.begun.IsZero() && at.Before(rest) {
		at = rest
	}
	s.ask(at, why)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
