package clusterapi

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// source is a folder of a module that kustomize would make a part's CRDs of.
type source struct {
	module string
	// crd has the kustomization of the CRDs, and install that of the whole part,
	// which says under what name clusterctl knows it.
	crd, install string
	// serves names the kinds that Holdfast serves; nil is all.
	serves []string
	// converts is for modules whose types convert by themselves, which is a better
	// guide than their kustomizations: those leave some kinds out.
	converts bool
}

const (
	moduleCore    = "sigs.k8s.io/cluster-api"
	moduleAWS     = "sigs.k8s.io/cluster-api-provider-aws/v2"
	moduleVSphere = "sigs.k8s.io/cluster-api-provider-vsphere"
)

var sources = []source{
	{module: moduleCore, crd: "core/config/crd", install: "core/config/default"},
	{module: moduleCore, crd: "bootstrap/kubeadm/config/crd", install: "bootstrap/kubeadm/config/default"},
	{module: moduleCore, crd: "controlplane/kubeadm/config/crd", install: "controlplane/kubeadm/config/default"},
	{
		module: moduleAWS, crd: "config/crd", install: "config/default", converts: true,
		// Not EKS, ROSA, Fargate and machine pools, of which Holdfast would admit
		// objects that nobody looks after.
		serves: []string{
			"AWSCluster", "AWSClusterTemplate", "AWSMachine", "AWSMachineTemplate",
			"AWSClusterControllerIdentity", "AWSClusterRoleIdentity", "AWSClusterStaticIdentity",
		},
	},
	{module: moduleVSphere, crd: "config/default/crd", install: "config/default", converts: true},
	{module: moduleCore, crd: "cmd/clusterctl/config/crd"},
}

// kustomization is what is read of a kustomization.yaml.
type kustomization struct {
	Resources []string `json:"resources"`
	Labels    []struct {
		Pairs map[string]string `json:"pairs"`
	} `json:"labels"`
	CommonLabels map[string]string `json:"commonLabels"`
	Patches      []struct {
		Path string `json:"path"`
	} `json:"patches"`
	StrategicMerges []string `json:"patchesStrategicMerge"`
}

// labels are those that it puts on everything.
func (k *kustomization) labels() map[string]string {
	out := maps.Clone(k.CommonLabels)
	for _, l := range k.Labels {
		if out == nil {
			out = map[string]string{}
		}
		maps.Copy(out, l.Pairs)
	}
	return out
}

// patches lists the files of patches, none of them written into it.
func (k *kustomization) patches() []string {
	out := slices.Clone(k.StrategicMerges)
	for _, p := range k.Patches {
		if p.Path != "" {
			out = append(out, p.Path)
		}
	}
	return out
}

// ModuleDir is where the module cache holds a required module.
func ModuleDir(module string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output() //nolint:gosec // the modules are named in this repository
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", fmt.Errorf("find module %s: it is not downloaded; go mod download %s", module, module)
	}
	return dir, nil
}

// readYAML reads a file of a module.
func readYAML(into any, parts ...string) error {
	file := filepath.Join(parts...)
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// read gives a source's CRDs with the labels that an installation has, and
// upstream's stanza of the conversion where its kustomization has one.
func (s source) read() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	module, err := ModuleDir(s.module)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(module, s.crd)
	k := &kustomization{}
	if err := readYAML(k, dir, "kustomization.yaml"); err != nil {
		return nil, err
	}
	labels := k.labels()
	if s.install != "" {
		whole := &kustomization{}
		if err := readYAML(whole, module, s.install, "kustomization.yaml"); err != nil {
			return nil, err
		}
		provider := whole.labels()[labelProvider]
		if provider == "" {
			return nil, fmt.Errorf("%s of %s: it sets no label %s", s.install, s.module, labelProvider)
		}
		labels = merged(labels, map[string]string{labelClusterctl: "", labelProvider: provider})
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, name := range k.Resources {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := readYAML(crd, dir, name); err != nil {
			return nil, err
		}
		if crd.Kind != "CustomResourceDefinition" {
			return nil, fmt.Errorf("%s: it is a %s, want a CustomResourceDefinition", filepath.Join(dir, name), crd.Kind)
		}
		crd.Labels = merged(crd.Labels, labels)
		out = append(out, crd)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s of %s: it names no CRDs", s.crd, s.module)
	}
	return out, patch(out, dir, k.patches())
}

// patch takes labels and conversions from upstream's patches. What else they set,
// cert-manager's annotations, speaks of upstream's own Services.
func patch(crds []*apiextensionsv1.CustomResourceDefinition, dir string, files []string) error {
	for _, file := range files {
		p := &apiextensionsv1.CustomResourceDefinition{}
		if err := readYAML(p, dir, file); err != nil {
			return err
		}
		at := slices.IndexFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == p.Name })
		if at < 0 {
			continue // of a kind that is left out
		}
		crds[at].Labels = merged(crds[at].Labels, p.Labels)
		if p.Spec.Conversion != nil {
			crds[at].Spec.Conversion = p.Spec.Conversion
		}
	}
	return nil
}

// merged is both maps as a new one, nil for none.
func merged(a, b map[string]string) map[string]string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}
