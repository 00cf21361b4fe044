package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const operatorGroup = "monitoring.coreos.com"

// operatorKinds are those that the chart has objects of.
var operatorKinds = []string{"PodMonitor", "PrometheusRule", "ServiceMonitor"}

// prometheusOperator has the API server know the operator's objects, by its own
// definitions.
func (c *cluster) prometheusOperator(t *testing.T) {
	t.Helper()
	for _, kind := range operatorKinds {
		data := must(os.ReadFile(filepath.Join(chartlint(t), "crds", operatorGroup+"_"+strings.ToLower(kind)+"s.yaml")))(t)
		crd := into[apiextensionsv1.CustomResourceDefinition](t, objects(t, string(data))[0])
		if err := c.client.Create(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
		c.kubectl(t, "wait", "--for=condition=Established", "crd/"+crd.Name, "--timeout=60s")
	}
}

// testOperator: what the chart renders for the operator has no field that it does
// not know and no value that it refuses, whatever is set. An API server drops the
// former in silence where it is not asked to be strict, as by Helm 3.
func testOperator(t *testing.T, c *cluster) {
	for name, text := range map[string]string{
		"as it comes": "metrics: {serviceMonitor: {enabled: true}, podMonitor: {enabled: true, tokenSecret: holdfast-token}}\nprometheusRule: {enabled: true}\n",
		"own certificate": "metrics: {tls: {secretName: holdfast-tls}, serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}, " +
			"podMonitor: {enabled: true, interval: 15s, tokenSecret: holdfast-token, labels: {release: prometheus}}}\n" +
			"prometheusRule: {enabled: true, labels: {release: prometheus}, alertLabels: {team: platform}, alerts: {HoldfastCriticalDrift: {for: 1h, labels: {tier: one}, severity: page, threshold: 3}, HoldfastDaemonDown: {enabled: false}}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			rendered := must(c.helm(t, "3").template(t, "-f", valuesFile(t, text)))(t)
			var kinds []string
			for _, u := range objects(t, rendered) {
				if u.GroupVersionKind().Group != operatorGroup {
					continue
				}
				kinds = append(kinds, u.GetKind())
				if err := c.strict(t, u); err != nil {
					t.Errorf("%s: %v", u.GetKind(), err)
				}
				misspelled := u.DeepCopy()
				spec, _ := misspelled.Object["spec"].(map[string]any)
				spec["slector"] = map[string]any{}
				if err := c.strict(t, misspelled); err == nil || !strings.Contains(err.Error(), `unknown field "spec.slector"`) {
					t.Errorf("%s with a misspelled field: %v", u.GetKind(), err)
				}
			}
			if slices.Sort(kinds); !slices.Equal(kinds, operatorKinds) {
				t.Errorf("rendered are %v, want %v", kinds, operatorKinds)
			}
		})
	}
}

// strict has the API server judge an object without keeping it.
func (c *cluster) strict(t *testing.T, u *unstructured.Unstructured) error {
	t.Helper()
	return c.client.Create(t.Context(), u.DeepCopy(), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}
