package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeyaml "sigs.k8s.io/yaml"
)

// inputs that every format of a program's is validated with.
func inputs() map[string]BuildInput {
	return map[string]BuildInput{
		"sample": sample(), "ignored": withIgnored(sample()), "compared": compared(), "showcase": showcase(),
		"in sync": {Now: at, Clusters: sample().Clusters[1:2]}, "empty": {Now: at},
	}
}

func parseSARIF(t *testing.T, in BuildInput) *sarif.Report {
	t.Helper()
	text := render(t, Build(in), FormatSARIF, Style{})
	validSARIF(t, text)
	// The library's own check reads defaults back in, so that it is not about
	// what was written.
	doc, err := sarif.FromBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// validSARIF checks against the schema that OASIS published, which the library
// holds as a text of its source.
func validSARIF(t *testing.T, text []byte) {
	t.Helper()
	log, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := sarifSchema(t).Validate(log); err != nil {
		t.Error(err)
	}
}

func sarifSchema(t *testing.T) *validator.Schema {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/owenrumney/go-sarif/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "pkg", "report", "v210", "sarif", "schema.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(source), "`")
	text, _, _ = strings.Cut(text, "`")
	doc, err := validator.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := validator.NewCompiler()
	if err := compiler.AddResource("sarif", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("sarif")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// A log holds what the scan says and no defaults, except for results: none is
// something else than not having looked.
func TestSARIFHoldsNoDefaults(t *testing.T) {
	var look func(t *testing.T, path string, value any)
	look = func(t *testing.T, path string, value any) {
		switch value := value.(type) {
		case nil:
			t.Errorf("%s is null", path)
		case string:
			if value == "" {
				t.Errorf("%s is empty", path)
			}
		case float64:
			if value == -1 {
				t.Errorf("%s is -1", path)
			}
		case []any:
			if len(value) == 0 && !strings.HasSuffix(path, "/results") && !strings.Contains(path, "/properties/") {
				t.Errorf("%s is empty", path)
			}
			for _, element := range value {
				look(t, path+"/*", element)
			}
		case map[string]any:
			if len(value) == 0 {
				t.Errorf("%s is empty", path)
			}
			for key, element := range value {
				look(t, path+"/"+key, element)
			}
		}
	}
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			text := render(t, Build(in), FormatSARIF, Style{})
			validSARIF(t, text)
			var log map[string]any
			if err := json.Unmarshal(text, &log); err != nil {
				t.Fatal(err)
			}
			look(t, "", log)
			if run := log["runs"].([]any)[0].(map[string]any); run["results"] == nil {
				t.Error("a scan that ran has no results at all")
			}
		})
	}
}

func TestSARIFIsValid(t *testing.T) {
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			doc := parseSARIF(t, in)
			if doc.Version != "2.1.0" || len(doc.Runs) != 1 {
				t.Fatalf("version %s, %d runs", doc.Version, len(doc.Runs))
			}
			run := doc.Runs[0]
			for _, result := range run.Results {
				if rule := run.Tool.Driver.Rules[result.RuleIndex]; *rule.ID != *result.RuleID {
					t.Errorf("rule %s has the index of %s", *result.RuleID, *rule.ID)
				}
				if result.PartialFingerprints[fingerprintName] == "" || len(result.Locations) != 1 || len(result.Locations[0].LogicalLocations) != 1 {
					t.Errorf("result %q lacks a fingerprint or a location", *result.Message.Text)
				}
				if (result.BaselineState != nil) != (in.Previous != nil) {
					t.Errorf("result %q has baseline %v", *result.Message.Text, result.BaselineState)
				}
			}
		})
	}
}

