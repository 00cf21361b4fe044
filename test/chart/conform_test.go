package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// chartlint is the folder with kubeconform, kube-score and crds.
func chartlint(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HOLDFAST_CHARTLINT")
	if dir == "" {
		t.Fatal("HOLDFAST_CHARTLINT is not set: run the tests by hack/test.sh, or set it to the output of hack/chartlint/build.sh")
	}
	return dir
}

// whole renders a profile with all that it can have, and gives the file that it is in.
func whole(t *testing.T, profile string) (string, []*unstructured.Unstructured) {
	t.Helper()
	rendered, err := helms(t)["3"].template(t, "-f", profileFile(profile))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), profile+".yaml")
	if err := os.WriteFile(path, []byte(rendered), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, objects(t, rendered)
}

// testConform has kubeconform find every field of every profile in the schemas of
// the API server: its own, and those that it makes from the Prometheus operator's
// CRDs, which testProfiles has given it.
func testConform(t *testing.T, c *cluster) {
	schemas := &schemas{discovery: must(discovery.NewDiscoveryClientForConfig(c.config))(t), dir: t.TempDir()}
	for _, profile := range profiles(t) {
		t.Run(profile, func(t *testing.T) {
			path, found := whole(t, profile)
			for _, u := range found {
				if err := schemas.write(u.GroupVersionKind()); err != nil {
					t.Fatal(err)
				}
			}
			s := schemas.check(t, path)
			if want := (conformity{Valid: len(found)}); s.Summary != want {
				t.Errorf("kubeconform: %+v, want %+v\n%s", s.Summary, want, s.text)
			}
		})
	}
	for _, kind := range []string{"ServiceMonitor", "PodMonitor", "PrometheusRule"} {
		if !schemas.written[schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: kind}] {
			t.Errorf("no profile has a %s", kind)
		}
	}
	t.Run("wrong", func(t *testing.T) { testNonconform(t, schemas) })
}

// testNonconform: what is wrong is found, also deep within, and where nobody knows
// the kind.
func testNonconform(t *testing.T, schemas *schemas) {
	path, _ := whole(t, "aws")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string][2]string{
		"a field of no name":        {"\n      enableServiceLinks: ", "\n      enableServiceLink: "},
		"a text for a number":       {"\n  replicas: 2", "\n  replicas: two"},
		"a field of the operator's": {"\n      bearerTokenFile: ", "\n      tokenFile: "},
		"an unknown kind":           {"\nkind: Service\n", "\nkind: Servant\n"},
	} {
		text := strings.Replace(string(data), edit[0], edit[1], 1)
		if text == string(data) {
			t.Errorf("%s: there is no %q", name, edit[0])
			continue
		}
		broken := filepath.Join(t.TempDir(), "broken.yaml")
		if err := os.WriteFile(broken, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s := schemas.check(t, broken).Summary; s.Invalid+s.Errors != 1 {
			t.Errorf("%s: kubeconform finds %+v, want one that is wrong", name, s)
		}
	}
}

type conformity struct{ Valid, Invalid, Errors, Skipped int }

type report struct {
	Summary conformity
	text    string
}

// schemas are kubeconform's, one file for each kind.
type schemas struct {
	discovery discovery.DiscoveryInterface
	dir       string
	written   map[schema.GroupVersionKind]bool
}

func (s *schemas) check(t *testing.T, path string) report {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(chartlint(t), "kubeconform"), "-strict", "-summary", "-output", "json", "-n", "1",
		"-schema-location", s.dir+"/{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json", path)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := report{text: string(out)}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("kubeconform: %v\n%s", err, out)
	}
	return r
}

// write makes the schema of a kind from what the API server says in its
// /openapi/v3 (kubernetes.io/docs/concepts/overview/kubernetes-api).
func (s *schemas) write(kind schema.GroupVersionKind) error {
	if s.written[kind] {
		return nil
	}
	paths, err := s.discovery.OpenAPIV3().Paths()
	if err != nil {
		return fmt.Errorf("read /openapi/v3: %w", err)
	}
	at := "api/" + kind.Version
	if kind.Group != "" {
		at = "apis/" + kind.GroupVersion().String()
	}
	group, ok := paths[at]
	if !ok {
		return fmt.Errorf("the API server knows nothing of %s", at)
	}
	data, err := group.Schema("application/json")
	if err != nil {
		return fmt.Errorf("read %s of /openapi/v3: %w", at, err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("read %s of /openapi/v3: %w", at, err)
	}
	root := ""
	for name, of := range doc.Components.Schemas {
		closed(of)
		kinds, _ := of["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			k, _ := k.(map[string]any)
			if k["group"] == kind.Group && k["version"] == kind.Version && k["kind"] == kind.Kind && len(kinds) == 1 {
				root = name
			}
		}
	}
	if root == "" {
		return fmt.Errorf("%s of /openapi/v3 has no %s", at, kind.Kind)
	}
	out, err := json.Marshal(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#",
		"allOf":   []any{map[string]any{"$ref": "#/components/schemas/" + root}}, "components": doc.Components,
	})
	if err != nil {
		return err
	}
	if s.written == nil {
		s.written = map[schema.GroupVersionKind]bool{}
	}
	s.written[kind] = true
	// kubeconform takes a version without a group for the group, too.
	name := kind.Group
	if name == "" {
		name = kind.Version
	}
	return os.WriteFile(filepath.Join(s.dir, name+"_"+kind.Version+"_"+strings.ToLower(kind.Kind)+".json"), out, 0o600)
}

// closed has a schema refuse the fields that it does not name, as `kubectl apply`
// does by what it asks of the API server, which OpenAPI's own rules do not.
func closed(of any) {
	s, isSchema := of.(map[string]any)
	if !isSchema {
		return
	}
	fields, hasFields := s["properties"].(map[string]any)
	for _, f := range fields {
		closed(f)
	}
	for _, word := range []string{"items", "additionalProperties"} {
		closed(s[word])
	}
	if _, open := s["additionalProperties"]; hasFields && !open && s["x-kubernetes-preserve-unknown-fields"] != true {
		s["additionalProperties"] = false
	}
}
