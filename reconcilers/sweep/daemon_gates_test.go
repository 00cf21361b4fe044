package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// enforcing is a policy that repairs instance types.
func enforcing(rule string) string {
	return `mode: enforce
schedule: {cron: "0 * * * *", jitter: 0s}
rules:
- {id: type, target: {provider: fake, kind: Instance}, paths: [/instanceType], action: patch, disruptive: allowed` + rule + `}`
}

// settled makes a machine of which all facts are known, so that nothing but
// what a test is about holds it back.
func settled(l *live) {
	for _, c := range l.inv.Clusters {
		for _, o := range c.Owners {
			if o.Machine == nil {
				continue
			}
			o.Machine.Status.Conditions = []metav1.Condition{
				{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue}, {Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue},
			}
			o.Pool = "MachineSet/ms"
		}
		n := int32(len(c.Owners) - 1)
		ms := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "ms"}}
		ms.Spec.Replicas = &n
		c.MachineSets = []*clusterv1.MachineSet{ms}
	}
}

// blocks gives the gates that hold the decision on a machine back; "-" stands
// for none.
func blocks(t *testing.T, o *Outcome, machine string) string {
	t.Helper()
	for _, d := range o.Result.Decisions {
		if d.Finding.Owner.Name == machine && d.Action == policies.Patch {
			var by []string
			for _, b := range d.Blocked {
				by = append(by, b.By)
			}
			if len(by) == 0 {
				return "-"
			}
			return strings.Join(by, ",")
		}
	}
	t.Fatalf("no decision on %s: %v", machine, outline(o.Result))
	return ""
}

// TestDaemonGateOpens reads again when a grace is over, without waiting for the
// schedule, and reads no one else.
func TestDaemonGateOpens(t *testing.T) {
	daemon(t, enforcing(", grace: {for: 20m}"), func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 10)
		settled(l)
		l.start()
		pass(time.Minute)
		l.take()
		l.retype("prod-c1-3", "m5.xlarge")
		l.happen(providers.Event{IDs: []providers.ID{instance("prod-c1-3")}})
		pass(time.Second)
		if got := blocks(t, l.last(), "c1-3"); got != policies.GateGrace {
			t.Errorf("within its grace blocked by %s", got)
		}
		l.take()
		pass(19 * time.Minute)
		l.expect()
		pass(2 * time.Minute)
		if got := blocks(t, l.last(), "c1-3"); got != "-" {
			t.Errorf("after its grace blocked by %s", got)
		}
		// The bulk read was too old to act on by then, so all was read.
		got := l.take()
		if len(got) != 2 || !strings.HasPrefix(got[0], "00:21:00 GateOpened prod/c1") || got[1] != "00:21:00 GateOpened c1-3" {
			t.Errorf("outcomes: %v", got)
		}
	})
}

// TestDaemonStandsBy: what waits for a machine of its pool to be ready again is
// looked at again while it waits, for nobody tells of that; what waits for a
// person too is not.
func TestDaemonStandsBy(t *testing.T) {
	for name, tt := range map[string]struct {
		rule   string
		begins bool
	}{
		"for a machine":              {"", true},
		"for a machine and a person": {", approval: required", false},
	} {
		t.Run(name, func(t *testing.T) {
			daemon(t, enforcing(tt.rule), func(t *testing.T, l *live) {
				l.cluster("prod", "c1", 3)
				settled(l)
				other := func(s metav1.ConditionStatus) {
					l.edit(func() {
						for _, o := range l.inv.Clusters[0].Owners {
							if o.Machine != nil && o.Ref.Name == "c1-1" {
								o.Machine.Status.Conditions[0].Status = s
							}
						}
					})
				}
				l.start()
				pass(time.Minute)
				other(metav1.ConditionFalse)
				l.retype("prod-c1-2", "m5.xlarge")
				l.happen(providers.Event{IDs: []providers.ID{instance("prod-c1-2")}})
				pass(time.Second)
				if got := blocks(t, l.last(), "c1-2"); !strings.Contains(got, policies.GateMinHealthy) {
					t.Fatalf("with another machine down blocked by %s", got)
				}
				l.take()
				other(metav1.ConditionTrue)
				pass(2 * time.Minute)
				if !tt.begins {
					l.expect()
					return
				}
				if got := blocks(t, l.last(), "c1-2"); got != "-" {
					t.Errorf("two minutes after it is ready again blocked by %s", got)
				}
				l.take()
				pass(10 * time.Minute)
				l.expect()
			})
		})
	}
}

