package management

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// host is a machine of a workload cluster: what an instance boots into.
type host struct {
	// machine is the Machine's name, node the Node's: the instance's own name
	// for itself.
	machine, node string
	providerID    string
	// instance is the cloud's name for it.
	instance     string
	version      string
	controlPlane bool
	labels       map[string]string
	taints       []corev1.Taint
	addresses    []corev1.NodeAddress
}

const (
	labelControlPlane = "node-role.kubernetes.io/control-plane"
	annotationMirror  = corev1.MirrorPodAnnotationKey
)

// join has the kubelet of a host register its Node and report that it is
// ready, on the first boot and on later ones.
func (l *workload) join(ctx context.Context, h *host) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: h.node, Labels: h.nodeLabels()},
		Spec:       corev1.NodeSpec{ProviderID: h.providerID},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: h.version},
			Addresses:  h.addresses,
			Conditions: ready(),
		},
	}
	if h.controlPlane {
		node.Spec.Taints = []corev1.Taint{{Key: labelControlPlane, Effect: corev1.TaintEffectNoSchedule}}
	}
	node.Spec.Taints = append(node.Spec.Taints, h.taints...)
	// An address, and the name that follows from it, may have been another
	// instance's until a moment ago.
	mine, err := l.owns(ctx, h)
	if err != nil {
		return err
	}
	if !mine {
		if err := l.remove(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.node}}); err != nil {
			return err
		}
	}
	if err := l.ensure(ctx, node); err != nil {
		return err
	}
	return l.report(ctx, h, ready())
}

// owns tells that no other instance has a Node of the host's name.
func (l *workload) owns(ctx context.Context, h *host) (bool, error) {
	node := &corev1.Node{}
	err := l.client.Get(ctx, client.ObjectKey{Name: h.node}, node)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get node %s of workload cluster %s: %w", h.node, l.name, err)
	}
	return err != nil || node.Spec.ProviderID == h.providerID, nil
}

func (h *host) nodeLabels() map[string]string {
	labels := maps.Clone(h.labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelHostname] = h.node
	if h.controlPlane {
		labels[labelControlPlane] = ""
	}
	return labels
}

// fall has the node controller find that a host's kubelet has gone silent. A
// cluster's own takes 40 s for that.
func (l *workload) fall(ctx context.Context, h *host) error {
	return l.report(ctx, h, silent())
}

// report writes a Node's conditions, but for those that do not change.
func (l *workload) report(ctx context.Context, h *host, conditions []corev1.NodeCondition) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.node}}
	return l.edit(ctx, node, func() {
		old := map[corev1.NodeConditionType]corev1.NodeCondition{}
		for _, c := range node.Status.Conditions {
			old[c.Type] = c
		}
		for i, c := range conditions {
			if was, ok := old[c.Type]; ok && was.Status == c.Status {
				conditions[i].LastTransitionTime = was.LastTransitionTime
			}
		}
		node.Status.Conditions = conditions
	})
}

// ready are the conditions of a Node that is well.
func ready() []corev1.NodeCondition {
	now := metav1.Now()
	return []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status", LastHeartbeatTime: now, LastTransitionTime: now},
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", LastHeartbeatTime: now, LastTransitionTime: now},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", LastHeartbeatTime: now, LastTransitionTime: now},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", LastHeartbeatTime: now, LastTransitionTime: now},
	}
}

// silent are those that the node controller sets when a kubelet is not heard
// of any more.
func silent() []corev1.NodeCondition {
	conditions := ready()
	for i := range conditions {
		conditions[i].Status, conditions[i].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
		conditions[i].Message = "Kubelet stopped posting node status."
	}
	return conditions
}

// leave takes a host away for good: its Node and its static pods, unless they
// are another's by now.
func (l *workload) leave(ctx context.Context, h *host) error {
	if mine, err := l.owns(ctx, h); err != nil || !mine {
		return err
	}
	if h.controlPlane {
		if err := l.dropControlPlane(ctx, h); err != nil {
			return err
		}
	}
	return l.remove(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.node}})
}

// nodes lists the cluster's Nodes. What Cluster API has written to is kept
// unstructured by upstream's server, which then lists nothing else.
func (l *workload) nodes(ctx context.Context) ([]corev1.Node, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := l.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list nodes of workload cluster %s: %w", l.name, err)
	}
	nodes := make([]corev1.Node, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &nodes[i]); err != nil {
			return nil, fmt.Errorf("list nodes of workload cluster %s: %w", l.name, err)
		}
	}
	return nodes, nil
}
