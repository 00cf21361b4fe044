package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/hack/clusterapi"
	"github.com/holdfast-io/holdfast/reconcilers/core"
	"github.com/holdfast-io/holdfast/reconcilers/infra/misplaced"
)

// upstreams are the folders of a part's programs in the module.
var upstreams = map[string][]string{"core": {"core"}, "kubeadm": {"bootstrap/kubeadm", "controlplane/kubeadm"}}

// upstream reads the objects of a file of each of a part's programs.
func upstream(t *testing.T, part, file string) (out []*unstructured.Unstructured) {
	t.Helper()
	dir := must(clusterapi.ModuleDir("sigs.k8s.io/cluster-api"))(t)
	for _, program := range upstreams[part] {
		out = append(out, objects(t, string(must(os.ReadFile(filepath.Join(dir, program, "config", file)))(t)))...)
	}
	return out
}

// webhook is what an API server makes of an entry: the name is nobody's business.
type webhook struct {
	FailurePolicy, MatchPolicy, SideEffects string
	Reviews                                 []string
	Rules                                   []admissionv1.RuleWithOperations
}

// webhooks are those of configurations, by kind and path.
func webhooks(t *testing.T, of []*unstructured.Unstructured) map[string]webhook {
	t.Helper()
	out := map[string]webhook{}
	for _, u := range of {
		if !strings.HasSuffix(u.GetKind(), "WebhookConfiguration") {
			continue
		}
		// The two kinds have the same fields, of which a mutating one has one more.
		for _, w := range into[admissionv1.MutatingWebhookConfiguration](t, u).Webhooks {
			match := admissionv1.Equivalent // the default
			if w.MatchPolicy != nil {
				match = *w.MatchPolicy
			}
			if w.ReinvocationPolicy != nil {
				t.Errorf("%s is invoked again", w.Name)
			}
			key := u.GetKind() + " " + *w.ClientConfig.Service.Path
			if _, twice := out[key]; twice {
				t.Errorf("%s is there twice", key)
			}
			out[key] = webhook{string(*w.FailurePolicy), string(match), string(*w.SideEffects), w.AdmissionReviewVersions, w.Rules}
		}
	}
	return out
}

// TestWebhooks: whatever parts run, the API server asks what upstream's manifests
// have it ask, in the version that the program is built with, and on AWS for warnings.
func TestWebhooks(t *testing.T) {
	for _, parts := range [][]string{{"core"}, {"kubeadm"}, {"aws"}, {"vsphere"}, {"core", "kubeadm"}, {"core", "kubeadm", "aws", "vsphere"}} {
		t.Run(strings.Join(parts, ","), func(t *testing.T) {
			var args []string
			want := map[string]webhook{}
			for _, part := range parts {
				args = append(args, "--set", "reconcilers."+part+".enabled=true")
				for key, w := range webhooks(t, upstream(t, part, "webhook/manifests.yaml")) {
					want[key] = w
				}
				if part == "aws" {
					w := misplaced.Configuration()
					want["ValidatingWebhookConfiguration "+misplaced.Path] = webhook{
						string(*w.FailurePolicy), string(*w.MatchPolicy), string(*w.SideEffects), w.AdmissionReviewVersions, w.Rules,
					}
				}
			}
			rendered := objects(t, must(helms(t)["3"].template(t, args...))(t))
			if d := cmp.Diff(want, webhooks(t, rendered)); d != "" {
				t.Errorf("webhooks (-upstream +chart):\n%s", d)
			}
			for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
				names := map[string]bool{}
				for _, w := range into[admissionv1.MutatingWebhookConfiguration](t, find(t, rendered, kind, "holdfast-system-holdfast")).Webhooks {
					if names[w.Name] {
						t.Errorf("two of %s are called %s", kind, w.Name)
					}
					names[w.Name] = true
					if s := w.ClientConfig.Service; s.Name != "holdfast-webhook" || s.Namespace != namespace || *s.Port != 443 {
						t.Errorf("%s is asked of %+v", w.Name, s)
					}
					if w.NamespaceSelector != nil || w.ObjectSelector != nil || len(w.MatchConditions) > 0 {
						t.Errorf("%s is not asked about everything", w.Name)
					}
				}
			}
		})
	}
}

// TestDefinitions: the CRDs whose CA is kept and whose objects are migrated are
// those that upstream's programs may write, and the chart allows no other. Those of
// infrastructure are converted, and not migrated.
func TestDefinitions(t *testing.T) {
	infrastructure := converted(t)
	for _, parts := range [][]core.Part{{core.Core}, {core.Kubeadm}, core.Parts(), {core.AWS}, {core.VSphere}, slices.Concat(core.Parts(), core.Infrastructure())} {
		var want, got []string
		args := []string{"-s", "templates/rbac.yaml"}
		for _, part := range parts {
			args = append(args, "--set", "reconcilers."+string(part)+".enabled=true")
			for _, u := range upstream(t, string(part), "rbac/role.yaml") {
				want = append(want, definitionsOf(t, u)...)
			}
			want = append(want, infrastructure[part]...)
		}
		for _, u := range objects(t, must(helms(t)["3"].template(t, args...))(t)) {
			if u.GetKind() == "ClusterRole" {
				got = append(got, definitionsOf(t, u)...)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%v: rights on CRDs (-upstream +chart):\n%s", parts, d)
		}
		if d := cmp.Diff(want, core.Definitions(parts...)); d != "" {
			t.Errorf("%v: CRDs (-upstream +program):\n%s", parts, d)
		}
	}
}

// converted are the CRDs of infrastructure, by part, that a user is told to have
// converted by the release.
func converted(t *testing.T) map[core.Part][]string {
	t.Helper()
	out := map[core.Part][]string{}
	for _, crd := range must(clusterapi.CRDs(clusterapi.Options{Service: &clusterapi.Service{Namespace: namespace, Name: webhookName, Port: 443}}))(t) {
		if crd.Spec.Group != capa.GroupVersion.Group || crd.Spec.Conversion == nil {
			continue
		}
		part := core.VSphere
		if strings.HasPrefix(crd.Name, "aws") {
			part = core.AWS
		}
		out[part] = append(out[part], crd.Name)
	}
	return out
}

func definitionsOf(t *testing.T, role *unstructured.Unstructured) (out []string) {
	t.Helper()
	for _, r := range into[rbacv1.ClusterRole](t, role).Rules {
		if slices.Contains(r.Resources, "customresourcedefinitions") {
			out = append(out, r.ResourceNames...)
		}
	}
	return out
}
