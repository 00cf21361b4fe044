package vspherecluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/capi"
)

var controlPlaneAPIVersion = controlplanev1beta1.GroupVersion.String()

// finish completes the objects that the user applied: what controllers and the
// API server have added since.
func (b *builder) finish() {
	e := b.env
	infra := infrav1.GroupVersion.String()
	cluster, plain := b.ControlledBy(e.Cluster, capi.CoreAPIVersion, "Cluster"), b.OwnedBy(e.Cluster, capi.CoreAPIVersion, "Cluster")
	endpoint := e.VSphereCluster.Spec.ControlPlaneEndpoint
	b.FinishCluster(e.Cluster, endpoint.Host, endpoint.Port)

	b.Label(e.VSphereCluster)
	b.Meta(e.VSphereCluster, infra, "VSphereCluster", cluster)
	e.VSphereCluster.Finalizers = []string{infrav1.ClusterFinalizer}
	e.VSphereCluster.Status.Initialization.Provisioned = ptr.To(true)

	b.Label(e.ControlPlane)
	b.Meta(e.ControlPlane, controlPlaneAPIVersion, "KubeadmControlPlane", cluster)
	n := ptr.Deref(e.ControlPlane.Spec.Replicas, 1)
	e.ControlPlane.Status.Replicas, e.ControlPlane.Status.ReadyReplicas, e.ControlPlane.Status.UpdatedReplicas = n, n, n
	e.ControlPlane.Status.Initialized, e.ControlPlane.Status.Ready = true, true
	e.ControlPlane.Status.Version = ptr.To(e.ControlPlane.Spec.Version)
	e.ControlPlane.Status.ObservedGeneration = e.ControlPlane.Generation
	for _, d := range e.Deployments {
		b.FinishDeployment(d, plain)
	}
	for _, s := range e.Sets {
		b.FinishSet(s)
	}
	for _, m := range e.Machines {
		b.FinishMachine(m)
	}
	for _, t := range e.MachineTemplates {
		b.Label(t)
		b.Meta(t, infra, "VSphereMachineTemplate", plain)
	}
	for _, t := range e.ConfigTemplates {
		b.Label(t)
		b.Meta(t, bootstrapv1beta1.GroupVersion.String(), "KubeadmConfigTemplate", plain)
	}
	for _, z := range e.Zones {
		b.Meta(z, infra, "VSphereDeploymentZone", metav1.OwnerReference{})
		z.Namespace, z.Status.Ready = "", ptr.To(true)
	}
	for _, d := range e.FailureDomains {
		b.Meta(d, infra, "VSphereFailureDomain", metav1.OwnerReference{})
		d.Namespace = ""
	}
	for _, s := range e.Secrets {
		b.Meta(s, "v1", "Secret", b.ControlledBy(e.VSphereCluster, infra, "VSphereCluster"))
	}
}

// Write puts the objects into a folder as [capi.Write] does.
func (e *Environment) Write(dir string) error { return capi.Write(dir, e.Objects()) }

// Objects gives every object of the cluster, in a fixed order.
func (e *Environment) Objects() []client.Object {
	out := []client.Object{e.Cluster, e.VSphereCluster, e.ControlPlane}
	out = capi.Append(out, e.Deployments)
	out = capi.Append(out, e.Sets)
	out = capi.Append(out, e.Machines)
	out = capi.Append(out, e.VSphereMachines)
	out = capi.Append(out, e.VSphereVMs)
	out = capi.Append(out, e.MachineTemplates)
	out = capi.Append(out, e.ConfigTemplates)
	out = capi.Append(out, e.Zones)
	out = capi.Append(out, e.FailureDomains)
	return capi.Append(out, e.Secrets)
}

// Owners gives the cluster and its machines as a loader hands them to a
// provider. They refer to the environment's own objects, so that an edit of an
// object shows.
func (e *Environment) Owners() []*providers.Owner {
	siblings := capi.Append([]client.Object{e.VSphereCluster}, e.VSphereMachines)
	related := capi.Append(nil, e.MachineTemplates)
	related = capi.Append(related, e.VSphereVMs)
	related = capi.Append(related, e.Zones)
	related = capi.Append(related, e.FailureDomains)
	owners := []*providers.Owner{{
		Ref: providers.RefOf(e.VSphereCluster), Cluster: e.Cluster, Infra: e.VSphereCluster, InfraCluster: e.VSphereCluster,
		Siblings: siblings, Related: related,
	}}
	for i, m := range e.Machines {
		pool := "KubeadmControlPlane/" + e.ControlPlane.Name
		if d := m.Labels[clusterv1.MachineDeploymentNameLabel]; d != "" {
			pool = "MachineDeployment/" + d
		}
		_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
		owners = append(owners, &providers.Owner{
			Ref: providers.RefOf(e.VSphereMachines[i]), Cluster: e.Cluster, Machine: m, Infra: e.VSphereMachines[i],
			InfraCluster: e.VSphereCluster, Siblings: siblings, Related: related,
			Pool: pool, Zone: m.Spec.FailureDomain, ControlPlane: controlPlane,
		})
	}
	providers.SortOwners(owners)
	return owners
}
