// Package versions has the infrastructure kinds in every version that API servers
// may hold objects of, so that the server of managed mode can convert between
// them. CAPA's and CAPV's types convert by themselves: in a scheme that went
// through [AddToScheme], controller-runtime's /convert knows what to do, and
// nothing is to be registered for a kind.
package versions

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	awsv1beta1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta1"
	awsv1beta2 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	vspherev1beta1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta1"
	vspherev1beta2 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
)

// AddToScheme registers CAPA's and CAPV's kinds. CAPA 2 serves v1beta2 alone, and
// objects that CAPA 1 stored may still be there in v1beta1; CAPV serves both. It
// may be called on a scheme that has some of them.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(awsv1beta1.AddToScheme(s), awsv1beta2.AddToScheme(s), vspherev1beta1.AddToScheme(s), vspherev1beta2.AddToScheme(s))
}
