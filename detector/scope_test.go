package detector_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

func compare(o *providers.Owner, snap *providers.Snapshot, wants ...providers.Resource) detector.Result {
	return detector.Compare(o, wants, snap, options)
}

func TestOrphans(t *testing.T) {
	spare := func(mods ...resourceMod) *providers.Resource {
		return have("i-9", append([]resourceMod{tagged("c1"), str("/state", "running")}, mods...)...)
	}
	orphan := []line{{detector.Unexpected, "/state", added, "", "running"}}
	tests := map[string]struct {
		reason string
		seen   *providers.Resource
		owners []*providers.Owner
		wants  []providers.Resource
		bend   func(*providers.Snapshot)
		lines  []line
		says   string
	}{
		"orphan":             {reason: "tagged and wanted by nobody", seen: spare(), lines: orphan, says: "prod/c1"},
		"wanted":             {reason: "wanted, so compared elsewhere", seen: spare(), wants: []providers.Resource{want("i-9")}},
		"wanted absent":      {reason: "reported as such already", seen: spare(), wants: []providers.Resource{want("i-9", wantedAbsent)}},
		"untagged":           {reason: "not the cluster's", seen: spare(tagged())},
		"another cluster's":  {reason: "its objects were not loaded", seen: spare(tagged("c2"))},
		"gone":               {reason: "exists no more", seen: spare(gone("terminated"))},
		"kind not read":      {reason: "a claim may rest on what is missing", seen: spare(), bend: func(s *providers.Snapshot) { s.Coverage["Instance"] = errThrottled }},
		"kind not modelled":  {reason: "nothing was said of the kind", seen: spare(), bend: func(s *providers.Snapshot) { delete(s.Coverage, "Instance") }},
		"foreign":            {reason: "a CSI volume with the cluster's tag", seen: spare(foreign("CSI driver")), lines: []line{{Status: detector.Foreign}}, says: "CSI driver"},
		"unknown":            {reason: "nothing can be told of it", seen: spare(unknown("inaccessible")), lines: []line{{Status: detector.Unknown}}, says: "inaccessible"},
		"tagged twice":       {reason: "one tag said twice is one cluster", seen: spare(tagged("c1", "c1")), lines: orphan},
		"unnamed other kind": {reason: "a volume in the making is no instance", seen: spare(), wants: []providers.Resource{want("", kind("Volume"))}, lines: orphan},
		"tags of two clusters": {
			reason: "which of the two cannot be told", seen: spare(tagged("c2", "c1")),
			owners: []*providers.Owner{genOwner("m1"), genOwner("m2", inCluster("prod", "c2"))},
			lines:  []line{{Status: detector.Unknown}}, says: "prod/c1, prod/c2",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			snap := snapshot(tt.seen)
			if tt.bend != nil {
				tt.bend(snap)
			}
			if tt.owners == nil {
				tt.owners = []*providers.Owner{genOwner("m1")}
			}
			var results []detector.Result
			for _, o := range tt.owners {
				results = append(results, compare(o, snap, tt.wants...))
			}
			got := detector.Orphans(results, snap, detector.Unseen{})
			if diff := cmp.Diff(tt.lines, lines(got)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", tt.reason, diff)
			}
			for _, f := range got {
				if !strings.Contains(f.Reason, tt.says) {
					t.Errorf("reason %q, want %q in it", f.Reason, tt.says)
				}
				if !f.Orphan() || f.Owner.Name != f.Cluster.Name || f.Want != nil || f.Have != tt.seen {
					t.Errorf("finding: %+v", f)
				}
			}
		})
	}
}

// C50: a cluster of one name in two namespaces, in one account and region,
// with the same tags. Each claims what its own provider ids name, and nothing
// by tag; the collision is flagged.
func TestC50SameClusterNameInTwoNamespaces(t *testing.T) {
	snap := snapshot(have("i-1", tagged("c1")), have("i-2", tagged("c1")), have("i-3", tagged("c1")))
	a := compare(genOwner("m1", inCluster("blue", "c1")), snap, want("i-1"))
	b := compare(genOwner("m1", inCluster("green", "c1")), snap, want("i-2"))
	if len(a.InSync) != 1 || len(b.InSync) != 1 {
		t.Errorf("own instances: %v, %v", a.InSync, b.InSync)
	}
	got := detector.Orphans([]detector.Result{b, a}, snap, detector.Unseen{})
	if len(got) != 1 || got[0].Resource.ID != "i-3" || got[0].Status != detector.Unknown {
		t.Fatalf("got %+v", got)
	}
	if !strings.Contains(got[0].Reason, "blue/c1, green/c1") {
		t.Errorf("reason %q names no collision", got[0].Reason)
	}
}

