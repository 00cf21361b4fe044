package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

const goodPolicy = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: p}
spec:
  match: {clusterSelector: {matchLabels: {tier: prod}}}
  mode: dryRun
`

// runPolicy runs `holdfast policy ARGS` in a folder with the files.
func runPolicy(t *testing.T, files map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	cmd := newPolicyCommand()
	var out, errOut bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	var status *statusError
	switch {
	case errors.As(err, &status):
		code = status.code
		if status.err != nil {
			_, _ = errOut.WriteString(status.err.Error())
		}
	case err != nil:
		code = exitError
		_, _ = errOut.WriteString(err.Error())
	}
	return code, out.String(), errOut.String()
}

func TestPolicyCommand(t *testing.T) {
	bad := strings.Replace(goodPolicy, "mode:", "mod:", 1)
	caseInput := "now: 2026-11-30T10:00:00Z\ncluster: {namespace: a, name: b, labels: {tier: prod}}\nfindings:\n- {owner: AWSMachine/a, resource: aws/Instance/i-1, diffs: [{path: /keyName, want: a, have: b, mutability: Immutable}]}\n"
	tests := map[string]struct {
		files          map[string]string
		stdin          string
		args           []string
		code           int
		stdout, stderr string // regular expressions
	}{
		"lint good":           {files: map[string]string{"p.yaml": goodPolicy}, args: []string{"lint", "p.yaml"}, stdout: `^$`, stderr: `^The policies can be used\.\n$`},
		"lint bad":            {files: map[string]string{"p.yaml": bad}, args: []string{"lint", "."}, code: 4, stdout: `^p\.yaml:6:3: unknown key "mod" in spec; did you mean "mode"\?\n$`, stderr: `cannot be used: 1 error\.`},
		"lint warning":        {files: map[string]string{"p.yaml": goodPolicy + "  ignore: [{paths: [/tags/a], reason: x, expiresAt: 2020-01-01}]\n"}, args: []string{"lint", "p.yaml"}, stdout: `p\.yaml:7:53: warning: .* 2020-01-01`, stderr: `can be used \(1 warning\)\.`},
		"lint enforce":        {files: map[string]string{"p.yaml": strings.Replace(goodPolicy, "dryRun", "enforce", 1)}, args: []string{"lint", "p.yaml"}, stdout: `^$`, stderr: `^The policies can be used\.\n$`},
		"lint real paths":     {files: map[string]string{"p.yaml": goodPolicy + "  rules: [{id: a, target: {kind: Instance}, paths: [/instancType], action: observe}]\n"}, args: []string{"lint", "p.yaml"}, code: 4, stdout: `did you mean /instanceType\?`},
		"lint standard input": {stdin: bad, args: []string{"lint", "-"}, code: 4, stdout: `^<stdin>:6:3: `},
		"lint across files":   {files: map[string]string{"p.yaml": goodPolicy}, stdin: goodPolicy, args: []string{"lint", "-", "p.yaml"}, code: 4, stdout: `^p\.yaml:3:18: the name "p" is taken by the policy at <stdin>:3:18`},
		"lint no file":        {args: []string{"lint", "none.yaml"}, code: 4, stdout: `^none\.yaml: cannot be read: .*; check the path`},
		"lint nothing":        {args: []string{"lint"}, code: 2, stderr: `^no policy file or folder is given; usage: policy lint FILE\|FOLDER\.\.\. \[flags\]$`},
		"explain nothing":     {args: []string{"explain"}, code: 2, stderr: `^no cluster is given; usage: policy explain NAMESPACE/NAME \[flags\]$`},
		"explain two":         {args: []string{"explain", "a/b", "c/d"}, code: 2, stderr: `^one cluster at a time: "c/d" is too many; usage: policy explain `},
		"test no folder":      {args: []string{"test"}, code: 2, stderr: `^no folder of test cases is given; usage: policy test FOLDER \[flags\]$`},
		"misspelt command":    {args: []string{"lnit"}, code: 2, stderr: `^unknown command "lnit" for "policy"; did you mean lint\?$`},
		"unknown command":     {args: []string{"frobnicate"}, code: 2, stderr: `^unknown command "frobnicate" for "policy"; known are .*explain, lint, schema, test$`},
		"no command":          {stdout: `Available Commands:`},
		"lint bad format":     {args: []string{"lint", ".", "-o", "xml"}, code: 2, stderr: `known are text, json, sarif`},
		"lint json":           {files: map[string]string{"p.yaml": bad}, args: []string{"lint", "p.yaml", "-o", "json"}, code: 4, stdout: `"file": "p\.yaml",\s+"line": 6,\s+"column": 3,\s+"code": "UnknownKey"`},
		"lint sarif":          {files: map[string]string{"p.yaml": bad}, args: []string{"lint", "p.yaml", "-o", "sarif"}, code: 4, stdout: `"ruleId": "policy/UnknownKey"`},
		"explain":             {files: map[string]string{"p.yaml": goodPolicy}, args: []string{"explain", "a/b", "--policy", "p.yaml", "--labels", "tier=prod"}, stdout: `mode\s+p\.yaml:6:9\s+dryRun\n`},
		"explain not applied": {files: map[string]string{"p.yaml": goodPolicy}, args: []string{"explain", "a/b", "--policy", "p.yaml"}, stdout: `Not for this cluster:\n  p\s+p\.yaml:1:1\s+spec\.match\.clusterSelector selects clusters with the labels tier=prod\n`},
		"explain in JSON":     {files: map[string]string{"p.yaml": goodPolicy}, args: []string{"explain", "a/b", "--policy", "p.yaml", "-o", "json"}, stdout: `"notApplied": \[\s+\{\s+"policy": "p"`},
		"explain unmatched":   {files: map[string]string{"p.yaml": goodPolicy}, args: []string{"explain", "a/b", "--policy", "p.yaml"}, stdout: `mode\s+builtin/any\.yaml:\d+:9\s+observe\n`},
		"explain json":        {files: map[string]string{"p.yaml": goodPolicy}, args: []string{"explain", "a/b", "--policy", "p.yaml", "--labels", "tier=prod", "-o", "json"}, stdout: `"name": "mode",\s+"value": "dryRun",\s+"from": \{\s+"policy": "p",\s+"level": "label-matched",\s+"file": "p\.yaml",\s+"line": 6`},
		"explain no slash":    {args: []string{"explain", "b"}, code: 2, stderr: `cluster "b": write NAMESPACE/NAME`},
		"explain bad policy":  {files: map[string]string{"p.yaml": bad}, args: []string{"explain", "a/b", "--policy", "p.yaml"}, code: 4, stderr: `p\.yaml:6:3`},
		"explain hostile":     {files: map[string]string{"p.yaml": goodPolicy + "  ignore: [{paths: [/tags/a], reason: \"\\e[31mred\\nline\"}]\n"}, args: []string{"explain", "a/b", "--policy", "p.yaml", "--labels", "tier=prod"}, stdout: `/tags/a:  \[31mred line\n`},
		"test passes":         {files: map[string]string{"c/input.yaml": caseInput, "c/policy.yaml": goodPolicy, "c/expected.yaml": "decisions: [{action: observe, mode: dryRun}]\n"}, args: []string{"test", "."}, stdout: `^ok    c\n$`, stderr: `^1 case, 0 failed\.`},
		"test fails":          {files: map[string]string{"c/input.yaml": caseInput, "c/expected.yaml": "decisions: [{action: patch}]\n"}, args: []string{"test", "."}, code: 1, stdout: `^FAIL  c\n      i-1 action: want patch, got observe\n$`, stderr: `1 failed`},
		"test broken":         {files: map[string]string{"c/input.yaml": "a: b\n"}, args: []string{"test", "."}, code: 2, stdout: `^ERROR c`},
		"test bad policy":     {files: map[string]string{"c/input.yaml": caseInput, "c/policy.yaml": bad, "c/expected.yaml": ""}, args: []string{"test", "."}, code: 4, stdout: `policy\.yaml:6:3`},
		"test nothing":        {args: []string{"test", "."}, code: 2, stderr: `has no test case`},
		"schema":              {args: []string{"schema"}, stdout: `"\$schema": "https://json-schema\.org/draft/2020-12/schema"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runPolicy(t, tc.files, tc.stdin, tc.args...)
			if code != tc.code {
				t.Errorf("exit status %d, want %d", code, tc.code)
			}
			if !regexp.MustCompile(tc.stdout).MatchString(stdout) {
				t.Errorf("stdout does not match %s:\n%s", tc.stdout, stdout)
			}
			if !regexp.MustCompile(tc.stderr).MatchString(stderr) {
				t.Errorf("stderr does not match %s:\n%s", tc.stderr, stderr)
			}
			if strings.Contains(name, "json") && !json.Valid([]byte(stdout)) {
				t.Errorf("no JSON:\n%s", stdout)
			}
		})
	}
}