// TestDaemonCountsReads reads again soon where a grace counts reads, and reads
// that come too close together count as one.
func TestDaemonCountsReads(t *testing.T) {
	daemon(t, enforcing(", grace: {observations: 3}"), func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 10)
		settled(l)
		l.start()
		pass(time.Minute)
		l.take()
		l.retype("prod-c1-3", "m5.xlarge")
		for range 4 {
			l.happen(providers.Event{IDs: []providers.ID{instance("prod-c1-3")}})
			pass(time.Second)
		}
		if got := blocks(t, l.last(), "c1-3"); got != policies.GateGrace {
			t.Errorf("four reads in four seconds counted: blocked by %s", got)
		}
		l.take()
		pass(35 * time.Second)
		if got := blocks(t, l.last(), "c1-3"); got != policies.GateGrace {
			t.Errorf("after the second read blocked by %s", got)
		}
		pass(35 * time.Second)
		if got := blocks(t, l.last(), "c1-3"); got != "-" {
			t.Errorf("after the third read blocked by %s", got)
		}
		if got := l.take(); len(got) != 2 || !strings.Contains(got[0], "GateOpened c1-3") {
			t.Errorf("outcomes: %v", got)
		}
		pass(10 * time.Minute)
		l.expect()
	})
}

// TestDaemonFollowUpsEnd stops reading again for a grace that never ends.
func TestDaemonFollowUpsEnd(t *testing.T) {
	daemon(t, enforcing(", grace: {observations: 1000}"), func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 10)
		l.retype("prod-c1-3", "m5.xlarge")
		l.start()
		pass(30 * time.Minute)
		if n := len(l.take()); n < 5 || n > 2*maxFollowUps+2 {
			t.Errorf("%d reads in half an hour, want a bounded number", n)
		}
		pass(20 * time.Minute)
		l.expect()
	})
}

// TestDaemonFirstSeen remembers since when something drifts, forgets that when
// it is put right, keeps it while nothing can be told, and takes it from
// records after a restart.
func TestDaemonFirstSeen(t *testing.T) {
	daemon(t, `schedule: {cron: "*/15 * * * *", jitter: 0s}`, func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 10)
		l.start()
		pass(time.Minute)
		first := func() string {
			t.Helper()
			o := l.last()
			if len(o.Result.Decisions) != 1 {
				t.Fatalf("decisions: %v", outline(o.Result))
			}
			return o.Result.Decisions[0].FirstSeen.UTC().Format("15:04")
		}
		l.retype("prod-c1-0", "m5.xlarge")
		pass(30 * time.Minute) // 00:31
		if got := first(); got != "00:15" {
			t.Errorf("first seen at %s, want 00:15", got)
		}
		l.cloud.Cover(providers.KindInstance, errors.New("throttled"))
		pass(20 * time.Minute) // 00:51
		l.cloud.Cover(providers.KindInstance, nil)
		pass(20 * time.Minute) // 01:11
		if got := first(); got != "00:15" {
			t.Errorf("after a read that could not tell, first seen at %s, want 00:15", got)
		}
		// What a record says of an earlier time is no news to who saw it end.
		l.edit(func() {
			l.history = map[string]policies.History{keyOf(l.outcomes[len(l.outcomes)-1]): {FirstSeen: time.Date(1999, 12, 31, 22, 0, 0, 0, time.UTC)}}
		})
		l.retype("prod-c1-0", "m5.large")
		pass(15 * time.Minute)
		l.retype("prod-c1-0", "m5.xlarge")
		pass(15 * time.Minute) // 01:41
		if got := first(); got != "01:30" {
			t.Errorf("after it was put right, first seen at %s, want 01:30", got)
		}
		key := keyOf(l.last())
		l.stop()
		// A record says more to a process that has not read yet.
		l.history = map[string]policies.History{key: {FirstSeen: time.Date(1999, 12, 31, 22, 5, 0, 0, time.UTC)}}
		l.again()
		l.start()
		pass(time.Minute)
		if got := first(); got != "22:05" {
			t.Errorf("after a restart first seen at %s, want 22:05", got)
		}
	})
}

