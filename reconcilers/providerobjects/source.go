package providerobjects

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// list reads all Providers in the order in which they hold: the oldest first.
// An API server that has none of the kind has none of them.
func list(ctx context.Context, reader client.Reader, namespace string) ([]*unstructured.Unstructured, error) {
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(Kind.GroupVersion().WithKind(Kind.Kind + "List"))
	err := reader.List(ctx, found, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list Providers: %w", err)
	}
	out := make([]*unstructured.Unstructured, len(found.Items))
	for i := range found.Items {
		out[i] = &found.Items[i]
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(
			a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
			cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()),
		)
	})
	return out, nil
}

// Wanted lists the parts that Provider objects name and that fit, in order, and
// says of each object that does not fit why. namespace is the only one to look at,
// empty for all.
func Wanted(ctx context.Context, reader client.Reader, namespace string) (parts, not []string, err error) {
	objects, err := list(ctx, reader, namespace)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range objects {
		r := Read(o)
		if p := r.Fits(namespace); p != nil {
			not = append(not, fmt.Sprintf("Provider %s: %s", r.Object, p.Text))
			continue
		}
		parts = append(parts, r.Part)
	}
	slices.Sort(parts)
	return slices.Compact(parts), not, nil
}

// Source gives a part's credentials. Nothing is kept: each call reads the Provider
// object and its Secret, so that a key that was changed or taken away is at the
// next call. A [RefusedError] stays until somebody changes something; it never means
// that other credentials may be used instead.
type Source struct {
	// Reader is not a cache.
	Reader client.Reader
	// Namespace is the only one to look for Providers in, empty for all.
	Namespace string
}

// AWS gives the access key of the Provider aws; false is none, by no object or one
// that names no Secret.
func (s Source) AWS(ctx context.Context) (AWSKeys, bool, error) {
	r, err := s.registered(ctx, AWS)
	if err != nil || r == nil {
		return AWSKeys{}, false, err
	}
	return credentials(ctx, s.Reader, *r, AWSKeysOf)
}

// VSphere gives the account of the Provider vsphere, likewise.
func (s Source) VSphere(ctx context.Context) (Login, bool, error) {
	r, err := s.registered(ctx, VSphere)
	if err != nil || r == nil {
		return Login{}, false, err
	}
	return credentials(ctx, s.Reader, *r, LoginOf)
}

// registered gives the object that holds for a part, nil if there is none.
func (s Source) registered(ctx context.Context, part string) (*Registered, error) {
	objects, err := list(ctx, s.Reader, s.Namespace)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if r := Read(o); r.Part == part && r.Fits(s.Namespace) == nil {
			return &r, nil
		}
	}
	return nil, nil //nolint:nilnil // nobody has registered it
}