func TestPolicyTestWritesJUnit(t *testing.T) {
	files := map[string]string{"c/input.yaml": "now: 2026-11-30T10:00:00Z\ncluster: {name: b}\n", "c/expected.yaml": "decisions: []\n"}
	if code, stdout, stderr := runPolicy(t, files, "", "test", ".", "--junit", "out.xml"); code != exitOK {
		t.Fatalf("exit status %d: %s%s", code, stdout, stderr)
	}
	data, err := os.ReadFile("out.xml")
	if err != nil || !strings.Contains(string(data), `<testcase name="c" classname="policy"`) {
		t.Errorf("junit: %v\n%s", err, data)
	}
}

// TestBuiltinPoliciesFitCatalogs: the built-in policies name only fields that
// the providers compare, and every field of a cloud has a built-in rule of its
// own, so that nothing falls through to the rule for what is not foreseen.
func TestBuiltinPoliciesFitCatalogs(t *testing.T) {
	for _, p := range policies.CheckBuiltin(policyOptions()) {
		t.Error(p)
	}
	var findings []detector.Finding
	for provider, rows := range catalogs() {
		for _, row := range rows {
			findings = append(findings, detector.Finding{Status: detector.Drifted,
				Resource: detector.ResourceRef{Provider: provider, Kind: row.Kind},
				Diffs: []detector.Diff{{Path: row.Path, Type: detector.Changed, Mutability: row.Mutability,
					Want: providers.String("a"), Have: providers.String("b")}}})
		}
	}
	for _, d := range policies.Decide(policies.Input{Findings: findings}) {
		f := d.Finding
		if strings.HasPrefix(d.Rule.ID, "any-") {
			t.Errorf("%s %s %s is decided by %s", f.Resource.Provider, f.Resource.Kind, f.Diffs[0].Path, d.Rule.ID)
		}
	}
}

