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
	ready, controlPlanes := 0, 0
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
		if o.ControlPlane {
			controlPlanes++
			if isReady {
				ready++
			}
		}
	}
	desiredReplicas(c, f.Pools)
	f.ControlPlane = quorum(controlPlanes, ready)
	return f
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
	if cp := c.ControlPlane; cp != nil {
		if n, ok, _ := unstructured.NestedInt64(cp.Object, "spec", "replicas"); ok {
			set(cp.GetKind()+"/"+cp.GetName(), int(n))
		}
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
	for _, o := range c.Owners {
		if o.Machine == nil {
			continue
		}
		by := ""
		switch {
		case !o.Machine.DeletionTimestamp.IsZero():
			by = "deletion of Machine " + o.Machine.Name
		case remediating(o.Machine):
			by = "MachineHealthCheck"
		default:
			continue
		}
		out = append(out, policies.InFlight{
			Cluster: ref, Owner: o.Ref, Pool: o.Pool, Zone: o.Zone, ControlPlane: o.ControlPlane,
			Action: policies.Replace, By: by,
		})
	}
	return out
}

// remediating reports a machine that a MachineHealthCheck has handed to its
// owner, in the words of either contract.
func remediating(m *clusterv1.Machine) bool {
	return meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) ||
		deprecatedCondition(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition) == corev1.ConditionFalse
}
