package detector_test

import (
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

func TestSettle(t *testing.T) {
	id := want("i-1").ID
	found := func(mods ...resourceMod) *providers.Confirmation {
		return &providers.Confirmation{Resources: map[providers.ID]*providers.Resource{id: have("i-1", mods...)}}
	}
	none := &providers.Confirmation{}
	absentReason := "absent again when read live"
	tests := map[string]struct {
		reason       string
		owner        *providers.Owner
		since        time.Time
		confirmation *providers.Confirmation
		lines        []line
		says         string
		inSync       bool
		checked      int
	}{
		"absent again": {
			reason: "absent twice and old: missing, with one diff whatever is wanted",
			since:  longAgo, confirmation: none,
			lines: []line{{missing, "/state", removed, "running", ""}}, says: absentReason, checked: 2,
		},
		"no confirmation": {
			reason: "one read proves nothing",
			since:  longAgo, confirmation: nil,
			lines: []line{{Status: detector.Unknown}}, says: "could not be read again",
		},
		"not readable": {
			reason: "a failed read proves nothing",
			since:  longAgo, confirmation: &providers.Confirmation{Unconfirmed: map[providers.ID]error{id: errThrottled}},
			lines: []line{{Status: detector.Unknown}}, says: "RequestLimitExceeded",
		},
		"not readable, without a reason": {
			reason: "an entry without an error is still no absence",
			since:  longAgo, confirmation: &providers.Confirmation{Unconfirmed: map[providers.ID]error{id: nil}},
			lines: []line{{Status: detector.Unknown}}, says: "could not be read again",
		},
		"age unknown": {
			reason: "an absence of unknown age is not believed",
			since:  time.Time{}, confirmation: none,
			lines: []line{{Status: detector.Unknown}}, says: "unknown age",
		},
		"age of the owner": {
			reason: "where the provider knows no age, the owner's stands in",
			owner:  genOwner("m1", createdAt(longAgo)), confirmation: none,
			lines: []line{{missing, "/state", removed, "running", ""}}, says: absentReason, checked: 2,
		},
		"owner from a file": {
			reason: "a file without times is at rest",
			owner:  genOwner("m1", func(o *providers.Owner) { o.Source = "c.yaml:3" }), confirmation: none,
			lines: []line{{missing, "/state", removed, "running", ""}}, says: absentReason, checked: 2,
		},
		"found, in sync": {
			reason: "the bulk read was wrong",
			since:  longAgo, confirmation: found(str("/state", "running"), str("/type", "m5")),
			inSync: true, checked: 2,
		},
		"found, drifted": {
			reason: "what is found is compared",
			since:  longAgo, confirmation: found(str("/state", "running"), str("/type", "m6")),
			lines: []line{{drifted, "/type", changed, "m5", "m6"}}, checked: 2,
		},
		"found, terminated": {
			reason: "a terminated instance is missing",
			since:  longAgo, confirmation: found(gone("terminated: Client.UserInitiatedShutdown")),
			lines: []line{{missing, "/state", removed, "running", "terminated: Client.UserInitiatedShutdown"}}, checked: 2,
		},
		"found, unknown": {
			reason: "found, and nothing to be told of it",
			since:  longAgo, confirmation: found(unknown("inaccessible")),
			lines: []line{{Status: detector.Unknown}}, says: "inaccessible",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			owner := tt.owner
			if owner == nil {
				owner = genOwner("m1")
			}
			snap := snapshot()
			w := want("i-1", since(tt.since), str("/state", "running"), str("/type", "m5"))
			before := detector.Compare(owner, []providers.Resource{w}, snap, options)
			if diff := cmp.Diff([]providers.ID{id}, detector.Unconfirmed(before)); diff != "" {
				t.Fatalf("unconfirmed (-want +got):\n%s", diff)
			}
			after := detector.Settle(before, snap, tt.confirmation, options)
			if diff := cmp.Diff(tt.lines, lines(after.Findings)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", tt.reason, diff)
			}
			for _, f := range after.Findings {
				if !strings.Contains(f.Reason, tt.says) {
					t.Errorf("reason %q, want %q in it", f.Reason, tt.says)
				}
			}
			if (len(after.InSync) == 1) != tt.inSync || after.Checked != tt.checked || after.NotChecked != 2-tt.checked {
				t.Errorf("in sync %v, checked %d, not checked %d", after.InSync, after.Checked, after.NotChecked)
			}
			if len(detector.Unconfirmed(after)) != 0 {
				t.Error("still unconfirmed after settling")
			}
			if !before.Findings[0].Tentative || before.NotChecked != 2 {
				t.Error("Settle changed its argument")
			}
		})
	}
}

