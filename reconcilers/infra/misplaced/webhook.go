package misplaced

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Path is where [Handler] is served.
const Path = "/validate-infrastructure-cluster-x-k8s-io-misplaced"

// Handler admits every object, with a warning for each misplaced field. kubectl
// prints warnings.
type Handler struct{}

// Handle implements [admission.Handler]. What cannot be read is admitted too: the
// API server has read it already, and refusing is not what this is for.
func (Handler) Handle(_ context.Context, r admission.Request) admission.Response {
	out := admission.Allowed("")
	o := &unstructured.Unstructured{}
	if o.UnmarshalJSON(r.Object.Raw) != nil {
		return out
	}
	for _, f := range Find(o) {
		out.Warnings = append(out.Warnings, f.String())
	}
	return out
}

// Serve has a webhook server answer at [Path].
func Serve(s ctrlwebhook.Server) {
	s.Register(Path, &ctrlwebhook.Admission{Handler: Handler{}})
}

// Configuration is what an API server has to be told, but for the address
// (ClientConfig), which is the caller's. A warning is not worth a refusal, so
// nothing depends on the webhook being there.
func Configuration() admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    "misplaced.infrastructure.holdfast.io",
		FailurePolicy:           ptr.To(admissionregistrationv1.Ignore),
		MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          ptr.To[int32](5),
		AdmissionReviewVersions: []string{"v1"},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{infrastructure}, APIVersions: []string{"v1beta2"}, Resources: []string{"awsclusters", "awsclustertemplates"},
				Scope: ptr.To(admissionregistrationv1.NamespacedScope),
			},
		}},
	}
}
