package misplaced

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"
)

const version = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\n"

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFind(t *testing.T) {
	vpc := "spec.vpc is not a field of AWSCluster; you mean spec.network.vpc (docs/managed.md#misplaced-fields)"
	for name, c := range map[string]struct{ object, want string }{
		"as it is often written": {version + "kind: AWSCluster\nspec: {region: us-west-2, vpc: {cidrBlock: 10.0.0.0/16}}", vpc},
		"empty is written too":   {version + "kind: AWSCluster\nspec: {vpc: {}}", vpc},
		"null is not there":      {version + "kind: AWSCluster\nspec: {vpc: null}", ""},
		"in its place":           {version + "kind: AWSCluster\nspec: {network: {vpc: {cidrBlock: 10.0.0.0/16}}}", ""},
		"two, by name": {
			version + "kind: AWSCluster\nspec: {vpc: {}, cidrBlock: 10.0.0.0/16}",
			"spec.cidrBlock is not a field of AWSCluster; you mean spec.network.vpc.cidrBlock (docs/managed.md#misplaced-fields); " + vpc,
		},
		"a template": {
			version + "kind: AWSClusterTemplate\nspec: {template: {spec: {subnets: []}}, vpc: {}}",
			"spec.template.spec.subnets is not a field of AWSClusterTemplate; you mean spec.template.spec.network.subnets (docs/managed.md#misplaced-fields)",
		},
		"another group":                 {"apiVersion: example.com/v1\nkind: AWSCluster\nspec: {vpc: {}}", ""},
		"another kind":                  {version + "kind: AWSMachine\nspec: {subnets: []}", ""},
		"no spec":                       {version + "kind: AWSCluster", ""},
		"spec is text":                  {version + "kind: AWSCluster\nspec: vpc", ""},
		"spec is a list, of a template": {version + "kind: AWSClusterTemplate\nspec: {template: [vpc]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, Message(Find(object(t, c.object)))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestHandler(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		want []string
	}{
		"misplaced": {
			`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"AWSCluster","spec":{"vpc":1}}`,
			[]string{"spec.vpc is not a field of AWSCluster; you mean spec.network.vpc (docs/managed.md#misplaced-fields)"},
		},
		"fine":      {`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"AWSCluster","spec":{}}`, nil},
		"no object": {`{`, nil},
		"nothing":   {``, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(c.raw)}}}
			got := Handler{}.Handle(t.Context(), r)
			if !got.Allowed {
				t.Error("it is refused")
			}
			if d := cmp.Diff(c.want, got.Warnings); d != "" {
				t.Error(d)
			}
			for _, w := range got.Warnings { // the API server cuts what is longer
				if len(w) > 256 {
					t.Errorf("%d letters: %s", len(w), w)
				}
			}
		})
	}
}
