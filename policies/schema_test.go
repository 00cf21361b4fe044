package policies

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

var update = flag.Bool("update", false, "write generated and golden files")

const schemaFile = "schema/driftpolicy.schema.json"

// generateSchema makes the schema from the Go types and their comments.
func generateSchema(t *testing.T) []byte {
	t.Helper()
	r := &jsonschema.Reflector{
		// Required is what has no omitempty, as in the loader.
		Mapper: mapType,
		Namer:  func(t reflect.Type) string { return t.Name() },
	}
	if err := r.AddGoComments("github.com/holdfast-io/holdfast/policies", "../api/v1alpha1"); err != nil {
		t.Fatal(err)
	}
	for name, text := range r.CommentMap {
		lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool {
			return strings.HasPrefix(strings.TrimSpace(l), "+") // for the generator of CRDs
		})
		r.CommentMap[name] = strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
	}
	s := r.Reflect(&v1alpha1.DriftPolicy{})
	s.ID = "https://holdfast.io/schemas/drift.holdfast.io/v1alpha1/driftpolicy.schema.json"
	s.Title = "DriftPolicy"
	head := s.Definitions["DriftPolicy"].Properties
	for key, value := range map[string]string{"apiVersion": v1alpha1.Group + "/" + v1alpha1.Version, "kind": v1alpha1.KindDriftPolicy} {
		property, _ := head.Get(key)
		property.Const, property.Description = value, "Always "+value+"."
	}
	s.Definitions["DriftPolicy"].Required = []string{"apiVersion", "kind", "metadata", "spec"}
	for _, d := range s.Definitions {
		for pair := d.Properties.Oldest(); pair != nil; pair = pair.Next() {
			refine(pair.Key, pair.Value)
		}
	}
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// refine adds what the Go type does not say.
func refine(key string, s *jsonschema.Schema) {
	switch {
	case key == "id" && strings.HasPrefix(s.Description, "ID names the rule"):
		s.Pattern = ruleID.String()
	case key == "paths":
		s.Items.Pattern = `^/`
	case s.Type == "integer":
		s.Minimum = "1"
	}
}

func mapType(t reflect.Type) *jsonschema.Schema {
	duration := &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`, Examples: []any{"30m", "1h30m"}}
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		return duration
	case reflect.TypeFor[intstr.IntOrString]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "0", Maximum: "2147483647"}, {Type: "string", Pattern: percentPattern}}}
	case reflect.TypeFor[v1alpha1.Percent]():
		return &jsonschema.Schema{Type: "string", Pattern: percentPattern}
	case reflect.TypeFor[v1alpha1.Expiry]():
		return &jsonschema.Schema{Type: "string", Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2}))?$`}
	case reflect.TypeFor[v1alpha1.DriftPolicyStatus]():
		return &jsonschema.Schema{Type: "object"}
	case reflect.TypeFor[metav1.ObjectMeta]():
		return metadataSchema()
	}
	if e, ok := reflect.New(t).Elem().Interface().(enum); ok && t.Kind() == reflect.String {
		s := &jsonschema.Schema{Type: "string"}
		for _, v := range e.Values() {
			s.Enum = append(s.Enum, v)
		}
		return s
	}
	return nil
}

const percentPattern = `^(100|[1-9]?[0-9])%$`

// metadataSchema is what a policy uses of its metadata. What an API server
// adds is accepted as well.
func metadataSchema() *jsonschema.Schema {
	texts := &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"}}
	props, one := jsonschema.NewProperties(), uint64(1)
	props.Set("name", &jsonschema.Schema{Type: "string", MinLength: &one, Description: "Name of the policy. No two policies have the same."})
	props.Set("namespace", &jsonschema.Schema{Type: "string"})
	props.Set("labels", texts)
	props.Set("annotations", texts)
	for _, key := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "ownerReferences", "finalizers", "selfLink", "generateName"} {
		props.Set(key, jsonschema.TrueSchema)
	}
	return &jsonschema.Schema{Type: "object", Properties: props, Required: []string{"name"}, AdditionalProperties: jsonschema.FalseSchema}
}

