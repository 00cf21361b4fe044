package management_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/controlplane"
	"github.com/holdfast-io/holdfast/test/management"
)

// etcd and the API server live and die with the machines that they run on:
// KubeadmControlPlane sees a lost member, and replaces it.
func TestControlPlane(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{ControlPlanes: 3})
	c.WaitReady(ctx)
	machines := c.ControlPlanes(ctx)

	t.Log("the oldest member, etcd's leader, is terminated")
	lost := machines[0]
	c.Terminate(ctx, lost)
	c.WaitNode(ctx, lost, corev1.ConditionUnknown)
	// KubeadmControlPlane asks any one member of etcd for all of them, and sees a
	// silent one by its pod.
	c.Eventually(ctx, "so that the control plane is not healthy", func(ctx context.Context) error {
		have := meta.FindStatusCondition(c.KubeadmControlPlane(ctx).Status.Conditions, controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthyCondition)
		if have == nil || have.Status == metav1.ConditionTrue {
			return fmt.Errorf("its components' health is %v", have)
		}
		return nil
	})

	t.Log("a MachineHealthCheck has it replaced")
	mhc := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: c.Name + "-control-plane"}}
	mhc.Spec.ClusterName = c.Name
	mhc.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	mhc.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](1)},
	}
	if err := g.Client.Create(ctx, mhc); err != nil {
		t.Fatal(err)
	}
	c.WaitReplaced(ctx, lost)

	t.Log("two of three are stopped: there is no quorum, and it comes back with them")
	machines = c.ControlPlanes(ctx)
	if err := g.Client.Delete(ctx, mhc); err != nil {
		t.Fatal(err)
	}
	c.Stop(ctx, machines[0])
	c.Stop(ctx, machines[1])
	c.Eventually(ctx, "so that etcd has lost its quorum", func(context.Context) error {
		for _, m := range machines {
			have := meta.FindStatusCondition(machine(t, g, m.Name).Status.Conditions, controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition)
			if have == nil || have.Status == metav1.ConditionTrue {
				return fmt.Errorf("member of %s: %v", m.Name, have)
			}
		}
		return nil
	})
	c.Restart(ctx, machines[0])
	c.Restart(ctx, machines[1])
	c.WaitReady(ctx)
}

func machine(t *testing.T, g *management.Ground, name string) *clusterv1.Machine {
	t.Helper()
	m := &clusterv1.Machine{}
	m.Name, m.Namespace = name, g.Namespace
	if err := g.Client.Get(t.Context(), keyOf(m), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// What older Cluster APIs serve is served, converted and not cut short, and
// another program reaches it.
func TestConversion(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.VSphereCluster(ctx, management.VSphere{})
	old := &clusterv1beta1.Cluster{}
	c.Get(ctx, c.Name, old)
	if ref := old.Spec.InfrastructureRef; ref == nil || ref.APIVersion != "infrastructure.cluster.x-k8s.io/v1beta2" || ref.Name != c.Name {
		t.Errorf("infrastructureRef in v1beta1 is %+v", ref)
	}
	kubectl := exec.CommandContext(ctx, controlplane.Kubectl(t), "get", "vspheremachinetemplates.v1beta1.infrastructure.cluster.x-k8s.io", "-n", g.Namespace, "-o", "name")
	kubectl.Env = g.Environ()
	out, err := kubectl.CombinedOutput()
	if err != nil || !strings.Contains(string(out), c.Name+"-control-plane") {
		t.Errorf("kubectl get: %v\n%s", err, out)
	}
}

// A replacement that never joins, and a network that is down, are what tests of
// gates need.
func TestFaults(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2})
	c.WaitReady(ctx)
	workers := c.Workers(ctx, "general")

	c.CutOff(workers[1], true)
	c.WaitNode(ctx, workers[1], corev1.ConditionUnknown)
	c.CutOff(workers[1], false)
	c.WaitNode(ctx, workers[1], corev1.ConditionTrue)

	c.HoldBoots(true)
	if err := g.Client.Delete(ctx, workers[0]); err != nil {
		t.Fatal(err)
	}
	c.Eventually(ctx, "a replacement with an instance and without a node", func(ctx context.Context) error {
		for _, m := range c.Workers(ctx, "general") {
			if m.UID != workers[0].UID && m.UID != workers[1].UID && m.Spec.ProviderID != "" {
				if m.Status.NodeRef.IsDefined() {
					t.Fatalf("machine %s has joined", m.Name)
				}
				return nil
			}
		}
		return errors.New("there is none")
	})
	c.HoldBoots(false)
	c.WaitReplaced(ctx, workers[0])

	c.CollectNodes()
	c.Terminate(ctx, workers[1])
	c.WaitNode(ctx, workers[1], "")
}
