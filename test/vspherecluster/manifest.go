package vspherecluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	infrav1beta1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta1"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	coreconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	"github.com/holdfast-io/holdfast/test/capi"
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
	return capi.Scheme(
		corev1.AddToScheme, clusterv1.AddToScheme, clusterv1beta1.AddToScheme, controlplanev1beta1.AddToScheme,
		bootstrapv1beta1.AddToScheme, infrav1.AddToScheme, infrav1beta1.AddToScheme,
	)
}

// Load reads a manifest of several documents. An unknown field, an unknown kind
// and a second cluster are errors that name the file.
func Load(files fs.FS, name string) (*Manifest, error) {
	m, scheme := &Manifest{}, Scheme()
	take := func(_ []byte, obj runtime.Object) error { return m.add(scheme, obj) }
	if err := capi.Read(files, name, scheme, take); err != nil {
		return nil, err
	}
	if m.Cluster == nil || m.VSphereCluster == nil || m.ControlPlane == nil {
		return nil, fmt.Errorf("%s: needs a Cluster, a VSphereCluster and a KubeadmControlPlane", name)
	}
	return m, nil
}

func (m *Manifest) add(scheme *runtime.Scheme, obj runtime.Object) error {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	obj, err := stored(scheme, obj, kind)
	if err != nil {
		return fmt.Errorf("convert %s: %w", kind, err)
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
		return fmt.Errorf("kind %s is not played here", kind)
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
