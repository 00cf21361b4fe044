package sweep

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// identities is one cloud that each namespace reads under an identity of its
// own; those in refused cannot.
type identities struct {
	*fake.Provider
	refused map[string]bool
}

func (p identities) Scope(ctx context.Context, o *providers.Owner) (providers.Scope, error) {
	s, err := p.Provider.Scope(ctx, o)
	s.Identity = "AWSClusterStaticIdentity/" + o.Ref.Namespace
	return s, err
}

func (p identities) Observe(ctx context.Context, s providers.Scope) (*providers.Snapshot, error) {
	if p.refused[s.Identity] {
		return nil, errors.New("access denied")
	}
	bare := s
	bare.Identity = ""
	snap, err := p.Provider.Observe(ctx, bare)
	if snap != nil {
		snap.Scope = s
	}
	return snap, err
}

func (p identities) Confirm(ctx context.Context, s providers.Scope, ids []providers.ID) (*providers.Confirmation, error) {
	s.Identity = ""
	return p.Provider.Confirm(ctx, s, ids)
}

// Two machines of two clusters record one instance, and each cluster reads the
// account under its own identity: neither may act on it, drifted or gone, also
// where the other's identity cannot read just now.
func TestClaimsAcrossIdentities(t *testing.T) {
	for name, tt := range map[string]struct {
		gone    bool
		refused map[string]bool
	}{
		"drifted":                         {},
		"gone":                            {gone: true},
		"the other identity is refused":   {refused: map[string]bool{"AWSClusterStaticIdentity/test": true}},
		"gone, and the other one refused": {gone: true, refused: map[string]bool{"AWSClusterStaticIdentity/test": true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cluster("prod", "c1", 2)
			other := w.cluster("test", "c2", 2)
			contested := instance("prod-c1-0")
			thief := other.Owners[1] // the first machine, after the cluster
			w.cloud.Want(thief.Ref, providers.Resource{ID: contested,
				Fields: providers.FieldsOf(map[string]providers.Field{"/instanceType": {Value: providers.String("m5.xlarge"), Mutability: providers.InPlaceDisruptive}})})
			if tt.gone {
				w.cloud.Remove(contested)
			}
			s := &Sweeper{Providers: map[string]providers.Provider{fake.Name: identities{w.cloud, tt.refused}}, Now: noon}
			r, err := s.Run(t.Context(), w.inv)
			if err != nil {
				t.Fatal(err)
			}
			claimants := map[string]string{}
			for i := range r.Decisions {
				f := &r.Decisions[i].Finding
				if f.Resource.ID != contested.Name {
					continue
				}
				if f.Status != detector.Unknown || r.Decisions[i].Action == "replace" {
					t.Errorf("%s: %s, %s (%s)", f.Owner, f.Status, r.Decisions[i].Action, f.Reason)
				}
				claimants[f.Owner.Name] = f.Reason
			}
			if why := claimants["c1-0"]; !strings.Contains(why, "also by "+thief.Ref.String()) {
				t.Errorf("c1-0 is %q, want it to name its rival", why)
			}
			if why, found := claimants[thief.Ref.Name]; tt.refused == nil && !strings.Contains(why, "AWSMachine prod/c1-0") || tt.refused != nil && found {
				t.Errorf("%s is %q", thief.Ref.Name, why)
			}
		})
	}
}