func TestSARIFSaysWhatAndWhere(t *testing.T) {
	run := parseSARIF(t, withIgnored(compared())).Runs[0]
	find := func(text string) *sarif.Result {
		i := slices.IndexFunc(run.Results, func(r *sarif.Result) bool { return strings.Contains(*r.Message.Text, text) })
		if i < 0 {
			t.Fatalf("no result says %q", text)
		}
		return run.Results[i]
	}
	group := find("sg-0a1b2c3d4e5f60718")
	if *group.RuleID != "open-to-the-world" || group.Level != "error" || *group.BaselineState != "unchanged" {
		t.Errorf("rule %s, level %s, baseline %s", *group.RuleID, group.Level, *group.BaselineState)
	}
	place := group.Locations[0].PhysicalLocation
	if *place.ArtifactLocation.URI != "clusters/eu-1.yaml" || *place.Region.StartLine != 14 {
		t.Errorf("placed at %s:%d", *place.ArtifactLocation.URI, *place.Region.StartLine)
	}
	if orphan := find("i-0aaaaaaaaaaaaaaaa"); orphan.Locations[0].PhysicalLocation != nil || orphan.Level != "warning" {
		t.Errorf("an orphan has level %s and a file: %v", orphan.Level, orphan.Locations[0].PhysicalLocation)
	}
	silent := find("backup")
	if len(silent.Suppressions) != 1 || !strings.Contains(*silent.Suppressions[0].Justification, "storage-team") {
		t.Errorf("an ignored result is suppressed by %v", silent.Suppressions)
	}
	if gone := find("i-cp-0"); *gone.BaselineState != "absent" {
		t.Errorf("a resolved result has baseline %s", *gone.BaselineState)
	}
	if *run.Invocations[0].ExecutionSuccessful || len(run.Invocations[0].ToolExecutionNotifications) != 5 {
		t.Errorf("a scan that could not compare everything tells %d notifications", len(run.Invocations[0].ToolExecutionNotifications))
	}
}

func TestSplitSource(t *testing.T) {
	cases := map[string]struct {
		file, uri string
		line      int
	}{
		"":                  {"", ".", 0},
		"a.yaml":            {"a.yaml", "a.yaml", 0},
		"a.yaml:12":         {"a.yaml", "a.yaml", 12},
		"a.yaml:12:3":       {"a.yaml", "a.yaml", 12},
		"/etc/a b#.yaml:1":  {"/etc/a b#.yaml", "file:///etc/a%20b%23.yaml", 1},
		"./x/../y?.yaml:9":  {"./x/../y?.yaml", "y%3F.yaml", 9},
		"javascript:a:1":    {"javascript:a", "./javascript:a", 1},
		"a.yaml:9999999999": {"a.yaml:9999999999", "./a.yaml:9999999999", 0},
	}
	for in, want := range cases {
		file, line := splitSource(in)
		if file != want.file || line != want.line || fileURI(file) != want.uri {
			t.Errorf("%q is %q line %d, %q", in, file, line, fileURI(file))
		}
	}
}

func parseJUnit(t *testing.T, in BuildInput) *junit.Testsuites {
	t.Helper()
	out := &junit.Testsuites{}
	if err := xml.Unmarshal(render(t, Build(in), FormatJUnit, Style{}), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestJUnitCountsAddUp(t *testing.T) {
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			doc := parseJUnit(t, in)
			var all junit.Testsuites
			ids := map[int]bool{}
			for _, suite := range doc.Suites {
				if ids[suite.ID] {
					t.Errorf("two suites have the id %d", suite.ID)
				}
				ids[suite.ID] = true
				var sum junit.Testsuite
				for _, tc := range suite.Testcases {
					if tc.Name == "" || tc.Classname == "" {
						t.Errorf("case %q of %q lacks a name", tc.Name, tc.Classname)
					}
					sum.AddTestcase(tc)
				}
				if sum.Tests != suite.Tests || sum.Failures != suite.Failures || sum.Errors != suite.Errors || sum.Skipped != suite.Skipped {
					t.Errorf("suite %s counts %d/%d/%d/%d, holds %d/%d/%d/%d", suite.Name,
						suite.Tests, suite.Failures, suite.Errors, suite.Skipped, sum.Tests, sum.Failures, sum.Errors, sum.Skipped)
				}
				all.AddSuite(suite)
			}
			if all.Tests != doc.Tests || all.Failures != doc.Failures || all.Errors != doc.Errors || all.Skipped != doc.Skipped {
				t.Errorf("the suites do not add up")
			}
		})
	}
}

