package policytest

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/policies"
)

var update = flag.Bool("update", false, "write golden files")

// TestGolden runs the cases of package policies.
func TestGolden(t *testing.T) {
	results, err := Run("../testdata", policies.Options{}, *update)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) < 8 {
		t.Errorf("only %d cases", len(results))
	}
	for _, r := range results {
		if r.Err != nil || r.Failure != "" {
			t.Errorf("%s: %v\n%s", r.Name, r.Err, r.Failure)
		}
	}
}

const (
	policyText = "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: p}\nspec: {mode: enforce}\n"
	inputText  = `now: 2026-11-30T10:00:00Z
cluster: {namespace: prod, name: eu-1}
findings:
- owner: AWSMachine/a
  resource: aws/Instance/i-1
  diffs: [{path: /instanceType, want: a, have: b, mutability: InPlaceDisruptive}]
  firstSeen: 2026-11-30T09:00:00Z
  observations: 3
`
)

func writeCase(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, "case", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRun(t *testing.T) {
	tests := map[string]struct {
		files   map[string]string
		failure string // empty if the case passes
		err     string
	}{
		"only what is named is compared": {files: map[string]string{"policy.yaml": policyText, "input.yaml": inputText,
			"expected.yaml": "decisions: [{action: replace, blocked: []}]\n"}},
		"policies in a folder": {files: map[string]string{"policies/a.yaml": policyText, "input.yaml": inputText, "expected.yaml": "decisions: [{mode: enforce}]\n"}},
		"no policy":            {files: map[string]string{"input.yaml": inputText, "expected.yaml": "decisions: [{blocked: [Mode]}]\n"}},
		"another action":       {files: map[string]string{"input.yaml": inputText, "expected.yaml": "decisions: [{action: patch}]\n"}, failure: "i-1 action: want patch, got replace"},
		"blocked and not expected to be": {files: map[string]string{"input.yaml": inputText, "expected.yaml": "decisions: [{blocked: []}]\n"},
			failure: "i-1 blocked: want [], got [Mode]"},
		"several keys": {files: map[string]string{"policy.yaml": policyText, "input.yaml": inputText,
			"expected.yaml": "decisions: [{owner: AWSMachine/b, paths: [/a, /instanceType], mode: dryRun, ignored: me, blocked: [Window]}]\n"},
			failure: "i-1 owner: want AWSMachine/b, got AWSMachine/a\ni-1 paths: want [/a, /instanceType], got [/instanceType]\ni-1 mode: want dryRun, got enforce\ni-1 blocked: want [Window], got []\ni-1 ignored: want me, got nothing"},
		"two decisions of one resource": {files: map[string]string{"input.yaml": strings.Replace(inputText, "diffs: [", "diffs: [{path: /keyName, want: a, have: b}, ", 1),
			"expected.yaml": "decisions: [{severity: low}, {severity: high}]\n"}, failure: "i-1 /instanceType severity: want low, got high\ni-1 /keyName severity: want high, got medium"},
		"text that would break the line": {files: map[string]string{"input.yaml": strings.Replace(inputText, "aws/Instance/i-1", `"aws/Instance/i-\e[31m"`, 1), "expected.yaml": "decisions: [{reason: \"a\\nb\"}]\n"},
			failure: `"i-\x1b[31m" reason: want "a\nb", got rule aws-instance-type says replace`},
		"fewer decisions":     {files: map[string]string{"input.yaml": inputText, "expected.yaml": "decisions: []\n"}, failure: "i-1: want no such decision, got {owner: AWSMachine/a, resource: aws/Instance/i-1, paths: [/instanceType], action: replace, severity: high, mode: observe, rule: aws-instance-type, blocked: [Mode], reason: rule aws-instance-type says replace}"},
		"more decisions":      {files: map[string]string{"input.yaml": inputText, "expected.yaml": "decisions: [{action: replace}, {action: patch}]\n"}, failure: "decision 2: want {action: patch}, got none"},
		"no expected.yaml":    {files: map[string]string{"input.yaml": inputText}, err: "expected.yaml: no such file"},
		"bad policy":          {files: map[string]string{"policy.yaml": strings.Replace(policyText, "mode", "mod", 1), "input.yaml": inputText, "expected.yaml": ""}, err: `policy.yaml:4:8: unknown key "mod" in spec; did you mean "mode"?`},
		"unknown key":         {files: map[string]string{"input.yaml": inputText + "  foo: 1\n"}, err: "line 9: field foo not found"},
		"no time":             {files: map[string]string{"input.yaml": "cluster: {name: a}\n", "expected.yaml": ""}, err: "input.yaml: now is not set"},
		"no cluster":          {files: map[string]string{"input.yaml": "now: 2026-11-30T10:00:00Z\n", "expected.yaml": ""}, err: "cluster.name is not set"},
		"bad resource":        {files: map[string]string{"input.yaml": strings.Replace(inputText, "aws/Instance/i-1", "i-1", 1), "expected.yaml": ""}, err: `findings[0]: resource is "i-1": write provider/Kind/id`},
		"bad owner":           {files: map[string]string{"input.yaml": strings.Replace(inputText, "AWSMachine/a", "a", 1), "expected.yaml": ""}, err: `findings[0]: owner is "a": write Kind/name`},
		"owner of no finding": {files: map[string]string{"input.yaml": inputText + "owners: {AWSMachine/b: {paused: true}}\n", "expected.yaml": ""}, err: `no finding belongs to "AWSMachine/b"`},
		"bad mutability":      {files: map[string]string{"input.yaml": strings.Replace(inputText, "InPlaceDisruptive", "Never", 1), "expected.yaml": ""}, err: `findings[0]: diffs[0]: mutability is "Never"`},
		"bad status":          {files: map[string]string{"input.yaml": inputText + "  status: Gone\n", "expected.yaml": ""}, err: `findings[0]: status is "Gone"`},
		"bad value":           {files: map[string]string{"input.yaml": strings.Replace(inputText, "want: a", "want: {}", 1), "expected.yaml": ""}, err: "line 6: a value is text"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			results, err := Run(writeCase(t, tc.files), policies.Options{}, false)
			if err != nil || len(results) != 1 || results[0].Name != "case" {
				t.Fatalf("results %+v: %v", results, err)
			}
			r := results[0]
			if (r.Err != nil) != (tc.err != "") || tc.err != "" && !strings.Contains(r.Err.Error(), tc.err) {
				t.Errorf("error %v, want %q", r.Err, tc.err)
			}
			if r.Failure != tc.failure {
				t.Errorf("failure %q, want %q", r.Failure, tc.failure)
			}
		})
	}
}

