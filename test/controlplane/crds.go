package controlplane

import (
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/api/crds"
	"github.com/holdfast-io/holdfast/hack/clusterapi"
)

// CRDs reads every definition: upstream's of the versions that go.mod names, with
// the labels that an installation has, and Holdfast's.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	out, err := clusterapi.CRDs(clusterapi.Options{All: true})
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := fs.ReadFile(crds.Files, name)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("CRDs of Holdfast: %s: %w", name, err)
		}
		out = append(out, crd)
	}
	return out, nil
}
