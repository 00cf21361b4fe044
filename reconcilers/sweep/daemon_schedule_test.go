package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// TestDaemonJitter lets clusters of one scope share a read although each has
// its own moment, and gives each schedule's time another one.
func TestDaemonJitter(t *testing.T) {
	daemon(t, `schedule: {cron: "*/15 * * * *", jitter: 5m}`, func(t *testing.T, l *live) {
		for i := range 5 {
			l.cluster("prod", fmt.Sprintf("c%d", i), 1).Object.UID = types.UID(fmt.Sprintf("uid-%d", i))
		}
		l.start()
		pass(time.Hour)
		got := l.take()
		if len(got) < 4 || len(got) > 5 { // the hour's own read may come after it
			t.Fatalf("%d reads in an hour, want 4 or 5: %v", len(got), got)
		}
		minutes := map[string]bool{}
		for _, line := range got[1:] {
			minutes[line[4:8]] = true
		}
		if len(minutes) < 2 {
			t.Errorf("each read comes at the same moment of its quarter: %v", got)
		}
	})
	uid := types.UID("a")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if first, again := jitter(uid, at, time.Hour), jitter(uid, at, time.Hour); first != again {
		t.Error("jitter is not the same for the same cluster and moment")
	}
	var sum time.Duration
	for i := range 1000 {
		j := jitter(types.UID(fmt.Sprint(i)), at, time.Hour)
		if j < 0 || j >= time.Hour {
			t.Fatalf("jitter %s is out of bounds", j)
		}
		sum += j
	}
	if mean := sum / 1000; mean < 27*time.Minute || mean > 33*time.Minute {
		t.Errorf("jitter is on average %s of an hour, want about half", mean)
	}
}

// TestDaemonSchedulesInTheirZones reads at the wall's time, in the night in which
// a clock goes back too.
func TestDaemonSchedulesInTheirZones(t *testing.T) {
	daemon(t, `schedule: {cron: "30 23 * * *", timeZone: America/Sao_Paulo, jitter: 0s}`, func(_ *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.start()
		pass(time.Minute)
		l.take()
		pass(time.Until(time.Date(2000, 2, 25, 12, 0, 0, 0, time.UTC)))
		l.take()
		pass(72 * time.Hour)
		// On 26 February 2000, 23:30 came twice there; the first one counts.
		l.expect("01:30:00 Schedule prod/c1:2", "01:30:00 Schedule prod/c1:2", "02:30:00 Schedule prod/c1:2")
	})
}

func TestDaemonSweepNow(t *testing.T) {
	daemon(t, "", func(_ *testing.T, l *live) {
		c := l.cluster("prod", "c1", 1)
		annotate := func(value string) {
			l.edit(func() {
				object := c.Object.DeepCopy()
				object.Annotations = map[string]string{v1alpha1.AnnotationSweepNow: value}
				c.Object = object
			})
			l.d.noticeCluster()
		}
		annotate("1") // before the start: the first read answers it
		l.start()
		pass(time.Minute)
		l.expect("00:00:00 Start prod/c1:2")
		annotate("2")
		pass(time.Minute)
		l.expect("00:01:00 Requested prod/c1:2")
		annotate("2")
		pass(time.Minute)
		l.expect()
		annotate("")
		pass(time.Minute)
		l.expect()
	})
}

func TestDaemonAsk(t *testing.T) {
	daemon(t, "", func(_ *testing.T, l *live) {
		l.cluster("prod", "c1", 2)
		l.cluster("prod", "c2", 1)
		l.start()
		pass(time.Minute)
		l.take()
		l.d.Ask(Request{Cluster: detector.ClusterRef{Namespace: "prod", Name: "c1"}, Cause: CauseRequested, After: 10 * time.Second})
		l.d.Ask(Request{Cause: CauseRequested, After: 20 * time.Second})
		pass(time.Minute)
		l.expect("00:01:10 Requested prod/c1:3,prod/c2:2") // the later is the same request
		owner := l.inv.Clusters[0].Owners[1].Ref
		for range 3 {
			l.d.Ask(Request{Cluster: detector.ClusterRef{Namespace: "prod", Name: "c1"}, Owners: []providers.OwnerRef{owner}, Cause: CauseRequested})
		}
		pass(time.Minute)
		l.expect("00:02:00 Requested c1-0")
	})
}

