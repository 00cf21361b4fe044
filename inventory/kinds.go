package inventory

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Kinds knows which kinds are read, in which version they are wanted, and
// which are known and not compared. It is read-only after NewKinds.
type Kinds struct {
	scheme *runtime.Scheme
	// hub is the version that each kind is converted to.
	hub map[schema.GroupKind]schema.GroupVersionKind
	// owners are the infrastructure kinds that own cloud resources.
	owners map[schema.GroupKind]ownerKind
	// relatedTo names the provider that asked for a kind which owns nothing.
	relatedTo map[schema.GroupKind]string
	// bootstrap are the kinds that Machines' bootstrap references are followed to,
	// with the providers that asked for them.
	bootstrap map[schema.GroupKind][]string
	// unmodelled are the kinds that are named and not compared.
	unmodelled map[schema.GroupKind]unmodelled
}

type ownerKind struct {
	provider string
	role     providers.Role
}

type unmodelled struct {
	provider, reason string
}

// coreKinds are Cluster API's own kinds that grouping and gates need.
var coreKinds = []string{"Cluster", "Machine", "MachineSet", "MachineDeployment", "MachineHealthCheck"}

// controlPlaneGroup holds control planes of any provider; they are read by
// the fields of Cluster API's control-plane contract alone.
const controlPlaneGroup = "controlplane.cluster.x-k8s.io"

// NewKinds collects the kinds of the registered providers and Cluster API's
// own.
func NewKinds(registrations ...providers.Registration) (*Kinds, error) {
	k := &Kinds{
		scheme:    runtime.NewScheme(),
		hub:       map[schema.GroupKind]schema.GroupVersionKind{},
		owners:    map[schema.GroupKind]ownerKind{},
		relatedTo: map[schema.GroupKind]string{},
		bootstrap: map[schema.GroupKind][]string{},
		unmodelled: map[schema.GroupKind]unmodelled{
			{Group: clusterv1.GroupVersion.Group, Kind: "MachinePool"}: {reason: "machine pools are not modelled: their instances belong to a scaling group of the cloud"},
		},
	}
	add := []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, clusterv1beta1.AddToScheme}
	for _, r := range registrations {
		add = append(add, r.AddToScheme)
	}
	for _, f := range add {
		if err := f(k.scheme); err != nil {
			return nil, fmt.Errorf("register API types: %w", err)
		}
	}
	for _, kind := range coreKinds {
		gvk := clusterv1.GroupVersion.WithKind(kind)
		k.hub[gvk.GroupKind()] = gvk
	}
	for _, kind := range []string{"Secret", "Namespace"} {
		gvk := corev1.SchemeGroupVersion.WithKind(kind)
		k.hub[gvk.GroupKind()] = gvk
	}
	for _, r := range registrations {
		for _, o := range r.Owners {
			k.hub[o.GVK.GroupKind()] = o.GVK
			k.owners[o.GVK.GroupKind()] = ownerKind{provider: r.Name, role: o.Role}
		}
		for _, gvk := range r.Related {
			k.hub[gvk.GroupKind()] = gvk
			k.relatedTo[gvk.GroupKind()] = r.Name
		}
		for _, gvk := range r.Bootstrap {
			k.hub[gvk.GroupKind()] = gvk
			k.bootstrap[gvk.GroupKind()] = append(k.bootstrap[gvk.GroupKind()], r.Name)
		}
		for gk, reason := range r.Unmodelled {
			k.unmodelled[gk] = unmodelled{provider: r.Name, reason: reason}
		}
	}
	return k, nil
}

// Scheme has the types of every kind that is read.
func (k *Kinds) Scheme() *runtime.Scheme { return k.scheme }

// read lists the group-kinds that are read whole, in a stable order.
func (k *Kinds) read() []schema.GroupKind {
	out := make([]schema.GroupKind, 0, len(k.hub))
	for gk := range k.hub {
		out = append(out, gk)
	}
	slices.SortFunc(out, func(a, b schema.GroupKind) int { return compareText(a.String(), b.String()) })
	return out
}

// versions gives the versions of a kind that the scheme can decode.
func (k *Kinds) versions(gk schema.GroupKind) []string {
	var out []string
	for _, gv := range k.scheme.VersionsForGroupKind(gk) {
		if gv.Version != runtime.APIVersionInternal {
			out = append(out, gv.Version)
		}
	}
	slices.Sort(out)
	return out
}