func TestJUnitVerdicts(t *testing.T) {
	verdicts := map[string]string{}
	for _, suite := range parseJUnit(t, sample()).Suites {
		for _, tc := range suite.Testcases {
			switch {
			case tc.Failure != nil:
				verdicts[tc.Name] = "failure"
			case tc.Skipped != nil:
				verdicts[tc.Name] = "skipped"
			case tc.Error != nil:
				verdicts[tc.Name] = "error"
			default:
				verdicts[tc.Name] = "passed"
			}
		}
	}
	for name, want := range map[string]string{
		"AWSCluster prod/eu-1": "failure", "AWSMachine prod/eu-1-cp-0": "skipped", "AWSMachine prod/eu-1-cp-1": "failure",
		"AWSCluster prod/eu-2": "passed", "Belonging to no object": "failure", "VSphereMachine edge/plant-7-w-0": "skipped",
		"problem 1: clusters/staging.yaml:12": "error",
	} {
		if verdicts[name] != want {
			t.Errorf("%s is %q, want %q", name, verdicts[name], want)
		}
	}
	unread := sample()
	unread.Clusters[1].SnapshotTime = time.Time{}
	for _, tc := range parseJUnit(t, unread).Suites[2].Testcases {
		if tc.Skipped == nil {
			t.Errorf("%s passed, and its cloud was not read", tc.Name)
		}
	}
}

// crd finds the schema of a Report in the module that defines it.
func crd(t *testing.T) *validator.Schema {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openreports/reports-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "config", "crd", "openreports.io_reports.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema any `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := kubeyaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	compiler := validator.NewCompiler()
	if err := compiler.AddResource("crd", definition.Spec.Versions[0].Schema.OpenAPIV3Schema); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("crd")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestOpenReportsAreValid(t *testing.T) {
	schema := crd(t)
	all := inputs()
	all["hostile"] = hostileInput(payloads(payloadCount)...)
	for name, in := range all {
		t.Run(name, func(t *testing.T) {
			out := render(t, Build(in), FormatOpenReports, Style{})
			inert(t, FormatOpenReports, out)
			var documents [][]byte
			if len(out) > 0 {
				documents = bytes.Split(out, []byte("\n---\n"))
			}
			if len(documents) != len(in.Clusters) {
				t.Fatalf("%d documents for %d clusters", len(documents), len(in.Clusters))
			}
			for _, text := range documents {
				validOpenReport(t, schema, text)
			}
		})
	}
}

func validOpenReport(t *testing.T, schema *validator.Schema, text []byte) {
	t.Helper()
	var report v1alpha1.Report
	if err := kubeyaml.UnmarshalStrict(text, &report); err != nil {
		t.Fatal(err)
	}
	var doc any
	asJSON, err := kubeyaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(asJSON, &doc); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
	if report.APIVersion != "openreports.io/v1alpha1" || report.Kind != "Report" {
		t.Errorf("the object is a %s %s", report.APIVersion, report.Kind)
	}
	for _, name := range []string{report.Name, report.Namespace} {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Errorf("an API server refuses the name %q: %v", name, problems)
		}
	}
	var want v1alpha1.ReportSummary
	for _, result := range report.Results {
		count(&want, result.Result)
	}
	if diff := cmp.Diff(want, report.Summary); diff != "" {
		t.Error(diff)
	}
}

func TestObjectNamesStayApart(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"eu-1", "EU-1", "eu_1", "eu.1", "", "日本", "本日", strings.Repeat("a", 64), strings.Repeat("a", 65), "-", "--"} {
		got := ObjectName(name)
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q both become %q", name, other, got)
		}
		seen[got] = name
		if got != "" && len(validation.IsDNS1123Label(got)) > 0 {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}
