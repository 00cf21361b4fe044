package vsphere

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	infrav1beta1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta1"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// Name of the provider, in scopes and reports.
const Name = "vsphere"

// supervisorGroup is the API group of CAPV's supervisor mode.
const supervisorGroup = "vmware.infrastructure.cluster.x-k8s.io"

const supervisorReason = "CAPV's supervisor mode is not modelled: the vSphere supervisor's VM operator owns these virtual machines and their wanted state"

// Registration gives what this provider offers. It reads VSPHERE_* variables only
// when a provider is made.
func Registration() providers.Registration {
	return providers.Registration{
		Name:        Name,
		AddToScheme: addToScheme,
		Owners: []providers.OwnerKind{
			{GVK: infrav1.GroupVersion.WithKind("VSphereMachine"), Role: providers.RoleMachine, Finalizer: infrav1.MachineFinalizer},
			{GVK: infrav1.GroupVersion.WithKind("VSphereCluster"), Role: providers.RoleCluster, Finalizer: infrav1.ClusterFinalizer},
		},
		Holds: holds,
		Related: []schema.GroupVersionKind{
			infrav1.GroupVersion.WithKind("VSphereVM"),
			infrav1.GroupVersion.WithKind("VSphereMachineTemplate"),
			infrav1.GroupVersion.WithKind("VSphereClusterTemplate"),
			infrav1.GroupVersion.WithKind("VSphereClusterIdentity"),
			infrav1.GroupVersion.WithKind("VSphereDeploymentZone"),
			infrav1.GroupVersion.WithKind("VSphereFailureDomain"),
		},
		Unmodelled: map[schema.GroupKind]string{
			{Group: supervisorGroup, Kind: "VSphereMachine"}:         supervisorReason,
			{Group: supervisorGroup, Kind: "VSphereMachineTemplate"}: supervisorReason,
			{Group: supervisorGroup, Kind: "VSphereCluster"}:         supervisorReason,
			{Group: supervisorGroup, Kind: "VSphereClusterTemplate"}: supervisorReason,
			{Group: supervisorGroup, Kind: "ProviderServiceAccount"}: supervisorReason,
		},
		Catalog: Catalog(),
		New:     newProvider,
	}
}

// holds gives the Secret with the credentials of a VSphereCluster, which is of use to
// nobody else (CAPV, reconcileIdentitySecret).
func holds(infra client.Object) []providers.Hold {
	cluster, ok := infra.(*infrav1.VSphereCluster)
	if !ok || cluster.Spec.IdentityRef.Kind != infrav1.SecretKind {
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Spec.IdentityRef.Name}}
	return []providers.Hold{{Object: secret, Finalizer: infrav1.SecretIdentitySetFinalizer}}
}

// addToScheme adds both served versions. Those of v1beta1 convert to v1beta2,
// CAPV's hub, by their own ConvertTo.
func addToScheme(s *runtime.Scheme) error {
	if err := infrav1beta1.AddToScheme(s); err != nil {
		return fmt.Errorf("add %s: %w", infrav1beta1.GroupVersion, err)
	}
	if err := infrav1.AddToScheme(s); err != nil {
		return fmt.Errorf("add %s: %w", infrav1.GroupVersion, err)
	}
	return nil
}
