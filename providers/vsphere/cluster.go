package vsphere

import (
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Kinds of what a cluster wants and nothing compares.
const (
	kindClusterModule = "ClusterModule"
	kindFailureDomain = "FailureDomain"
)

// desiredCluster names what a VSphereCluster wants beside its machines: none of
// it is compared. The control plane's endpoint is not among it, since vCenter
// holds no such thing.
func desiredCluster(owner *providers.Owner, cluster *infrav1.VSphereCluster) []providers.Resource {
	var out []providers.Resource
	add := func(kind, name, why string) {
		out = append(out, providers.Resource{
			ID: providers.ID{Kind: kind, Name: name}, Name: name, Owner: owner.Ref, Unchecked: why,
		})
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
