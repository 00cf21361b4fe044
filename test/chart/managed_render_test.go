package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// configured is the program's configuration.
func configured(t *testing.T, of []*unstructured.Unstructured) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(into[corev1.ConfigMap](t, find(t, of, "ConfigMap", release+"-config")).Data["config.yaml"]), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// named are the objects of a rendered chart, by kind and name.
func named(of []*unstructured.Unstructured) (out []string) {
	for _, u := range of {
		out = append(out, u.GetKind()+" "+u.GetName())
	}
	slices.Sort(out)
	return out
}

// TestCompanion: without reconcilers nothing of managed mode is there.
func TestCompanion(t *testing.T) {
	found := objects(t, must(helms(t)["3"].template(t))(t))
	for _, name := range named(found) {
		if strings.Contains(name, "ebhook") || strings.Contains(name, "reconcilers") {
			t.Errorf("a companion has %s", name)
		}
	}
	for key := range configured(t, found) {
		if strings.Contains(key, "webhook") || strings.Contains(key, "reconcilers") || key == "featureGates" {
			t.Errorf("a companion is told %s", key)
		}
	}
}

// TestManagedObserves: beside reconcilers the engine can observe. What holds a
// companion to conditions would hold them, too; what it needs for a repair it does
// not get.
func TestManagedObserves(t *testing.T) {
	const policy, record = "ValidatingAdmissionPolicy holdfast-system-holdfast-observe", "create drift.holdfast.io remediations *"
	for set, want := range map[string][2]bool{
		"mode=observe": {true, false},
		"mode=observe,reconcilers.core.enabled=true":    {false, false},
		"mode=observe,reconcilers.kubeadm.enabled=true": {false, false},
		"mode=enforce,reconcilers.core.enabled=true":    {false, true},
	} {
		found := objects(t, must(helms(t)["3"].template(t, "--set", set))(t))
		if got := slices.Contains(named(found), policy); got != want[0] {
			t.Errorf("%s: a policy about fields: %t", set, got)
		}
		granted := false
		for _, u := range found {
			if strings.HasSuffix(u.GetKind(), "Role") {
				granted = granted || single(into[rbacv1.ClusterRole](t, u).Rules)[record]
			}
		}
		if granted != want[1] {
			t.Errorf("%s: records may be made: %t", set, granted)
		}
	}
}

// TestCertificateSources: each source has its objects, the program is told where the
// certificate is, and may write it only where it makes it.
func TestCertificateSources(t *testing.T) {
	for name, c := range map[string]struct {
		set     string
		objects []string
		secret  string
		verbs   []string
		rotates any
	}{
		"selfManaged": {"", []string{"Secret holdfast-webhook"}, "holdfast-webhook", []string{"get", "update"}, true},
		"secret":      {"webhooks.certificate.source=secret,webhooks.certificate.secretName=mine", nil, "mine", []string{"get"}, nil},
		"certManager": {"webhooks.certificate.source=certManager", []string{
			"Certificate holdfast-webhook", "Certificate holdfast-webhook-ca", "Issuer holdfast-webhook", "Issuer holdfast-webhook-self-signed",
		}, "holdfast-webhook", []string{"get"}, nil},
		"an issuer": {"webhooks.certificate.source=certManager,webhooks.certificate.issuerRef.kind=ClusterIssuer,webhooks.certificate.issuerRef.name=corp", []string{
			"Certificate holdfast-webhook"}, "holdfast-webhook", []string{"get"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := objects(t, must(helms(t)["3"].template(t, "--set", "reconcilers.core.enabled=true", "--set", c.set))(t))
			var got []string
			for _, name := range named(found) {
				if kind, _, _ := strings.Cut(name, " "); kind == "Secret" || kind == "Certificate" || kind == "Issuer" {
					got = append(got, name)
				}
			}
			if d := cmp.Diff(c.objects, got); d != "" {
				t.Error(d)
			}
			config := configured(t, found)
			if config["webhookCertSecret"] != namespace+"/"+c.secret || config["webhookCertRotate"] != c.rotates || config["webhookService"] != namespace+"/holdfast-webhook" {
				t.Errorf("the program is told %v", config)
			}
			role := into[rbacv1.Role](t, find(t, found, "Role", "holdfast-webhook"))
			if r := role.Rules[0]; !slices.Equal(r.ResourceNames, []string{c.secret}) || !slices.Equal(r.Verbs, c.verbs) {
				t.Errorf("its rights are %v", role.Rules)
			}
			if !slices.Contains(c.objects, "Certificate holdfast-webhook") {
				return
			}
			certificate := find(t, found, "Certificate", "holdfast-webhook")
			names, _, _ := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
			issuer, _, _ := unstructured.NestedString(certificate.Object, "spec", "issuerRef", "name")
			if want := map[bool]string{true: "holdfast-webhook", false: "corp"}[len(c.objects) > 1]; !slices.Equal(names, []string{"holdfast-webhook.holdfast-system.svc"}) || issuer != want {
				t.Errorf("the certificate is for %v by %s", names, issuer)
			}
		})
	}
}