func TestDaemonPolicyChange(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.start()
		pass(time.Minute)
		l.take()
		l.edit(func() { l.set = policySet(t, `schedule: {cron: "0 * * * *", jitter: 0s}`) })
		l.changes <- struct{}{}
		l.changes <- struct{}{}
		pass(time.Hour - time.Minute)
		l.expect("00:01:02 PolicyChanged prod/c1:2", "01:00:00 Schedule prod/c1:2")
		l.edit(func() { l.set = policySet(t, "mode: \"off\"") })
		l.changes <- struct{}{}
		pass(time.Minute)
		l.expect("01:00:02 PolicyChanged prod/c1:2") // so that it is said
		reads := l.observes()
		pass(24 * time.Hour)
		l.expect()
		if n := l.observes() - reads; n != 0 {
			t.Errorf("a cluster whose mode is off was read %d times", n)
		}
	})
}

// TestC47FailedScope keeps the last verdict, tries again with growing waits, and
// says once that nothing is known any more.
func TestC47FailedScope(t *testing.T) {
	daemon(t, `schedule: {cron: "*/15 * * * *", jitter: 0s, staleAfter: 30m}`, func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.start()
		pass(time.Minute)
		l.take()
		l.cloud.Fail(fake.OpObserve, errors.New("RequestLimitExceeded"))
		pass(25 * time.Minute)
		l.expect()
		if tries := l.observes() - 1; tries < 3 || tries > 8 {
			t.Errorf("%d tries in ten minutes of failure, want a few", tries)
		}
		s := l.d.Status()
		if c := s.Clusters[0]; c.Stale || len(c.Errors) != 1 || !strings.Contains(c.Errors[0], "RequestLimitExceeded") {
			t.Errorf("status after a failure: %+v", c)
		}
		pass(15 * time.Minute)
		got := l.take()
		if len(got) != 1 || !strings.Contains(got[0], "Stale prod/c1:2") {
			t.Errorf("what is stale was told as %v, want once", got)
		}
		if c := l.d.Status().Clusters[0]; !c.Stale {
			t.Errorf("status of what is stale: %+v", c)
		}
		l.cloud.Fail(fake.OpObserve, nil)
		pass(6 * time.Minute)
		if got := l.take(); len(got) == 0 || !strings.Contains(got[0], "Retry prod/c1:2") {
			t.Errorf("after the failure: %v", got)
		}
		if c := l.d.Status().Clusters[0]; c.Stale || len(c.Errors) > 0 {
			t.Errorf("status after recovery: %+v", c)
		}
		if l.failed == 0 {
			t.Error("no failure was told to the meter")
		}
	})
}

// TestDaemonPartialList takes objects that could not be listed for nothing.
// TestDaemonSweepNowAfterFailures answers a person at once, however long the wait
// after failures is, and whatever else was asked for meanwhile.
func TestDaemonSweepNowAfterFailures(t *testing.T) {
	daemon(t, `schedule: {cron: "*/1 * * * *", jitter: 0s}`, func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.start()
		pass(30 * time.Second)
		l.take()
		l.cloud.Fail(fake.OpObserve, errors.New("RequestLimitExceeded"))
		pass(20 * time.Minute) // by now it waits for minutes
		for before := l.observes(); l.observes() == before; {
			pass(time.Second)
		}
		pass(10 * time.Second) // a try has just failed
		tries := l.observes()
		l.d.Ask(Request{Cluster: detector.ClusterRef{Namespace: "prod", Name: "c1"}, Cause: CauseRequested})
		pass(time.Second)
		if n := l.observes() - tries; n != 1 {
			t.Errorf("%d tries within a second of the request, want one", n)
		}
		pass(30 * time.Second)
		if n := l.observes() - tries; n != 1 {
			t.Errorf("%d tries within half a minute of the request, which failed too: want one", n)
		}
		l.cloud.Fail(fake.OpObserve, nil)
		l.take()
		l.d.Ask(Request{Cause: CauseRequested})
		pass(time.Second)
		if got := l.take(); len(got) != 1 || !strings.Contains(got[0], "Requested prod/c1:2") {
			t.Errorf("after the request: %v", got)
		}
	})
}

