package management

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// configure gives a host what kubeadm tells its kubelet of the Machine's
// KubeadmConfig: the labels and taints that its Node registers with. Kubelet sets
// them when it makes its Node, and never again.
func (f *fleet) configure(ctx context.Context, h *host) error {
	m := &clusterv1.Machine{}
	if err := f.management.Get(ctx, client.ObjectKey{Namespace: f.workload.name.Namespace, Name: h.machine}, m); err != nil {
		return fmt.Errorf("get machine %s: %w", h.machine, err)
	}
	config := &bootstrapv1.KubeadmConfig{}
	if err := f.management.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Bootstrap.ConfigRef.Name}, config); err != nil {
		return fmt.Errorf("get the bootstrap configuration of machine %s: %w", h.machine, err)
	}
	options := &config.Spec.JoinConfiguration.NodeRegistration
	if config.Spec.InitConfiguration.IsDefined() {
		options = &config.Spec.InitConfiguration.NodeRegistration
	}
	for _, a := range options.KubeletExtraArgs {
		if a.Name != "node-labels" || a.Value == nil {
			continue
		}
		for _, pair := range strings.Split(*a.Value, ",") {
			key, value, _ := strings.Cut(pair, "=")
			if h.labels == nil {
				h.labels = map[string]string{}
			}
			h.labels[key] = value
		}
	}
	if options.Taints != nil {
		h.taints = append([]corev1.Taint(nil), *options.Taints...)
	}
	return nil
}

// DeleteNode deletes a Node, as somebody with kubectl does. Its kubelet does not
// register it again for as long as it runs.
func (c *Cluster) DeleteNode(ctx context.Context, name string) {
	c.g.t.Helper()
	f := c.fleet()
	if f == nil {
		c.g.t.Fatalf("delete node %s: cluster %s has no API server", name, c.Name)
		return
	}
	n := &corev1.Node{}
	n.Name = name
	if err := f.workload.remove(ctx, n); err != nil {
		c.g.t.Fatal(err)
	}
}

// EditNode changes a Node in whatever way. Whoever asks sees to it that a real
// API server, kubelet or another controller might have done the same: upstream's
// in-memory one holds nothing against a change.
func (c *Cluster) EditNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	f := c.fleet()
	if f == nil {
		return fmt.Errorf("edit node %s: cluster %s has no API server", name, c.Name)
	}
	n, found := &corev1.Node{}, false
	n.Name = name
	if err := f.workload.edit(ctx, n, func() { found = true; change(n) }); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("edit node %s: cluster %s has none of that name", name, c.Name)
	}
	return nil
}

// ReplaceNode takes a Node away and registers another one of its name, as a
// kubelet does whose host took over a name; like nil leaves it at taking it away.
func (c *Cluster) ReplaceNode(ctx context.Context, name string, like *corev1.Node) error {
	f := c.fleet()
	if f == nil {
		return fmt.Errorf("replace node %s: cluster %s has no API server", name, c.Name)
	}
	n := &corev1.Node{}
	n.Name = name
	if err := f.workload.remove(ctx, n); err != nil || like == nil {
		return err
	}
	n.Labels, n.Annotations = like.Labels, like.Annotations
	n.Spec, n.Status = *like.Spec.DeepCopy(), *like.Status.DeepCopy()
	return f.workload.ensure(ctx, n)
}
