package infra

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/holdfast-io/holdfast/providers"
)

// cloud counts what it is asked, and answers with the resources that it has.
type cloud struct {
	providers.Provider // of which no more is used

	mu        sync.Mutex
	has       map[providers.ID]*providers.Resource
	observed  int
	confirmed [][]providers.ID
	hold      chan struct{} // if set, Observe answers after it is closed, with what was there before
	fail      error
}

func (c *cloud) Observe(context.Context, providers.Scope) (*providers.Snapshot, error) {
	c.mu.Lock()
	c.observed++
	snap := &providers.Snapshot{Coverage: map[string]error{"VPC": nil}, Resources: map[providers.ID]*providers.Resource{}}
	for id, r := range c.has {
		snap.Resources[id] = r
	}
	hold, fail := c.hold, c.fail
	c.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return snap, fail
}

func (c *cloud) Confirm(_ context.Context, _ providers.Scope, ids []providers.ID) (*providers.Confirmation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmed = append(c.confirmed, ids)
	out := &providers.Confirmation{Resources: map[providers.ID]*providers.Resource{}, Unconfirmed: map[providers.ID]error{}}
	for _, id := range ids {
		if r := c.has[id]; r != nil {
			out.Resources[id] = r
		}
	}
	return out, c.fail
}

func (c *cloud) put(name string) providers.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := providers.ID{Kind: "VPC", Name: name}
	if c.has == nil {
		c.has = map[providers.ID]*providers.Resource{}
	}
	c.has[id] = &providers.Resource{ID: id}
	return id
}

var here = providers.Scope{Provider: "fake", Account: "1"}

// TestSharedReads: however many owners ask at once, the scope is read once, and
// what they ask for again is asked for in one call.
func TestSharedReads(t *testing.T) {
	c := &cloud{}
	s := newSnapshots(clock.RealClock{})
	ctx := t.Context()
	start := time.Now()
	var wait sync.WaitGroup
	const many = 50
	for range many {
		wait.Go(func() {
			if _, err := s.since(ctx, c, here, start); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if c.observed != 1 {
		t.Errorf("%d owners read the scope %d times", many, c.observed)
	}
	for i := range many {
		id := c.put(string(rune('a' + i)))
		wait.Go(func() {
			got, err := s.confirm(ctx, c, here, id)
			if err != nil || got.Resources[id] == nil {
				t.Errorf("%s: %v, %v", id, got, err)
			}
		})
	}
	wait.Wait()
	if len(c.confirmed) > many/10 {
		t.Errorf("%d owners were confirmed by %d calls", many, len(c.confirmed))
	}
	if n := len(s.latest(here).Resources); n != many {
		t.Errorf("the snapshot has %d of %d resources that were confirmed", n, many)
	}
}

// TestLateRead: a bulk read that began before something was made does not make
// it vanish again.
func TestLateRead(t *testing.T) {
	c := &cloud{}
	s := newSnapshots(clock.RealClock{})
	ctx := t.Context()
	old := c.put("old")
	if _, err := s.since(ctx, c, here, time.Now()); err != nil {
		t.Fatal(err)
	}
	c.hold = make(chan struct{})
	done := make(chan *providers.Snapshot)
	go func() {
		snap, err := s.since(ctx, c, here, time.Now())
		if err != nil {
			t.Error(err)
		}
		done <- snap
	}()
	for reads := 0; reads < 2; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		reads = c.observed
		c.mu.Unlock()
	}
	made := c.put("new")
	c.mu.Lock()
	delete(c.has, old)
	c.mu.Unlock()
	if _, err := s.confirm(ctx, c, here, made, old); err != nil {
		t.Fatal(err)
	}
	close(c.hold)
	if snap := <-done; snap.Resources[made] == nil || snap.Resources[old] != nil {
		t.Errorf("after the late read there are %v, want the new one alone", snap.Resources)
	}
}

// TestFailedRead: a failure is nobody's snapshot, and the next one asks again.
func TestFailedRead(t *testing.T) {
	c := &cloud{fail: errors.New("away")}
	s := newSnapshots(clock.RealClock{})
	now := time.Now()
	if snap, err := s.since(t.Context(), c, here, now); err == nil || snap != nil {
		t.Errorf("a failed read gives %v, %v", snap, err)
	}
	c.fail = nil
	if snap, err := s.since(t.Context(), c, here, now); err != nil || snap == nil {
		t.Errorf("the next read gives %v, %v", snap, err)
	}
}

// TestKeep: what takes long to read is read seldom, and what has gaps soon.
func TestKeep(t *testing.T) {
	for name, tc := range map[string]struct {
		took time.Duration
		gap  error
		want time.Duration
	}{
		"quick":          {time.Second, nil, time.Minute},
		"slow":           {20 * time.Second, nil, 200 * time.Second},
		"gaps":           {time.Second, errors.New("throttled"), freshBuilding},
		"slow, and gaps": {20 * time.Second, errors.New("throttled"), 20 * time.Second},
	} {
		s := newSnapshots(clock.RealClock{})
		if got := s.keep(here); got != time.Minute {
			t.Errorf("%s: before the first read it is %s", name, got)
		}
		snap := &providers.Snapshot{Coverage: map[string]error{"VPC": nil, "Subnet": tc.gap}}
		s.of(here).take(snap, time.Now(), tc.took)
		if got := s.keep(here); got != tc.want {
			t.Errorf("%s: a snapshot is kept for %s, want %s", name, got, tc.want)
		}
	}
}

// TestUnread: what was read by its id since is not read again.
func TestUnread(t *testing.T) {
	c := &cloud{}
	s := newSnapshots(clock.RealClock{})
	ids := []providers.ID{c.put("a"), c.put("b")}
	if _, err := s.since(t.Context(), c, here, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := s.unread(here, slices.Clone(ids), time.Now().Add(-time.Hour)); len(got) > 0 {
		t.Errorf("%v are to be read, of a snapshot that is younger", got)
	}
	later := time.Now()
	if got := s.unread(here, slices.Clone(ids), later); len(got) != 2 {
		t.Errorf("%v are to be read, of a snapshot that is older", got)
	}
	if _, err := s.confirm(t.Context(), c, here, ids[0]); err != nil {
		t.Fatal(err)
	}
	if got := s.unread(here, slices.Clone(ids), later); len(got) != 1 || got[0] != ids[1] {
		t.Errorf("%v are to be read, want %v", got, ids[1])
	}
}
