package node

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// nodeName is that of an owner's Node, once Cluster API has found it; empty
// before that, and for whatever is no machine.
func nodeName(owner *providers.Owner) string {
	if owner == nil || owner.Machine == nil || owner.Cluster == nil {
		return ""
	}
	return owner.Machine.Status.NodeRef.Name
}

// wanted is the Node that an owner wants, nil if none. It is pure.
//
// Until Cluster API has found a Node for the Machine by its provider id, the
// Machine's own conditions tell what is missing, and nothing here does.
func wanted(owner *providers.Owner, snap *providers.Snapshot) *providers.Resource {
	name := nodeName(owner)
	if name == "" {
		return nil
	}
	m, cluster := owner.Machine, clusterOf(owner)
	r := &providers.Resource{ID: idOf(cluster, name), Name: name, Owner: owner.Ref, Since: since(owner)}
	if r.Unchecked = unread(snap, owner); r.Unchecked != "" {
		return r
	}
	if m.Spec.ProviderID == "" {
		r.Unchecked = "Machine " + m.Name + " has no providerID, by which its Node could be told to be its own"
		return r
	}
	r.Set(pathProviderID, providers.Field{Value: providers.String(m.Spec.ProviderID), Mutability: providers.ReadOnly})
	seen := snap.Resources[r.ID]
	if seen != nil && seen.Fields.Get(pathProviderID).Value.Text() != m.Spec.ProviderID {
		return r // another machine's Node: nothing else that is wanted is wanted of it
	}
	if v := wantedVersion(m, seen); v != "" {
		r.Set(pathVersion, providers.Field{Value: providers.String(v), Mutability: providers.Immutable})
	}
	for key, value := range wantedLabels(owner) {
		r.Set(labelPath(key), providers.Field{Value: providers.String(value), Mutability: providers.InPlace})
	}
	if taints := wantedTaints(owner); len(taints) > 0 {
		r.Set(pathTaints, providers.Field{Value: providers.Set(taints...), Match: providers.Contains, Mutability: providers.InPlace})
	}
	return r
}

// unread says why a snapshot tells nothing of a cluster's Nodes; empty if it
// does.
func unread(snap *providers.Snapshot, owner *providers.Owner) string {
	cluster := clusterOf(owner)
	err, asked := snap.Coverage[providers.ClusterPart(providers.KindNode, cluster.Namespace, cluster.Name)]
	switch {
	case !asked:
		return fmt.Sprintf("the Nodes of cluster %s were not read", cluster)
	case err != nil:
		return err.Error()
	default:
		return ""
	}
}

// wantedVersion is the version that a Machine declares, in the words of its
// kubelet where those mean the same; empty if there is nothing to hold it to.
func wantedVersion(m *clusterv1.Machine, seen *providers.Resource) string {
	if m.Spec.Version == "" || updating(m) {
		return ""
	}
	if seen != nil {
		if kubelet := seen.Fields.Get(pathVersion).Value.Text(); sameVersion(m.Spec.Version, kubelet) {
			return kubelet
		}
	}
	return m.Spec.Version
}

// updating reports a Machine that is being updated in place, so that its spec is
// ahead of its Node (Cluster API, proposal "In-place updates").
func updating(m *clusterv1.Machine) bool {
	if _, ok := m.Annotations[clusterv1.UpdateInProgressAnnotation]; ok || m.Status.Phase == string(clusterv1.MachinePhaseUpdating) {
		return true
	}
	for i := range m.Status.Conditions {
		if c := &m.Status.Conditions[i]; c.Type == clusterv1.MachineUpdatingCondition {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}

// since is when the Node can first have been there: when the Machine last came
// to run, which it does when Cluster API finds its Node. A Node that is lost later
// does not change that.
func since(owner *providers.Owner) time.Time {
	var t time.Time
	if owner.Infra != nil {
		t = owner.Infra.GetCreationTimestamp().Time
	}
	if m := owner.Machine; m.Status.Phase == string(clusterv1.MachinePhaseRunning) && m.Status.LastUpdated.After(t) {
		t = m.Status.LastUpdated.Time
	}
	return t
}
