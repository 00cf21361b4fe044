package management

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patience is how long the waiting methods wait. It is many times what they
// take, for machines that do other things as well.
const Patience = 8 * time.Minute

// poll is the pause between two looks.
const poll = 100 * time.Millisecond

// Eventually waits until a condition holds and gives how long that took. The
// condition says what is still missing, nil when nothing is. It fails the test
// with that and with the state of the cluster when patience ends, and at once
// when the ground itself has failed.
func (c *Cluster) Eventually(ctx context.Context, what string, condition func(context.Context) error) time.Duration {
	c.g.t.Helper()
	start := time.Now()
	for {
		missing := condition(ctx)
		if missing == nil {
			took := time.Since(start)
			c.g.t.Logf("%s: %s after %.1fs", c.Name, what, took.Seconds())
			return took
		}
		if broken := c.g.broken(); broken != nil {
			c.g.t.Fatalf("%s: not %s: the ground has failed: %v", c.Name, what, broken)
		}
		if ctx.Err() != nil || time.Since(start) > Patience {
			c.g.t.Fatalf("%s: not %s after %.0fs: %v\n%s", c.Name, what, time.Since(start).Seconds(), missing, c.describe(context.WithoutCancel(ctx)))
		}
		time.Sleep(poll)
	}
}

// broken gives what has failed in the ground itself.
func (g *Ground) broken() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(g.faults...)
}

// WaitReady waits until all machines that the cluster is to have are ready, its
// etcd is healthy, and no others are there.
func (c *Cluster) WaitReady(ctx context.Context) time.Duration {
	c.g.t.Helper()
	return c.Eventually(ctx, "ready", c.ready)
}

// ready says what the cluster lacks.
func (c *Cluster) ready(ctx context.Context) error {
	want := int32(0)
	kcp := c.KubeadmControlPlane(ctx)
	n := ptr.Deref(kcp.Spec.Replicas, 1)
	want += n
	switch {
	case kcp.Status.ObservedGeneration != kcp.Generation:
		return errors.New("the control plane's spec has not been observed")
	case ptr.Deref(kcp.Status.ReadyReplicas, 0) != n || ptr.Deref(kcp.Status.Replicas, 0) != n || ptr.Deref(kcp.Status.UpToDateReplicas, 0) != n:
		return fmt.Errorf("the control plane has %d of %d machines ready", ptr.Deref(kcp.Status.ReadyReplicas, 0), n)
	case !meta.IsStatusConditionTrue(kcp.Status.Conditions, controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition):
		return errors.New("etcd is not healthy")
	}
	for _, d := range c.Deployments(ctx) {
		n := ptr.Deref(d.Spec.Replicas, 1)
		want += n
		if d.Status.ObservedGeneration != d.Generation || ptr.Deref(d.Status.ReadyReplicas, 0) != n ||
			ptr.Deref(d.Status.AvailableReplicas, 0) != n || ptr.Deref(d.Status.UpToDateReplicas, 0) != n || ptr.Deref(d.Status.Replicas, 0) != n {
			return fmt.Errorf("pool %s has %d of %d machines ready", d.Name, ptr.Deref(d.Status.ReadyReplicas, 0), n)
		}
	}
	machines := c.Machines(ctx)
	if len(machines) != int(want) {
		return fmt.Errorf("there are %d machines, not %d", len(machines), want)
	}
	for _, m := range machines {
		if !meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineReadyCondition) || !m.DeletionTimestamp.IsZero() {
			return fmt.Errorf("machine %s is not ready", m.Name)
		}
		if s := c.NodeReady(ctx, m.Status.NodeRef.Name); s != corev1.ConditionTrue {
			return fmt.Errorf("node %s of machine %s is %q", m.Status.NodeRef.Name, m.Name, s)
		}
	}
	return nil
}

// WaitReplaced waits until a Machine is gone and the cluster is ready.
func (c *Cluster) WaitReplaced(ctx context.Context, old *clusterv1.Machine) time.Duration {
	c.g.t.Helper()
	return c.Eventually(ctx, "rid of "+old.Name, func(ctx context.Context) error {
		for _, m := range c.Machines(ctx) {
			if m.UID == old.UID {
				return fmt.Errorf("machine %s is still there", m.Name)
			}
		}
		return c.ready(ctx)
	})
}

// WaitNode waits until a Machine's Node has a status, empty for no Node.
func (c *Cluster) WaitNode(ctx context.Context, m *clusterv1.Machine, want corev1.ConditionStatus) time.Duration {
	c.g.t.Helper()
	name := m.Status.NodeRef.Name
	return c.Eventually(ctx, fmt.Sprintf("so that node %s is %q", name, want), func(ctx context.Context) error {
		if have := c.NodeReady(ctx, name); have != want {
			return fmt.Errorf("it is %q", have)
		}
		return nil
	})
}

// describe tells the state of the cluster for a test that has waited in vain.
func (c *Cluster) describe(ctx context.Context) string {
	var b strings.Builder
	conditions := func(list []metav1.Condition) {
		for _, x := range list {
			if x.Status != metav1.ConditionTrue {
				fmt.Fprintf(&b, "    %s=%s %s: %s\n", x.Type, x.Status, x.Reason, strings.ReplaceAll(x.Message, "\n", " "))
			}
		}
	}
	cluster := &clusterv1.Cluster{}
	if err := c.g.Client.Get(ctx, c.Key(), cluster); err == nil {
		fmt.Fprintf(&b, "Cluster %s: %s\n", cluster.Name, cluster.Status.Phase)
		conditions(cluster.Status.Conditions)
	}
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := c.g.Client.Get(ctx, client.ObjectKey{Namespace: c.g.Namespace, Name: c.ControlPlane}, kcp); err == nil {
		fmt.Fprintf(&b, "KubeadmControlPlane %s\n", kcp.Name)
		conditions(kcp.Status.Conditions)
	}
	for _, d := range c.Deployments(ctx) {
		fmt.Fprintf(&b, "MachineDeployment %s: %s\n", d.Name, d.Status.Phase)
		conditions(d.Status.Conditions)
	}
	for _, m := range c.Machines(ctx) {
		fmt.Fprintf(&b, "Machine %s: %s %s node %q\n", m.Name, m.Status.Phase, m.Spec.ProviderID, m.Status.NodeRef.Name)
		conditions(m.Status.Conditions)
	}
	if f := c.fleet(); f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		fmt.Fprintf(&b, "Hosts: %d, last error: %v\n", len(f.hosts), f.last)
	}
	return b.String()
}
