package sweep

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
)

// ownerFacts gathers what the gates need to know about one owner, from its
// cluster's objects alone; lags is what [lagging] says of the cluster.
func ownerFacts(c *inventory.Cluster, o *inventory.Owner, lags map[string]int) policies.OwnerFacts {
	f := policies.OwnerFacts{
		Labels:            maps.Clone(o.Infra.GetLabels()),
		Annotations:       maps.Clone(o.Infra.GetAnnotations()),
		Paused:            paused(c, o),
		Deleting:          deleting(c, o),
		Moving:            moving(c, o),
		ExternallyManaged: policies.If(o.Machine == nil && annotations.IsExternallyManaged(o.Infra), "annotation "+clusterv1.ManagedByAnnotation),
		Ambiguous:         policies.No(),
	}
	if o.Machine == nil {
		// The machine facts of a cluster: nothing rolls it out or replaces it.
		f.Rollout, f.OldRevision, f.SkipRemediation = policies.No(), policies.No(), policies.No()
		f.Replaceable, f.HealthCheck = policies.No(), policies.No()
		return f
	}
	f.Labels, f.Annotations = policies.FactsOf(o.Infra, o.Machine)
	f.Rollout = rollout(c, o.Pool, lags[o.Pool])
	f.OldRevision = oldRevision(c, o)
	f.SkipRemediation = policies.If(annotations.HasSkipRemediation(o.Machine), "annotation "+clusterv1.MachineSkipRemediationAnnotation)
	f.Replaceable = replaceable(o.Machine)
	f.HealthCheck = healthCheck(c, o.Machine)
	f.Ready = ready(o.Machine)
	if unreachable(o.Machine) {
		// It is none of its pool's ready machines, so it must not be taken off
		// their number: else a machine whose instance has ended could not be
		// replaced while every other one is well.
		f.Ready = policies.No()
	}
	return f
}

func paused(c *inventory.Cluster, o *inventory.Owner) policies.Fact {
	switch {
	case c.Object.Spec.Paused != nil && *c.Object.Spec.Paused:
		return policies.Yes("Cluster " + c.Key().String() + " is paused")
	case annotations.HasPaused(o.Infra), o.Machine != nil && annotations.HasPaused(o.Machine):
		return policies.Yes("annotation " + clusterv1.PausedAnnotation)
	default:
		return policies.No()
	}
}

func deleting(c *inventory.Cluster, o *inventory.Owner) policies.Fact {
	switch {
	case !c.Object.DeletionTimestamp.IsZero():
		return policies.Yes("Cluster " + c.Key().String() + " is being deleted")
	case o.Machine != nil && !o.Machine.DeletionTimestamp.IsZero():
		return policies.Yes("Machine " + o.Machine.Name + " is being deleted")
	case !o.Infra.GetDeletionTimestamp().IsZero():
		return policies.Yes(o.Ref.Kind + " " + o.Ref.Name + " is being deleted")
	default:
		return policies.No()
	}
}

// moving tells from the annotations that clusterctl move sets.
func moving(c *inventory.Cluster, o *inventory.Owner) policies.Fact {
	objects := []metav1.Object{c.Object, o.Infra}
	if o.Machine != nil {
		objects = append(objects, o.Machine)
	}
	for _, object := range objects {
		for _, a := range []string{clusterctlv1.DeleteForMoveAnnotation, clusterctlv1.BlockMoveAnnotation} {
			if _, ok := object.GetAnnotations()[a]; ok {
				return policies.Yes("annotation " + a)
			}
		}
	}
	return policies.No()
}

// leaving names an object of the cluster that clusterctl move has marked for
// deletion, empty if there is none. Objects are marked and deleted one by one,
// the Cluster last (cmd/clusterctl/client/cluster/mover.go, deleteSourceObject),
// so this shows one on its way and not those that are gone.
func leaving(c *inventory.Cluster) string {
	marked := func(o metav1.Object) bool {
		_, ok := o.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
		return ok
	}
	if marked(c.Object) {
		return "Cluster " + c.Key().String()
	}
	for _, o := range c.Owners {
		if marked(o.Infra) || o.Machine != nil && marked(o.Machine) {
			return o.Ref.String()
		}
	}
	return ""
}

// replaceable tells whether something makes a new Machine when this one goes.
func replaceable(m *clusterv1.Machine) policies.Fact {
	ref := metav1.GetControllerOf(m)
	if ref == nil {
		return policies.No()
	}
	return policies.Yes(ref.Kind + "/" + ref.Name)
}

func healthCheck(c *inventory.Cluster, m *clusterv1.Machine) policies.Fact {
	for _, mhc := range c.MachineHealthChecks {
		s, err := metav1.LabelSelectorAsSelector(&mhc.Spec.Selector)
		if err != nil {
			return policies.Fact{}
		}
		if !s.Empty() && s.Matches(labels.Set(m.Labels)) {
			return policies.Yes("MachineHealthCheck/" + mhc.Name)
		}
	}
	return policies.No()
}

// ready reads the Machine's Ready condition, or where an older Cluster API
// does not set it, the health of its node.
func ready(m *clusterv1.Machine) policies.Fact {
	for _, kind := range []string{clusterv1.MachineReadyCondition, clusterv1.MachineNodeHealthyCondition} {
		if cond := meta.FindStatusCondition(m.Status.Conditions, kind); cond != nil && cond.Status != metav1.ConditionUnknown {
			return policies.If(cond.Status == metav1.ConditionTrue, "Machine condition "+kind)
		}
	}
	switch deprecatedCondition(m, clusterv1.MachineNodeHealthyV1Beta1Condition) {
	case corev1.ConditionTrue:
		return policies.Yes("Machine condition NodeHealthy")
	case corev1.ConditionFalse:
		return policies.No()
	default:
		return policies.Fact{}
	}
}

// unreachable reports a node of which Cluster API says that it cannot tell: the
// node is cut off, whatever the cloud says of its machine. Conditions that are
// not there at all say nothing.
func unreachable(m *clusterv1.Machine) bool {
	if ready(m).Known() {
		return false
	}
	return meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineReadyCondition) != nil ||
		meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineNodeHealthyCondition) != nil ||
		deprecatedCondition(m, clusterv1.MachineNodeHealthyV1Beta1Condition) != ""
}

// deprecatedCondition gives the status of a condition that a Cluster API of
// contract v1beta1 set, empty if it is not there.
func deprecatedCondition(m *clusterv1.Machine, kind clusterv1.ConditionType) corev1.ConditionStatus {
	if d := m.Status.Deprecated; d != nil && d.V1Beta1 != nil {
		conditions := d.V1Beta1.Conditions
		for i := range conditions {
			if conditions[i].Type == kind {
				return conditions[i].Status
			}
		}
	}
	return ""
}