func TestDaemonPartialList(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.start()
		pass(time.Minute)
		l.take()
		reads := l.observes()
		l.edit(func() { l.loadErr = errors.New("list Machine: timeout") })
		pass(time.Hour)
		l.expect()
		if n := l.observes() - reads; n != 0 {
			t.Errorf("the cloud was read %d times without objects to compare", n)
		}
		l.edit(func() { l.loadErr = nil })
		pass(6 * time.Minute)
		if got := l.take(); len(got) == 0 {
			t.Error("it did not recover")
		}
	})
}

// TestDaemonPartialRead publishes what was read, and tries again soon.
func TestDaemonPartialRead(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.cloud.Cover(providers.KindInstance, errors.New("page 3: throttled"))
		l.start()
		pass(time.Second)
		l.expect("00:00:00 Start prod/c1:2")
		if c := l.d.Status().Clusters[0]; len(c.Errors) != 1 || !strings.Contains(c.Errors[0], "page 3") {
			t.Errorf("status: %+v", c)
		}
		l.cloud.Cover(providers.KindInstance, nil)
		pass(30 * time.Second)
		if got := l.take(); len(got) != 1 || !strings.Contains(got[0], "Retry") {
			t.Errorf("retry of what was not complete: %v", got)
		}
		pass(5 * time.Minute)
		l.expect()
	})
}

// TestDaemonUnreadNodes: what one cluster keeps back is shown, and the scope is not
// read for it before its time, nor later.
func TestDaemonUnreadNodes(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.cloud.Cover(providers.KindNode, nil)
		l.cloud.Cover(providers.ClusterPart(providers.KindNode, "prod", "c1"), errors.New("its API server did not answer"))
		l.start()
		pass(time.Second)
		l.expect("00:00:00 Start prod/c1:2")
		if c := l.d.Status().Clusters[0]; len(c.Errors) != 1 || !strings.Contains(c.Errors[0], "did not answer") {
			t.Errorf("status: %+v", c)
		}
		pass(5 * time.Minute)
		l.expect()
		l.d.Ask(Request{Cause: CauseRequested})
		pass(time.Second)
		if got := l.take(); len(got) != 1 || !strings.Contains(got[0], "Requested") {
			t.Errorf("asked for, and there came %v", got)
		}
	})
}

const secondOff = "mode: \"off\"\nmatch: {clusters: [{name: c2}]}\nschedule: {cron: \"*/15 * * * *\", jitter: 0s}"

// TestOffHoldsNobodyBack: a cluster that is switched off is not asked where it
// lives, and the others are read all the same; and so is it once it is on.
func TestOffHoldsNobodyBack(t *testing.T) {
	daemon(t, secondOff, func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.cluster("prod", "c2", 1)
		l.start()
		pass(time.Second)
		l.expect("00:00:00 Start prod/c1:2")
		l.follow(t, "")
		pass(time.Minute)
		if got := strings.Join(l.take(), "; "); !strings.Contains(got, "prod/c2:2") {
			t.Errorf("switched on, and there came %q", got)
		}
	})
}

// TestJoinedMeanwhileStays: a cluster that is found to live in a scope while that is
// being swept without it stays there. Nothing else would ever read it.
func TestJoinedMeanwhileStays(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.cluster("prod", "c2", 1)
		l.start()
		pass(time.Second)
		l.expect("00:00:00 Start prod/c1:2,prod/c2:2")
		c1, c2 := detector.ClusterRef{Namespace: "prod", Name: "c1"}, detector.ClusterRef{Namespace: "prod", Name: "c2"}
		for _, s := range slices.Collect(maps.Values(l.d.sites)) {
			l.d.settle(s, []detector.ClusterRef{c1}, []*unit{{cluster: l.inv.Clusters[0], scope: s.key.scope}})
			if s.members[c1] == nil || s.members[c2] == nil {
				t.Errorf("%s has lost a cluster: %v", s.key, s.members)
			}
			l.d.settle(s, []detector.ClusterRef{c2}, nil)
			if s.members[c1] == nil || s.members[c2] != nil {
				t.Errorf("%s has kept what lives elsewhere, or lost another: %v", s.key, s.members)
			}
		}
	})
}

// TestFailureOfWhatIsOff: nobody is told of failures of a cluster that policies
// switch off.
func TestFailureOfWhatIsOff(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.cluster("prod", "c2", 1)
		l.start()
		pass(time.Second)
		l.expect("00:00:00 Start prod/c1:2,prod/c2:2")
		l.follow(t, secondOff)
		l.cloud.Fail(fake.OpObserve, errors.New("connection refused"))
		pass(20 * time.Minute)
		l.mu.Lock()
		defer l.mu.Unlock()
		if want := []detector.ClusterRef{{Namespace: "prod", Name: "c1"}}; l.failed == 0 || !slices.Equal(l.victims, want) {
			t.Errorf("%d sweeps failed, the last one of %v, want %v", l.failed, l.victims, want)
		}
	})
}

