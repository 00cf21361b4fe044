package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/policies"
)

// lister gives the keys of all objects of a kind in a namespace, or in all.
type lister func(ctx context.Context, c client.Client, namespace string) ([]client.ObjectKey, error)

// maxNames bounds how many names an error lists.
const maxNames = 8

// whereIsIt adds to an error about an object that there is not where one of that
// name is, or what it may have been meant to be. noun is what users call one.
func whereIsIt(ctx context.Context, c client.Client, err error, noun string, key client.ObjectKey, list lister) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	what := fmt.Sprintf("there is no %s %s", noun, key)
	all, listErr := list(ctx, c, "")
	everywhere := listErr == nil
	if !everywhere {
		all, listErr = list(ctx, c, key.Namespace)
	}
	if listErr != nil {
		return fmt.Errorf("%s; the namespace is given as NAMESPACE/NAME or with -n", what)
	}
	var same, names []string
	for _, k := range all {
		if k.Name == key.Name {
			same = append(same, k.String())
		}
		if k.Namespace == key.Namespace {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	switch near := policies.Nearest(key.Name, names); {
	case len(same) > 0:
		return fmt.Errorf("%s, but %s; the namespace is given as NAMESPACE/NAME or with -n", what, listed(same))
	case near != "":
		return fmt.Errorf("%s; did you mean %s/%s?", what, key.Namespace, near)
	case len(names) > 0:
		return fmt.Errorf("%s; namespace %s has %s", what, key.Namespace, listed(names))
	case everywhere && len(all) > 0:
		return fmt.Errorf("%s; namespace %s has none, others have: the namespace is given as NAMESPACE/NAME or with -n", what, key.Namespace)
	case everywhere:
		return fmt.Errorf("%s, nor any other in any namespace", what)
	}
	return fmt.Errorf("%s; namespace %s has none, and others may not be looked into: the namespace is given as NAMESPACE/NAME or with -n", what, key.Namespace)
}

// listed joins names, the first few of them.
func listed(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

func clusterKeys(ctx context.Context, c client.Client, namespace string) ([]client.ObjectKey, error) {
	list, err := clustersIn(ctx, c, namespace)
	keys := make([]client.ObjectKey, len(list))
	for i := range list {
		keys[i] = client.ObjectKeyFromObject(&list[i])
	}
	return keys, err
}

func remediationKeys(ctx context.Context, c client.Client, namespace string) ([]client.ObjectKey, error) {
	list, err := remediationsIn(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	keys := make([]client.ObjectKey, len(list.Items))
	for i := range list.Items {
		keys[i] = client.ObjectKeyFromObject(&list.Items[i])
	}
	return keys, nil
}
