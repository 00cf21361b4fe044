package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-io/holdfast/hack/clusterapi"
)

// TestLint holds chart and profiles to Helm's own rules, by both versions.
func TestLint(t *testing.T) {
	for major, h := range helms(t) {
		for _, profile := range profiles(t) {
			t.Run("helm "+major+" "+profile, func(t *testing.T) {
				h.run(t, "lint", "--strict", folder, "-n", namespace, "-f", profileFile(profile))
			})
		}
	}
}

// TestGolden shows what each profile renders, the same by both versions of Helm.
// The CRDs, which are long and the same everywhere, are in TestCRDs.
func TestGolden(t *testing.T) {
	hs := helms(t)
	for _, profile := range profiles(t) {
		t.Run(profile, func(t *testing.T) {
			args := []string{"-f", profileFile(profile), "--set", "crds.enabled=false,reports.crds.enabled=false"}
			rendered, err := hs["3"].template(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			fresh(t, filepath.Join("testdata", "golden", profile+".yaml"), []byte(rendered))
			found := objects(t, rendered)
			for _, u := range found {
				typed(t, u)
			}
			other, err := hs["4"].template(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(found, objects(t, other)); d != "" {
				t.Errorf("Helm 3 and 4 render different objects (-3 +4):\n%s", d)
			}
		})
	}
}

// typed reads an object as its Go type: a field of an unknown name is an error.
func typed(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	switch u.GetKind() {
	case "Deployment":
		into[appsv1.Deployment](t, u)
	case "ConfigMap":
		into[corev1.ConfigMap](t, u)
	case "Secret":
		into[corev1.Secret](t, u)
	case "MutatingWebhookConfiguration":
		into[admissionv1.MutatingWebhookConfiguration](t, u)
	case "ValidatingWebhookConfiguration":
		into[admissionv1.ValidatingWebhookConfiguration](t, u)
	case "Service":
		into[corev1.Service](t, u)
	case "ServiceAccount":
		into[corev1.ServiceAccount](t, u)
	case "PodDisruptionBudget":
		into[policyv1.PodDisruptionBudget](t, u)
	case "NetworkPolicy":
		into[networkingv1.NetworkPolicy](t, u)
	case "Role", "ClusterRole":
		into[rbacv1.ClusterRole](t, u)
	case "RoleBinding", "ClusterRoleBinding":
		into[rbacv1.ClusterRoleBinding](t, u)
	case "ValidatingAdmissionPolicy":
		into[admissionv1.ValidatingAdmissionPolicy](t, u)
	case "ValidatingAdmissionPolicyBinding":
		into[admissionv1.ValidatingAdmissionPolicyBinding](t, u)
	case "PrometheusRule":
		rulesOf(t, u)
	case "ServiceMonitor", "PodMonitor":
	default:
		t.Errorf("a %s, of which nobody knows the fields", u.GetKind())
	}
}

// TestCRDs: the chart's are those of the API, and stay when the release goes.
func TestCRDs(t *testing.T) {
	for keep, want := range map[string]string{"true": "keep", "false": ""} {
		rendered, err := helms(t)["3"].template(t, "--set", "crds.keep="+keep, "-s", "templates/crds.yaml")
		if err != nil {
			t.Fatal(err)
		}
		found := objects(t, rendered)
		if len(found) != 2 {
			t.Fatalf("%d CRDs, want 2", len(found))
		}
		for _, u := range found {
			name := "drift.holdfast.io_" + strings.TrimSuffix(u.GetName(), ".drift.holdfast.io") + ".yaml"
			data, err := os.ReadFile(filepath.Join("..", "..", "api", "crds", name))
			if err != nil {
				t.Fatal(err)
			}
			source := objects(t, string(data))[0]
			if d := cmp.Diff(into[apiextensionsv1.CustomResourceDefinition](t, source).Spec, into[apiextensionsv1.CustomResourceDefinition](t, u).Spec); d != "" {
				t.Errorf("%s (-api +chart):\n%s", u.GetName(), d)
			}
			if got := u.GetAnnotations()["helm.sh/resource-policy"]; got != want {
				t.Errorf("crds.keep=%s: resource-policy %q, want %q", keep, got, want)
			}
		}
	}
}

// TestReportCRDs: those of OpenReports come only where they are asked for, and are
// what the module that Holdfast writes them by defines, but for its descriptions.
func TestReportCRDs(t *testing.T) {
	rendered, err := helms(t)["3"].template(t, "--set", "crds.enabled=false,reports.crds.enabled=true", "-s", "templates/crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := objects(t, rendered)
	if len(found) != 2 {
		t.Fatalf("%d CRDs, want 2", len(found))
	}
	dir, err := clusterapi.ModuleDir("github.com/openreports/reports-api")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range found {
		data, err := os.ReadFile(filepath.Join(dir, "config", "crd", "openreports.io_"+strings.TrimSuffix(u.GetName(), ".openreports.io")+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		source := objects(t, string(data))[0]
		undescribed(source.Object)
		if d := cmp.Diff(source.Object["spec"], u.Object["spec"]); d != "" {
			t.Errorf("%s (-module +chart; run `make generate`):\n%s", u.GetName(), d)
		}
		if u.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the release, and takes every report along", u.GetName())
		}
	}
}

// undescribed takes away every description of a schema.
func undescribed(of any) {
	switch of := of.(type) {
	case map[string]any:
		if _, isText := of["description"].(string); isText {
			delete(of, "description")
		}
		for _, v := range of {
			undescribed(v)
		}
	case []any:
		for _, v := range of {
			undescribed(v)
		}
	}
}

// TestRights: the chart grants what docs/controller-observe.yaml,
// docs/controller-enforce.yaml and docs/controller-reports.yaml say, as which tests run the program through
// everything that it does; and an observing install not one verb of the latter.
func TestRights(t *testing.T) {
	for set, files := range map[string][]string{
		"mode=observe": {"observe"}, "mode=enforce": {"observe", "enforce"},
		"mode=observe,reports.enabled=true": {"observe", "reports"},
	} {
		t.Run(set, func(t *testing.T) {
			var want []rbacv1.PolicyRule
			for _, file := range files {
				data, err := os.ReadFile(filepath.Join("..", "..", "docs", "controller-"+file+".yaml"))
				if err != nil {
					t.Fatal(err)
				}
				for _, u := range objects(t, string(data)) {
					want = append(want, into[rbacv1.ClusterRole](t, u).Rules...)
				}
			}
			rendered, err := helms(t)["3"].template(t, "--set", set)
			if err != nil {
				t.Fatal(err)
			}
			var got []rbacv1.PolicyRule
			for _, u := range objects(t, rendered) {
				if strings.HasSuffix(u.GetKind(), "Role") && !strings.HasSuffix(u.GetName(), "-metrics-reader") {
					got = append(got, into[rbacv1.ClusterRole](t, u).Rules...)
				}
			}
			if d := cmp.Diff(single(want), single(got), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("rights (-docs +chart):\n%s", d)
			}
		})
	}
}

// single takes rules apart: verb, group, resource, name.
func single(rules []rbacv1.PolicyRule) map[string]bool {
	out := map[string]bool{}
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{"*"}
		}
		for _, verb := range r.Verbs {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, name := range names {
						out[strings.Join([]string{verb, group, resource, name}, " ")] = true
					}
				}
			}
		}
	}
	return out
}

// TestSeveralReleases: releases in namespaces of their own have no object in
// common, but for the CRDs, which one of them has.
func TestSeveralReleases(t *testing.T) {
	seen := map[string]string{}
	for _, ns := range []string{"holdfast-a", "holdfast-b"} {
		rendered, err := helms(t)["3"].try(t, "template", release, folder, "-n", ns, "--set", "crds.enabled=false,mode=enforce,watchNamespace=prod,rbac.secretNamespaces={capa-system}")
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range objects(t, rendered) {
			key := u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
			if other, taken := seen[key]; taken {
				t.Errorf("%s is that of the release in %s and of that in %s", key, other, ns)
			}
			seen[key] = ns
		}
	}
}
