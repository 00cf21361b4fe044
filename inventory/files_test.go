package inventory

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	yaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// awsKinds registers CAPA's real types without the provider's code.
func awsKinds(t testing.TB) *Kinds {
	t.Helper()
	gv := infrav1.GroupVersion
	k, err := NewKinds(providers.Registration{
		Name:        "aws",
		AddToScheme: func(s *runtime.Scheme) error { return infrav1.AddToScheme(s) },
		Owners: []providers.OwnerKind{
			{GVK: gv.WithKind("AWSMachine"), Role: providers.RoleMachine},
			{GVK: gv.WithKind("AWSCluster"), Role: providers.RoleCluster},
		},
		Related: []schema.GroupVersionKind{gv.WithKind("AWSMachineTemplate"), gv.WithKind("AWSClusterRoleIdentity")},
		Unmodelled: map[schema.GroupKind]string{
			{Group: gv.Group, Kind: "AWSMachinePool"}: "machine pools are not modelled",
		},
		New: func(client.Reader) (providers.Provider, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const cluster = `
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: c1, namespace: prod}
spec:
  infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, name: c1}
`

func TestFromFilesFaults(t *testing.T) {
	tests := map[string]struct {
		reason string
		in     string
		want   []string // each must be in the error, in this order
	}{
		"syntax": {
			reason: "a parser's line is passed on",
			in:     "apiVersion: v1\nkind: [Cluster\n",
			want:   []string{"standard input:", "not YAML"},
		},
		"alias bomb": {
			reason: "a small file must not become a large one",
			in:     "kind: Cluster\na: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n",
			want:   []string{"standard input:1: not to be read: its aliases stand for more than 100000 values"},
		},
		"an anchor in itself": {
			reason: "no end",
			in:     "kind: Cluster\na: &a {b: *a}\n",
			want:   []string{"standard input:1: not to be read: the anchor a contains itself"},
		},
		"a list that is none": {
			reason: "its objects would be skipped in silence",
			in:     "kind: List\nitems: {kind: Cluster}\n",
			want:   []string{"standard input:2: the items of a List must be a list"},
		},
		"tab": {
			reason: "tabs are the usual cause and invisible",
			in:     "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n\tname: c1\n",
			want:   []string{"standard input:4", "tab"},
		},
		"helm template": {
			reason: "people give the chart instead of its output",
			in:     "{{- if .Values.x }}\nkind: Cluster\n",
			want:   []string{"render it first"},
		},
		"duplicate key": {
			reason: "decoders would take the last one silently",
			in:     "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\nspec: {}\nspec: {paused: true}\n",
			want:   []string{"standard input:5", `key "spec" stands twice`},
		},
		"no kind": {
			reason: "not an object",
			in:     "metadata: {name: a}\n",
			want:   []string{"standard input:1", "apiVersion and kind"},
		},
		"no name": {
			reason: "nothing could refer to it",
			in:     "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n",
			want:   []string{"standard input:1", "metadata.name"},
		},
		"near miss of a kind": {
			reason: "a skipped machine would look like one in sync",
			in:     "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSMachin\nmetadata: {name: a}\n",
			want:   []string{"standard input:1", "did you mean AWSMachine.infrastructure.cluster.x-k8s.io?"},
		},
		"unknown version": {
			reason: "it cannot be decoded",
			in:     "apiVersion: cluster.x-k8s.io/v1beta9\nkind: Cluster\nmetadata: {name: a}\n",
			want:   []string{"v1beta9", "known: v1beta1, v1beta2"},
		},
		"wrong type": {
			reason: "the field is named with its line",
			in:     "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSMachine\nmetadata: {name: a}\nspec:\n  instanceType: m5.large\n  rootVolume:\n    size: big\n",
			want:   []string{"standard input:7", "AWSMachine default/a", "spec.rootVolume.size must be of type int64"},
		},
		"unfilled variable": {
			reason: "a template was given instead of its output",
			in:     "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  name: ${CLUSTER_NAME}\n",
			want:   []string{"standard input:4", "${CLUSTER_NAME} is not filled in"},
		},
		"unfilled with default": {
			reason: "clusterctl's default form is no value either",
			in:     "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  name: x\n  labels: {a: \"${A:=b}\"}\n",
			want:   []string{"standard input:5", "${A:=b}"},
		},
		"twice": {
			reason: "which one is meant is not known",
			in:     cluster + "---" + cluster,
			want:   []string{"standard input:8", "Cluster prod/c1 is defined twice", "standard input:2"},
		},
		"all at once": {
			reason: "one run shows every fault",
			in:     "kind: A\n---\nkind: B\n",
			want:   []string{"standard input:1", "standard input:3"},
		},
		"nothing": {
			reason: "an empty report would look like all is well",
			in:     "# empty\n",
			want:   []string{"no Cluster API object in -"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := FromFiles(awsKinds(t), []string{Stdin}, strings.NewReader(tc.in))
			if err == nil {
				t.Fatalf("no error: %s", tc.reason)
			}
			rest := err.Error()
			for _, w := range tc.want {
				i := strings.Index(rest, w)
				if i < 0 {
					t.Fatalf("error %q lacks %q (in order): %s", err, w, tc.reason)
				}
				rest = rest[i:]
			}
		})
	}
}

func TestFromFilesAccepts(t *testing.T) {
	tests := map[string]struct {
		reason   string
		in       string
		objects  int
		problems []string
	}{
		"list":            {reason: "kubectl get -o yaml", in: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: a}}\n- {apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: b}}\n", objects: 2},
		"json":            {reason: "kubectl get -o json", in: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"a"}}]}`, objects: 1},
		"json of escapes": {reason: "JSON that YAML does not take: \\/ and surrogate pairs", in: `{"apiVersion":"cluster.x-k8s.io\/v1beta2","kind":"Cluster","metadata":{"name":"a","annotations":{"x":"\\\\\uD83D\ude00\u00e9\ud800\\u"}}}`, objects: 1},
		"json in a row":   {reason: "kubectl get -o json, twice", in: `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"a"}}{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"b"}}` + "\n" + `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"c"}}`, objects: 3},
		"json with tabs":  {reason: "jq --tab", in: "{\n\t\"apiVersion\": \"cluster.x-k8s.io/v1beta2\",\n\t\"kind\": \"Cluster\",\n\t\"metadata\": {\"name\": \"a\"}}", objects: 1},
		"flow yaml":       {reason: "begins like JSON and is none", in: `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: a}}`, objects: 1},
		"anchors": {reason: "an anchor of one item used in another, and whole items", objects: 3, in: "apiVersion: v1\nkind: List\nitems:\n" +
			"- {apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: a, namespace: &ns prod}}\n" +
			"- {apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: b, namespace: *ns}}\n" +
			"---\nx: &x [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: c}}]\nkind: List\nitems: *x\n"},
		"an empty list":   {reason: "kubectl get without objects", in: cluster + "---\napiVersion: v1\nkind: List\nitems: null\n", objects: 1},
		"yes is true":     {reason: "kubectl's YAML rules", in: "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSMachine\nmetadata: {name: a}\nspec: {instanceType: m5.large, publicIP: yes}\n", objects: 1},
		"other kinds":     {reason: "a folder holds more than machines", in: cluster + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", objects: 1},
		"shell variables": {reason: "scripts are not templates", in: "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata: {name: a}\nspec:\n  kubeadmConfigSpec:\n    preKubeadmCommands: [\"echo ${HOSTNAME}\"]\n", objects: 1},
		"field elsewhere": {
			reason: "the API server would drop it with a warning, and the user's CIDR would not be",
			in:     "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: a}\nspec:\n  region: us-west-2\n  vpc:\n    cidrBlock: 10.0.0.0/16\n", objects: 1,
			problems: []string{"standard input:6 UnknownField: spec.vpc is not a field of infrastructure.cluster.x-k8s.io/v1beta2 AWSCluster, and what it says is not compared; did you mean spec.network.vpc?"},
		},
		"misspelled field": {
			reason: "a near name is offered",
			in:     "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSMachine\nmetadata: {name: a}\nspec:\n  instancetype: m5.large\n", objects: 1,
			problems: []string{"standard input:5 UnknownField: spec.instancetype is not a field of infrastructure.cluster.x-k8s.io/v1beta2 AWSMachine, and what it says is not compared; did you mean spec.instanceType?"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			set, err := FromFiles(awsKinds(t), []string{Stdin}, strings.NewReader(tc.in))
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if set.Len() != tc.objects {
				t.Errorf("%s: %d objects, want %d", tc.reason, set.Len(), tc.objects)
			}
			var got []string
			for _, p := range set.Problems {
				got = append(got, p.At.String()+" "+p.Reason+": "+p.Message)
			}
			if d := cmp.Diff(tc.problems, got); d != "" {
				t.Errorf("%s: problems (-want +got):\n%s", tc.reason, d)
			}
		})
	}
}

// TestPlainEscapes compares what YAML reads with what JSON says.
func TestPlainEscapes(t *testing.T) {
	for _, in := range []string{`"a\/b"`, `"\\/"`, `"\\u0041"`, `"\uD83D\uDE00x"`, `"\ud800"`, `"\ud800\ud800"`, `"\ud800\n"`, `"\udc00\u0041"`, `"\\\ud83d\ude00"`, `"é\u00e9"`} {
		var want, got string
		if err := json.Unmarshal([]byte(in), &want); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(plainEscapes([]byte(in)), &got); err != nil || got != want {
			t.Errorf("%s: %q (%v), want %q", in, got, err, want)
		}
	}
}
