package vsphere

import (
	"strconv"

	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Kinds of what a cluster wants and nothing compares.
const (
	kindControlPlaneEndpoint = "ControlPlaneEndpoint"
	kindClusterModule        = "ClusterModule"
	kindFailureDomain        = "FailureDomain"
)

// desiredCluster names what a VSphereCluster wants. vCenter itself holds
// nothing for a cluster but its machines: none of this is compared.
func desiredCluster(owner *providers.Owner, cluster *infrav1.VSphereCluster) []providers.Resource {
	var out []providers.Resource
	add := func(kind, name, why string) {
		out = append(out, providers.Resource{
			ID: providers.ID{Kind: kind, Name: name}, Name: name, Owner: owner.Ref, Unchecked: why,
		})
	}
	if e := cluster.Spec.ControlPlaneEndpoint; e.Host != "" {
		add(kindControlPlaneEndpoint, e.Host+":"+strconv.Itoa(int(e.Port)),
			"vCenter holds no endpoint: an address on the control plane's machines or a load balancer outside serves it")
	}
	for _, m := range cluster.Spec.ClusterModules {
		add(kindClusterModule, m.ModuleUUID, "the cluster module of "+m.TargetObjectName+" and its members are not read")
	}
	if cluster.Spec.FailureDomainSelector != nil {
		for _, f := range cluster.Status.FailureDomains {
			add(kindFailureDomain, f.Name, "the tags and host groups that make a failure domain are not compared; the machines' places in it are")
		}
	}
	return out
}
