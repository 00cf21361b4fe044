package vsphere

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

var _ providers.Watcher = (*Provider)(nil)

const (
	// watchPauseFirst and watchPauseMost bound the pause before watching is
	// tried again; a restarting vCenter is away for minutes.
	watchPauseFirst = 500 * time.Millisecond
	watchPauseMost  = time.Minute
	// watchSteady is how long a watch must have lasted for the next failure to
	// count as the first.
	watchSteady = time.Minute
	// goodbye bounds what is said to vCenter when a watch or a read is stopped. What is not
	// said ends with the session.
	goodbye = 2 * time.Second
)

// Watch tells which virtual machines of a vCenter may have changed: by a
// property filter over a few of their properties, which no change of a machine
// passes by, and by vCenter's events, which tell who did it and know of tags.
// Both come through one call that waits at the server
// (PropertyCollector.WaitForUpdatesEx); nothing is polled. A change shows
// twice where both tell of it.
//
// Without the privilege to read events, changes are told without who made
// them. Lost sessions and restarts of vCenter are survived, with a Gap; so is
// an error, by the call of Watch that comes after it.
func (p *Provider) Watch(ctx context.Context, scope providers.Scope, tell func(providers.Event)) error {
	w := &watch{provider: p, scope: scope, tell: tell, was: map[types.ManagedObjectReference]watched{}, missed: p.lapses(scope, false)}
	log := logr.FromContextOrDiscard(ctx).WithValues("scope", scope.String())
	for failures := 0; ctx.Err() == nil; {
		began := p.now()
		err := w.once(ctx)
		if ctx.Err() != nil {
			break
		}
		if hopeless(err) {
			p.lapses(scope, true)
			return fmt.Errorf("watch %s: %w", scope, err)
		}
		if p.now().Sub(began) > watchSteady || sessionLost(err) {
			failures = 0 // it was there a moment ago
		}
		failures++
		w.missed = true
		log.V(1).Info("Watching broke off and is tried again", "error", fmt.Sprint(err), "failures", failures)
		pause(ctx, watchPause(failures))
	}
	return nil
}

// lapses reports whether the last watch of a scope ended with an error, and
// takes down whether this one does.
func (p *Provider) lapses(scope providers.Scope, now bool) (before bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = p.lapsed[scope]
	if p.lapsed == nil {
		p.lapsed = map[providers.Scope]bool{}
	}
	p.lapsed[scope] = now
	return before
}

// hopeless reports whether trying again soon cannot help: the credentials are
// refused, and too many tries would lock the account; or may not watch.
func hopeless(err error) bool {
	var scope *providers.ScopeError
	if errors.As(err, &scope) {
		return scope.Reason != providers.ReasonUnreachable
	}
	return hasFault[types.BaseNoPermission](err) && !sessionLost(err)
}

// watchPause doubles from failure to failure, and is drawn from the upper half,
// so that the watches of a vCenter do not all come back at once.
func watchPause(failures int) time.Duration {
	most := watchPauseMost
	if shift := failures - 1; shift < 10 {
		most = min(most, watchPauseFirst<<shift)
	}
	return most/2 + rand.N(most/2) //nolint:gosec // spreads load, protects nothing
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// watch is one call of Watch, over all its sessions.
type watch struct {
	provider *Provider
	scope    providers.Scope
	tell     func(providers.Event)

	// now are the machines that exist, and was those that are gone: events
	// come after the machine that they are about.
	now, was map[types.ManagedObjectReference]watched
	// since is the time, by vCenter's clock, from which on events are not told
	// yet.
	since time.Time
	// missed says that something may have been lost since the last session.
	missed bool
}

// watched is a machine as far as telling of it goes.
type watched struct {
	id, name string
	props    map[string]string
}

// mostGone bounds the machines that are remembered after they are gone.
const mostGone = 4096

func (w *watch) gone(ref types.ManagedObjectReference) {
	if len(w.was) >= mostGone {
		clear(w.was)
	}
	w.was[ref] = w.now[ref]
	delete(w.now, ref)
}

// find gives the machine of a managed object, also if it is gone.
func (w *watch) find(ref types.ManagedObjectReference) (watched, bool) {
	if m, ok := w.now[ref]; ok {
		return m, true
	}
	m, ok := w.was[ref]
	return m, ok
}
