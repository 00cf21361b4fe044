package aws

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	infrav1beta1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// Name is the provider's name in scopes and reports.
const Name = "aws"

// Registration offers the provider to cmd, made with the options. CAPA's conversions from v1beta1 are
// methods of its types (conversion.Convertible to the v1beta2 hub), so adding
// both versions to the scheme is all that a loader needs.
func Registration(options ...Option) providers.Registration {
	return providers.Registration{
		Name:        Name,
		AddToScheme: addToScheme,
		Owners: []providers.OwnerKind{
			{GVK: infrav1.GroupVersion.WithKind("AWSMachine"), Role: providers.RoleMachine, Finalizer: infrav1.MachineFinalizer},
			{GVK: infrav1.GroupVersion.WithKind("AWSCluster"), Role: providers.RoleCluster, Finalizer: infrav1.ClusterFinalizer},
		},
		Initial: func() []client.Object { return []client.Object{controllerIdentity()} },
		Related: []schema.GroupVersionKind{
			infrav1.GroupVersion.WithKind("AWSMachineTemplate"),
			infrav1.GroupVersion.WithKind("AWSClusterTemplate"),
			infrav1.GroupVersion.WithKind("AWSClusterControllerIdentity"),
			infrav1.GroupVersion.WithKind("AWSClusterRoleIdentity"),
			infrav1.GroupVersion.WithKind("AWSClusterStaticIdentity"),
		},
		Unmodelled: unmodelled(),
		Catalog:    catalog,
		New:        func(reader client.Reader) (providers.Provider, error) { return New(reader, options...) },
	}
}

// controllerIdentity is that of clusters that name none: the process's own
// credentials, for every namespace, as CAPA makes it.
func controllerIdentity() *infrav1.AWSClusterControllerIdentity {
	i := &infrav1.AWSClusterControllerIdentity{}
	i.SetGroupVersionKind(infrav1.GroupVersion.WithKind(string(infrav1.ControllerIdentityKind)))
	i.Name = infrav1.AWSClusterControllerIdentityName
	i.Spec.AllowedNamespaces = &infrav1.AllowedNamespaces{}
	return i
}

// addToScheme adds core types too: identities refer to Secrets and Namespaces.
func addToScheme(s *runtime.Scheme) error {
	return errors.Join(corev1.AddToScheme(s), infrav1beta1.AddToScheme(s), infrav1.AddToScheme(s))
}

func unmodelled() map[schema.GroupKind]string {
	const (
		infra        = "infrastructure.cluster.x-k8s.io"
		controlPlane = "controlplane.cluster.x-k8s.io"
		bootstrap    = "bootstrap.cluster.x-k8s.io"
	)
	out := map[schema.GroupKind]string{}
	for group, kinds := range map[string]map[string]string{
		infra: {
			"AWSManagedCluster":         "EKS clusters are not compared: their network is declared by the AWSManagedControlPlane.",
			"AWSManagedClusterTemplate": "EKS cluster templates are not compared.",
			"AWSMachinePool":            "Auto Scaling groups are not compared: their instances come and go without objects.",
			"AWSManagedMachinePool":     "EKS managed node groups are not compared: EKS owns their instances.",
			"AWSFargateProfile":         "EKS Fargate profiles are not compared: they have no machines.",
			"ROSACluster":               "ROSA clusters are not compared: Red Hat's service owns their infrastructure.",
			"ROSAMachinePool":           "ROSA machine pools are not compared: Red Hat's service owns their instances.",
			"ROSANetwork":               "ROSA networks are not compared: a CloudFormation stack owns them.",
			"ROSARoleConfig":            "ROSA role configurations are not compared: IAM is outside the catalog.",
		},
		controlPlane: {
			"AWSManagedControlPlane":         "EKS control planes are not compared: EKS owns them.",
			"AWSManagedControlPlaneTemplate": "EKS control plane templates are not compared.",
			"ROSAControlPlane":               "ROSA control planes are not compared: Red Hat's service owns them.",
		},
		bootstrap: {
			"EKSConfig":             "EKS bootstrap configurations own nothing in the cloud.",
			"EKSConfigTemplate":     "EKS bootstrap configuration templates own nothing in the cloud.",
			"NodeadmConfig":         "EKS bootstrap configurations own nothing in the cloud.",
			"NodeadmConfigTemplate": "EKS bootstrap configuration templates own nothing in the cloud.",
		},
	} {
		for kind, why := range kinds {
			out[schema.GroupKind{Group: group, Kind: kind}] = why
		}
	}
	return out
}
