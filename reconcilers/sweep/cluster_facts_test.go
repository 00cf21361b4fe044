package sweep

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

func controlPlaneMachine(name string, ready metav1.ConditionStatus) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "prod", Name: name, Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""},
	}}
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineReadyCondition, Status: ready}}
	return m
}

// TestQuorumCountsWhatIsNotCompared: a member whose instance nobody compares
// is a member of etcd all the same.
func TestQuorumCountsWhatIsNotCompared(t *testing.T) {
	replicas := func(n int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "KubeadmControlPlane", "spec": map[string]any{"replicas": n}}}
	}
	tests := map[string]struct {
		reason       string
		compared     []metav1.ConditionStatus
		uncompared   []metav1.ConditionStatus
		controlPlane *unstructured.Unstructured
		safe         bool
	}{
		"three of three":             {reason: "two are a majority", compared: []metav1.ConditionStatus{"True", "True", "True"}, controlPlane: replicas(3), safe: true},
		"and two that are not ready": {reason: "two of five are none", compared: []metav1.ConditionStatus{"True", "True", "True"}, uncompared: []metav1.ConditionStatus{"False", "Unknown"}},
		"and two that are ready":     {reason: "all five are", compared: []metav1.ConditionStatus{"True", "True", "True"}, uncompared: []metav1.ConditionStatus{"True", "True"}, controlPlane: replicas(5), safe: true},
		"and two without a Machine":  {reason: "the control plane wants five", compared: []metav1.ConditionStatus{"True", "True", "True"}, controlPlane: replicas(5)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &inventory.Cluster{Object: &clusterv1.Cluster{}, ControlPlane: tc.controlPlane}
			facts := map[*inventory.Owner]policies.OwnerFacts{}
			for _, s := range tc.compared {
				m := controlPlaneMachine("m", s)
				o := &inventory.Owner{Owner: providers.Owner{Cluster: c.Object, Infra: &infrav1.AWSMachine{}, Machine: m, ControlPlane: true}}
				c.Owners = append(c.Owners, o)
				facts[o] = ownerFacts(c, o, lagging(c))
			}
			for _, s := range tc.uncompared {
				c.Uncompared = append(c.Uncompared, inventory.Uncompared{Machine: controlPlaneMachine("m", s)})
			}
			c.Uncompared = append(c.Uncompared, inventory.Uncompared{})
			if got := clusterFacts(c, facts).ControlPlane; got.True() != tc.safe {
				t.Errorf("%s: safe to lose one: %v, want %v", tc.reason, got.True(), tc.safe)
			}
		})
	}
}

// TestSpareMember: a member that is down can be replaced, where all the others
// are up and enough; a second one cannot.
func TestSpareMember(t *testing.T) {
	for name, tc := range map[string]struct {
		members  []metav1.ConditionStatus
		replicas int64
		spare    []bool
	}{
		"all are up":         {[]metav1.ConditionStatus{"True", "True", "True"}, 3, []bool{false, false, false}},
		"one of three":       {[]metav1.ConditionStatus{"False", "True", "True"}, 3, []bool{true, false, false}},
		"two of three":       {[]metav1.ConditionStatus{"False", "False", "True"}, 3, []bool{false, false, false}},
		"one that is not":    {[]metav1.ConditionStatus{"False", "True"}, 3, []bool{false, false}},
		"one of two":         {[]metav1.ConditionStatus{"False", "True"}, 2, []bool{false, false}},
		"the only one":       {[]metav1.ConditionStatus{"False"}, 1, []bool{false}},
		"two of five":        {[]metav1.ConditionStatus{"False", "False", "True", "True", "True"}, 5, []bool{false, false, false, false, false}},
		"one of five, at it": {[]metav1.ConditionStatus{"True", "True", "True", "True", "False"}, 5, []bool{false, false, false, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &inventory.Cluster{Object: &clusterv1.Cluster{}, ControlPlane: &unstructured.Unstructured{
				Object: map[string]any{"kind": "KubeadmControlPlane", "spec": map[string]any{"replicas": tc.replicas}},
			}}
			facts := map[*inventory.Owner]policies.OwnerFacts{}
			for _, s := range tc.members {
				o := &inventory.Owner{Owner: providers.Owner{
					Cluster: c.Object, Infra: &infrav1.AWSMachine{}, Machine: controlPlaneMachine("m", s), ControlPlane: true,
				}}
				c.Owners = append(c.Owners, o)
				facts[o] = ownerFacts(c, o, lagging(c))
			}
			for i, o := range c.Owners {
				if got := spare(c, o, facts); got.True() != tc.spare[i] {
					t.Errorf("member %d: spare=%v, want %v", i, got.True(), tc.spare[i])
				}
			}
		})
	}
}

// TestInFlightCountsWhatIsNotCompared: the infrastructure object of a Machine
// that is being deleted goes before it.
func TestInFlightCountsWhatIsNotCompared(t *testing.T) {
	m := controlPlaneMachine("m1", "True")
	m.Spec.FailureDomain = "a"
	m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	c := &inventory.Cluster{Object: &clusterv1.Cluster{}, Uncompared: []inventory.Uncompared{
		{Ref: providers.OwnerRef{Kind: "Machine", Namespace: "prod", Name: "m1"}, Machine: m}, {Machine: controlPlaneMachine("m2", "True")}, {},
	}}
	got := inFlight(refOf(c), c)
	want := []policies.InFlight{{
		Owner: providers.OwnerRef{Kind: "Machine", Namespace: "prod", Name: "m1"}, Zone: "a", ControlPlane: true,
		Action: policies.Replace, By: "deletion of Machine m1",
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("in flight (-want +got):\n%s", d)
	}
}
