package providers

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OwnerRef names the object that wants a resource.
type OwnerRef struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
}

func (o OwnerRef) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// Owner is one infrastructure object with the objects around it that its
// wanted state depends on. Everything in it is read-only and already
// converted to the versions that the provider registered.
type Owner struct {
	Ref OwnerRef
	// Cluster is never nil.
	Cluster *clusterv1.Cluster
	// Machine is nil where the owner is a cluster.
	Machine *clusterv1.Machine
	// Infra is the owner itself: an AWSMachine, AWSCluster, VSphereMachine,
	// VSphereCluster.
	Infra client.Object
	// InfraCluster is the Cluster's infrastructure object, nil if not found.
	InfraCluster client.Object
	// Siblings are all infrastructure objects of the same cluster, the owner
	// itself among them, ordered by kind and name.
	Siblings []client.Object
	// Related are the provider's other objects that the owner may refer to:
	// templates, VSphereVMs, failure domains, deployment zones, identities.
	Related []client.Object
	// Bootstrap is what the machine's spec.bootstrap.configRef names, if it is of
	// one of the provider's Bootstrap kinds and was found; else nil. Only what is
	// compared is left in it: no files, commands, users or tokens, and no name
	// where machines that boot alike share it.
	Bootstrap client.Object
	// Pool is the MachineDeployment, MachineSet or control plane that the
	// machine belongs to, as Kind/name; empty for clusters and lone machines.
	Pool string
	// Zone is the machine's failure domain.
	Zone string
	// ControlPlane reports whether the machine carries the control-plane
	// label.
	ControlPlane bool
	// Source is where the object was read: a file and line, or empty for the
	// API server.
	Source string
}

// RefOf makes the reference of an object whose type meta is set.
func RefOf(o client.Object) OwnerRef {
	gvk := o.GetObjectKind().GroupVersionKind()
	return OwnerRef{
		APIVersion: gvk.GroupVersion().String(),
		Kind:       gvk.Kind,
		Namespace:  o.GetNamespace(),
		Name:       o.GetName(),
		UID:        o.GetUID(),
	}
}

// SortOwners orders owners by cluster, kind and name, which is the order of
// all output.
func SortOwners(owners []*Owner) {
	slices.SortFunc(owners, func(a, b *Owner) int {
		return strings.Compare(ownerKey(a), ownerKey(b))
	})
}

func ownerKey(o *Owner) string {
	return strings.Join([]string{o.Cluster.Namespace, o.Cluster.Name, o.Ref.Kind, o.Ref.Namespace, o.Ref.Name, string(o.Ref.UID)}, "\x00")
}
