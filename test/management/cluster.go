package management

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is a cluster of a test. Its methods fail the test if the ground
// itself fails; all of them read live.
type Cluster struct {
	// Name is the Cluster's in the ground's namespace, ControlPlane the
	// KubeadmControlPlane's.
	Name, ControlPlane string

	g     *Ground
	cloud cloud
}

// Key names the Cluster.
func (c *Cluster) Key() client.ObjectKey {
	return client.ObjectKey{Namespace: c.g.Namespace, Name: c.Name}
}

// MovedTo is the cluster on another ground, beside its own, that it was moved to.
func (c *Cluster) MovedTo(g *Ground) *Cluster {
	return &Cluster{Name: c.Name, ControlPlane: c.ControlPlane, g: g, cloud: c.cloud}
}

// Get reads an object of the ground's namespace.
func (c *Cluster) Get(ctx context.Context, name string, o client.Object) {
	c.g.t.Helper()
	if err := c.g.Client.Get(ctx, client.ObjectKey{Namespace: c.g.Namespace, Name: name}, o); err != nil {
		c.g.t.Fatalf("get %T: %v", o, err)
	}
}

// Machines are all of the cluster's, ordered by age and name.
func (c *Cluster) Machines(ctx context.Context) []*clusterv1.Machine {
	c.g.t.Helper()
	return c.machines(ctx, func(*clusterv1.Machine) bool { return true })
}

// ControlPlanes are the control plane's Machines, ordered by age and name.
func (c *Cluster) ControlPlanes(ctx context.Context) []*clusterv1.Machine {
	c.g.t.Helper()
	return c.machines(ctx, util.IsControlPlaneMachine)
}

// Workers are the Machines of one pool, named by the end of its
// MachineDeployment's name, such as "general", or of all pools with "".
func (c *Cluster) Workers(ctx context.Context, pool string) []*clusterv1.Machine {
	c.g.t.Helper()
	return c.machines(ctx, func(m *clusterv1.Machine) bool {
		return !util.IsControlPlaneMachine(m) && strings.HasSuffix(m.Labels[clusterv1.MachineDeploymentNameLabel], pool)
	})
}

func (c *Cluster) machines(ctx context.Context, keep func(*clusterv1.Machine) bool) []*clusterv1.Machine {
	c.g.t.Helper()
	list := &clusterv1.MachineList{}
	if err := c.g.Client.List(ctx, list, client.InNamespace(c.g.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: c.Name}); err != nil {
		c.g.t.Fatalf("list machines: %v", err)
	}
	var out []*clusterv1.Machine
	for i := range list.Items {
		if keep(&list.Items[i]) {
			out = append(out, &list.Items[i])
		}
	}
	slices.SortFunc(out, func(a, b *clusterv1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Deployments are the cluster's pools, ordered by name.
func (c *Cluster) Deployments(ctx context.Context) []clusterv1.MachineDeployment {
	c.g.t.Helper()
	list := &clusterv1.MachineDeploymentList{}
	if err := c.g.Client.List(ctx, list, client.InNamespace(c.g.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: c.Name}); err != nil {
		c.g.t.Fatalf("list machine deployments: %v", err)
	}
	return list.Items
}

// KubeadmControlPlane reads the control plane.
func (c *Cluster) KubeadmControlPlane(ctx context.Context) *controlplanev1.KubeadmControlPlane {
	c.g.t.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{}
	c.Get(ctx, c.ControlPlane, kcp)
	return kcp
}

// Nodes are those of the workload cluster by name, whether its API server runs
// or not.
func (c *Cluster) Nodes(ctx context.Context) map[string]corev1.Node {
	c.g.t.Helper()
	f := c.fleet()
	if f == nil {
		return nil
	}
	nodes, err := f.workload.nodes(ctx)
	if err != nil {
		c.g.t.Fatalf("list nodes of cluster %s: %v", c.Name, err)
	}
	out := map[string]corev1.Node{}
	for _, n := range nodes {
		out[n.Name] = n
	}
	return out
}

// NodeReady is the status of a Node's Ready condition; empty is a Node that is
// not there.
func (c *Cluster) NodeReady(ctx context.Context, name string) corev1.ConditionStatus {
	c.g.t.Helper()
	for _, condition := range c.Nodes(ctx)[name].Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}

// LabelNode sets a label of a Node, as somebody with kubectl does; an empty
// value takes it away.
func (c *Cluster) LabelNode(ctx context.Context, name, key, value string) {
	c.g.t.Helper()
	n := &corev1.Node{}
	n.Name = name
	f := c.fleet()
	if f == nil {
		c.g.t.Fatalf("label node %s: cluster %s has no API server", name, c.Name)
		return
	}
	if err := f.workload.edit(ctx, n, func() {
		if value == "" {
			delete(n.Labels, key)
			return
		}
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[key] = value
	}); err != nil {
		c.g.t.Fatal(err)
	}
}

// Instance is the cloud's name for a Machine's instance: the instance id, or
// the virtual machine's UUID.
func Instance(m *clusterv1.Machine) string {
	return m.Spec.ProviderID[strings.LastIndex(m.Spec.ProviderID, "/")+1:]
}

// Instances are those that Machines have, by the Machine's name.
func (c *Cluster) Instances(ctx context.Context) map[string]string {
	c.g.t.Helper()
	out := map[string]string{}
	for _, m := range c.Machines(ctx) {
		if m.Spec.ProviderID != "" {
			out[m.Name] = Instance(m)
		}
	}
	return out
}

// Terminate ends a Machine's instance behind the back of Cluster API; on
// vSphere it powers the virtual machine off and destroys it.
func (c *Cluster) Terminate(ctx context.Context, m *clusterv1.Machine) {
	c.g.t.Helper()
	c.tamper(c.cloud.end(ctx, Instance(m)))
}

// Stop stops a Machine's instance.
func (c *Cluster) Stop(ctx context.Context, m *clusterv1.Machine) {
	c.g.t.Helper()
	c.tamper(c.cloud.stop(ctx, Instance(m)))
}

// Restart starts an instance that was stopped.
func (c *Cluster) Restart(ctx context.Context, m *clusterv1.Machine) {
	c.g.t.Helper()
	c.tamper(c.cloud.start(ctx, Instance(m)))
}

func (c *Cluster) tamper(err error) {
	c.g.t.Helper()
	if err != nil {
		c.g.t.Fatal(err)
	}
}

// HoldBoots keeps instances that have not joined yet from becoming Nodes, until
// it is called with false: replacements that never become ready.
func (c *Cluster) HoldBoots(hold bool) {
	c.g.t.Helper()
	c.setFaults(func(f *faults) { f.noBoot = hold })
}

// CutOff has the kubelet of a Machine fall silent while its instance runs, or
// be heard again: a network that is down.
func (c *Cluster) CutOff(m *clusterv1.Machine, off bool) {
	c.g.t.Helper()
	c.setFaults(func(f *faults) { f.cutOff[m.Name] = off })
}

// CollectNodes has a Node deleted when its instance is gone, as cloud
// controller managers do. Without it the Node stays and is not ready.
func (c *Cluster) CollectNodes() {
	c.g.t.Helper()
	c.setFaults(func(f *faults) { f.follow = true })
}

func (c *Cluster) setFaults(change func(*faults)) {
	c.g.t.Helper()
	f := c.fleet()
	if f == nil {
		c.g.t.Fatalf("cluster %s has no hosts yet: wait until it is ready", c.Name)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.broken)
}

func (c *Cluster) fleet() *fleet { return c.g.plane.fleet(c.Key()) }
