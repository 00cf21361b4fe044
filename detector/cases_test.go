package detector_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// The cases below are public reports about comparing, in the words of the
// contract: what a provider hands over, and what has to come of it. How a
// provider comes to hand that over is for its own tests.

// one compares a wanted with a seen instance.
func one(t *testing.T, w providers.Resource, h *providers.Resource) detector.Result {
	t.Helper()
	return detector.Compare(genOwner("m1"), []providers.Resource{w}, snapshot(h), options)
}

func expect(t *testing.T, r detector.Result, wantLines ...line) {
	t.Helper()
	if diff := cmp.Diff(wantLines, lines(r.Findings)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestC04RuleOrder(t *testing.T) {
	rules := []string{"tcp 443-443 from 10.1.0.0/16", "tcp 443-443 from 10.2.0.0/16", "tcp 443-443 from 10.3.0.0/16"}
	r := one(t, want("i-1", set("/ingress", rules[0], rules[1], rules[2], rules[1])), have("i-1", set("/ingress", rules[2], rules[0], rules[1])))
	expect(t, r)
}

func TestC07LoadBalancerRuleIsForeign(t *testing.T) {
	h := have("i-1", field("/ingress", providers.Set("tcp 1-1 from sg-lb"), foreignElement("tcp 1-1 from sg-lb", "elbv2.k8s.aws")))
	r := one(t, want("i-1", set("/ingress")), h)
	expect(t, r, line{detector.Foreign, "/ingress", added, "", "tcp 1-1 from sg-lb"})
	if r.Findings[0].Diffs[0].Foreign != "elbv2.k8s.aws" || len(r.InSync) != 1 {
		t.Errorf("finding %+v, in sync %v", r.Findings[0], r.InSync)
	}
}

// A rule that opens to the world is not taken at its description's word: it is
// drift of its own, which says whose it claims to be.
func TestC07ClaimedRuleIsDrift(t *testing.T) {
	const rule = "tcp 1-1 from 0.0.0.0/0"
	r := one(t, want("i-1", set("/ingress")), have("i-1", field("/ingress", providers.Set(rule), claimedElement(rule, "elbv2.k8s.aws"))))
	expect(t, r, line{drifted, "/ingress", added, "", rule})
	if f := r.Findings[0]; f.Diffs[0].Foreign != "elbv2.k8s.aws" || f.Reason == "" || len(r.InSync) != 0 {
		t.Errorf("finding %+v, in sync %v", f, r.InSync)
	}
}

func TestC09DefaultGroupWidensAccess(t *testing.T) {
	r := one(t, want("i-1", set("/securityGroups", "sg-app")), have("i-1", set("/securityGroups", "sg-app", "sg-default")))
	expect(t, r, line{drifted, "/securityGroups", added, "", "sg-default"})
}

func TestC13EgressOmittedAndEmpty(t *testing.T) {
	h := have("i-1", set("/egress", "all to 0.0.0.0/0"), str("/description", "x"))
	expect(t, one(t, want("i-1", str("/description", "x")), h))
	expect(t, one(t, want("i-1", set("/egress")), h), line{drifted, "/egress", added, "", "all to 0.0.0.0/0"})
}

func TestC15ReservedTagsAreNoOpinion(t *testing.T) {
	h := have("i-1", closed("/tags"), str("/tags/Name", "a"), str("/tags/Env", "b"), str("/tags/aws:backup", "c"))
	expect(t, one(t, want("i-1", str("/tags/Name", "a"), str("/tags/Env", "b")), h))
}

func TestC18OnlyWantedTagsDrift(t *testing.T) {
	h := have("i-1", closed("/tags"), str("/tags/team", "x"), str("/tags/extra", "y"))
	expect(t, one(t, want("i-1", str("/tags/team", "z"), str("/tags/gone", "1")), h),
		line{drifted, "/tags/gone", removed, "1", ""}, line{drifted, "/tags/team", changed, "z", "x"})
}

func TestC19TagKeysAreCaseSensitive(t *testing.T) {
	r := one(t, want("i-1", str("/tags/Owner", "x")), have("i-1", closed("/tags"), str("/tags/owner", "x")))
	expect(t, r, line{drifted, "/tags/Owner", removed, "x", ""})
}

func TestC21PlatformDefaultsAreNoOpinion(t *testing.T) {
	h := have("i-1", str("/rootVolume/type", "gp3"), field("/rootVolume/iops", providers.Int(3000)), field("/rootVolume/throughput", providers.Int(125)))
	expect(t, one(t, want("i-1", str("/rootVolume/type", "gp3")), h))
	expect(t, one(t, want("i-1", field("/rootVolume/iops", providers.Int(4000))), h), line{drifted, "/rootVolume/iops", changed, "4000", "3000"})
}

func TestC27SubnetFilter(t *testing.T) {
	member := field("/subnetId", providers.Set("s-1", "s-2", "s-3"), matching(providers.OneOf))
	expect(t, one(t, want("i-1", member), have("i-1", str("/subnetId", "s-3"))))
	expect(t, one(t, want("i-1", member), have("i-1", str("/subnetId", "s-9"))), line{drifted, "/subnetId", changed, "s-1, s-2, s-3", "s-9"})
	// A filter that matches nothing is no wanted value: the rest is compared.
	none := want("i-1", str("/type", "m5"), warning("the subnet filter matches nothing"))
	r := one(t, none, have("i-1", str("/type", "m5"), str("/subnetId", "s-9")))
	expect(t, r, line{Status: detector.InSync})
}

func TestC28ResizedOutOfBand(t *testing.T) {
	r := one(t, want("i-1", str("/instanceType", "t4g.nano")), have("i-1", str("/instanceType", "t4g.micro")))
	expect(t, r, line{drifted, "/instanceType", changed, "t4g.nano", "t4g.micro"})
}

func TestC29UnmodelledIsNotChecked(t *testing.T) {
	snap := snapshot()
	delete(snap.Coverage, "VPC")
	r := detector.Compare(genOwner("m1"), []providers.Resource{want("vpc-1", kind("VPC"))}, snap, options)
	expect(t, r, line{Status: notChecked})
	if len(r.InSync) != 0 || r.NotChecked != 1 {
		t.Errorf("in sync %v, not checked %d", r.InSync, r.NotChecked)
	}
}

func TestC32MovesWithinDatastoreCluster(t *testing.T) {
	stores := field("/datastore", providers.Set("/DC0/ds-1", "/DC0/ds-2"), matching(providers.OneOf))
	expect(t, one(t, want("i-1", stores), have("i-1", str("/datastore", "/DC0/ds-2"), str("/host", "host-31"))))
	expect(t, one(t, want("i-1", stores), have("i-1", str("/datastore", "/DC0/ds-9"))), line{drifted, "/datastore", changed, "/DC0/ds-1, /DC0/ds-2", "/DC0/ds-9"})
}

func TestC34DuplicateUUIDIsUnknown(t *testing.T) {
	r := one(t, want("i-1", str("/numCPUs", "2")), have("i-1", unknown("two VMs have this UUID"), str("/numCPUs", "4")))
	expect(t, r, line{Status: detector.Unknown})
}

func TestC36InaccessibleAndGone(t *testing.T) {
	id := want("i-1").ID
	t.Run("inaccessible is present", func(t *testing.T) {
		expect(t, one(t, want("i-1"), have("i-1", unknown("connection state is inaccessible"))), line{Status: detector.Unknown})
	})
	t.Run("a dead reference is missing once a read confirms it", func(t *testing.T) {
		snap := snapshot()
		r := detector.Compare(genOwner("m1"), []providers.Resource{want("i-1")}, snap, options)
		expect(t, r, line{Status: detector.Unknown})
		expect(t, detector.Settle(r, snap, &providers.Confirmation{}, options), line{missing, "/state", removed, "present", ""})
	})
	t.Run("read again, and inaccessible", func(t *testing.T) {
		snap := snapshot()
		r := detector.Compare(genOwner("m1"), []providers.Resource{want("i-1")}, snap, options)
		c := &providers.Confirmation{Resources: map[providers.ID]*providers.Resource{id: have("i-1", unknown("inaccessible"))}}
		expect(t, detector.Settle(r, snap, c, options), line{Status: detector.Unknown})
	})
}

func TestC39AddressesContainTheStaticOne(t *testing.T) {
	static := field("/addresses", providers.Set("10.0.0.5"), matching(providers.Contains))
	expect(t, one(t, want("i-1", static), have("i-1", set("/addresses", "172.17.0.1", "10.0.0.5", "169.254.1.0"))))
	expect(t, one(t, want("i-1", static), have("i-1", set("/addresses", "172.17.0.1"))), line{drifted, "/addresses", removed, "10.0.0.5", ""})
	// Tools are not running: the addresses were not seen, and nothing is closed.
	expect(t, one(t, want("i-1", static), have("i-1")), line{Status: notChecked})
}

func TestC40TagOfAnotherCategory(t *testing.T) {
	r := one(t, want("i-1", str("/tags/Env:prod", "")), have("i-1", closed("/tags"), str("/tags/Cost:prod", "")))
	expect(t, r, line{drifted, "/tags/Env:prod", removed, "", ""})
}

// C44, C47: a partial listing and a throttled page prove no absence, whatever
// the resources that came before the failure.
func TestC47ThrottledPageProvesNothing(t *testing.T) {
	snap := uncovered(snapshot(have("i-1", str("/type", "m6"))), "Instance", errThrottled)
	r := detector.Compare(genOwner("m1"), []providers.Resource{want("i-1", str("/type", "m5")), want("i-2")}, snap, options)
	expect(t, r, line{Status: notChecked}, line{Status: notChecked})
	if ids := detector.Unconfirmed(r); len(ids) != 0 {
		t.Errorf("would confirm %v", ids)
	}
}

func TestC45YoungInstanceIsNotMissing(t *testing.T) {
	snap := snapshot()
	r := detector.Compare(genOwner("m1"), []providers.Resource{want("i-1", since(now.Add(-2*time.Minute)))}, snap, options)
	r = detector.Settle(r, snap, &providers.Confirmation{}, options)
	expect(t, r, line{Status: detector.Unknown})
}

// C45: an instance shows before its tags. What is absent from a young resource
// is not told yet; what is there and differs is drift at any age.
func TestC45YoungInstanceIsNotUntagged(t *testing.T) {
	h := have("i-1", closed("/tags"), str("/type", "m6"), str("/tags/Name", "other"))
	w := want("i-1", str("/type", "m5"), str("/tags/Name", "m1"), str("/tags/team", "x"))
	changes := []line{{drifted, "/tags/Name", changed, "m1", "other"}, {drifted, "/type", changed, "m5", "m6"}}
	for name, tt := range map[string]struct {
		age  time.Duration
		want []line
	}{
		"seconds old":    {400 * time.Millisecond, append(slices.Clone(changes), line{Status: notChecked})},
		"two minutes":    {2 * time.Minute, append(slices.Clone(changes), line{Status: notChecked})},
		"past the grace": {6 * time.Minute, []line{changes[0], {drifted, "/tags/team", removed, "x", ""}, changes[1]}},
	} {
		t.Run(name, func(t *testing.T) {
			w.Since = now.Add(-tt.age)
			r := one(t, w, h)
			expect(t, r, tt.want...)
			if len(r.InSync) != 0 {
				t.Error("in sync")
			}
		})
	}
}

// C58: a spot reclaim is one finding without field differences; a stop by a
// person is a difference of the state like any other.
func TestC58StoppedAndTerminated(t *testing.T) {
	w := want("i-1", str("/state", "running"), str("/type", "m5"), set("/securityGroups", "sg-1"))
	h := have("i-1", gone("terminated: Server.SpotInstanceTermination"), str("/state", "terminated"), set("/securityGroups"))
	r := one(t, w, h)
	expect(t, r, line{missing, "/state", removed, "running", "terminated: Server.SpotInstanceTermination"})
	if !strings.Contains(r.Findings[0].Reason, "SpotInstanceTermination") {
		t.Errorf("reason %q", r.Findings[0].Reason)
	}
	stopped := have("i-1", str("/state", "stopped"), str("/type", "m5"), set("/securityGroups", "sg-1"))
	expect(t, one(t, w, stopped), line{drifted, "/state", changed, "running", "stopped"})
}

func TestC59EachEventIsOneElement(t *testing.T) {
	h := have("i-1", set("/scheduledEvents", "instance-retirement event-1", "system-reboot event-2"))
	r := one(t, want("i-1", set("/scheduledEvents")), h)
	expect(t, r,
		line{drifted, "/scheduledEvents", added, "", "instance-retirement event-1"},
		line{drifted, "/scheduledEvents", added, "", "system-reboot event-2"})
	gone := have("i-1", set("/scheduledEvents", "system-reboot event-2"))
	if later := one(t, want("i-1", set("/scheduledEvents")), gone); later.Findings[0].Fingerprint == r.Findings[0].Fingerprint {
		t.Error("another set of events has the same fingerprint: an event would be acted on twice, or not at all")
	}
}

// What is being deleted may be gone, stopped or half taken down: that is no
// drift, no loss, and no orphan, whichever provider it is of.
func TestBeingDeleted(t *testing.T) {
	now := metav1.Now()
	tests := map[string]struct {
		mod  func(*providers.Owner)
		says string
	}{
		"the infrastructure object": {says: "AWSMachine m1 is being deleted", mod: func(o *providers.Owner) {
			o.Infra = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}
		}},
		"the machine": {says: "Machine m1 is being deleted", mod: func(o *providers.Owner) { o.Machine.DeletionTimestamp = &now }},
		"the cluster": {says: "Cluster c1 is being deleted", mod: func(o *providers.Owner) { o.Cluster.DeletionTimestamp = &now }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			snap := snapshot(have("i-1", tagged("c1"), str("/state", "stopped")), have("i-2", gone("terminated")))
			r := compare(genOwner("m1", tc.mod), snap, want("i-1", str("/state", "running")), want("i-2"), want("i-3"))
			if diff := cmp.Diff([]line{{Status: notChecked}, {Status: notChecked}, {Status: notChecked}}, lines(r.Findings)); diff != "" {
				t.Error(diff)
			}
			for _, f := range r.Findings {
				if f.Reason != tc.says || f.Tentative {
					t.Errorf("%s: reason %q, want %q", f.Resource.ID, f.Reason, tc.says)
				}
			}
			if orphans := detector.Orphans([]detector.Result{r}, snap, detector.Unseen{}); len(orphans) > 0 {
				t.Errorf("orphans: %+v", orphans)
			}
		})
	}
}

