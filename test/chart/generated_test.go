package chart

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-io/holdfast/policies"
)

var update = flag.Bool("update", false, "rewrite golden files, and what is generated in charts/holdfast")

// folder of the chart.
var folder = filepath.Join("..", "..", "charts", "holdfast")

//go:embed testdata/README.md.tmpl
var readmeText string

// TestGenerated keeps what the chart holds twice equal to where it comes from.
func TestGenerated(t *testing.T) {
	values, err := readValues(filepath.Join(folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cli, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := configSchema(string(cli))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := valuesSchema(values, config)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"values.schema.json": schema, "README.md": readme(t, values)}
	crds, err := filepath.Glob(filepath.Join("..", "..", "api", "crds", "*.yaml"))
	if err != nil || len(crds) == 0 {
		t.Fatalf("CRDs: %v, %v", crds, err)
	}
	for _, path := range crds {
		if files[filepath.Join("files", "crds", filepath.Base(path))], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range files {
		fresh(t, filepath.Join(folder, name), want)
	}
	have, err := filepath.Glob(filepath.Join(folder, "files", "crds", "*"))
	if err != nil || len(have) != len(crds) {
		t.Errorf("the chart has %d CRDs (%v), want the %d of api/crds", len(have), err, len(crds))
	}
}

// fresh compares a file with what it should be, or writes it.
func fresh(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s is not what it is made from; run `make golden` (-want +file):\n%s", path, d)
	}
}

// valuesSchema is the schema of the values, with that of a policy.
func valuesSchema(values []*value, config map[string]any) ([]byte, error) {
	var policy struct {
		Schema string         `json:"$schema"`
		Defs   map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(policies.Schema(), &policy); err != nil {
		return nil, err
	}
	for _, def := range policy.Defs {
		leaveToTemplates(def)
	}
	s := map[string]any{"$schema": policy.Schema, "$defs": policy.Defs, "title": "Values of the Holdfast chart", "type": "object"}
	properties(s, values, config)
	// Helm adds it where the chart is a part of another.
	s["properties"].(map[string]any)["global"] = map[string]any{"type": "object"}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(s)
	return b.Bytes(), err
}

// leaveToTemplates lets pass what YAML makes of an `off` without quotes, and numbers
// in place of percentages. A schema checker says "got boolean, want string" of them;
// templates/checks.yaml refuses them, and says what to write.
func leaveToTemplates(schema any) {
	switch s := schema.(type) {
	case []any:
		for _, each := range s {
			leaveToTemplates(each)
		}
	case map[string]any:
		for _, each := range s {
			leaveToTemplates(each)
		}
		if words, ok := s["enum"].([]any); ok && slices.Contains(words, any("off")) {
			s["enum"], s["type"] = append(words, true, false), []any{"string", "boolean"}
		}
		if pattern, ok := s["pattern"].(string); ok && strings.HasSuffix(pattern, "%$") {
			s["type"] = []any{"string", "number"}
		}
		if either, ok := s["oneOf"].([]any); ok { // a whole number would be both
			s["anyOf"] = either
			delete(s, "oneOf")
		}
	}
}

func readme(t *testing.T, values []*value) []byte {
	t.Helper()
	var b strings.Builder
	b.WriteString("| value | default | what it is |\n|---|---|---|\n")
	for _, v := range values {
		v.row(t, &b)
	}
	return []byte(strings.ReplaceAll(readmeText, "{{VALUES}}\n", b.String()))
}

func (v *value) row(t *testing.T, b *strings.Builder) {
	t.Helper()
	for _, c := range v.children {
		c.row(t, b)
	}
	if len(v.children) > 0 {
		return
	}
	var plain any
	if err := v.node.Decode(&plain); err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	text := "`" + strings.ReplaceAll(string(shown), "|", `\|`) + "`"
	if len(shown) > 60 {
		text = "see values.yaml"
	}
	if v.node.Kind == yaml.ScalarNode && v.node.Value == "" {
		text = "empty"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", v.key, text, strings.ReplaceAll(v.about, "|", `\|`))
}
