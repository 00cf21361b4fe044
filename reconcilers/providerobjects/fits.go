package providerobjects

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// Parts that serve providers, by the names of --reconcilers.
const (
	Core    = "core"
	Kubeadm = "kubeadm"
	AWS     = "aws"
	VSphere = "vsphere"
)

// series are minor versions of a provider that are written for one contract, as
// its metadata.yaml lists them.
type series struct {
	major, from, to uint
	contract        string
}

// known is a provider that Holdfast serves.
type known struct {
	kind       clusterctlv1.ProviderType
	name, part string
	// fits are the versions whose objects Holdfast's CRDs admit and its
	// reconcilers handle: up to the one whose types are compiled in, from the
	// first whose API is still served. A later version may have fields that are
	// not known here.
	fits []series
}

var clusterAPI = []series{{1, 0, 10, "v1beta1"}, {1, 11, 14, "v1beta2"}}

var providers = []known{
	{clusterctlv1.CoreProviderType, "cluster-api", Core, clusterAPI},
	{clusterctlv1.BootstrapProviderType, "kubeadm", Kubeadm, clusterAPI},
	{clusterctlv1.ControlPlaneProviderType, "kubeadm", Kubeadm, clusterAPI},
	// CAPA 1 has infrastructure.cluster.x-k8s.io/v1beta1, which CAPA 2 converts and
	// does not serve.
	{clusterctlv1.InfrastructureProviderType, "aws", AWS, []series{{2, 0, 13, "v1beta1"}}},
	{clusterctlv1.InfrastructureProviderType, "vsphere", VSphere, []series{{1, 0, 15, "v1beta1"}, {1, 16, 16, "v1beta2"}}},
}

// find gives the provider that an object is about, nil if it is not known.
func find(r Registered) *known {
	for i := range providers {
		if k := &providers[i]; string(k.kind) == r.Type && k.name == r.Name {
			return k
		}
	}
	return nil
}

// contract gives the one that a version fulfils, and whether it fits. What comes
// before a release, such as v2.13.0-rc.1, counts as the release.
func (k *known) contract(text string) (string, bool) {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return "", false
	}
	for _, s := range k.fits {
		if v.Major() == s.major && v.Minor() >= s.from && v.Minor() <= s.to {
			return s.contract, true
		}
	}
	return "", false
}

// versions says which fit.
func (k *known) versions() string {
	first, last := k.fits[0], k.fits[len(k.fits)-1]
	return fmt.Sprintf("v%d.%d to v%d.%d", first.major, first.from, last.major, last.to)
}

// Reasons of the condition Ready.
const (
	// ReasonServed: Holdfast does what the provider would.
	ReasonServed = "Served"
	// ReasonUnknownProvider: it has no reconcilers for it.
	ReasonUnknownProvider = "UnknownProvider"
	// ReasonVersionMismatch: it has, for other versions.
	ReasonVersionMismatch = "VersionMismatch"
	// ReasonNamespaceMismatch: it looks after other namespaces.
	ReasonNamespaceMismatch = "NamespaceMismatch"
	// ReasonDuplicate: another object registers the same provider.
	ReasonDuplicate = "Duplicate"
	// ReasonNotLoaded: it has them, and was not told to run them.
	ReasonNotLoaded = "NotLoaded"
	// ReasonSecretNotFound: the Secret is not there, or may not be read.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretForbidden: it is in another namespace.
	ReasonSecretForbidden = "SecretForbidden"
	// ReasonSecretInvalid: it has no credentials in a form that is known.
	ReasonSecretInvalid = "SecretInvalid"
)

// RefusedError is why Holdfast does not serve a Provider. Its text is for whoever wrote
// the object.
type RefusedError struct{ Reason, Text string }

// Error implements error.
func (p *RefusedError) Error() string { return p.Text }

func problem(reason, format string, args ...any) *RefusedError {
	return &RefusedError{reason, fmt.Sprintf(format, args...)}
}

// Fits tells whether Holdfast has reconcilers for what an object says, nil if so.
// namespace is the only one that it looks after, empty for all.
func (r Registered) Fits(namespace string) *RefusedError {
	k := find(r)
	if k == nil {
		var names []string
		for _, k := range providers {
			names = append(names, fmt.Sprintf("%s %s", k.kind, k.name))
		}
		return problem(ReasonUnknownProvider, "Holdfast has no reconcilers for %s %s: its own controllers serve it, if they run; Holdfast has them for %s",
			orNone(r.Type, "type"), orNone(r.Name, "name"), strings.Join(names, ", "))
	}
	if _, ok := k.contract(r.Version); !ok {
		return problem(ReasonVersionMismatch, "%s does not fit: Holdfast serves %s of versions %s; set one of them, and write the objects for it",
			orNone(r.Version, "version"), r.label(), k.versions())
	}
	if r.WatchedNamespace != "" && r.WatchedNamespace != namespace {
		looks := "all namespaces"
		if namespace != "" {
			looks = "namespace " + namespace
		}
		return problem(ReasonNamespaceMismatch, "watchedNamespace is %q, and Holdfast looks after %s: leave watchedNamespace empty, or start Holdfast with --namespace",
			brief(r.WatchedNamespace), looks)
	}
	return nil
}

// orNone quotes what an object says.
func orNone(text, what string) string {
	if text == "" {
		return "no " + what
	}
	return fmt.Sprintf("%s %q", what, brief(text))
}

// maxBrief is more than a sensible name, type or version has.
const maxBrief = 64

// brief bounds text of an object.
func brief(text string) string {
	if len(text) <= maxBrief {
		return text
	}
	return strings.ToValidUTF8(text[:maxBrief], "") + "…"
}
