package inventory

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	bootstrapconversion "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/conversion"
	coreconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// typed decodes an object and converts it to the version that is wanted of its
// kind.
func (k *Kinds) typed(u *unstructured.Unstructured) (client.Object, error) {
	gvk := u.GroupVersionKind()
	hub := k.hub[gvk.GroupKind()]
	in, err := k.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("version %s of %s is not known; known: %v", gvk.Version, gvk.Kind, k.versions(gvk.GroupKind()))
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, in); err != nil {
		return nil, err
	}
	out := in
	if gvk != hub {
		if out, err = k.scheme.New(hub); err != nil {
			return nil, err
		}
		if err := toHub(in, out); err != nil {
			return nil, fmt.Errorf("convert %s to %s: %w", gvk.Version, hub.Version, err)
		}
	}
	o, ok := out.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", gvk.Kind)
	}
	o.GetObjectKind().SetGroupVersionKind(hub)
	strip(o)
	return o, nil
}

// toHub runs upstream's conversion. Cluster API's own kinds have it in
// functions of their webhook package, providers' kinds in a method.
func toHub(in, out runtime.Object) error {
	ctx := context.Background()
	switch src := in.(type) {
	case *clusterv1beta1.Cluster:
		return coreconversion.ConvertClusterV1Beta1ToHub(ctx, src, out.(*clusterv1.Cluster))
	case *clusterv1beta1.Machine:
		return coreconversion.ConvertMachineV1Beta1ToHub(ctx, src, out.(*clusterv1.Machine))
	case *clusterv1beta1.MachineSet:
		return coreconversion.ConvertMachineSetV1Beta1ToHub(ctx, src, out.(*clusterv1.MachineSet))
	case *clusterv1beta1.MachineDeployment:
		return coreconversion.ConvertMachineDeploymentV1Beta1ToHub(ctx, src, out.(*clusterv1.MachineDeployment))
	case *clusterv1beta1.MachineHealthCheck:
		return coreconversion.ConvertMachineHealthCheckV1Beta1ToHub(ctx, src, out.(*clusterv1.MachineHealthCheck))
	case *bootstrapv1beta1.KubeadmConfig:
		return bootstrapconversion.ConvertKubeadmConfigV1Beta1ToHub(ctx, src, out.(*bootstrapv1.KubeadmConfig))
	case conversion.Convertible:
		hub, ok := out.(conversion.Hub)
		if !ok {
			return fmt.Errorf("%T is no conversion hub", out)
		}
		return src.ConvertTo(hub)
	default:
		return fmt.Errorf("%T has no conversion", in)
	}
}

// isControlPlane reports whether a kind is a control plane of any provider.
func isControlPlane(gk schema.GroupKind) bool { return gk.Group == controlPlaneGroup }
