package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is how many objects one list call asks for, as client-go's pager
// does.
const pageSize = 500

// FromCluster reads the objects of a management cluster, in one namespace or,
// where it is empty, in all. It lists in pages and reads nothing but the kinds
// that are compared or grouped by; Secrets are left to Reader, which gets
// single ones when an identity needs them. A kind that the cluster does not
// serve is no error.
func FromCluster(ctx context.Context, kinds *Kinds, c client.Client, namespace string) (*Set, error) {
	set := newSet()
	// One question first, so that a server that does not answer, or is no
	// management cluster, is one error instead of one for each kind.
	switch _, err := c.RESTMapper().RESTMappings(clusterGK); {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("it does not serve %s: no Cluster API is installed there", clusterGK)
	case err != nil:
		return nil, err
	}
	var errs []error
	for _, gk := range kinds.live() {
		gvk, namespaced, err := kinds.served(c.RESTMapper(), gk)
		switch {
		case meta.IsNoMatchError(err):
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("find %s in the management cluster: %w", gk, err))
			continue
		}
		var opts []client.ListOption
		if namespaced && namespace != "" {
			opts = append(opts, client.InNamespace(namespace))
		}
		if err := list(ctx, kinds, c, set, gvk, opts); err != nil {
			errs = append(errs, fmt.Errorf("list %s: %w", gk, err))
		}
	}
	if len(errs) > 0 {
		// An object that was not read would look like one that is gone.
		return nil, errors.Join(errs...)
	}
	if namespace != "" {
		if err := set.look(ctx, kinds, c, c.RESTMapper(), []string{namespace}); err != nil {
			// Whoever may read one namespace only still gets a report of it.
			set.unlisted = fmt.Sprintf("the Clusters of other namespaces than %s could not be listed: %v", namespace, err)
		}
	}
	return set, nil
}

// look names the Clusters of other namespaces: one of a selected Cluster's
// name has its tags. It reads names only.
func (s *Set) look(ctx context.Context, kinds *Kinds, c client.Reader, mapper meta.RESTMapper, known []string) error {
	gvk, _, err := kinds.served(mapper, clusterGK)
	if err != nil {
		return err
	}
	page := &metav1.PartialObjectMetadataList{}
	for {
		page.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := c.List(ctx, page, client.Limit(pageSize), client.Continue(page.GetContinue())); err != nil {
			return err
		}
		for i := range page.Items {
			if key := client.ObjectKeyFromObject(&page.Items[i]); !slices.Contains(known, key.Namespace) {
				s.elsewhere = append(s.elsewhere, Elsewhere{Key: key})
			}
		}
		if page.GetContinue() == "" {
			return nil
		}
	}
}

// live lists the group-kinds to ask a management cluster for.
func (k *Kinds) live() []schema.GroupKind {
	var out []schema.GroupKind
	for _, gk := range k.read() {
		if gk.Group != "" { // Secrets and Namespaces are read singly
			out = append(out, gk)
		}
	}
	for gk := range k.unmodelled {
		out = append(out, gk)
	}
	out = append(out, schema.GroupKind{Group: controlPlaneGroup, Kind: "KubeadmControlPlane"})
	slices.SortFunc(out, func(a, b schema.GroupKind) int { return compareText(a.String(), b.String()) })
	return slices.Compact(out)
}

// Watched lists the kinds whose change changes what is compared, or how: Cluster,
// Machine, and the infrastructure kinds that own resources.
func (k *Kinds) Watched() []schema.GroupKind {
	out := []schema.GroupKind{clusterGK, machineGK}
	for gk := range k.owners {
		out = append(out, gk)
	}
	slices.SortFunc(out, func(a, b schema.GroupKind) int { return compareText(a.String(), b.String()) })
	return out
}

// Served gives the version in which a kind is read from a server, and the one
// that owners of it carry. A kind that is not served is an error that
// [meta.IsNoMatchError] knows.
func (k *Kinds) Served(mapper meta.RESTMapper, gk schema.GroupKind) (served, wanted schema.GroupVersionKind, err error) {
	served, _, err = k.served(mapper, gk)
	return served, k.hub[gk], err
}

// served picks the version to list a kind in: the wanted one if the server has
// it, else another that can be converted.
func (k *Kinds) served(mapper meta.RESTMapper, gk schema.GroupKind) (schema.GroupVersionKind, bool, error) {
	mappings, err := mapper.RESTMappings(gk)
	if err != nil {
		return schema.GroupVersionKind{}, false, err
	}
	hub, typed := k.hub[gk]
	var found *meta.RESTMapping
	for _, m := range mappings {
		switch {
		case !typed || m.GroupVersionKind == hub:
			return m.GroupVersionKind, m.Scope.Name() == meta.RESTScopeNameNamespace, nil
		case found == nil && k.scheme.Recognizes(m.GroupVersionKind):
			found = m
		}
	}
	if found == nil {
		return schema.GroupVersionKind{}, false, fmt.Errorf("none of its served versions is known; known: %v", k.versions(gk))
	}
	return found.GroupVersionKind, found.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

func list(ctx context.Context, kinds *Kinds, c client.Reader, set *Set, gvk schema.GroupVersionKind, opts []client.ListOption) error {
	page := &unstructured.UnstructuredList{}
	for {
		page.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := c.List(ctx, page, append(slices.Clone(opts), client.Limit(pageSize), client.Continue(page.GetContinue()))...); err != nil {
			return err
		}
		for i := range page.Items {
			u := &page.Items[i]
			if _, err := set.store(kinds, u, Position{}); err != nil && !errors.Is(err, errDuplicate) {
				// One object that cannot be read must not hide the others.
				set.Problems = append(set.Problems, Problem{
					Object: describe(u), Reason: Unreadable, Message: err.Error(),
				})
			}
		}
		if page.GetContinue() == "" {
			return nil
		}
	}
}
