package policies

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

const docsFile = "../docs/policy.md"

// TestDocsAreFresh: the generated parts of the reference are what the gates,
// the schema and the built-in policies make.
func TestDocsAreFresh(t *testing.T) {
	data, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := string(data)
	for name, text := range map[string]string{"gates": gatesTable(), "fields": fieldsTables(t), "rules": rulesTable()} {
		begin, end := "<!-- begin generated: "+name+" -->\n", "<!-- end generated: "+name+" -->"
		before, rest, found := strings.Cut(want, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("no place for the generated %s", name)
		}
		want = before + begin + text + end + after
	}
	if *update {
		if err := os.WriteFile(docsFile, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(string(data), want); diff != "" {
		t.Errorf("run go test ./policies -update (-committed +generated):\n%s", diff)
	}
}

func gatesTable() string {
	var b strings.Builder
	fmt.Fprint(&b, "| gate | closed when |\n|---|---|\n")
	for _, g := range gates {
		fmt.Fprintf(&b, "| `%s` | %s |\n", g.name, g.doc)
	}
	return b.String()
}

func rulesTable() string {
	var b strings.Builder
	fmt.Fprint(&b, "| rule | about | when | action | severity |\n|---|---|---|---|---|\n")
	for _, p := range builtinPolicies() {
		for _, r := range p.rules {
			about := strings.TrimPrefix(describeTarget(r.Target), " of ")
			for _, path := range r.Paths {
				about += " `" + path + "`"
			}
			when := ""
			if r.When != "" {
				when = "`" + strings.ReplaceAll(r.When, "|", "\\|") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.ID, about, when, r.Action, r.Severity)
		}
	}
	return b.String()
}

type schemaNode struct {
	Ref         string       `json:"$ref"`
	Type        string       `json:"type"`
	Description string       `json:"description"`
	Enum        []string     `json:"enum"`
	OneOf       []schemaNode `json:"oneOf"`
	Pattern     string       `json:"pattern"`
	Const       string       `json:"const"`
	Items       *schemaNode  `json:"items"`
	// Properties are read one by one: some are true instead of a schema.
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

// fieldsTables writes one table for each type, in the order in which a reader
// of the document meets them.
func fieldsTables(t *testing.T) string {
	t.Helper()
	var doc struct {
		Defs map[string]schemaNode `json:"$defs"`
	}
	if err := json.Unmarshal(generateSchema(t), &doc); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	queue, seen := []string{"DriftPolicySpec"}, map[string]bool{}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if seen[name] || strings.HasPrefix(name, "LabelSelector") {
			continue
		}
		seen[name] = true
		def := doc.Defs[name]
		fmt.Fprintf(&b, "### %s\n\n%s\n\n| key | type | |\n|---|---|---|\n", cmp.Or(map[string]string{"DriftPolicySpec": "spec"}[name], name), def.Description)
		for _, key := range propertyOrder(t, name) {
			var p schemaNode
			if err := json.Unmarshal(def.Properties[key], &p); err != nil {
				t.Fatal(err)
			}
			text, next := typeText(p)
			if next != "" {
				queue = append(queue, next)
			}
			required := ""
			if slices.Contains(def.Required, key) {
				required = "**Required.** "
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s%s |\n", key, text, required, strings.ReplaceAll(p.Description, "|", "\\|"))
		}
		fmt.Fprintln(&b)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// propertyOrder reads the order of a type's properties off the schema's text,
// in which it is that of the Go type.
func propertyOrder(t *testing.T, def string) []string {
	t.Helper()
	text := string(generateSchema(t))
	_, text, _ = strings.Cut(text, "\n    \""+def+"\": {\n      \"properties\": {\n")
	text, _, _ = strings.Cut(text, "\n      },\n")
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^        "(\w+)": `).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func typeText(n schemaNode) (text, next string) {
	switch {
	case strings.HasSuffix(n.Ref, "/LabelSelector"):
		return "[label selector](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/)", ""
	case n.Ref != "":
		next = n.Ref[strings.LastIndex(n.Ref, "/")+1:]
		return fmt.Sprintf("[%s](#%s)", next, strings.ToLower(next)), next
	case n.Items != nil:
		text, next = typeText(*n.Items)
		return "list of " + text, next
	case len(n.Enum) > 0:
		return "`" + strings.Join(n.Enum, "` \\| `") + "`", ""
	case len(n.OneOf) > 0:
		return "number or percentage", ""
	case n.Pattern == percentPattern:
		return "percentage", ""
	case strings.Contains(n.Pattern, "ms|"):
		return "duration", ""
	default:
		return cmp.Or(map[string]string{"string": "text", "integer": "number"}[n.Type], n.Type), ""
	}
}

// TestDocsLoad loads the whole policies that the reference and the examples
// show.
func TestDocsLoad(t *testing.T) {
	data, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(data), -1) {
		if !strings.Contains(block[1], "kind: DriftPolicy") {
			continue
		}
		found++
		_, problems := LoadSources(Options{Now: testNow}, Source{Name: "policy.md", Data: []byte(block[1])})
		if len(problems) > 0 {
			t.Error(problems)
		}
	}
	if found == 0 {
		t.Error("no policy in the reference")
	}
	set, problems := Load(Options{Now: testNow}, "../examples/policies")
	if len(problems) > 0 || set == nil {
		t.Fatalf("examples: %v", problems)
	}
	if e := set.For(detectorRef("prod", "eu-1"), nil); e.Mode != ModeEnforce {
		t.Errorf("mode of prod/eu-1 is %s", e.Mode)
	}
	if e := set.For(detectorRef("dev", "x"), map[string]string{"tier": "staging"}); e.Mode != ModeEnforce {
		t.Errorf("mode of staging is %s", e.Mode)
	}
	if e := set.For(detectorRef("dev", "x-demo"), map[string]string{"tier": "staging"}); e.Mode != ModeDryRun {
		t.Errorf("mode of an excluded cluster is %s", e.Mode)
	}
	s := compiledSchema(t)
	for _, name := range []string{"default", "staging", "prod-eu-1"} {
		data, err := os.ReadFile("../examples/policies/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, string(data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