func TestUpdateThenRun(t *testing.T) {
	dir := writeCase(t, map[string]string{"input.yaml": inputText})
	for _, update := range []bool{true, false} {
		results, err := Run(dir, policies.Options{}, update)
		if err != nil || results[0].Err != nil || results[0].Failure != "" {
			t.Fatalf("update %v: %v %+v", update, err, results)
		}
	}
}

func TestNoCases(t *testing.T) {
	if _, err := Run(t.TempDir(), policies.Options{}, false); err == nil || !strings.Contains(err.Error(), "has no test case") {
		t.Errorf("error %v", err)
	}
	if _, err := Run(filepath.Join(t.TempDir(), "none"), policies.Options{}, false); err == nil {
		t.Error("no error for a folder that is not there")
	}
}

func TestWriteJUnit(t *testing.T) {
	var buf bytes.Buffer
	err := WriteJUnit(&buf, []Result{{Name: "good"}, {Name: "bad", Failure: "-a\n+<b>"}, {Name: "broken", Err: os.ErrNotExist}})
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Suites []struct {
			TestsAttr    int `xml:"tests,attr"`
			FailuresAttr int `xml:"failures,attr"`
			ErrorsAttr   int `xml:"errors,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(buf.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if s := doc.Suites[0]; s.TestsAttr != 3 || s.FailuresAttr != 1 || s.ErrorsAttr != 1 {
		t.Errorf("suite %+v of\n%s", s, buf.String())
	}
}