// TestSchemaIsFresh: the committed schema is what the types make.
func TestSchemaIsFresh(t *testing.T) {
	generated := generateSchema(t)
	if *update {
		if err := os.WriteFile(schemaFile, generated, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(Schema()), string(generated)); diff != "" {
		t.Errorf("run go test ./policies -update (-committed +generated):\n%s", diff)
	}
}

// TestSchemaDescribes: every property of our own has a description, and every
// object is closed.
func TestSchemaDescribes(t *testing.T) {
	var doc struct {
		Defs map[string]struct {
			Properties           map[string]map[string]any
			AdditionalProperties any
		} `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	for name, def := range doc.Defs {
		if closed, ok := def.AdditionalProperties.(bool); !ok || closed {
			t.Errorf("%s is open", name)
		}
		if slices.Contains([]string{"LabelSelector", "LabelSelectorRequirement", "ObjectMeta"}, name) {
			continue
		}
		for key, p := range def.Properties {
			if key != "metadata" && p["description"] == nil {
				t.Errorf("%s.%s has no description", name, key)
			}
		}
	}
	if len(doc.Defs) < 12 {
		t.Errorf("only %d definitions", len(doc.Defs))
	}
}

func compiledSchema(t *testing.T) *validator.Schema {
	t.Helper()
	doc, err := validator.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("policy.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *validator.Schema, yaml string) error {
	t.Helper()
	data, err := sigsyaml.YAMLToJSON([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := validator.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// TestSchemaAgreesWithLoader: what the loader accepts the schema accepts, and
// what the schema can see the schema refuses.
func TestSchemaAgreesWithLoader(t *testing.T) {
	s := compiledSchema(t)
	accepted := map[string]string{"example": fullExample, "minimal": head + "spec: {}\n"}
	for name, spec := range map[string]string{"enforce": enforceTypes, "a": randomPolicies[0], "b": randomPolicies[3], "c": randomPolicies[4]} {
		accepted[name] = head + spec
	}
	entries, err := defaultFiles.ReadDir("defaults")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := defaultFiles.ReadFile("defaults/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		accepted[e.Name()] = string(data)
	}
	for name, yaml := range accepted {
		if err := validate(t, s, yaml); err != nil {
			t.Errorf("%s: the schema refuses what the loader accepts: %v", name, err)
		}
	}
	refused := map[string]string{
		"unknown key":     head + "spec: {mathc: {}}\n",
		"metadata":        head[:len(head)-2] + ", lables: {}}\nspec: {}\n",
		"enum":            head + "spec: {mode: enforc}\n",
		"duration":        head + "spec: {schedule: {jitter: 1d}}\n",
		"percentage":      head + "spec: {safety: {maxDriftRatio: 110%}}\n",
		"number or share": head + "spec: {budgets: [{scope: pool, max: -1}]}\n",
		"required":        head + "spec: {rules: [{action: observe}]}\n",
		"id":              head + "spec: {rules: [{id: A b}]}\n",
		"path":            head + "spec: {rules: [{id: a, paths: [tags]}]}\n",
		"expiry":          head + "spec: {ignore: [{reason: x, paths: [/a], expiresAt: soon}]}\n",
		"observations":    head + "spec: {rules: [{id: a, grace: {observations: 0}}]}\n",
		"kind":            strings.Replace(head, "DriftPolicy", "Policy", 1) + "spec: {}\n",
		"window kind":     head + "spec: {windows: [{kind: maybe, cron: \"0 0 * * *\", duration: 1h}]}\n",
	}
	for name, yaml := range refused {
		if err := validate(t, s, yaml); err == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
		if _, problems := LoadSources(Options{}, Source{Name: "p.yaml", Data: []byte(yaml)}); problems.Err() == nil {
			t.Errorf("%s: the loader accepts it", name)
		}
	}
}

// fullExample is the example of the reference, with every key.
const fullExample = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: prod-eu}
spec:
  match:
    clusters: [{namespace: prod, name: "eu-*"}]
    clusterSelector: {matchLabels: {tier: prod}}
    exclude: []
  mode: observe
  schedule: {cron: "*/15 * * * *", timeZone: Europe/Berlin, jitter: 2m, staleAfter: 1h}
  rules:
  - id: instance-type
    target: {provider: aws, kind: Instance}
    paths: [/instanceType]
    when: "have.state == 'running'"
    severity: high
    action: replace
    grace: {for: 30m, observations: 3}
    approval: required
    attempts: {max: 3, per: 24h}
  ignore:
  - {target: {kind: Instance}, paths: ["/tags/backup~1last"], reason: "backup tool", owner: storage-team, expiresAt: 2027-03-01}
  budgets:
  - {scope: pool, actions: [replace], max: "10%"}
  windows:
  - {kind: deny, cron: "0 8 * * mon-fri", duration: 10h, timeZone: Europe/Berlin, actions: [replace]}
  safety: {maxDriftRatio: 30%, maxSnapshotAge: 10m, minHealthy: 90%, controlPlane: observe}
`

// TestDesignExample loads the example of the language's design.
func TestDesignExample(t *testing.T) {
	_, problems := LoadSources(Options{Catalog: testCatalog, Now: testNow}, Source{Name: "p.yaml", Data: []byte(fullExample)})
	if len(problems) > 0 {
		t.Error(problems)
	}
}
