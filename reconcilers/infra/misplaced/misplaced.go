package misplaced

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Field is a name that is taken for a field of a kind's spec.
type Field struct {
	// Name is what is written directly under spec.
	Name string
	// Meant is the path below spec of the field that has the meaning.
	Meant []string
}

// Kind is a kind whose spec Fields are written into.
type Kind struct {
	schema.GroupKind
	// Spec is where the kind has its spec.
	Spec   []string
	Fields []Field
}

// awsCluster are the fields of an AWSCluster's network and the one of its VPC
// that every cluster has an opinion on, one or two levels too high, and what
// spec.network was called before v1alpha4.
var awsCluster = []Field{
	{"additionalControlPlaneIngressRules", []string{"network", "additionalControlPlaneIngressRules"}},
	{"additionalNodeIngressRules", []string{"network", "additionalNodeIngressRules"}},
	{"cidrBlock", []string{"network", "vpc", "cidrBlock"}},
	{"cni", []string{"network", "cni"}},
	{"networkSpec", []string{"network"}},
	{"nodePortIngressRuleCidrBlocks", []string{"network", "nodePortIngressRuleCidrBlocks"}},
	{"securityGroupOverrides", []string{"network", "securityGroupOverrides"}},
	{"subnets", []string{"network", "subnets"}},
	{"vpc", []string{"network", "vpc"}},
}

const infrastructure = "infrastructure.cluster.x-k8s.io"

var table = []Kind{
	{schema.GroupKind{Group: infrastructure, Kind: "AWSCluster"}, []string{"spec"}, awsCluster},
	{schema.GroupKind{Group: infrastructure, Kind: "AWSClusterTemplate"}, []string{"spec", "template", "spec"}, awsCluster},
}

// Table lists the kinds in which misplaced fields are looked for. Callers must not
// change it.
func Table() []Kind { return table }

// Finding is a field that an object has and its kind has not.
type Finding struct {
	Kind string
	// Path is where it is, and Meant where the field is that has the meaning.
	Path, Meant string
}

// Docs is where users read about it.
const Docs = "docs/managed.md#misplaced-fields"

// String says it in one sentence.
func (f Finding) String() string {
	return f.Path + " is not a field of " + f.Kind + "; you mean " + f.Meant + " (" + Docs + ")"
}

// Find lists the misplaced fields of an object in the order of their names. It is
// pure; an object of another kind has none. The object has to be read without
// types, which drop what they do not know.
func Find(o *unstructured.Unstructured) []Finding {
	at := index(o.GroupVersionKind().GroupKind())
	if at < 0 {
		return nil
	}
	kind := table[at]
	spec, found, err := unstructured.NestedFieldNoCopy(o.Object, kind.Spec...)
	fields, ok := spec.(map[string]any)
	if err != nil || !found || !ok {
		return nil
	}
	var out []Finding
	for _, f := range kind.Fields {
		if value, has := fields[f.Name]; !has || value == nil {
			continue
		}
		out = append(out, Finding{Kind: kind.Kind, Path: path(kind.Spec, f.Name), Meant: path(kind.Spec, f.Meant...)})
	}
	return out
}

func index(gk schema.GroupKind) int {
	return slices.IndexFunc(table, func(k Kind) bool { return k.GroupKind == gk })
}

// Known says whether misplaced fields are looked for in a kind.
func Known(gk schema.GroupKind) bool { return index(gk) >= 0 }

func path(spec []string, fields ...string) string {
	return strings.Join(append(slices.Clone(spec), fields...), ".")
}

// Message puts findings into one text for a condition, empty if there are none.
func Message(findings []Finding) string {
	out := make([]string, len(findings))
	for i, f := range findings {
		out[i] = f.String()
	}
	return strings.Join(out, "; ")
}
