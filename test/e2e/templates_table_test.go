package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/hack/clusterapi"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
)

// templateRow is a line of the table in docs/managed.md: a template of a provider's,
// whether it is to run, and what stands against it. what is a kind that is not served, or a field.
type templateRow struct {
	provider, file string
	runs           bool
	what           string
}

// field reports whether a field stands against it, rather than a kind or a file.
func (r *templateRow) field() bool {
	return !r.runs && strings.ContainsAny(r.what, "./") && !strings.HasSuffix(r.what, ".yaml")
}

var (
	templateLine = regexp.MustCompile("^\\| (CAPA|CAPV) \\| `([^`]+)` \\| (yes|no|untested) \\| (.*) ?\\|$")
	quoted       = regexp.MustCompile("`([^`]+)`")
)

func templateTable(t *testing.T) (out []templateRow) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/managed.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(raw), "\n") {
		m := templateLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		r := templateRow{provider: m[1], file: m[2], runs: m[3] != "no"}
		if why := quoted.FindStringSubmatch(m[4]); why != nil && !r.runs {
			r.what = why[1]
		} else if !r.runs {
			t.Errorf("%s: the table does not say what stands against it", r.file)
		}
		out = append(out, r)
	}
	return out
}

func modules() map[string]string { return map[string]string{"CAPA": capa, "CAPV": capv} }

// A user finds every template of both providers in the documentation, and what is
// said not to be served there is in no manifest of CRDs that Holdfast gives.
func TestTemplatesAreNamed(t *testing.T) {
	served := map[string]bool{}
	crds, err := clusterapi.CRDs(clusterapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		served[crd.Spec.Group+"/"+crd.Spec.Names.Kind] = true
	}
	named := map[string]bool{}
	for _, r := range templateTable(t) {
		named[r.provider+" "+r.file] = true
		raw, err := os.ReadFile(filepath.Join(templatesOf(t, modules()[r.provider]), r.file))
		if err != nil {
			t.Errorf("the table names what is not there: %v", err)
		}
		unserved := unservedKinds(string(raw), served)
		switch {
		case len(unserved) > 0 && r.runs:
			t.Errorf("%s is said to run, and has %q, which are not served", r.file, unserved)
		case len(unserved) > 0 && !strings.Contains(strings.Join(unserved, " "), r.what):
			t.Errorf("%s has %q, which are not served, and the table blames %s", r.file, unserved, r.what)
		case len(unserved) == 0 && !r.runs && !r.field() && !strings.HasSuffix(r.what, ".yaml"):
			t.Errorf("%s has no kind %s, and only such are looked for here", r.file, r.what)
		}
	}
	for provider, module := range modules() {
		files, err := filepath.Glob(filepath.Join(templatesOf(t, module), "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no templates: %v", provider, err)
		}
		for _, file := range files {
			if name := filepath.Base(file); !named[provider+" "+name] {
				t.Errorf("%s's template %s is not in the table of docs/managed.md", provider, name)
			}
		}
	}
}

var (
	kindLine  = regexp.MustCompile(`(?m)^kind: (\S+)$`)
	groupLine = regexp.MustCompile(`(?m)^apiVersion: ([^/\s]+)/\S+$`)
)

// unservedKinds are those of Cluster API's that no CRD is there for.
func unservedKinds(text string, served map[string]bool) (out []string) {
	for _, doc := range strings.Split(text, "\n---") {
		kind, group := kindLine.FindStringSubmatch(doc), groupLine.FindStringSubmatch(doc)
		if kind == nil || group == nil || !strings.HasSuffix(group[1], "cluster.x-k8s.io") {
			continue
		}
		if name := group[1] + "/" + kind[1]; !served[name] {
			out = append(out, name)
		}
	}
	return out
}

// Whoever applies a template with a field that Holdfast does not take is told which
// one it is, and can delete it all.
func TestCAPATemplatesRefused(t *testing.T) {
	long(t)
	g := capaGround(t, ec2sim.Options{})
	for _, r := range templateTable(t) {
		if r.provider == "CAPA" && r.field() {
			name := strings.TrimSuffix(strings.TrimPrefix(r.file, "cluster-template-"), ".yaml")
			more := map[string]string{"AWS_S3_BUCKET_NAME": "bucket", "COREOS_EC2_HOSTNAME": "$COREOS_EC2_HOSTNAME", "CNI_RESOURCES": "",
				"MULTI_TENANCY_JUMP_IDENTITY_NAME": "jump", "MULTI_TENANCY_JUMP_ROLE_ARN": "arn:aws:iam::123456789012:role/jump",
				"MULTI_TENANCY_NESTED_IDENTITY_NAME": "nested", "MULTI_TENANCY_NESTED_ROLE_ARN": "arn:aws:iam::123456789012:role/nested"}
			for k, v := range capaVariables(name) {
				more[k] = v
			}
			refusedTemplate(t, g, generate(t, filepath.Join(templatesOf(t, capa), r.file), more), r.what)
		}
	}
}

// The same of CAPV's.
func TestCAPVTemplatesRefused(t *testing.T) {
	long(t)
	g := capvGround(t)
	for _, r := range templateTable(t) {
		if r.provider == "CAPV" && r.field() {
			endpoint := fmt.Sprintf("127.0.0.1:%d", g.ServeVSphere(t.Context(), "refused"))
			refusedTemplate(t, g, generate(t, filepath.Join(templatesOf(t, capv), r.file), capvVariables(g, "refused", endpoint)), r.what)
		}
	}
}

func refusedTemplate(t *testing.T, g *management.Ground, text, what string) {
	t.Helper()
	run(t, g, text, "apply", "-f", "-")
	name := ""
	for _, doc := range strings.Split(text, "\n---") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &o.Object); err == nil && o.GetKind() == "Cluster" {
			name = o.GetName()
		}
	}
	c := g.Topology(t.Context(), name)
	c.Eventually(t.Context(), "told that "+what+" stands against it", func(context.Context) error {
		out := run(t, g, "", "get", "clusters,awsclusters,awsmachines,vsphereclusters,vspheremachines", "-o", "jsonpath={.items[*].status.conditions}")
		if !strings.Contains(out, what) {
			return fmt.Errorf("its conditions are %s", out)
		}
		return nil
	})
	run(t, g, "", "delete", "cluster", name)
	c.Close()
}
