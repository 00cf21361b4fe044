package vspherecluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	infrav1beta1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta1"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	coreconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/yaml"
)

// Manifest is one cluster as a user applies it. Objects of v1beta1 are
// converted to v1beta2 as API servers store them, except those of the kubeadm
// providers, of which nothing but a few fields is used.
type Manifest struct {
	Cluster          *clusterv1.Cluster
	VSphereCluster   *infrav1.VSphereCluster
	ControlPlane     *controlplanev1beta1.KubeadmControlPlane
	Deployments      []*clusterv1.MachineDeployment
	MachineTemplates []*infrav1.VSphereMachineTemplate
	ConfigTemplates  []*bootstrapv1beta1.KubeadmConfigTemplate
	Zones            []*infrav1.VSphereDeploymentZone
	FailureDomains   []*infrav1.VSphereFailureDomain
	Secrets          []*corev1.Secret
}

// Scheme has the types that manifests and environments are made of.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, clusterv1.AddToScheme, clusterv1beta1.AddToScheme, controlplanev1beta1.AddToScheme,
		bootstrapv1beta1.AddToScheme, infrav1.AddToScheme, infrav1beta1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // a programming error: these types register or the binary is broken
		}
	}
	return s
}

// Load reads a manifest of several documents. An unknown field, an unknown kind
// and a second cluster are errors that name the file.
func Load(files fs.FS, name string) (*Manifest, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m, scheme := &Manifest{}, Scheme()
	docs := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && len(bytes.TrimSpace(doc)) > 0 {
			err = m.add(scheme, doc)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", name, n, err)
		}
	}
	if m.Cluster == nil || m.VSphereCluster == nil || m.ControlPlane == nil {
		return nil, fmt.Errorf("%s: needs a Cluster, a VSphereCluster and a KubeadmControlPlane", name)
	}
	return m, nil
}

func (m *Manifest) add(scheme *runtime.Scheme, doc []byte) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return err
	}
	obj, err := scheme.New(schema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(doc, obj); err != nil {
		return fmt.Errorf("%s: %w", head.Kind, err)
	}
	if obj, err = stored(scheme, obj, head.Kind); err != nil {
		return fmt.Errorf("convert %s: %w", head.Kind, err)
	}
	switch o := obj.(type) {
	case *clusterv1.Cluster:
		if m.Cluster != nil {
			return errors.New("a second Cluster: one manifest is one cluster")
		}
		m.Cluster = o
	case *infrav1.VSphereCluster:
		m.VSphereCluster = o
	case *controlplanev1beta1.KubeadmControlPlane:
		m.ControlPlane = o
	case *clusterv1.MachineDeployment:
		m.Deployments = append(m.Deployments, o)
	case *infrav1.VSphereMachineTemplate:
		m.MachineTemplates = append(m.MachineTemplates, o)
	case *bootstrapv1beta1.KubeadmConfigTemplate:
		m.ConfigTemplates = append(m.ConfigTemplates, o)
	case *infrav1.VSphereDeploymentZone:
		m.Zones = append(m.Zones, o)
	case *infrav1.VSphereFailureDomain:
		m.FailureDomains = append(m.FailureDomains, o)
	case *corev1.Secret:
		m.Secrets = append(m.Secrets, o)
	default:
		return fmt.Errorf("kind %s is not played here", head.Kind)
	}
	return nil
}

// stored converts an object to the version that API servers store.
func stored(scheme *runtime.Scheme, obj runtime.Object, kind string) (runtime.Object, error) {
	ctx := context.Background()
	switch o := obj.(type) {
	case *clusterv1beta1.Cluster:
		out := &clusterv1.Cluster{}
		return out, coreconversion.ConvertClusterV1Beta1ToHub(ctx, o, out)
	case *clusterv1beta1.MachineDeployment:
		out := &clusterv1.MachineDeployment{}
		return out, coreconversion.ConvertMachineDeploymentV1Beta1ToHub(ctx, o, out)
	case conversion.Convertible:
		gvk := infrav1.GroupVersion.WithKind(kind)
		if !scheme.Recognizes(gvk) {
			return obj, nil
		}
		out, err := scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		hub, ok := out.(conversion.Hub)
		if !ok {
			return obj, nil
		}
		return out, o.ConvertTo(hub)
	default:
		return obj, nil
	}
}

// template finds the machine template of a name.
func (m *Manifest) template(name string) (*infrav1.VSphereMachineTemplate, error) {
	for _, t := range m.MachineTemplates {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("manifest of %s/%s has no VSphereMachineTemplate %s", m.Cluster.Namespace, m.Cluster.Name, name)
}