// again makes a daemon that knows nothing of the one before.
func (l *live) again() {
	old := l.d
	l.d = &Daemon{Providers: old.Providers, Load: old.Load, Policies: old.Policies, PolicyChanges: old.PolicyChanges, Records: old.Records,
		Sinks: old.Sinks, Meter: old.Meter, Log: old.Log, StartSpread: old.StartSpread}
}

// TestC52Breaker opens when too much drifts, whether a sweep finds it or events
// tell of it one by one, and does not close as soon as a little is repaired.
func TestC52Breaker(t *testing.T) {
	for name, byEvent := range map[string]bool{"found by a sweep": false, "told one by one": true} {
		t.Run(name, func(t *testing.T) {
			daemon(t, enforcing("")+"\nsafety: {maxDriftRatio: 30%}", func(t *testing.T, l *live) {
				l.cluster("prod", "c1", 10)
				settled(l)
				l.start()
				pass(time.Minute)
				machine := func(i int) string { return fmt.Sprintf("prod-c1-%d", i) }
				sweep := func() *Outcome {
					l.d.Ask(Request{Cause: CauseRequested})
					pass(time.Minute)
					return l.last()
				}
				for i := range 4 { // of 11 owners: 36%
					l.retype(machine(i), "m5.xlarge")
					if byEvent {
						l.happen(providers.Event{IDs: []providers.ID{instance(machine(i))}})
						pass(time.Second)
					}
				}
				if !byEvent {
					sweep()
				}
				if got := blocks(t, l.last(), "c1-3"); !strings.Contains(got, policies.GateMassDrift) {
					t.Errorf("4 of 11 drift, blocked by %s", got)
				}
				if open := l.d.Status().Clusters[0].Breakers; !slices.Equal(open, []string{""}) {
					t.Errorf("open breakers %q", open)
				}
				l.retype(machine(0), "m5.large") // 27%
				for range 3 {
					if got := blocks(t, sweep(), "c1-3"); got != policies.GateMassDrift {
						t.Errorf("3 of 11 drift after 4 did, blocked by %s", got)
					}
				}
				l.retype(machine(1), "m5.large")
				l.retype(machine(2), "m5.large") // 9%
				if got := blocks(t, sweep(), "c1-3"); got != policies.GateMassDrift {
					t.Errorf("after one calm sweep blocked by %s", got)
				}
				if got := blocks(t, sweep(), "c1-3"); got != "-" {
					t.Errorf("after two calm sweeps blocked by %s", got)
				}
			})
		})
	}
}

// TestC52BreakerObserves: it opens where policies only observe, so that people
// see what would hold everything back.
func TestC52BreakerObserves(t *testing.T) {
	daemon(t, "schedule: {cron: \"*/15 * * * *\", jitter: 0s}\nsafety: {maxDriftRatio: 30%}", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 10)
		l.start()
		pass(time.Minute)
		if open := l.d.Status().Clusters[0].Breakers; len(open) > 0 {
			t.Errorf("open breakers %q before anything drifts", open)
		}
		for i := range 5 {
			l.retype(fmt.Sprintf("prod-c1-%d", i), "m5.xlarge")
		}
		pass(15 * time.Minute)
		if open := l.d.Status().Clusters[0].Breakers; !slices.Equal(open, []string{""}) {
			t.Errorf("open breakers %q with half of it drifting", open)
		}
	})
}

