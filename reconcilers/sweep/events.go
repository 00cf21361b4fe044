package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// unwatchedRetry is the time after which it is asked again whether a scope is
// watched for which no events are configured.
const unwatchedRetry = time.Hour

// watch is one scope's Watch under way.
type watch struct {
	cancel context.CancelFunc
	// off says why there are no events now; empty while they are expected.
	off string
}

// tend begins to watch a scope whose provider can. It holds Daemon.mu.
func (d *Daemon) tend(ctx context.Context, s *site) {
	w, can := d.Providers[s.key.scope.Provider].(providers.Watcher)
	if !can || !s.located() || s.watch != nil || len(s.members) == 0 || s.status.snapshotAt.IsZero() || d.allOff(s) {
		return // before the first read, events would be about nobody known
	}
	ctx, cancel := context.WithCancel(ctx)
	s.watch = &watch{cancel: cancel}
	one := s.watch
	d.jobs.Go(func() { d.watchScope(ctx, w, s, one) })
}

// allOff reports whether no policy wants the site to be read.
func (d *Daemon) allOff(s *site) bool {
	for ref := range s.members {
		if c := d.clusters[ref]; c != nil && c.effective.Mode != policies.ModeOff {
			return false
		}
	}
	return true
}

// watchScope watches until the context ends, again and again: what cannot work
// now (no permission, no queue) may work later.
func (d *Daemon) watchScope(ctx context.Context, w providers.Watcher, s *site, one *watch) {
	log := logr.FromContextOrDiscard(ctx).WithValues("scope", s.key.scope.String())
	said := ""
	for failures := 1; ctx.Err() == nil; failures++ {
		begun := d.Clock.Now()
		err := w.Watch(ctx, s.key.scope, func(e providers.Event) { d.event(s, e) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the watch ended by itself")
		}
		if d.Clock.Since(begun) > retryMax {
			failures, said = 1, "" // it worked for a while
		}
		wait := backoff(s.key, failures, begun)
		if errors.Is(err, providers.ErrNotWatched) {
			wait = unwatchedRetry // nothing is broken, and somebody may set it up
		}
		why := providers.Redact(oneLine(err.Error()))
		d.mu.Lock()
		one.off = why
		d.mu.Unlock()
		if why != said {
			said = why
			log.Info("Events are off, only sweeps will tell of changes", "reason", why)
		}
		timer := d.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		// What happened meanwhile is told by the watch itself, as a gap: only
		// it knows whether there was anything to miss.
		d.mu.Lock()
		one.off = ""
		d.mu.Unlock()
	}
}

// event has read again what an event is about. What it became is read; the
// event itself is not believed but for who is said to have done it.
func (d *Daemon) event(s *site, e providers.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.wake()
	now := d.Clock.Now()
	s.status.lastEvent = now
	if e.At.IsZero() || e.At.After(now) {
		e.At = now
	}
	if e.Gap {
		s.askSoon(now, CauseEvent)
	}
	for _, id := range e.IDs {
		if !e.Own { // a repair is not who made the drift
			s.changed.put(id, e.By, e.At.Unix())
		}
		owners, crowded := s.index.owners(id)
		if crowded {
			s.askSoon(now, CauseEvent)
			continue
		}
		// An id that is nobody's may become an orphan: the next sweep tells.
		for _, c := range owners {
			s.target(target{owner: c.owner, cluster: c.cluster, cause: CauseEvent, ids: map[providers.ID]bool{id: true}, since: e.At}, now)
		}
	}
}

// measure tells the meter how long it took from events to decisions.
func (d *Daemon) measure(s *site, targets []target) {
	if d.Meter == nil {
		return
	}
	now := d.Clock.Now()
	for _, t := range targets {
		if !t.since.IsZero() {
			d.Meter.EventLag(s.key.scope, max(now.Sub(t.since), time.Duration(0)))
		}
	}
}