func createdAt(at time.Time) func(*providers.Owner) {
	return func(o *providers.Owner) {
		o.Infra = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at)}}
		o.Machine.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	}
}

func TestCreationGrace(t *testing.T) {
	tests := map[string]struct {
		opt   detector.Options
		since time.Time
		young bool
	}{
		"default, just inside":  {detector.Options{Now: now}, now.Add(-5 * time.Minute), true},
		"default, just outside": {detector.Options{Now: now}, now.Add(-5*time.Minute - 1), false},
		"own grace":             {detector.Options{Now: now, CreationGrace: time.Hour}, now.Add(-30 * time.Minute), true},
		"clock skew":            {detector.Options{Now: now}, now.Add(time.Hour), true},
		"no clock: the snapshot's time": {
			// taken a minute before now
			detector.Options{}, now.Add(-5*time.Minute - 30*time.Second), true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			snap := snapshot()
			w := []providers.Resource{want("i-1", since(tt.since))}
			r := detector.Compare(genOwner("m1"), w, snap, tt.opt)
			if r.Findings[0].Tentative == tt.young {
				t.Errorf("tentative: %v", r.Findings[0].Tentative)
			}
			settled := detector.Settle(r, snap, &providers.Confirmation{}, tt.opt)
			if got := settled.Findings[0].Status == missing; got == tt.young {
				t.Errorf("missing: %v", got)
			}
		})
	}
	// The grace is judged again when the read is: an old answer does not age.
	snap := snapshot()
	r := detector.Compare(genOwner("m1"), []providers.Resource{want("i-1", since(now.Add(-6*time.Minute)))}, snap, options)
	longer := detector.Options{Now: now, CreationGrace: 10 * time.Minute}
	if s := detector.Settle(r, snap, &providers.Confirmation{}, longer); s.Findings[0].Status != detector.Unknown {
		t.Errorf("within the grace: %v", s.Findings[0].Status)
	}
}

func TestUnconfirmedIsOrderedAndUnique(t *testing.T) {
	snap := snapshot()
	a := detector.Compare(genOwner("a"), []providers.Resource{want("i-2"), want("i-1")}, snap, options)
	b := detector.Compare(genOwner("b"), []providers.Resource{want("i-2"), want("x", kind("Volume"))}, snap, options)
	got := detector.Unconfirmed(a, b)
	wantIDs := []providers.ID{{Kind: "Instance", Name: "i-1"}, {Kind: "Instance", Name: "i-2"}, {Kind: "Volume", Name: "x"}}
	if diff := cmp.Diff(wantIDs, got); diff != "" {
		t.Error(diff)
	}
}

func TestMissingMutability(t *testing.T) {
	tests := map[string]struct {
		owner *providers.Owner
		want  providers.Mutability
	}{
		"a machine is replaced":   {genOwner("m1"), providers.Immutable},
		"a cluster's is no patch": {genOwner("c1", clusterOwner), providers.ReadOnly},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := detector.Compare(tt.owner, []providers.Resource{want("i-1")}, snapshot(have("i-1", gone("x"))), options)
			if got := r.Findings[0].Diffs[0].Mutability; got != tt.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
