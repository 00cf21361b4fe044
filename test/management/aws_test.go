package management_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/management"
)

// The ground must hold before anything is built on it: upstream's reconcilers
// make a cluster on the simulated cloud and see what becomes of its instances.
func TestAWS(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{ControlPlanes: 3, Workers: 3})
	c.WaitReady(ctx)

	workers := c.Workers(ctx, "general")
	deleted, annotated, terminated := workers[0], workers[1], workers[2]
	before := c.Instances(ctx)

	t.Log("a Machine is deleted by the API")
	if err := g.Client.Delete(ctx, deleted); err != nil {
		t.Fatal(err)
	}
	c.WaitReplaced(ctx, deleted)
	after := c.Instances(ctx)
	made := 0
	for name, id := range after {
		if before[name] == "" {
			made++
			for _, old := range before {
				if id == old {
					t.Errorf("new machine %s has the old instance %s", name, id)
				}
			}
		}
	}
	if made != 1 {
		t.Errorf("%d machines were made for one that was deleted", made)
	}
	for name, n := range c.Nodes(ctx) {
		if n.Spec.ProviderID == deleted.Spec.ProviderID {
			t.Errorf("node %s of the deleted machine is still there", name)
		}
	}
	i, err := g.AWS().Instance(ctx, management.Instance(deleted))
	if err != nil || i.State.Name != "terminated" {
		t.Errorf("the deleted machine's instance is %v, %v: want it terminated", i, err)
	}

	t.Log("a MachineHealthCheck replaces a Machine that is annotated")
	applyHealthCheck(t, g, c)
	annotate(t, g, annotated)
	c.WaitReplaced(ctx, annotated)

	t.Log("an instance is stopped, and starts again")
	c.Stop(ctx, terminated)
	c.WaitNode(ctx, terminated, corev1.ConditionUnknown)
	c.Restart(ctx, terminated)
	c.WaitNode(ctx, terminated, corev1.ConditionTrue)
	c.WaitReady(ctx)

	t.Log("an instance is terminated behind everybody's back")
	c.Terminate(ctx, terminated)
	c.WaitNode(ctx, terminated, corev1.ConditionUnknown)
}

func applyHealthCheck(t *testing.T, g *management.Ground, c *management.Cluster) {
	t.Helper()
	mhc := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: c.Name + "-workers"}}
	mhc.Spec.ClusterName = c.Name
	mhc.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: c.Name + "-general"}
	mhc.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](3600)},
	}
	if err := g.Client.Create(t.Context(), mhc); err != nil {
		t.Fatal(err)
	}
}

func annotate(t *testing.T, g *management.Ground, m *clusterv1.Machine) {
	t.Helper()
	base := m.DeepCopy()
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.RemediateMachineAnnotation, "")
	if err := g.Client.Patch(t.Context(), m, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }
