package management

import (
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/holdfast-io/holdfast/hack/clusterapi"
)

// webhookConfigurations are those that managed mode is installed with.
func webhookConfigurations() (out envtest.WebhookInstallOptions, err error) {
	hooks, err := clusterapi.AdmissionWebhooks(nil)
	if err != nil {
		return out, err
	}
	out.MutatingWebhooks, out.ValidatingWebhooks = hooks.Mutating, hooks.Validating
	return out, nil
}