// What the results do not hold may still own what is tagged.
func TestOrphansOfTheUnseen(t *testing.T) {
	green, c2 := detector.ClusterRef{Namespace: "green", Name: "c1"}, detector.ClusterRef{Namespace: "green", Name: "c2"}
	prod := detector.ClusterRef{Namespace: "prod", Name: "c1"}
	m9 := providers.OwnerRef{Kind: "AWSMachine", Namespace: "prod", Name: "m9"}
	tests := map[string]struct {
		reason string
		unseen detector.Unseen
		want   detector.Status
		says   string
	}{
		"nothing unseen": {
			reason: "all that can own it was compared", want: detector.Unexpected,
		},
		"a namesake elsewhere": {
			reason: "the tag fits it as well (C50)", unseen: detector.Unseen{Clusters: []detector.ClusterRef{green}},
			want: detector.Unknown, says: "green/c1, prod/c1",
		},
		"another name elsewhere": {
			reason: "the tag does not fit", unseen: detector.Unseen{Clusters: []detector.ClusterRef{c2}}, want: detector.Unexpected,
		},
		"a machine that was not compared": {
			reason: "it may be its instance", unseen: detector.Unseen{Objects: map[detector.ClusterRef]providers.OwnerRef{prod: m9}},
			want: detector.Unknown, says: "AWSMachine prod/m9",
		},
		"another cluster's machine": {
			reason: "the tag is not that cluster's", unseen: detector.Unseen{Objects: map[detector.ClusterRef]providers.OwnerRef{c2: m9}},
			want: detector.Unexpected,
		},
		"clusters that could not be listed": {
			reason: "a namesake may be among them", unseen: detector.Unseen{Unlisted: "forbidden\nhere"}, want: detector.Unknown, says: "forbidden here",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			snap := snapshot(have("i-1"), have("i-2", tagged("c1")))
			r := compare(genOwner("m1", inCluster("prod", "c1")), snap, want("i-1"))
			got := detector.Orphans([]detector.Result{r}, snap, tc.unseen)
			if len(got) != 1 || got[0].Status != tc.want || !strings.Contains(got[0].Reason, tc.says) {
				t.Errorf("%s: want one %s that says %q, got %+v", tc.reason, tc.want, tc.says, got)
			}
		})
	}
}

// C65: no provider id yet, or two instances tagged for one machine: wait for
// the first, flag the spare, and never more than that.
func TestC65Unsettled(t *testing.T) {
	snap := snapshot(have("i-1", tagged("c1")), have("i-2", tagged("c1")))
	t.Run("no provider id yet", func(t *testing.T) {
		r := compare(genOwner("m1"), snap, want("", unsettled, str("/type", "m5")))
		if diff := cmp.Diff([]line{{Status: notChecked}}, lines(r.Findings)); diff != "" {
			t.Error(diff)
		}
		for _, f := range detector.Orphans([]detector.Result{r}, snap, detector.Unseen{}) {
			if f.Status != detector.Unknown || !strings.Contains(f.Reason, "AWSMachine prod/m1") {
				t.Errorf("%s is %s: %s", f.Resource.ID, f.Status, f.Reason)
			}
		}
	})
	t.Run("two instances for one machine", func(t *testing.T) {
		r := compare(genOwner("m1"), snap, want("i-1"))
		got := detector.Orphans([]detector.Result{r}, snap, detector.Unseen{})
		if len(got) != 1 || got[0].Resource.ID != "i-2" || got[0].Status != detector.Unexpected {
			t.Errorf("got %+v", got)
		}
	})
}

// An owner whose wants are not known may want anything that is tagged.
func TestOrphansOfUnreadOwner(t *testing.T) {
	snap := snapshot(have("i-1", tagged("c1")))
	r := detector.Unread(genOwner("m1"), scope, detector.Unknown, "spec: subnet and failure domain\ndisagree")
	if len(r.Findings) != 1 || r.Findings[0].Resource.ID != "prod/m1" || r.Findings[0].Reason != "spec: subnet and failure domain disagree" || r.NotChecked != 1 {
		t.Errorf("unread: %+v", r)
	}
	got := detector.Orphans([]detector.Result{r}, snap, detector.Unseen{})
	if len(got) != 1 || got[0].Status != detector.Unknown {
		t.Errorf("got %+v", got)
	}
}

