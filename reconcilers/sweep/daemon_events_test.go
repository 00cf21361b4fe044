package sweep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// happen lets the cloud tell of a change.
func (l *live) happen(e providers.Event) {
	l.t.Helper()
	if !l.cloud.Tell(e, time.Second) {
		l.t.Fatal("nobody listens to events")
	}
}

func TestDaemonEvent(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 3)
		l.start()
		pass(time.Minute)
		l.take()
		reads := l.observes()
		l.retype("prod-c1-1", "m5.xlarge")
		id := instance("prod-c1-1")
		for range 5 { // doubled, as queues do
			l.happen(providers.Event{IDs: []providers.ID{id}, At: time.Now().Add(-2 * time.Second), What: "ModifyInstanceAttribute", By: "arn:aws:iam::1:user/eve"})
		}
		pass(time.Second)
		o := l.last()
		l.expect("00:01:00 Event c1-1")
		if n := l.observes() - reads; n != 0 {
			t.Errorf("an event made %d bulk reads", n)
		}
		if n := l.count(fake.OpConfirm); n != 1 {
			t.Errorf("five events made %d targeted reads, want 1", n)
		}
		if len(o.Result.Decisions) != 1 || o.Result.Decisions[0].Finding.Status != detector.Drifted {
			t.Fatalf("decisions: %v", outline(o.Result))
		}
		if by := o.ChangedBy[id]; by != "arn:aws:iam::1:user/eve" {
			t.Errorf("changed by %q", by)
		}
		if len(l.lags) != 1 || l.lags[0] < 2*time.Second || l.lags[0] > 3*time.Second {
			t.Errorf("lags %v, want one of the event's two seconds and a little", l.lags)
		}
		if len(o.Result.Clusters) != 1 || len(o.Result.Clusters[0].Owners) != 1 {
			t.Errorf("a targeted outcome is about %+v", o.Result.Clusters)
		}
		// The next sweep still knows who it was; when it is repaired nobody is.
		pass(14 * time.Minute)
		if by := l.last().ChangedBy[id]; by == "" {
			t.Error("a sweep does not know any more who changed it")
		}
		l.retype("prod-c1-1", "m5.large")
		pass(15 * time.Minute)
		l.retype("prod-c1-1", "m5.xlarge")
		pass(15 * time.Minute)
		if by := l.last().ChangedBy[id]; by != "" {
			t.Errorf("a later change is said to be of %s", by)
		}
	})
}

// TestDaemonEventsOfOthers knows whom a resource is about that nobody wants, and
// does nothing about what is nobody's.
func TestDaemonEventsOfOthers(t *testing.T) {
	daemon(t, "", func(_ *testing.T, l *live) {
		l.cluster("prod", "c1", 2)
		l.cloud.Cover(providers.KindVolume, nil)
		l.cloud.Cover(providers.KindSecurityGroup, nil)
		volume, group := providers.ID{Kind: providers.KindVolume, Name: "vol-1"}, providers.ID{Kind: providers.KindSecurityGroup, Name: "sg-1"}
		l.cloud.Put(&providers.Resource{ID: volume, Fields: providers.FieldsOf(map[string]providers.Field{"/instanceId": {Value: providers.String("i-prod-c1-0")}})})
		l.cloud.Put(&providers.Resource{ID: group})
		for _, m := range []string{"prod-c1-0", "prod-c1-1"} {
			l.cloud.Alter(instance(m), func(r *providers.Resource) {
				r.Set("/securityGroups", providers.Field{Value: providers.Set("sg-1", "sg-2")})
			})
		}
		l.start()
		pass(time.Minute)
		l.take()
		l.happen(providers.Event{IDs: []providers.ID{volume}})
		pass(time.Second)
		l.expect("00:01:00 Event c1-0")
		l.happen(providers.Event{IDs: []providers.ID{group}})
		pass(time.Second)
		l.expect("00:01:01 Event c1-0,c1-1")
		l.happen(providers.Event{IDs: []providers.ID{instance("unknown")}})
		pass(time.Minute)
		l.expect()
	})
}

// TestDaemonEventStorm reads a scope once where single reads would cost more,
// and not again and again.
func TestDaemonEventStorm(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", maxTargets+50)
		l.start()
		pass(2 * time.Minute)
		l.take()
		reads := l.observes()
		for round := range 5 {
			for i := range maxTargets + 50 {
				l.happen(providers.Event{IDs: []providers.ID{instance(fmt.Sprintf("prod-c1-%d", i))}, What: fmt.Sprint(round)})
			}
			l.happen(providers.Event{Gap: true})
			pass(time.Second)
		}
		pass(3 * time.Minute)
		if n := l.observes() - reads; n < 1 || n > 2 {
			t.Errorf("a storm made %d sweeps, want one, and one after it", n)
		}
		if n := l.count(fake.OpConfirm); n > 5 {
			t.Errorf("a storm made %d targeted reads", n)
		}
	})
}

func TestDaemonGap(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.start()
		pass(5 * time.Minute)
		l.take()
		for range 20 {
			l.happen(providers.Event{Gap: true})
			pass(5 * time.Second)
		}
		if got := l.take(); len(got) != 2 || !strings.HasPrefix(got[0], "00:05:00 Event prod/c1") || !strings.HasPrefix(got[1], "00:06:00 Event") {
			t.Errorf("gaps for 100 seconds made %v, want a sweep a minute", got)
		}
	})
}

// deaf is a cloud whose events cannot be had for a while.
type deaf struct {
	*fake.Provider
	until time.Time
	err   error
	tries int
}

func (d *deaf) Watch(ctx context.Context, scope providers.Scope, tell func(providers.Event)) error {
	if d.tries++; time.Now().Before(d.until) {
		return d.err
	}
	return d.Provider.Watch(ctx, scope, tell)
}