// TestC52BreakerBesideUnreadNodes: a sweep that could not read one cluster's Nodes
// calms no breaker of that cluster, and those of every other one.
func TestC52BreakerBesideUnreadNodes(t *testing.T) {
	daemon(t, enforcing("")+"\nsafety: {maxDriftRatio: 30%}", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 4)
		l.cluster("prod", "c2", 4)
		settled(l)
		l.cloud.Cover(providers.KindNode, nil)
		l.cloud.Cover(providers.ClusterPart(providers.KindNode, "prod", "c1"), errors.New("no answer"))
		l.start()
		pass(time.Minute)
		all := func(size string) {
			for _, c := range []string{"c1", "c2"} {
				for i := range 4 {
					l.retype(fmt.Sprintf("prod-%s-%d", c, i), size)
				}
			}
			for range 4 {
				l.d.Ask(Request{Cause: CauseRequested})
				pass(time.Minute)
			}
		}
		open := func() map[string]int {
			out := map[string]int{}
			for _, c := range l.d.Status().Clusters {
				out[c.Ref.Name] = len(c.Breakers)
			}
			return out
		}
		all("m5.xlarge")
		if diff := cmp.Diff(map[string]int{"c1": 1, "c2": 1}, open()); diff != "" {
			t.Errorf("open while all drifts (-want +got):\n%s", diff)
		}
		all("m5.large")
		if diff := cmp.Diff(map[string]int{"c1": 1, "c2": 0}, open()); diff != "" {
			t.Errorf("open when nothing drifts any more (-want +got):\n%s", diff)
		}
	})
}

func TestBreaker(t *testing.T) {
	ref := detector.ClusterRef{Namespace: "prod", Name: "c1"}
	// results of n machines, of which some drift.
	results := func(n, drifting int, zone string) []detector.Result {
		out := make([]detector.Result, n)
		for i := range out {
			o := &providers.Owner{Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}, Zone: zone}
			out[i] = detector.Result{Owner: o, Checked: 1}
			if i < drifting {
				out[i].Findings = []detector.Finding{{Status: detector.Drifted}}
			}
		}
		return out
	}
	tests := map[string]struct {
		reason string
		run    func(b *breakers)
		open   []string
	}{
		"below":             {"the ratio may be reached", func(b *breakers) { b.update(ref, results(10, 3, ""), 0.3, true) }, nil},
		"above":             {"it must not be exceeded", func(b *breakers) { b.update(ref, results(10, 4, ""), 0.3, true) }, []string{""}},
		"one alone":         {"is never too many", func(b *breakers) { b.update(ref, results(1, 1, ""), 0.3, true) }, nil},
		"a ratio of nought": {"allows one alone", func(b *breakers) { b.update(ref, results(100, 2, ""), 0, true) }, []string{""}},
		"closes at nothing": {"one sweep is enough", func(b *breakers) {
			b.update(ref, results(10, 4, ""), 0.3, true)
			b.update(ref, results(10, 0, ""), 0.3, true)
		}, nil},
		"not by a targeted read": {"which sees little", func(b *breakers) {
			b.update(ref, results(10, 4, ""), 0.3, true)
			for range 5 {
				b.update(ref, results(10, 0, ""), 0.3, false)
			}
		}, []string{""}},
		"calm must last": {"two sweeps in a row", func(b *breakers) {
			b.update(ref, results(20, 7, ""), 0.3, true)
			b.update(ref, results(20, 2, ""), 0.3, true)
			b.update(ref, results(20, 5, ""), 0.3, true)
			b.update(ref, results(20, 2, ""), 0.3, true)
		}, []string{""}},
		"a zone of its own": {"the rest of the cluster is well", func(b *breakers) {
			b.update(ref, append(results(4, 3, "a"), results(16, 0, "b")...), 0.3, true)
		}, []string{"a"}},
		"other clusters": {"have their own", func(b *breakers) {
			b.update(ref, results(10, 4, ""), 0.3, true)
			b.update(detector.ClusterRef{Name: "other"}, results(10, 0, ""), 0.3, true)
		}, []string{""}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := &breakers{}
			tc.run(b)
			if got := b.openIn(ref); !slices.Equal(got, tc.open) {
				t.Errorf("%s: open %q, want %q", tc.reason, got, tc.open)
			}
			b.forget(ref)
			if len(b.open) > 0 {
				t.Error("a breaker outlives its cluster")
			}
		})
	}
}

