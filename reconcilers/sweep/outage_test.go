package sweep

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// regions are one provider over two places, by the name of the cluster there.
type regions map[string]*fake.Provider

func (r regions) Scope(ctx context.Context, o *providers.Owner) (providers.Scope, error) {
	return r[o.Cluster.Name].Scope(ctx, o)
}

func (r regions) Desired(o *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	return r[o.Cluster.Name].Desired(o, snap)
}

func (r regions) Observe(ctx context.Context, s providers.Scope) (*providers.Snapshot, error) {
	return r[s.Region].Observe(ctx, s)
}

func (r regions) Confirm(ctx context.Context, s providers.Scope, ids []providers.ID) (*providers.Confirmation, error) {
	return r[s.Region].Confirm(ctx, s, ids)
}

const replaceMissing = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: p}
spec:
  mode: enforce
  rules: [{id: missing, target: {kind: Instance, statuses: [Missing]}, severity: high, action: replace, grace: {observations: 1}}]
`

// A region that is lost as a whole makes none of its resources missing, and
// takes no other region with it; one that loses half of its machines at once
// opens the breaker, so that nothing is replaced.
func TestPlatformRegionOutage(t *testing.T) {
	set, problems := policies.LoadSources(policies.Options{}, policies.Source{Name: "p.yaml", Data: []byte(replaceMissing)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		lose func(*fake.Provider)
		far  detector.Status
		gate string
		say  string
	}{
		"no answer": {
			lose: func(p *fake.Provider) {
				p.Fail(fake.OpObserve, errors.New("connection timed out"))
				p.Fail(fake.OpConfirm, errors.New("connection timed out"))
			},
			far: detector.NotChecked, say: "connection timed out",
		},
		"no answer to any call": {
			lose: func(p *fake.Provider) { p.Fail(fake.OpScope, errors.New("connection timed out")) },
			far:  detector.NotChecked, say: "connection timed out",
		},
		"every kind fails": {
			lose: func(p *fake.Provider) {
				p.Cover(providers.KindInstance, errors.New("InternalError"))
				p.Cover(providers.KindVPC, errors.New("InternalError"))
			},
			far: detector.NotChecked, say: "InternalError",
		},
		"empty answers": {
			lose: func(p *fake.Provider) {
				for _, name := range []string{"far-0", "far-1", "far-2", "far-3"} {
					p.Remove(instance("prod-" + name))
				}
				p.Remove(providers.ID{Kind: providers.KindVPC, Name: "vpc-prod-far"})
			},
			far: detector.Unknown, say: "says more about the place",
		},
		"half of the machines": {
			lose: func(p *fake.Provider) {
				for _, name := range []string{"far-0", "far-1"} {
					p.Remove(instance("prod-" + name))
				}
			},
			far: detector.Missing, gate: policies.GateMassDrift, say: "absent again when read live",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			near := w.cloud
			w.cluster("prod", "near", 4)
			far := fake.New("111122223333", "us-east-1", noon, providers.KindInstance, providers.KindVPC)
			w.cloud = far
			w.cluster("prod", "far", 4)
			near.Alter(instance("prod-near-2"), func(r *providers.Resource) {
				r.Fields.Set("/instanceType", providers.Field{Value: providers.String("t3.nano")})
			})
			for _, c := range w.inv.Clusters {
				for _, o := range c.Owners[1:] {
					o.Machine.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "md", Controller: ptr.To(true)}}
				}
			}
			tt.lose(far)
			cloud := regions{"near": near, "eu-central-1": near, "far": far, "us-east-1": far}
			s := &Sweeper{Providers: map[string]providers.Provider{fake.Name: cloud}, Now: noon, Policies: set}
			r, err := s.Run(t.Context(), w.inv)
			if err != nil {
				t.Fatal(err)
			}
			ofNear, ofFar := 0, 0
			for i := range r.Decisions {
				d := &r.Decisions[i]
				if d.Finding.Cluster.Name == "near" {
					ofNear++
					if d.Finding.Status != detector.Drifted || d.Finding.Owner.Name != "near-2" {
						t.Errorf("the other region has %s %s", d.Finding.Owner, d.Finding.Status)
					}
					continue
				}
				ofFar++
				if d.Finding.Status != tt.far || !strings.Contains(d.Finding.Reason, tt.say) {
					t.Errorf("%s is %s: %s", d.Finding.Owner, d.Finding.Status, d.Finding.Reason)
				}
				if d.Executable() || tt.gate != "" && !slices.ContainsFunc(d.Blocked, func(b policies.Block) bool { return b.By == tt.gate }) {
					t.Errorf("%s %s is not held back by %q: %+v", d.Action, d.Finding.Owner, tt.gate, d.Blocked)
				}
			}
			if ofNear != 1 || ofFar == 0 {
				t.Errorf("%d findings in the region that stands, %d in the one that is lost", ofNear, ofFar)
			}
		})
	}
}