func TestDaemonEventsOff(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		cloud := &deaf{Provider: l.cloud, until: time.Now().Add(20 * time.Minute), err: errors.New("the queue is gone")}
		l.d.Providers[fake.Name] = cloud
		l.cluster("prod", "c1", 1)
		l.start()
		pass(time.Minute)
		if s := l.d.Status().Scopes[0]; s.Events || s.EventsOff != "the queue is gone" {
			t.Errorf("status: %+v", s)
		}
		pass(29 * time.Minute)
		if cloud.tries < 5 || cloud.tries > 12 {
			t.Errorf("%d tries in half an hour", cloud.tries)
		}
		if s := l.d.Status().Scopes[0]; !s.Events || s.EventsOff != "" {
			t.Errorf("status after recovery: %+v", s)
		}
		// Watch tells a gap itself; that it is called again is none.
		for _, o := range l.take() {
			if strings.Contains(o, CauseEvent) {
				t.Errorf("a watch that did not work asked for a sweep: %s", o)
			}
		}
		l.edit(func() { l.inv.Clusters = nil })
		l.d.noticeCluster()
		pass(time.Minute)
		if l.cloud.Tell(providers.Event{}, time.Second) {
			t.Error("a scope without clusters is still watched")
		}
	})
}

// TestDaemonNotWatched asks seldom again where nobody has configured events, and
// makes no sweep of it.
func TestDaemonNotWatched(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		cloud := &deaf{Provider: l.cloud, until: time.Now().Add(1000 * time.Hour), err: fmt.Errorf("watch it: %w: no event queue is named", providers.ErrNotWatched)}
		l.d.Providers[fake.Name] = cloud
		l.cluster("prod", "c1", 1)
		l.start()
		pass(4 * time.Hour)
		if cloud.tries < 2 || cloud.tries > 5 {
			t.Errorf("%d tries in four hours", cloud.tries)
		}
		if s := l.d.Status().Scopes[0]; s.Events || !strings.Contains(s.EventsOff, "no event queue is named") {
			t.Errorf("status: %+v", s)
		}
		if got := l.take(); len(got) != 17 {
			t.Errorf("%d reads in four hours, want the first and one each quarter: %v", len(got), got)
		}
	})
}

// TestDaemonOwnEvents: a repair is read again, and is not who made the drift.
func TestDaemonOwnEvents(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 2)
		l.start()
		pass(time.Minute)
		l.take()
		id := instance("prod-c1-1")
		l.retype("prod-c1-1", "m5.xlarge")
		l.happen(providers.Event{IDs: []providers.ID{id}, At: time.Now().Add(-2 * time.Second), By: "eve"})
		l.happen(providers.Event{IDs: []providers.ID{id}, At: time.Now().Add(-time.Second), By: "holdfast", Own: true})
		pass(time.Second)
		o := l.last()
		l.expect("00:01:00 Event c1-1")
		if by := o.ChangedBy[id]; by != "eve" {
			t.Errorf("changed by %q, want eve", by)
		}
	})
}

// TestDaemonTargetedAbsence does not call a machine missing that a live read
// finds, nor one that it cannot read, and does call one so that is gone.
func TestDaemonTargetedAbsence(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 3)
		l.start()
		pass(time.Minute)
		l.take()
		id := instance("prod-c1-0")
		l.cloud.Unreadable(id, errors.New("throttled"))
		l.happen(providers.Event{IDs: []providers.ID{id}})
		pass(time.Second)
		if d := l.last().Result.Decisions; len(d) != 1 || d[0].Finding.Status != detector.Unknown || !strings.Contains(d[0].Finding.Reason, "throttled") {
			t.Errorf("what could not be read: %v", outline(l.last().Result))
		}
		l.cloud.Unreadable(id, nil)
		l.happen(providers.Event{IDs: []providers.ID{id}})
		pass(time.Second)
		if d := l.last().Result.Decisions; len(d) != 0 {
			t.Errorf("what could be read again: %v", outline(l.last().Result))
		}
		l.cloud.Remove(id)
		l.happen(providers.Event{IDs: []providers.ID{id}})
		pass(time.Second)
		if d := l.last().Result.Decisions; len(d) != 1 || d[0].Finding.Status != detector.Missing {
			t.Errorf("what is gone: %v", outline(l.last().Result))
		}
		l.cloud.Fail(fake.OpConfirm, errors.New("the network is down"))
		n := len(l.outcomes)
		l.happen(providers.Event{IDs: []providers.ID{id}})
		pass(10 * time.Second)
		if len(l.outcomes) != n {
			t.Error("a targeted read that failed was published")
		}
	})
}

// TestDaemonTargetedClaims finds that two machines claim one instance although
// it reads one of them only.
func TestDaemonTargetedClaims(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		c := l.cluster("prod", "c1", 2)
		l.start()
		pass(time.Minute)
		l.take()
		want := providers.Resource{ID: instance("prod-c1-0"), Fields: providers.FieldsOf(map[string]providers.Field{"/instanceType": {Value: providers.String("m5.large")}})}
		l.cloud.Want(c.Owners[2].Ref, want)
		l.d.Ask(Request{Cluster: refOf(c), Owners: []providers.OwnerRef{c.Owners[2].Ref}, Cause: CauseOwnerChanged})
		pass(time.Second)
		if d := l.last().Result.Decisions; len(d) != 1 || d[0].Finding.Status != detector.Unknown || !strings.Contains(d[0].Finding.Reason, "claimed by two") {
			t.Errorf("a double claim: %v", outline(l.last().Result))
		}
	})
}