// TestDaemonFresh reads object and cloud, and counts what is in flight now.
func TestDaemonFresh(t *testing.T) {
	daemon(t, enforcing("")+"\nbudgets: [{scope: cluster, actions: [patch], max: 1}]", func(t *testing.T, l *live) {
		c := l.cluster("prod", "c1", 10)
		for i, o := range c.Owners {
			o.Ref.UID = types.UID(fmt.Sprintf("uid-%d", i))
		}
		settled(l)
		l.retype("prod-c1-0", "m5.xlarge")
		l.start()
		pass(time.Minute)
		l.take()
		owner := c.Owners[1].Ref
		fresh := func(o providers.OwnerRef) *Outcome {
			t.Helper()
			out, err := l.d.Fresh(t.Context(), refOf(c), o)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		if got := blocks(t, fresh(owner), "c1-0"); got != "-" {
			t.Errorf("blocked by %s", got)
		}
		if n := len(l.loads); !l.loads[n-1].Narrow {
			t.Error("a fresh read listed more than its cluster")
		}
		l.inFlight = []policies.InFlight{{Cluster: refOf(c), Owner: c.Owners[2].Ref, Action: policies.Patch, By: "holdfast"}}
		if got := blocks(t, fresh(owner), "c1-0"); got != policies.GateBudget {
			t.Errorf("with another in flight blocked by %s", got)
		}
		l.inFlight = nil
		l.unread = errors.New("etcd is away")
		if got := blocks(t, fresh(owner), "c1-0"); !strings.Contains(got, policies.GateBudget) || !strings.Contains(got, policies.GateAttempts) {
			t.Errorf("without records blocked by %s", got)
		}
		l.unread = nil
		l.edit(func() { c.Owners[1].Machine.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
		if got := blocks(t, fresh(owner), "c1-0"); got != policies.GatePaused {
			t.Errorf("paused a moment ago, blocked by %s", got)
		}
		l.retype("prod-c1-0", "m5.large")
		if o := fresh(owner); len(o.Result.Decisions) > 0 {
			t.Errorf("repaired a moment ago: %v", outline(o.Result))
		}
		old := owner
		old.UID = "of the one before"
		if o := fresh(old); len(o.Result.Decisions) > 0 || len(o.Result.Clusters) > 0 || !o.Owners[old] {
			t.Errorf("an object of the same name was read for one that is gone: %+v", o.Result)
		}
		l.expect()
		pass(20 * time.Minute) // the bulk read is older than may be acted on
		reads := l.observes()
		fresh(owner)
		synctest.Wait()
		if n := l.observes() - reads; n != 1 {
			t.Errorf("%d bulk reads, want a new one", n)
		}
		if got := l.take(); len(got) != 1 || !strings.Contains(got[0], "prod/c1:11") {
			t.Errorf("the sweep on the way was published as %v", got)
		}
	})
}

// TestDaemonFreshOfTheUnknown reads what no sweep has met.
func TestDaemonFreshOfTheUnknown(t *testing.T) {
	daemon(t, enforcing(""), func(t *testing.T, l *live) {
		c := l.cluster("prod", "c1", 2)
		out, err := l.d.Fresh(t.Context(), refOf(c), c.Owners[1].Ref) // before Start
		if err != nil || !out.Targeted() || len(out.Result.Clusters) != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		l.cloud.Fail("Confirm", errors.New("the network is down"))
		if _, err := l.d.Fresh(t.Context(), refOf(c), c.Owners[1].Ref); err == nil || !strings.Contains(err.Error(), "the network is down") {
			t.Errorf("a cloud that does not answer gave %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.d.Fresh(ctx, refOf(c), c.Owners[1].Ref); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled read gave %v", err)
		}
	})
}

// TestDaemonFreshWithinASink does not wait for itself.
func TestDaemonFreshWithinASink(t *testing.T) {
	daemon(t, enforcing(""), func(t *testing.T, l *live) {
		c := l.cluster("prod", "c1", 2)
		asked := 0
		l.consume = func(*Outcome) {
			asked++
			if _, err := l.d.Fresh(context.Background(), refOf(c), c.Owners[1].Ref); err != nil {
				t.Error(err)
			}
		}
		l.start()
		pass(time.Minute)
		if asked != 1 {
			t.Errorf("%d outcomes were consumed, want 1", asked)
		}
	})
}

// keyOf is the key in the records of an outcome's first decision.
func keyOf(o *Outcome) string {
	f := &o.Result.Decisions[0].Finding
	return policies.HistoryKey(f.Owner, f.Fingerprint)
}