// TestExamplePoliciesFitCatalogs loads the examples as a user would.
func TestExamplePoliciesFitCatalogs(t *testing.T) {
	_, problems := policies.Load(policyOptions(), "../../examples/policies")
	for _, p := range problems.Errors() {
		t.Error(p)
	}
}

// TestPlatformStopLosesInstanceStore: stopping an instance takes what is on its
// instance stores, which no API tells of. So no built-in rule repairs in place
// what would need a stop.
func TestPlatformStopLosesInstanceStore(t *testing.T) {
	var findings []detector.Finding
	for provider, rows := range catalogs() {
		for _, row := range rows {
			if row.Mutability != providers.InPlaceDisruptive {
				continue
			}
			findings = append(findings, detector.Finding{Status: detector.Drifted,
				Resource: detector.ResourceRef{Provider: provider, Kind: row.Kind},
				Diffs: []detector.Diff{{Path: row.Path, Type: detector.Changed, Mutability: row.Mutability,
					Want: providers.String("a"), Have: providers.String("b")}}})
		}
	}
	if len(findings) < 5 {
		t.Fatalf("only %d fields need a stop", len(findings))
	}
	for _, d := range policies.Decide(policies.Input{Findings: findings}) {
		if d.Action == policies.Patch {
			f := d.Finding
			t.Errorf("%s %s %s is patched in place by %s, which stops the machine", f.Resource.Provider, f.Resource.Kind, f.Diffs[0].Path, d.Rule.ID)
		}
	}
}

// TestIgnoringACloudStillSaysThatItWasNotRead: an entry for a whole provider
// accepts its drift, not that it could not be read.
func TestIgnoringACloudStillSaysThatItWasNotRead(t *testing.T) {
	const entry = "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: a}\nspec:\n  ignore:\n  - {reason: test, target: {provider: aws%s}}\n"
	tests := map[string]struct {
		statuses string
		code     int
		stderr   string
	}{
		"not named": {code: 3},
		"named":     {statuses: ", statuses: [NotChecked, Unknown]", code: 0, stderr: "this entry hides what is NotChecked"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newAWSWorld(t)
			c := w.sim.Credentials()[0]
			c.Deny = []string{"ec2:DescribeSecurityGroups"}
			w.sim.AddCredential(c)
			o := w.report(t, "--timeout", "60s", "--policy", write(t, "policy.yaml", fmt.Sprintf(entry, tc.statuses)))
			if o.code != tc.code || !strings.Contains(o.stderr, tc.stderr) {
				t.Errorf("exit %d, want %d\n%s", o.code, tc.code, o.stderr)
			}
		})
	}
}
