package management

import (
	"k8s.io/apimachinery/pkg/runtime"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	vspherev1beta1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta1"
	vspherev1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/reconcilers/core"
	"github.com/holdfast-io/holdfast/test/capi"
)

// scheme has every kind that the ground serves, in each version that is read or
// written here.
func scheme() *runtime.Scheme {
	return capi.Scheme(core.AddToScheme, awsv1.AddToScheme, vspherev1beta1.AddToScheme, vspherev1.AddToScheme, driftv1.AddToScheme)
}
