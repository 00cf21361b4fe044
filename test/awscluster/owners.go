package awscluster

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/capi"
)

// Owners gives the cluster and its machines as a loader hands them to a
// provider. They refer to the environment's own objects, so that an edit of an
// object shows.
func (e *Environment) Owners() []*providers.Owner {
	// One slice is shared by all, as by a loader: ten thousand machines with
	// ten thousand siblings each would not fit.
	siblings := capi.Append([]client.Object{e.AWSCluster}, e.AWSMachines)
	related := capi.Append(nil, e.MachineTemplates)
	owners := []*providers.Owner{{
		Ref: providers.RefOf(e.AWSCluster), Cluster: e.Cluster, Infra: e.AWSCluster, InfraCluster: e.AWSCluster,
		Siblings: siblings, Related: related,
	}}
	for i, m := range e.Machines {
		am := e.AWSMachines[i]
		pool := "KubeadmControlPlane/" + e.ControlPlane.Name
		if d := m.Labels[clusterv1.MachineDeploymentNameLabel]; d != "" {
			pool = "MachineDeployment/" + d
		}
		owners = append(owners, &providers.Owner{
			Ref: providers.RefOf(am), Cluster: e.Cluster, Machine: m, Infra: am, InfraCluster: e.AWSCluster,
			Siblings: siblings, Related: related, Pool: pool, Zone: m.Spec.FailureDomain, ControlPlane: isControlPlane(m),
		})
	}
	providers.SortOwners(owners)
	return owners
}
