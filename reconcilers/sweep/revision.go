package sweep

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
)

// lagging counts, by pool, the machines that Cluster API takes for outdated by
// nothing but their kubelet's version.
func lagging(c *inventory.Cluster) map[string]int {
	out := map[string]int{}
	for _, o := range c.Owners {
		if o.Machine != nil && lags(o.Machine) {
			out[o.Pool]++
		}
	}
	return out
}

// lags reports a Machine that is as its pool wants it, is not being updated, and
// whose condition UpToDate is False because its kubelet does not spell its version
// as the Machine does (Cluster API 1.14, machine_controller_status.go,
// setUpToDateCondition: the last thing that is looked at). Somebody exchanged that
// kubelet, or its vendor adds to the version, as EKS does on each machine and for
// good. No rollout replaces it: rollouts go by templates.
func lags(m *clusterv1.Machine) bool {
	upToDate := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpToDateCondition)
	if upToDate == nil || upToDate.Status != metav1.ConditionFalse || upToDate.Reason != clusterv1.MachineUpToDateUpdatingReason {
		return false
	}
	if _, ok := m.Annotations[clusterv1.UpdateInProgressAnnotation]; ok || meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineUpdatingCondition) {
		return false
	}
	info := m.Status.NodeInfo
	return info != nil && info.KubeletVersion != "" && info.KubeletVersion != m.Spec.Version
}

// rollout reads the status of the pool's controller. A pool whose controller
// is not among the objects, or has not seen its newest spec, is not known. Machines
// that lag are not counted as up to date there, and are no rollout.
func rollout(c *inventory.Cluster, pool string, lag int) policies.Fact {
	for _, md := range c.MachineDeployments {
		if pool != "MachineDeployment/"+md.Name {
			continue
		}
		switch {
		case md.Status.ObservedGeneration < md.Generation:
			return policies.Yes(pool + " has a spec that its controller has not seen yet")
		case md.Status.Replicas == nil:
			return policies.Fact{}
		}
		return rolling(pool, value(md.Status.UpToDateReplicas), lag, value(md.Status.Replicas))
	}
	if cp := c.ControlPlane; cp != nil && pool == cp.GetKind()+"/"+cp.GetName() {
		return controlPlaneRollout(cp, pool, lag)
	}
	for _, ms := range c.MachineSets {
		if pool == "MachineSet/"+ms.Name {
			return policies.No() // a MachineSet does not roll out
		}
	}
	return policies.Fact{}
}

func rolling(pool string, upToDate, lag, replicas int) policies.Fact {
	return policies.If(upToDate+lag < replicas, fmt.Sprintf("%s is rolling out: %d of %d machines are up to date", pool, upToDate+lag, replicas))
}

// controlPlaneRollout reads the fields of the control-plane contract, in its
// v1beta2 and v1beta1 spelling.
func controlPlaneRollout(cp *unstructured.Unstructured, pool string, lag int) policies.Fact {
	observed, ok, _ := unstructured.NestedInt64(cp.Object, "status", "observedGeneration")
	if ok && observed < cp.GetGeneration() {
		return policies.Yes(pool + " has a spec that its controller has not seen yet")
	}
	replicas, known, _ := unstructured.NestedInt64(cp.Object, "status", "replicas")
	if !known {
		return policies.Fact{}
	}
	upToDate, known, _ := unstructured.NestedInt64(cp.Object, "status", "upToDateReplicas")
	if !known {
		if upToDate, known, _ = unstructured.NestedInt64(cp.Object, "status", "updatedReplicas"); !known {
			return policies.Fact{}
		}
	}
	return rolling(pool, int(upToDate), lag, int(replicas))
}

// oldRevision reads the UpToDate condition. Where an older Cluster API does not
// set it, or sets it for the kubelet's version, the template that the
// infrastructure was cloned from is compared with the one that its pool names
// now; in the second case the version as well, for the condition may be older
// than what the pool wants.
func oldRevision(c *inventory.Cluster, o *inventory.Owner) policies.Fact {
	lag := lags(o.Machine)
	if cond := meta.FindStatusCondition(o.Machine.Status.Conditions, clusterv1.MachineUpToDateCondition); !lag && cond != nil && cond.Status != metav1.ConditionUnknown {
		return policies.If(cond.Status == metav1.ConditionFalse, "Machine condition UpToDate is False: "+cond.Reason)
	}
	from := o.Infra.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation]
	now, version, ok := wantedByPool(c, o)
	switch {
	case from == "" || !ok:
		return policies.Fact{}
	case now != from:
		return policies.Yes(fmt.Sprintf("made from template %s, and %s names %s now", from, o.Pool, now))
	case lag && version != o.Machine.Spec.Version:
		return policies.Yes(fmt.Sprintf("made for version %s, and %s wants %s now", o.Machine.Spec.Version, o.Pool, version))
	default:
		return policies.No()
	}
}

// wantedByPool gives the infrastructure template and the version that an owner's
// pool has by now.
func wantedByPool(c *inventory.Cluster, o *inventory.Owner) (template, version string, ok bool) {
	for _, md := range c.MachineDeployments {
		if o.Pool == "MachineDeployment/"+md.Name {
			spec := &md.Spec.Template.Spec
			return spec.InfrastructureRef.Name, spec.Version, true
		}
	}
	if cp := c.ControlPlane; cp != nil && o.ControlPlane {
		version, _, _ = unstructured.NestedString(cp.Object, "spec", "version")
		for _, path := range [][]string{
			{"spec", "machineTemplate", "spec", "infrastructureRef", "name"}, // v1beta2
			{"spec", "machineTemplate", "infrastructureRef", "name"},         // v1beta1
		} {
			if template, ok, _ = unstructured.NestedString(cp.Object, path...); ok {
				return template, version, true
			}
		}
	}
	return "", "", false
}

func value(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}
