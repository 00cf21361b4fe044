package providerobjects

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// Kind is that of Provider objects.
var Kind = clusterctlv1.GroupVersion.WithKind("Provider")

// Registered is what a Provider object says.
type Registered struct {
	Object types.NamespacedName
	// Type and Name are clusterctl's, such as InfrastructureProvider and aws.
	Type, Name string
	// Part is what Holdfast serves the provider with, by the names of
	// --reconcilers; empty if it does not.
	Part string
	// Version is what the object says, and Contract the one that this version
	// fulfils; empty if it does not fit.
	Version, Contract string
	// Secret has the credentials; nil is none.
	Secret *types.NamespacedName
	// SecretMayLack is for a Secret that no object names, but that upstream's
	// installation would have.
	SecretMayLack bool
	// WatchedNamespace is the only one that the provider is to look after; empty
	// is all.
	WatchedNamespace string
	// bySpec is for the form with a spec, top what the other form's fields are.
	bySpec bool
	top    fields
}

// fields are those that clusterctl reads.
type fields struct{ name, kind, version string }

// upstreamSecrets are where the providers' own manifests put what they begin with
// (CAPA's config/default/credentials.yaml, CAPV's config/base/credentials.yaml,
// with the prefixes of their kustomizations).
var upstreamSecrets = map[string]string{
	AWS:     "capa-manager-bootstrap-credentials",
	VSphere: "capv-manager-bootstrap-credentials",
}

// Read gives what a Provider object says, in whichever form. It is pure, and never
// fails: what cannot be read is not there, and [Registered.Fits] says what is
// missing. Where an object has a spec with a type, that holds.
func Read(u *unstructured.Unstructured) Registered {
	text := func(path ...string) string {
		out, _, _ := unstructured.NestedString(u.Object, path...) // of another type is not there
		return strings.TrimSpace(out)
	}
	r := Registered{
		Object: types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()},
		top:    fields{text("providerName"), text("type"), text("version")}, WatchedNamespace: text("watchedNamespace"),
	}
	said := r.top
	if kind := text("spec", "type"); kind != "" {
		r.bySpec = true
		said = fields{text("spec", "providerName"), kind, text("spec", "version")}
		if said.name == "" {
			said.name = strings.TrimPrefix(u.GetName(), clusterctlv1.ManifestLabel("", typed(kind)))
		}
	}
	r.Name, r.Type, r.Version = said.name, said.kind, said.version
	if k := find(r); k != nil {
		r.Part = k.part
		r.Contract, _ = k.contract(r.Version)
	}
	switch name := text("spec", "configSecret", "name"); {
	case name != "":
		r.Secret = &types.NamespacedName{Namespace: text("spec", "configSecret", "namespace"), Name: name}
		if r.Secret.Namespace == "" {
			r.Secret.Namespace = u.GetNamespace()
		}
	case !r.bySpec && upstreamSecrets[r.Part] != "":
		r.Secret = &types.NamespacedName{Namespace: u.GetNamespace(), Name: upstreamSecrets[r.Part]}
		r.SecretMayLack = true
	}
	return r
}

// typed is clusterctl's word for a type, or its unknown one.
func typed(kind string) clusterctlv1.ProviderType {
	return (&clusterctlv1.Provider{Type: kind}).GetProviderType()
}

// label is how clusterctl calls the provider, such as infrastructure-aws.
func (r Registered) label() string {
	if typed(r.Type) == clusterctlv1.ProviderTypeUnknown {
		return brief(r.Type) + " " + brief(r.Name)
	}
	return brief(clusterctlv1.ManifestLabel(r.Name, typed(r.Type)))
}