// follow changes the policies.
func (l *live) follow(t *testing.T, policy string) {
	t.Helper()
	l.mu.Lock()
	l.set = policySet(t, policy)
	l.mu.Unlock()
	l.changes <- struct{}{}
}

// TestC49WrongAccount says at once what an identity lacks, keeps asking, and
// leaves other clusters alone.
func TestC49WrongAccount(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.cloud.Fail(fake.OpScope, &providers.ScopeError{Reason: providers.ReasonWrongAccount, Err: errors.New("the caller is 999")})
		l.start()
		pass(time.Second)
		l.expect("00:00:00 Start prod/c1:2 (no scope)")
		if n := l.observes(); n != 0 {
			t.Errorf("%d reads of a wrong account", n)
		}
		l.cloud.Fail(fake.OpScope, nil)
		pass(time.Minute)
		got := l.take()
		if len(got) != 1 || !strings.Contains(got[0], "Start prod/c1:2") || strings.Contains(got[0], "no scope") {
			t.Errorf("after the identity was put right: %v", got)
		}
		if s := l.d.Status(); len(s.Scopes) != 1 || s.Scopes[0].Unlocated.Name != "" {
			t.Errorf("sites: %+v", s.Scopes)
		}
	})
}

func TestDaemonClustersComeAndGo(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.start()
		pass(time.Minute)
		l.take()
		l.edit(func() { l.cluster("prod", "c2", 1) })
		l.d.noticeCluster()
		pass(time.Second * 10)
		if got := l.take(); len(got) != 1 || !strings.Contains(got[0], "Start prod/c1:2,prod/c2:2") {
			t.Errorf("a new cluster: %v", got)
		}
		var again types.UID = "another"
		l.edit(func() {
			l.inv.Clusters = l.inv.Clusters[1:]
			object := l.inv.Clusters[0].Object.DeepCopy()
			object.UID = again
			l.inv.Clusters[0].Object = object
		})
		l.d.noticeCluster()
		pass(10 * time.Second)
		got := l.take()
		if len(got) != 2 || !strings.Contains(got[0], "gone [prod/c1]") || !strings.Contains(got[1], "Start prod/c2:2") {
			t.Errorf("a deleted cluster, and one of the same name: %v", got)
		}
		if s := l.d.Status(); len(s.Clusters) != 1 || len(s.Scopes) != 1 {
			t.Errorf("status: %+v", s)
		}
		l.edit(func() { l.inv.Clusters = nil })
		l.d.noticeCluster()
		pass(10 * time.Second)
		l.take()
		if s := l.d.Status(); len(s.Clusters)+len(s.Scopes) > 0 {
			t.Errorf("status when all is gone: %+v", s)
		}
		if len(l.d.memory.met)+len(l.d.known) > 0 {
			t.Errorf("of clusters that are gone %d owners and %d clusters are remembered", len(l.d.memory.met), len(l.d.known))
		}
	})
}

// halved is a cloud in which the machines of a cluster are in a second region.
type halved struct{ *fake.Provider }

func (h halved) Scope(ctx context.Context, o *providers.Owner) (providers.Scope, error) {
	s, err := h.Provider.Scope(ctx, o)
	if o.Machine != nil {
		s.Region = "second"
	}
	return s, err
}

// TestDaemonTellsScopes: an outcome says where else its clusters live, so that
// nobody takes one scope for all.
func TestDaemonTellsScopes(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.d.Providers[fake.Name] = halved{l.cloud}
		c := l.cluster("prod", "c1", 2)
		l.start()
		pass(time.Minute)
		l.take()
		l.d.Ask(Request{Cause: CauseRequested})
		pass(time.Minute)
		if len(l.outcomes) != 2 {
			t.Fatalf("%d outcomes for two scopes", len(l.outcomes))
		}
		for _, o := range l.outcomes {
			if got := o.Scopes[refOf(c)]; len(got) != 2 || !slices.Contains(got, o.Scope) {
				t.Errorf("the outcome of %s tells of scopes %v", o.Scope, got)
			}
		}
	})
}
