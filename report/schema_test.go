package report

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

const schemaFile = "schema/report.schema.json"

// words are the closed sets of texts in a report.
var words = map[reflect.Type][]any{
	reflect.TypeFor[detector.Status](): {
		detector.Drifted, detector.Missing, detector.Unexpected, detector.Foreign, detector.NotChecked, detector.Unknown,
	},
	reflect.TypeFor[detector.DiffType](): {detector.Changed, detector.Added, detector.Removed},
	reflect.TypeFor[policies.Severity](): {policies.Critical, policies.High, policies.Medium, policies.Low, policies.Info},
	reflect.TypeFor[policies.Action]():   {policies.Ignore, policies.Observe, policies.Patch, policies.Replace},
	reflect.TypeFor[Since]():             {SinceNew, SinceUnchanged},
}

func generateSchema(t *testing.T) []byte {
	t.Helper()
	reflector := &jsonschema.Reflector{Mapper: func(of reflect.Type) *jsonschema.Schema {
		if of == reflect.TypeFor[providers.Value]() {
			return &jsonschema.Schema{
				Description: "null for no value, a text, a whole number, a truth value, or a set of texts.",
				OneOf: []*jsonschema.Schema{
					{Type: "null"}, {Type: "string"}, {Type: "integer"}, {Type: "boolean"},
					{Type: "array", Items: &jsonschema.Schema{Type: "string"}, UniqueItems: true},
				},
			}
		}
		if enum, ok := words[of]; ok {
			return &jsonschema.Schema{Type: "string", Enum: enum}
		}
		return nil
	}}
	if err := reflector.AddGoComments("github.com/holdfast-io/holdfast/report", "."); err != nil {
		t.Fatal(err)
	}
	schema := reflector.Reflect(&Report{})
	schema.ID = "https://holdfast.io/schemas/report.holdfast.io/v1alpha1/report.schema.json"
	schema.Title = "Holdfast drift report"
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schema); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSchemaIsFresh(t *testing.T) {
	want := generateSchema(t)
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(Schema)); diff != "" {
		t.Errorf("%s is not what the types give (-types +file): run go test ./report -run Schema -update\n%s", schemaFile, diff)
	}
}

func compileSchema(t *testing.T) *validator.Schema {
	t.Helper()
	doc, err := validator.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := validator.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(schemaFile, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestReportsFitTheSchema(t *testing.T) {
	schema := compileSchema(t)
	for name, in := range map[string]BuildInput{
		"sample": sample(), "ignored": withIgnored(sample()), "compared": compared(), "showcase": showcase(),
		"empty": {Now: at}, "in sync": {Now: at, Clusters: sample().Clusters[1:2]},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := validator.UnmarshalJSON(bytes.NewReader(render(t, Build(in), FormatJSON, Style{})))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); err != nil {
				t.Error(err)
			}
		})
	}
}

// The schema refuses what the contract does not know: it is no rubber stamp.
func TestSchemaRefuses(t *testing.T) {
	schema := compileSchema(t)
	breaks := map[string]func(report map[string]any){
		"an unknown key":      func(r map[string]any) { r["finding"] = []any{} },
		"no findings":         func(r map[string]any) { delete(r, "findings") },
		"null findings":       func(r map[string]any) { r["findings"] = nil },
		"an unknown severity": func(r map[string]any) { firstFinding(r)["severity"] = "urgent" },
		"a fraction":          func(r map[string]any) { firstDiff(r)["want"] = 1.5 },
		"no blockedBy":        func(r map[string]any) { delete(firstFinding(r), "blockedBy") },
		"a time that is none": func(r map[string]any) { firstFinding(r)["firstSeen"] = "yesterday" },
	}
	for name, spoil := range breaks {
		t.Run(name, func(t *testing.T) {
			var doc map[string]any
			if err := json.Unmarshal(render(t, Build(sample()), FormatJSON, Style{}), &doc); err != nil {
				t.Fatal(err)
			}
			spoil(doc)
			if schema.Validate(doc) == nil {
				t.Error("the schema takes it")
			}
		})
	}
}

func firstFinding(r map[string]any) map[string]any {
	return r["findings"].([]any)[0].(map[string]any)
}

func firstDiff(r map[string]any) map[string]any {
	return firstFinding(r)["diffs"].([]any)[0].(map[string]any)
}
