package controlplane

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/api/crds"
)

// source is where an upstream module keeps CRDs, and the labels by which
// Cluster API finds the version of a kind that fulfils a contract
// (docs/book/src/developer/providers/contracts/overview.md, "API version
// labels"). Upstream adds them when it builds its manifests; the files lack
// them.
type source struct {
	module  string
	folders []string
	labels  map[string]string
}

const (
	labelV1Beta1 = "cluster.x-k8s.io/v1beta1"
	labelV1Beta2 = "cluster.x-k8s.io/v1beta2"
)

var sources = []source{
	{
		module:  "sigs.k8s.io/cluster-api",
		folders: []string{"core/config/crd/bases", "controlplane/kubeadm/config/crd/bases", "bootstrap/kubeadm/config/crd/bases"},
		labels:  map[string]string{labelV1Beta1: "v1beta1", labelV1Beta2: "v1beta2"},
	},
	{
		// CAPA 2.13 fulfils the old contract only, in both of its versions.
		module:  "sigs.k8s.io/cluster-api-provider-aws/v2",
		folders: []string{"config/crd/bases"},
		labels:  map[string]string{labelV1Beta1: "v1beta1_v1beta2"},
	},
	{
		module:  "sigs.k8s.io/cluster-api-provider-vsphere",
		folders: []string{"config/default/crd/bases"},
		labels:  map[string]string{labelV1Beta1: "v1beta1", labelV1Beta2: "v1beta2"},
	},
}

// CRDs reads every definition: upstream's of the versions that go.mod names,
// with the labels that an installation has, and Holdfast's.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, s := range sources {
		dir, err := ModuleDir(s.module)
		if err != nil {
			return nil, err
		}
		for _, folder := range s.folders {
			found, err := read(os.DirFS(filepath.Join(dir, folder)), s.labels)
			if err != nil {
				return nil, fmt.Errorf("CRDs in %s/%s: %w", s.module, folder, err)
			}
			out = append(out, found...)
		}
	}
	own, err := read(crds.Files, nil)
	if err != nil {
		return nil, fmt.Errorf("CRDs of Holdfast: %w", err)
	}
	return append(out, own...), nil
}

func read(files fs.FS, labels map[string]string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there are none: %w", fs.ErrNotExist)
	}
	out := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if crd.Labels == nil && len(labels) > 0 {
			crd.Labels = map[string]string{}
		}
		for key, value := range labels {
			crd.Labels[key] = value
		}
		out = append(out, crd)
	}
	return out, nil
}

// ModuleDir is where the module cache holds a required module.
func ModuleDir(module string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
