package vspherecluster

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

var controlPlaneAPIVersion = controlplanev1beta1.GroupVersion.String()

// finish completes the objects that the user applied: what controllers and the
// API server have added since.
func (b *builder) finish() {
	e := b.env
	core, infra := clusterv1.GroupVersion.String(), infrav1.GroupVersion.String()
	cluster := b.ownedBy(e.Cluster, core, "Cluster")
	plain := cluster
	plain.Controller, plain.BlockOwnerDeletion = nil, nil

	b.meta(e.Cluster, core, "Cluster", metav1.OwnerReference{})
	e.Cluster.Finalizers = []string{clusterv1.ClusterFinalizer}
	e.Cluster.Status.Phase = string(clusterv1.ClusterPhaseProvisioned)
	e.Cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	e.Cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	endpoint := e.VSphereCluster.Spec.ControlPlaneEndpoint
	e.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: endpoint.Host, Port: endpoint.Port}

	b.label(e.VSphereCluster)
	b.meta(e.VSphereCluster, infra, "VSphereCluster", cluster)
	e.VSphereCluster.Finalizers = []string{infrav1.ClusterFinalizer}
	e.VSphereCluster.Status.Initialization.Provisioned = ptr.To(true)

	b.label(e.ControlPlane)
	b.meta(e.ControlPlane, controlPlaneAPIVersion, "KubeadmControlPlane", cluster)
	n := ptr.Deref(e.ControlPlane.Spec.Replicas, 1)
	e.ControlPlane.Status.Replicas, e.ControlPlane.Status.ReadyReplicas, e.ControlPlane.Status.UpdatedReplicas = n, n, n
	e.ControlPlane.Status.Initialized, e.ControlPlane.Status.Ready = true, true
	e.ControlPlane.Status.Version = ptr.To(e.ControlPlane.Spec.Version)
	for _, d := range e.Deployments {
		b.label(d)
		b.meta(d, core, "MachineDeployment", plain)
		labels := map[string]string{clusterv1.ClusterNameLabel: b.name, clusterv1.MachineDeploymentNameLabel: d.Name}
		d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = labels, labels
		d.Status.Replicas, d.Status.ReadyReplicas = d.Spec.Replicas, d.Spec.Replicas
		d.Status.AvailableReplicas, d.Status.UpToDateReplicas = d.Spec.Replicas, d.Spec.Replicas
	}
	e.ControlPlane.Status.ObservedGeneration = e.ControlPlane.Generation
	for _, d := range e.Deployments {
		d.Status.ObservedGeneration = d.Generation
	}
	for _, m := range e.Machines {
		for _, kind := range []string{clusterv1.MachineReadyCondition, clusterv1.MachineUpToDateCondition} {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: metav1.NewTime(b.created),
			})
		}
	}
	for _, s := range e.Sets {
		s.Status.Replicas, s.Status.ReadyReplicas = s.Spec.Replicas, s.Spec.Replicas
		s.Status.AvailableReplicas, s.Status.UpToDateReplicas = s.Spec.Replicas, s.Spec.Replicas
	}
	for _, t := range e.MachineTemplates {
		b.label(t)
		b.meta(t, infra, "VSphereMachineTemplate", plain)
	}
	for _, t := range e.ConfigTemplates {
		b.label(t)
		b.meta(t, bootstrapv1beta1.GroupVersion.String(), "KubeadmConfigTemplate", plain)
	}
	for _, z := range e.Zones {
		b.meta(z, infra, "VSphereDeploymentZone", metav1.OwnerReference{})
		z.Namespace, z.Status.Ready = "", ptr.To(true)
	}
	for _, d := range e.FailureDomains {
		b.meta(d, infra, "VSphereFailureDomain", metav1.OwnerReference{})
		d.Namespace = ""
	}
	for _, s := range e.Secrets {
		b.meta(s, "v1", "Secret", b.ownedBy(e.VSphereCluster, infra, "VSphereCluster"))
	}
}

// meta fills in what the API server and owners give an object.
func (b *builder) meta(o client.Object, apiVersion, kind string, owner metav1.OwnerReference) {
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	o.SetNamespace(b.env.Cluster.Namespace)
	o.SetUID(b.uid(kind, o.GetName()))
	o.SetCreationTimestamp(metav1.NewTime(b.created))
	o.SetGeneration(1)
	if owner.Name != "" {
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
	}
}

func (b *builder) label(o client.Object) {
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.ClusterNameLabel] = b.name
	o.SetLabels(labels)
}

// ownedBy gives a controller reference to an object, whose UID follows from its
// kind and name.
func (b *builder) ownedBy(o client.Object, apiVersion, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: o.GetName(), UID: b.uid(kind, o.GetName()),
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
}

// Objects gives every object of the cluster, in a fixed order.
func (e *Environment) Objects() []client.Object {
	out := []client.Object{e.Cluster, e.VSphereCluster, e.ControlPlane}
	out = appendObjects(out, e.Deployments)
	out = appendObjects(out, e.Sets)
	out = appendObjects(out, e.Machines)
	out = appendObjects(out, e.VSphereMachines)
	out = appendObjects(out, e.VSphereVMs)
	out = appendObjects(out, e.MachineTemplates)
	out = appendObjects(out, e.ConfigTemplates)
	out = appendObjects(out, e.Zones)
	out = appendObjects(out, e.FailureDomains)
	return appendObjects(out, e.Secrets)
}

func appendObjects[T client.Object](out []client.Object, objects []T) []client.Object {
	for _, o := range objects {
		out = append(out, o)
	}
	return out
}

// Owners gives the cluster and its machines as a loader hands them to a
// provider. They refer to the environment's own objects, so that an edit of an
// object shows.
func (e *Environment) Owners() []*providers.Owner {
	siblings := appendObjects([]client.Object{e.VSphereCluster}, e.VSphereMachines)
	related := appendObjects(nil, e.MachineTemplates)
	related = appendObjects(related, e.VSphereVMs)
	related = appendObjects(related, e.Zones)
	related = appendObjects(related, e.FailureDomains)
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
