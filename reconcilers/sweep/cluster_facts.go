package sweep

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
)

// clusterFacts gathers what the gates need to know about one cluster.
func clusterFacts(c *inventory.Cluster, owners map[*inventory.Owner]policies.OwnerFacts) policies.ClusterFacts {
	f := policies.ClusterFacts{
		Labels:      c.Object.Labels,
		Annotations: c.Object.Annotations,
		Owners:      len(c.Owners),
		Pools:       map[string]policies.PoolFacts{},
		Zones:       map[string]policies.ZoneFacts{},
		Breaker:     policies.No(),
	}
	for _, o := range c.Owners {
		if o.Machine == nil {
			continue
		}
		f.Machines++
		isReady := owners[o].Ready.True()
		pool := f.Pools[o.Pool]
		pool.Desired++
		if isReady {
			pool.Ready++
		}
		f.Pools[o.Pool] = pool
		zone := f.Zones[o.Zone]
		zone.Machines++
		if owners[o].Ready.False() || unreachable(o.Machine) {
			zone.Unhealthy++
		}
		f.Zones[o.Zone] = zone
	}
	desiredReplicas(c, f.Pools)
	f.ControlPlane = quorum(members(c, owners))
	return f
}

// members counts a control plane's machines, no fewer than it should have, and
// how many of them are ready.
func members(c *inventory.Cluster, owners map[*inventory.Owner]policies.OwnerFacts) (machines, readyOnes int) {
	for _, o := range c.Owners {
		if o.Machine == nil || !o.ControlPlane {
			continue
		}
		machines++
		if readiness := owners[o].Ready; readiness.True() {
			readyOnes++
		}
	}
	for _, u := range c.Uncompared {
		if m := u.Machine; m != nil && isControlPlane(m) {
			machines++
			if readiness := ready(m); readiness.True() {
				readyOnes++
			}
		}
	}
	return max(machines, replicasOf(c.ControlPlane)), readyOnes
}

// spare tells whether a machine is the only one of its control plane that is
// not ready, and is no loss to etcd's quorum: all the others are ready, and at
// least two.
func spare(c *inventory.Cluster, o *inventory.Owner, owners map[*inventory.Owner]policies.OwnerFacts) policies.Fact {
	if o.Machine == nil || !o.ControlPlane {
		return policies.No()
	}
	machines, readyOnes := members(c, owners)
	f := owners[o]
	return policies.If(f.Ready.False() && readyOnes == machines-1 && machines >= 3,
		fmt.Sprintf("the other %d control-plane machines are ready", readyOnes))
}

func isControlPlane(m *clusterv1.Machine) bool {
	_, ok := m.Labels[clusterv1.MachineControlPlaneLabel]
	return ok
}

// replicasOf gives the members that a control plane should have; 0 if that is
// not known. One that has no Machine is a member that is not ready.
func replicasOf(controlPlane *unstructured.Unstructured) int {
	if controlPlane == nil {
		return 0
	}
	n, _, _ := unstructured.NestedInt64(controlPlane.Object, "spec", "replicas")
	return int(n)
}

// desiredReplicas takes what a pool should have from its controller, which
// counts machines that are not there as well.
func desiredReplicas(c *inventory.Cluster, pools map[string]policies.PoolFacts) {
	set := func(pool string, replicas int) {
		if p, ok := pools[pool]; ok {
			p.Desired = replicas
			pools[pool] = p
		}
	}
	for _, md := range c.MachineDeployments {
		if md.Spec.Replicas != nil {
			set("MachineDeployment/"+md.Name, int(*md.Spec.Replicas))
		}
	}
	for _, ms := range c.MachineSets {
		if ms.Spec.Replicas != nil {
			set("MachineSet/"+ms.Name, int(*ms.Spec.Replicas))
		}
	}
	if n := replicasOf(c.ControlPlane); n > 0 {
		set(c.ControlPlane.GetKind()+"/"+c.ControlPlane.GetName(), n)
	}
}

// quorum tells whether etcd survives the loss of one control-plane machine:
// all are ready, and at least three, of which two are a majority.
func quorum(machines, ready int) policies.Fact {
	if machines == 0 {
		return policies.Fact{}
	}
	return policies.If(ready == machines && machines >= 3,
		fmt.Sprintf("%d of %d control-plane machines are ready", ready, machines))
}

// inFlight lists what runs already, whoever began it: machines that are being
// deleted or remediated, and rollouts.
func inFlight(ref detector.ClusterRef, c *inventory.Cluster) []policies.InFlight {
	out := []policies.InFlight{}
	add := func(m *clusterv1.Machine, i policies.InFlight) {
		switch {
		case m == nil:
			return
		case !m.DeletionTimestamp.IsZero():
			i.By = "deletion of Machine " + m.Name
		case remediating(m):
			i.By = "MachineHealthCheck"
		default:
			return
		}
		i.Cluster, i.Action = ref, policies.Replace
		out = append(out, i)
	}
	for _, o := range c.Owners {
		add(o.Machine, policies.InFlight{Owner: o.Ref, Pool: o.Pool, Zone: o.Zone, ControlPlane: o.ControlPlane})
	}
	for _, u := range c.Uncompared {
		if m := u.Machine; m != nil {
			// Its infrastructure object goes first when a Machine is deleted.
			add(m, policies.InFlight{Owner: u.Ref, Pool: inventory.Pool(m), Zone: m.Spec.FailureDomain, ControlPlane: isControlPlane(m)})
		}
	}
	return out
}

// remediating reports a machine that a MachineHealthCheck has handed to its
// owner, in the words of either contract.
func remediating(m *clusterv1.Machine) bool {
	return meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) ||
		deprecatedCondition(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition) == corev1.ConditionFalse
}
