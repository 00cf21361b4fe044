package management

import (
	"k8s.io/apimachinery/pkg/runtime"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/reconcilers/core"
	"github.com/holdfast-io/holdfast/reconcilers/infra/versions"
	"github.com/holdfast-io/holdfast/test/capi"
)

// scheme has every kind that the ground serves, in each version that is read or
// written here.
func scheme() *runtime.Scheme {
	return capi.Scheme(core.AddToScheme, versions.AddToScheme, driftv1.AddToScheme)
}
