package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// crdPatience is how long to wait for the API server to serve Holdfast's kinds:
// whoever installs everything at once has them a moment later.
const crdPatience = 15 * time.Second

// needKinds waits for Holdfast's own kinds to be served.
func needKinds(ctx context.Context, mapper meta.RESTMapper, kinds ...string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, crdPatience, true, func(context.Context) (bool, error) {
		for _, kind := range kinds {
			gvk := v1alpha1.GroupVersion.WithKind(kind)
			if _, last = mapper.RESTMapping(gvk.GroupKind(), gvk.Version); last != nil {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("look up Holdfast's own kinds: %w", orNotInstalled(last))
	}
	return err
}

// orNotInstalled says what to do where an API server has answered, and does not
// know Holdfast's kinds.
func orNotInstalled(err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	return fmt.Errorf("the API server does not serve Holdfast's own kinds: install the CRDs of %s (api/crds in the sources): %w", v1alpha1.Group, err)
}
