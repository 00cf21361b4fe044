package remediator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/noderefutil"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// Drainer empties the node of a machine that a patch stops. Cluster API drains
// only Machines that are being deleted, so this does it itself, with the code
// that Cluster API does it with: evictions, which PodDisruptionBudgets may
// refuse, in the order and with the exceptions of MachineDrainRules.
type Drainer struct {
	Objects
	// Client is that of the management cluster; MachineDrainRules are read by it.
	Client client.Client
	// Remote gives a client of a workload cluster, which must read Pods by
	// their node from the API server itself. Nil means that there is none, and
	// then no node can be emptied.
	Remote func(ctx context.Context, cluster types.NamespacedName) (client.Client, error)
}

// Plan gives what is to be stored before the node is touched; nil where the
// Machine has no node, so that nothing runs on it that Kubernetes knows of.
func (d *Drainer) Plan(ctx context.Context, r *v1alpha1.Remediation) (*v1alpha1.Drain, error) {
	_, node, _, err := d.find(ctx, r)
	if err != nil || node == nil {
		return nil, err
	}
	return &v1alpha1.Drain{Node: node.Name, Cordoned: !node.Spec.Unschedulable}, nil
}

// Drain cordons the node and evicts its Pods; done once none is left that has
// to go. It is to be called again until then.
func (d *Drainer) Drain(ctx context.Context, r *v1alpha1.Remediation) (done bool, message string, err error) {
	m, node, remote, err := d.find(ctx, r)
	if err != nil || node == nil {
		return err == nil, "", err
	}
	cluster, err := d.cluster(ctx, r)
	if err != nil {
		return false, "", err
	}
	h := &drain.Helper{Client: d.Client, RemoteClient: remote, GracePeriodSeconds: -1}
	if noderefutil.IsNodeUnreachable(node) {
		// Its Pods never go by themselves.
		h.SkipWaitForDeleteTimeoutSeconds, h.GracePeriodSeconds = 1, 1
	}
	if err := h.CordonNode(ctx, node); err != nil {
		return false, "", fmt.Errorf("cordon node %s: %w", node.Name, err)
	}
	pods, err := h.GetPodsForEviction(ctx, cluster, m, node.Name)
	if err != nil {
		return false, "", fmt.Errorf("drain node %s: %w", node.Name, err)
	}
	if len(pods.Pods()) == 0 {
		return true, "", nil
	}
	result := h.EvictPods(ctx, pods)
	if result.DrainCompleted() {
		return true, "", nil
	}
	return false, result.ConditionMessage(r.Status.Drain.StartedAt), nil
}

// Uncordon makes the node schedulable again where Drain made it unschedulable.
func (d *Drainer) Uncordon(ctx context.Context, r *v1alpha1.Remediation) error {
	if r.Status.Drain == nil || !r.Status.Drain.Cordoned {
		return nil
	}
	_, node, remote, err := d.find(ctx, r)
	if errors.Is(err, errOtherNode) {
		return nil // the one that was cordoned is gone
	}
	if err != nil || node == nil || node.Name != r.Status.Drain.Node || !node.Spec.Unschedulable {
		return err
	}
	patch := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
	node.Spec.Unschedulable = false
	if err := remote.Patch(ctx, node, patch); err != nil {
		return fmt.Errorf("uncordon node %s: %w", node.Name, err)
	}
	return nil
}

// errOtherNode says that a node bears the name of a Machine's own and is not known
// to be it: what runs there is not the Machine's.
var errOtherNode = errors.New("it is not the Machine's node")

// find gives the Machine and its node; no node where there is none. A name alone
// makes no node the Machine's.
func (d *Drainer) find(ctx context.Context, r *v1alpha1.Remediation) (*clusterv1.Machine, *corev1.Node, client.Client, error) {
	m, err := d.machine(ctx, r)
	if err != nil || m == nil || m.Status.NodeRef.Name == "" {
		return m, nil, nil, err
	}
	if d.Remote == nil {
		return m, nil, nil, fmt.Errorf("there is no access to the workload cluster of Machine %s", m.Name)
	}
	remote, err := d.Remote(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.ClusterName})
	if err != nil {
		return m, nil, nil, fmt.Errorf("reach the workload cluster %s: %w", r.Spec.ClusterName, err)
	}
	node := &corev1.Node{}
	err = remote.Get(ctx, types.NamespacedName{Name: m.Status.NodeRef.Name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return m, nil, remote, nil
	case err != nil:
		return m, nil, nil, fmt.Errorf("get node %s: %w", m.Status.NodeRef.Name, err)
	case node.Spec.ProviderID == "" || node.Spec.ProviderID != m.Spec.ProviderID:
		return m, nil, nil, fmt.Errorf("node %s has providerID %q, and Machine %s has %q: %w",
			node.Name, Line(node.Spec.ProviderID, maxName), m.Name, m.Spec.ProviderID, errOtherNode)
	}
	return m, node, remote, nil
}
