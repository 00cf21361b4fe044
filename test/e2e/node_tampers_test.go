package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// nodeTaint keeps whatever is not meant for it off each worker's Node.
var nodeTaint = corev1.Taint{Key: "example.com/dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}

// tainted declares the label and the taint on AWS.
func tainted(m *awscluster.Manifest) {
	labelled(m)
	for _, t := range m.ConfigTemplates {
		t.Spec.Template.Spec.JoinConfiguration.NodeRegistration.Taints = &[]corev1.Taint{nodeTaint}
	}
}

// taintedVSphere declares them on vSphere.
func taintedVSphere(m *vspherecluster.Manifest) {
	for _, t := range m.ConfigTemplates {
		join := t.Spec.Template.Spec.JoinConfiguration
		if join == nil {
			join = &bootstrapv1beta1.JoinConfiguration{}
			t.Spec.Template.Spec.JoinConfiguration = join
		}
		args := maps.Clone(join.NodeRegistration.KubeletExtraArgs)
		if args == nil {
			args = map[string]string{}
		}
		args["node-labels"] = nodeLabel + "=" + nodeLabelValue
		join.NodeRegistration.KubeletExtraArgs, join.NodeRegistration.Taints = args, []corev1.Taint{nodeTaint}
	}
}

// nodeTamper is what becomes of a Node, and the difference that it makes.
type nodeTamper struct {
	name   string
	change func(*corev1.Node)
	diff   func(before *corev1.Node) difference
	// anew: it is another Node of the name. An API server lets nobody change the
	// providerID of one that has one.
	anew bool
}

func without(taints []corev1.Taint, t corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(x corev1.Taint) bool { return x.MatchTaint(&t) })
}

const (
	foreignProviderID = "aws:///eu-central-1a/i-0123456789abcdef0"
	oldKubelet        = "v1.20.0"
)

// nodePatched are the tampers with what can be set back.
var nodePatched = []nodeTamper{
	{
		name:   "label taken off",
		change: func(n *corev1.Node) { delete(n.Labels, nodeLabel) },
		diff: func(*corev1.Node) difference {
			return difference{"/metadata/labels" + providers.Pointer(nodeLabel), nodeLabelValue, ""}
		},
	},
	{
		name:   "label changed",
		change: func(n *corev1.Node) { n.Labels[nodeLabel] = "SSD" },
		diff: func(*corev1.Node) difference {
			return difference{"/metadata/labels" + providers.Pointer(nodeLabel), nodeLabelValue, "SSD"}
		},
	},
	{
		name:   "taint taken off",
		change: func(n *corev1.Node) { n.Spec.Taints = without(n.Spec.Taints, nodeTaint) },
		diff:   func(*corev1.Node) difference { return difference{"/spec/taints", nodeTaint.ToString(), ""} },
	},
	{
		name: "taint of another value",
		change: func(n *corev1.Node) {
			other := nodeTaint
			other.Value = "web"
			n.Spec.Taints = append(without(n.Spec.Taints, nodeTaint), other)
		},
		diff: func(*corev1.Node) difference { return difference{"/spec/taints", nodeTaint.ToString(), ""} },
	},
}

// nodeReplaced are those that only another machine ends.
var nodeReplaced = []nodeTamper{
	{
		name:   "older kubelet",
		change: func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = oldKubelet },
		diff: func(n *corev1.Node) difference {
			return difference{"/status/nodeInfo/kubeletVersion", n.Status.NodeInfo.KubeletVersion, oldKubelet}
		},
	},
	{
		name:   "name taken by another instance",
		change: func(n *corev1.Node) { n.Spec.ProviderID = foreignProviderID },
		diff: func(n *corev1.Node) difference {
			return difference{"/spec/providerID", n.Spec.ProviderID, foreignProviderID}
		},
		anew: true,
	},
	{name: "deleted", diff: func(*corev1.Node) difference { return difference{"/state", "present", ""} }},
}

// on has the tamper done to a Machine's Node.
func (x *nodeTamper) on(c *management.Cluster, m *clusterv1.Machine) *row {
	name, key := m.Status.NodeRef.Name, c.Key()
	id := key.Namespace + "/" + key.Name + "/" + name
	find := expected{owner: m.Spec.InfrastructureRef.Kind + "/" + m.Spec.InfrastructureRef.Name, kind: providers.KindNode, id: id, status: detector.Drifted}
	if x.change == nil {
		find.status = detector.Missing
	}
	do := func(ctx context.Context) ([]expected, func(context.Context) error, error) {
		before, ok := c.Nodes(ctx)[name]
		if !ok {
			return nil, nil, fmt.Errorf("cluster %s has no Node %s", c.Name, name)
		}
		f := find
		f.diffs = []difference{x.diff(&before)}
		var err error
		switch after := before.DeepCopy(); {
		case x.change == nil:
			err = c.ReplaceNode(ctx, name, nil)
		case x.anew:
			x.change(after)
			err = c.ReplaceNode(ctx, name, after)
		default:
			err = c.EditNode(ctx, name, x.change)
		}
		return []expected{f}, func(ctx context.Context) error {
			if x.change == nil || x.anew {
				return c.ReplaceNode(ctx, name, &before)
			}
			return c.EditNode(ctx, name, func(n *corev1.Node) {
				n.Labels, n.Spec.Taints, n.Status.NodeInfo = before.Labels, before.Spec.Taints, before.Status.NodeInfo
			})
		}, err
	}
	touched := find.key() + " *" // of a Node that is another one nothing else is told
	if x.change != nil && !x.anew {
		path := x.diff(&corev1.Node{}).path
		touched = find.key() + " " + path
	}
	return &row{name: x.name + " (" + m.Name + ")", do: do, touches: []string{touched}}
}

// nodeRows have each tamper done to one of the machines, taking turns.
func nodeRows(c *management.Cluster, machines []*clusterv1.Machine, tampers []nodeTamper) (rows []*row) {
	for i := range tampers {
		rows = append(rows, tampers[i].on(c, machines[i%len(machines)]))
	}
	return rows
}