// What has not been there once is still being made: half of a network is no drift
// of a network. Whoever makes it compares it all the same.
func TestBeingMade(t *testing.T) {
	live := func(o *providers.Owner) {
		o.Infra = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(longAgo)}}
	}
	of := func(mods ...func(*providers.Owner)) *providers.Owner { return genOwner("m1", mods...) }
	ofCluster := func(o *providers.Owner) { o.Machine = nil }
	for name, c := range map[string]struct {
		owner    *providers.Owner
		building bool
		says     string // empty is drift
	}{
		"a machine":              {owner: of(live), says: "Machine m1 is still being made"},
		"a cluster":              {owner: of(live, ofCluster), says: "the infrastructure of Cluster c1 is still being made"},
		"for whoever makes it":   {owner: of(live), building: true},
		"from a file":            {owner: of()},
		"a machine that is made": {owner: of(live, func(o *providers.Owner) { o.Machine.Status.Initialization.InfrastructureProvisioned = ptr.To(true) })},
		"a cluster that is made": {owner: of(live, ofCluster, func(o *providers.Owner) { o.Cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true) })},
		"a machine moved here":   {owner: of(live, func(o *providers.Owner) { o.Machine.Spec.ProviderID = "aws:///a/i-1" })},
		// It has been there once, and is not now: that is what drift is.
		"a machine that is lost": {owner: of(live, func(o *providers.Owner) { o.Machine.Status.Initialization.InfrastructureProvisioned = ptr.To(false) })},
	} {
		t.Run(name, func(t *testing.T) {
			snap := snapshot(have("i-1", tagged("c1"), str("/state", "stopped")))
			opt := options
			opt.Building = c.building
			r := detector.Compare(c.owner, []providers.Resource{want("i-1", str("/state", "running"))}, snap, opt)
			if len(r.Findings) != 1 {
				t.Fatalf("findings: %+v", r.Findings)
			}
			f := r.Findings[0]
			if c.says == "" && f.Status != drifted || c.says != "" && (f.Status != notChecked || f.Reason != c.says) {
				t.Errorf("it is %s: %q", f.Status, f.Reason)
			}
			if orphans := detector.Orphans([]detector.Result{r}, snap, detector.Unseen{}); len(orphans) > 0 {
				t.Errorf("orphans: %+v", orphans)
			}
		})
	}
}