func TestDoubleClaims(t *testing.T) {
	snap := snapshot(have("i-1"), have("i-2"), have("vpc-1", kind("VPC")))
	vpc := want("vpc-1", kind("VPC"))
	results := []detector.Result{
		compare(genOwner("m1"), snap, want("i-1", str("/tags/a", "x")), want("i-2")),
		compare(genOwner("m2"), snap, want("i-1")),
		compare(genOwner("m3"), snap, want("i-2", kind("Volume"))),
		compare(genOwner("c1", clusterOwner), snap, vpc),
		compare(genOwner("c2", clusterOwner, inCluster("prod", "c2")), snap, vpc),
	}
	before := []int{len(results[0].Findings), len(results[0].InSync), len(results[1].InSync)}
	got := detector.DoubleClaims(results, snap)
	for i, rival := range []string{"AWSMachine prod/m2", "AWSMachine prod/m1"} {
		f := got[i].Findings
		if len(f) != 1 || f[0].Status != detector.Unknown || f[0].Resource.ID != "i-1" || !strings.HasSuffix(f[0].Reason, "claimed by two objects: also by "+rival) {
			t.Errorf("claimant %d: %+v", i, f)
		}
	}
	if !slices.ContainsFunc(got[0].InSync, func(r detector.ResourceRef) bool { return r.ID == "i-2" }) || len(got[1].InSync) != 0 {
		t.Errorf("in sync: %v, %v", got[0].InSync, got[1].InSync)
	}
	for i := 2; i < len(results); i++ {
		if diff := cmp.Diff(lines(results[i].Findings), lines(got[i].Findings)); diff != "" {
			t.Errorf("result %d changed: %s", i, diff)
		}
	}
	if after := []int{len(results[0].Findings), len(results[0].InSync), len(results[1].InSync)}; !slices.Equal(before, after) {
		t.Errorf("arguments changed: %v to %v", before, after)
	}
	// A resource that is claimed twice and absent is unknown, not missing.
	empty := snapshot()
	twice := detector.DoubleClaims([]detector.Result{compare(genOwner("m1"), empty, want("i-1")), compare(genOwner("m2"), empty, want("i-1"))}, empty)
	if ids := detector.Unconfirmed(twice...); len(ids) != 0 {
		t.Errorf("unconfirmed: %v", ids)
	}
}

// What two machines claim is nobody's also where one reads the place under
// another identity; claims of a third place are no rivals' (the caller keeps
// those apart).
func TestDoubleClaimsInOnePlace(t *testing.T) {
	first, second := snapshot(have("i-1"), have("i-2")), snapshot(have("i-1"))
	one := []detector.Result{compare(genOwner("m1"), first, want("i-1")), compare(genOwner("m3"), first, want("i-2"))}
	other := []detector.Result{compare(genOwner("m2"), second, want("i-1"))}
	got := detector.DoubleClaimsIn(detector.Claims{Results: one, Snapshot: first}, detector.Claims{}, detector.Claims{Results: other, Snapshot: second})
	if len(got) != 3 || len(got[0]) != 2 || len(got[1]) != 0 || len(got[2]) != 1 {
		t.Fatalf("got %d parts", len(got))
	}
	for rival, r := range map[string]detector.Result{"m2": got[0][0], "m1": got[2][0]} {
		if len(r.Findings) != 1 || r.Findings[0].Status != detector.Unknown || !strings.HasSuffix(r.Findings[0].Reason, "AWSMachine prod/"+rival) || len(r.InSync) != 0 {
			t.Errorf("the rival of %s: %+v", rival, r.Findings)
		}
	}
	if len(got[0][1].Findings) != 0 || len(one[0].Findings)+len(other[0].Findings) != 0 {
		t.Error("others' results, or the arguments, have changed")
	}
}

