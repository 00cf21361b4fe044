package infra

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	// gather is for how long ids are collected that one call is to read again:
	// hundreds of machines that start at once ask at once.
	gather = 100 * time.Millisecond
	// readTime bounds one read, which serves all that wait for it and therefore
	// does not end with any of them.
	readTime = 5 * time.Minute
	// keep and keepTimes are how old the read of a whole scope may be, the latter in
	// times of what the read took: where there is much to read, it is read seldom. What
	// is made or waited for is read by its id.
	keep      = time.Minute
	keepTimes = 10
)

// snapshots shares what is read of each scope among all owners in it.
type snapshots struct {
	clock clock.WithTicker

	mu     sync.Mutex
	scopes map[providers.Scope]*shared
}

// shared is what is known of one scope.
type shared struct {
	// turn is held by whoever reads the whole scope.
	turn chan struct{}

	mu   sync.Mutex
	snap *providers.Snapshot
	// begun is when the read of snap began, and took how long it lasted.
	begun time.Time
	took  time.Duration
	// later are ids that were read again since, with the time: a bulk read that
	// began before then may not show them.
	later map[providers.ID]time.Time
	// next is the batch that is being collected, nil if none is.
	next *batch
}

// batch is one read of some ids, for all that asked for them.
type batch struct {
	ids  map[providers.ID]bool
	done chan struct{}
	c    *providers.Confirmation
	err  error
}

func newSnapshots(c clock.WithTicker) *snapshots {
	return &snapshots{clock: c, scopes: map[providers.Scope]*shared{}}
}

func (s *snapshots) of(scope providers.Scope) *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scopes[scope] == nil {
		s.scopes[scope] = &shared{turn: make(chan struct{}, 1), later: map[providers.ID]time.Time{}}
	}
	return s.scopes[scope]
}

// since gives a snapshot whose read began at a time or after it, and reads the
// scope where there is none.
func (s *snapshots) since(ctx context.Context, p providers.Provider, scope providers.Scope, t time.Time) (*providers.Snapshot, error) {
	one := s.of(scope)
	if snap := one.fresh(t); snap != nil {
		return snap, nil
	}
	select {
	case one.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-one.turn }()
	if snap := one.fresh(t); snap != nil {
		return snap, nil
	}
	began := s.clock.Now()
	snap, err := p.Observe(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", scope, err)
	}
	return one.take(snap, began, s.clock.Since(began)), nil
}

// keep is how old a scope's snapshot may be for those that need none since a
// certain time. One with gaps is read again as soon as may be: it may have been the
// cloud's bad moment.
func (s *snapshots) keep(scope providers.Scope) time.Duration {
	one := s.of(scope)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.snap != nil {
		for _, gap := range one.snap.Coverage {
			if gap != nil {
				return max(freshBuilding, one.took)
			}
		}
	}
	return max(keep, keepTimes*one.took)
}

// unread gives those of some ids that were last read before a time.
func (s *snapshots) unread(scope providers.Scope, ids []providers.ID, t time.Time) []providers.ID {
	one := s.of(scope)
	one.mu.Lock()
	defer one.mu.Unlock()
	if !one.begun.Before(t) {
		return nil
	}
	return slices.DeleteFunc(ids, func(id providers.ID) bool { return !one.later[id].Before(t) })
}

// latest gives the snapshot as it is by now.
func (s *snapshots) latest(scope providers.Scope) *providers.Snapshot {
	one := s.of(scope)
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.snap
}

func (o *shared) fresh(t time.Time) *providers.Snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.snap == nil || o.begun.Before(t) {
		return nil
	}
	return o.snap
}

// take makes a bulk read the one to go by, with what was read again meanwhile.
func (o *shared) take(snap *providers.Snapshot, began time.Time, took time.Duration) *providers.Snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := false
	for id, at := range o.later {
		if at.Before(began) {
			delete(o.later, id)
			continue
		}
		if !kept {
			c := *snap
			c.Resources, kept = maps.Clone(snap.Resources), true
			snap = &c
		}
		if r := o.snap.Resources[id]; r != nil {
			snap.Resources[id] = r
		} else {
			delete(snap.Resources, id)
		}
	}
	o.snap, o.begun, o.took = snap, began, took
	return snap
}

// confirm reads ids again, together with those that others ask for at the same
// time, and lays them over the scope's snapshot, of which there is one already.
func (s *snapshots) confirm(ctx context.Context, p providers.Provider, scope providers.Scope, ids ...providers.ID) (*providers.Confirmation, error) {
	one := s.of(scope)
	one.mu.Lock()
	b := one.next
	if b == nil {
		b = &batch{ids: map[providers.ID]bool{}, done: make(chan struct{})}
		one.next = b
		go s.read(context.WithoutCancel(ctx), p, scope, one, b)
	}
	for _, id := range ids {
		b.ids[id] = true
	}
	one.mu.Unlock()
	select {
	case <-b.done:
		return b.c, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read waits for others to join a batch, and reads it.
func (s *snapshots) read(ctx context.Context, p providers.Provider, scope providers.Scope, one *shared, b *batch) {
	defer close(b.done)
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	<-s.clock.After(gather)
	one.mu.Lock()
	one.next = nil // whoever comes now is of the next one
	ids := make([]providers.ID, 0, len(b.ids))
	for id := range b.ids {
		ids = append(ids, id)
	}
	one.mu.Unlock()
	began := s.clock.Now()
	if b.c, b.err = p.Confirm(ctx, scope, ids); b.err != nil {
		b.err = fmt.Errorf("read %d resources in %s: %w", len(ids), scope, b.err)
		return
	}
	one.lay(ids, b.c, began)
}

// lay puts what was read again over the snapshot. What could not be read stays
// as it was: whoever asked is told by the confirmation.
func (o *shared) lay(ids []providers.ID, c *providers.Confirmation, began time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.snap == nil {
		return
	}
	next := *o.snap
	next.Resources = maps.Clone(o.snap.Resources)
	for _, id := range ids {
		if _, failed := c.Unconfirmed[id]; failed {
			continue
		}
		if r := c.Resources[id]; r != nil {
			next.Resources[id] = r
		} else {
			delete(next.Resources, id)
		}
		o.later[id] = began
	}
	o.snap = &next
}
