package awscluster

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/test/capi"
)

// Manifest is one cluster as a user applies it.
type Manifest struct {
	Cluster          *clusterv1.Cluster
	AWSCluster       *infrav1.AWSCluster
	ControlPlane     *controlplanev1.KubeadmControlPlane
	Deployments      []*clusterv1.MachineDeployment
	MachineTemplates []*infrav1.AWSMachineTemplate
	ConfigTemplates  []*bootstrapv1.KubeadmConfigTemplate

	// applied is the AWSCluster as it was written, which kubectl apply keeps
	// in an annotation: the one record of what the user declared.
	applied string
}

// Scheme has the types that manifests and environments are made of.
func Scheme() *runtime.Scheme {
	return capi.Scheme(
		clusterv1.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme, infrav1.AddToScheme,
	)
}

// Load reads a manifest of several documents. An unknown field, an unknown kind
// and a second cluster are errors that name the file.
func Load(files fs.FS, name string) (*Manifest, error) {
	m := &Manifest{}
	if err := capi.Read(files, name, Scheme(), m.add); err != nil {
		return nil, err
	}
	if m.Cluster == nil || m.AWSCluster == nil || m.ControlPlane == nil {
		return nil, fmt.Errorf("%s: needs a Cluster, an AWSCluster and a KubeadmControlPlane", name)
	}
	m.setDefaults()
	return m, nil
}

func (m *Manifest) add(doc []byte, obj runtime.Object) error {
	switch o := obj.(type) {
	case *clusterv1.Cluster:
		if m.Cluster != nil {
			return errors.New("a second Cluster: one manifest is one cluster")
		}
		m.Cluster = o
	case *infrav1.AWSCluster:
		written, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return err
		}
		m.AWSCluster, m.applied = o, string(written)+"\n"
	case *controlplanev1.KubeadmControlPlane:
		m.ControlPlane = o
	case *clusterv1.MachineDeployment:
		m.Deployments = append(m.Deployments, o)
	case *infrav1.AWSMachineTemplate:
		m.MachineTemplates = append(m.MachineTemplates, o)
	case *bootstrapv1.KubeadmConfigTemplate:
		m.ConfigTemplates = append(m.ConfigTemplates, o)
	default:
		return fmt.Errorf("kind %s is not played here", obj.GetObjectKind().GroupVersionKind().Kind)
	}
	return nil
}

// setDefaults does what the webhooks and CRD defaults of CAPA v2.13 do to these
// objects when they are admitted.
func (m *Manifest) setDefaults() {
	m.AWSCluster.Default()
	lb := m.AWSCluster.Spec.ControlPlaneLoadBalancer
	if lb.Scheme == nil {
		scheme := infrav1.ELBSchemeInternetFacing
		lb.Scheme = &scheme
	}
	vpc := &m.AWSCluster.Spec.NetworkSpec.VPC
	if vpc.AvailabilityZoneUsageLimit == nil {
		limit := 3
		vpc.AvailabilityZoneUsageLimit = &limit
	}
	if vpc.AvailabilityZoneSelection == nil {
		selection := infrav1.AZSelectionSchemeOrdered
		vpc.AvailabilityZoneSelection = &selection
	}
	if vpc.SubnetSchema == nil {
		prefer := infrav1.SubnetSchemaPreferPrivate
		vpc.SubnetSchema = &prefer
	}
	for _, t := range m.MachineTemplates {
		if o := t.Spec.Template.Spec.InstanceMetadataOptions; o != nil {
			o.SetDefaults()
		}
	}
}

// apply keeps the AWSCluster as it is now in the record of what the user
// declared. A user leaves out what is false; the type would write it.
func (m *Manifest) apply() error {
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m.AWSCluster)
	if err != nil {
		return err
	}
	subnets, _, err := unstructured.NestedSlice(written, "spec", "network", "subnets")
	if err != nil {
		return err
	}
	for _, sn := range subnets {
		if fields, ok := sn.(map[string]any); ok && fields["isPublic"] == false {
			delete(fields, "isPublic")
		}
	}
	if err := unstructured.SetNestedSlice(written, subnets, "spec", "network", "subnets"); err != nil {
		return err
	}
	m.applied = mustJSON(written) + "\n"
	return nil
}

// Rename gives the cluster another name, everywhere: clusters of one manifest
// can then stand side by side. Names that begin with the old one, such as those
// of pools, change with it.
func (m *Manifest) Rename(name string) {
	old := m.Cluster.Name
	m.applied = strings.ReplaceAll(m.applied, `"`+old, `"`+name)
	swap := func(s *string) {
		if rest, ok := strings.CutPrefix(*s, old); ok {
			*s = name + rest
		}
	}
	swap(&m.Cluster.Name)
	swap(&m.Cluster.Spec.InfrastructureRef.Name)
	swap(&m.Cluster.Spec.ControlPlaneRef.Name)
	swap(&m.AWSCluster.Name)
	for i := range m.AWSCluster.Spec.NetworkSpec.Subnets {
		swap(&m.AWSCluster.Spec.NetworkSpec.Subnets[i].ID)
	}
	swap(&m.ControlPlane.Name)
	swap(&m.ControlPlane.Spec.MachineTemplate.Spec.InfrastructureRef.Name)
	for _, d := range m.Deployments {
		swap(&d.Name)
		swap(&d.Spec.ClusterName)
		swap(&d.Spec.Template.Spec.ClusterName)
		swap(&d.Spec.Template.Spec.InfrastructureRef.Name)
		swap(&d.Spec.Template.Spec.Bootstrap.ConfigRef.Name)
	}
	for _, t := range m.MachineTemplates {
		swap(&t.Name)
	}
	for _, t := range m.ConfigTemplates {
		swap(&t.Name)
	}
}