func TestAllAbsent(t *testing.T) {
	vpc := want("vpc-1", kind("VPC"))
	tests := map[string]struct {
		reason string
		snap   *providers.Snapshot
		want   []detector.Vanished
	}{
		"all absent": {
			reason: "the VPC and its machines at once",
			snap:   snapshot(),
			want: []detector.Vanished{{
				Cluster: detector.ClusterRef{Namespace: "prod", Name: "c1"}, Resources: 2, Kinds: []string{"Instance", "VPC"},
			}},
		},
		"the VPC is there":            {reason: "the right account", snap: snapshot(have("vpc-1", kind("VPC")))},
		"a terminated machine shows":  {reason: "the right account", snap: snapshot(have("i-1", gone("terminated")))},
		"nothing could be looked for": {reason: "unknown, not absent", snap: uncovered(uncovered(snapshot(), "Instance", errThrottled), "VPC", errThrottled)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			results := []detector.Result{
				compare(genOwner("c1", clusterOwner), tt.snap, vpc),
				compare(genOwner("m1"), tt.snap, want("i-1")),
			}
			if diff := cmp.Diff(tt.want, detector.AllAbsent(results)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// Nodes are read elsewhere than all else: what one place shows is no proof that
// the other is the right one.
func TestAllAbsentOfNodes(t *testing.T) {
	node := func(id string) providers.Resource { return want(id, kind(providers.KindNode)) }
	vanished := func(resources int, kinds ...string) detector.Vanished {
		return detector.Vanished{Cluster: detector.ClusterRef{Namespace: "prod", Name: "c1"}, Resources: resources, Kinds: kinds}
	}
	for name, tt := range map[string]struct {
		snap *providers.Snapshot
		want []detector.Vanished
	}{
		"the account shows nothing, and the Nodes are there": {
			snapshot(have("n-1", kind(providers.KindNode)), have("n-2", kind(providers.KindNode))), []detector.Vanished{vanished(2, "Instance")},
		},
		"the API server shows nothing, and the instances are there": {
			snapshot(have("i-1"), have("i-2")), []detector.Vanished{vanished(2, "Node")},
		},
		"neither shows anything":     {snapshot(), []detector.Vanished{vanished(2, "Instance"), vanished(2, "Node")}},
		"one of each is there":       {snapshot(have("i-1"), have("n-2", kind(providers.KindNode))), nil},
		"the Nodes were not read":    {uncovered(snapshot(have("i-1")), "Node", errThrottled), nil},
		"only one Node is not there": {snapshot(have("i-1"), have("i-2"), have("n-1", kind(providers.KindNode))), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if _, said := tt.snap.Coverage[providers.KindNode]; !said {
				tt.snap.Coverage[providers.KindNode] = nil
			}
			results := []detector.Result{
				compare(genOwner("m1"), tt.snap, want("i-1"), node("n-1")),
				compare(genOwner("m2"), tt.snap, want("i-2"), node("n-2")),
			}
			if diff := cmp.Diff(tt.want, detector.AllAbsent(results)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Doubt of some kinds leaves the absences of others to be confirmed.
func TestDoubtOfKinds(t *testing.T) {
	snap := snapshot()
	snap.Coverage[providers.KindNode] = nil
	r := compare(genOwner("m1"), snap, want("i-1"), want("n-1", kind(providers.KindNode)))
	ids := detector.Unconfirmed(detector.Doubt(r, "no such place", providers.KindNode))
	if diff := cmp.Diff([]providers.ID{{Kind: "Instance", Name: "i-1"}}, ids); diff != "" {
		t.Errorf("to be confirmed (-want +got):\n%s", diff)
	}
}

func TestDoubt(t *testing.T) {
	snap := snapshot(have("i-2", str("/type", "m6")))
	r := compare(genOwner("m1"), snap, want("i-1"), want("i-2", str("/type", "m5")))
	doubted := detector.Doubt(r, "the caller's account is not\nthe cluster's")
	if ids := detector.Unconfirmed(doubted); len(ids) != 0 {
		t.Errorf("still to be confirmed: %v", ids)
	}
	if f := doubted.Findings[0]; f.Status != detector.Unknown || f.Reason != "the caller's account is not the cluster's" {
		t.Errorf("got %+v", f)
	}
	if f := doubted.Findings[1]; f.Status != drifted {
		t.Errorf("what was seen differs all the same: %+v", f)
	}
	if len(detector.Unconfirmed(r)) != 1 {
		t.Error("Doubt changed its argument")
	}
}
