package inventory

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// finish orders a cluster's owners and gives each what lies around it.
func (g *grouper) finish(c *Cluster) {
	slices.SortFunc(c.Owners, func(a, b *Owner) int {
		return cmp.Or(compareText(a.Ref.Kind, b.Ref.Kind), compareText(a.Ref.Name, b.Ref.Name))
	})
	slices.SortFunc(c.Uncompared, func(a, b Uncompared) int {
		return cmp.Or(compareText(a.Ref.Kind, b.Ref.Kind), compareText(a.Ref.Name, b.Ref.Name), compareText(a.Reason, b.Reason))
	})
	// One slice is shared by all owners of the cluster: ten thousand machines
	// with ten thousand siblings each would not fit.
	siblings := make([]client.Object, len(c.Owners))
	for i, o := range c.Owners {
		siblings[i] = o.Infra
	}
	related := map[string][]client.Object{}
	for _, o := range c.Owners {
		if _, ok := related[o.Provider]; !ok {
			related[o.Provider] = g.related(o.Provider, c.Object.Namespace)
		}
		o.InfraCluster = c.Infra
		o.Siblings = siblings
		o.Related = related[o.Provider]
	}
}

// related gives a provider's objects that owners refer to by name: those of
// the cluster's namespace, and cluster-scoped ones.
func (g *grouper) related(provider, namespace string) []client.Object {
	var out []client.Object
	for _, gk := range g.set.kinds() {
		if !g.kinds.isRelated(provider, gk) {
			continue
		}
		for _, o := range g.set.of(gk) {
			if o.Unscoped || o.GetNamespace() == namespace {
				out = append(out, o.Object)
			}
		}
	}
	return out
}

// isRelated reports whether a provider asked for a kind to be loaded.
func (k *Kinds) isRelated(provider string, gk schema.GroupKind) bool {
	return k.relatedTo[gk] == provider
}
