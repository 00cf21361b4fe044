package policies

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers"
)

// TestAllowance: a percentage is rounded down, and one above 0% allows at
// least one.
func TestAllowance(t *testing.T) {
	tests := map[string]struct {
		limit intstr.IntOrString
		total int
		want  int
	}{
		"number":               {intstr.FromInt32(3), 1, 3},
		"none":                 {intstr.FromInt32(0), 100, 0},
		"rounded down":         {intstr.FromString("10%"), 29, 2},
		"at least one":         {intstr.FromString("10%"), 5, 1},
		"all":                  {intstr.FromString("100%"), 7, 7},
		"no share":             {intstr.FromString("0%"), 100, 0},
		"a share of not known": {intstr.FromString("10%"), 0, 0},
		"no percentage":        {intstr.FromString("x"), 100, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := allowance(tc.limit, tc.total); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

// TestMinimum: a percentage is rounded up, and a number asks for no more than
// there are.
func TestMinimum(t *testing.T) {
	for in, want := range map[string]int{"90% of 9": 9, "80% of 9": 8, "50% of 3": 2, "0% of 9": 0, "100% of 0": 0, "2 of 9": 2, "2 of 1": 1} {
		var text string
		var n int
		if _, err := fmt.Sscanf(in, "%s of %d", &text, &n); err != nil {
			t.Fatal(err)
		}
		m := minimum{IntOrString: intstr.Parse(text)}
		if got := m.of(n); got != want {
			t.Errorf("%s is %d, want %d", in, got, want)
		}
	}
}

// TestClusterBudget: the least of the budgets that count in the cluster, whichever
// policy they stand in.
func TestClusterBudget(t *testing.T) {
	const spec = `spec:
  budgets:
  - {scope: cluster, actions: [patch], max: 4}
  - {scope: cluster, max: 50%}
  - {scope: pool, max: 1}
`
	tests := map[string]struct {
		spec     string
		action   Action
		machines int
		want     int
	}{
		"built in, a number":                      {"spec: {}\n", Patch, 30, 10},
		"built in, a share":                       {"spec: {}\n", Replace, 30, 3},
		"a policy's is less":                      {spec, Patch, 30, 4},
		"one of all actions counts":               {spec, Patch, 6, 3},
		"own ones take the place of the built-in": {spec, Replace, 30, 15},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, bounded := mustLoad(t, tc.spec).For(testCluster, nil).ClusterBudget(tc.action, tc.machines)
			if got != tc.want || !bounded {
				t.Errorf("%d (bounded: %v), want %d", got, bounded, tc.want)
			}
		})
	}
}

// TestUsedAnywhere: what may be in any pool and zone takes a slot in each, and in
// no other cluster.
func TestUsedAnywhere(t *testing.T) {
	c := &candidate{}
	c.Finding.Cluster, c.Finding.Pool, c.Finding.Zone = testCluster, "MachineDeployment/a", "z1"
	for _, scope := range []v1alpha1.BudgetScope{v1alpha1.ScopePool, v1alpha1.ScopeZone} {
		b := &budget{Budget: v1alpha1.Budget{Scope: scope}}
		flight := reservation{InFlight: InFlight{Cluster: testCluster, Owner: providers.OwnerRef{Name: "x"}, Pool: "MachineDeployment/b", Zone: "z2", Action: Patch}}
		for want := range 2 {
			if got := b.used([]reservation{flight}, c); got != want {
				t.Errorf("%s, anywhere %v: %d in flight, want %d", scope, flight.Anywhere, got, want)
			}
			flight.Anywhere = true
		}
		flight.Cluster.Name += "-2"
		if got := b.used([]reservation{flight}, c); got != 0 {
			t.Errorf("%s of another cluster: %d", scope, got)
		}
	}
}
