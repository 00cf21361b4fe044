package alerts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/reconcilers/metrics"
)

// Where things are, from this folder.
const (
	rulesFolder = "../../charts/holdfast/rules"
	casesFolder = "testdata/rules"
	pagesFolder = "../../docs/runbooks"
	overview    = "../../docs/alerts.md"
	pageURL     = "https://github.com/holdfast-io/holdfast/blob/main/docs/runbooks/"
)

// prometheusVariable names the folder with prometheus and promtool.
const prometheusVariable = "HOLDFAST_PROMETHEUS"

func tool(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv(prometheusVariable)
	if dir == "" {
		t.Fatalf("%s is not set: run the tests by hack/test.sh, or set it to the output of hack/prometheus/install.sh", prometheusVariable)
	}
	return filepath.Join(dir, name)
}

// ruleFile is a file of rules as Prometheus knows it.
type ruleFile struct {
	Groups []*ruleGroup `json:"groups"`
}

type ruleGroup struct {
	Name  string  `json:"name"`
	Rules []*rule `json:"rules"`
}

type rule struct {
	Record      string            `json:"record,omitempty"`
	Alert       string            `json:"alert,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ruleFiles are the chart's, by path.
func ruleFiles(t *testing.T) map[string]*ruleFile {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(rulesFolder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no rules in %s: %v", rulesFolder, err)
	}
	out := map[string]*ruleFile{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := &ruleFile{}
		if err := yaml.UnmarshalStrict(data, f); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out[path] = f
	}
	return out
}

// rules are those of all files; alerts alone, or all.
func rules(t *testing.T, alerts bool) (out []*rule) {
	t.Helper()
	for _, f := range ruleFiles(t) {
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				if !alerts || r.Alert != "" {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// threshold is the number at the end of an expression, as the chart's template
// finds it.
var threshold = regexp.MustCompile(`([<>]=?) *[0-9.]+$`)

// TestAlertsAreWhole: each alert says what a person on call needs, and what the
// documents say of it is so.
func TestAlertsAreWhole(t *testing.T) {
	table, err := os.ReadFile(overview)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(table)) {
		if cells := strings.Split(line, "|"); len(cells) > 5 && strings.Contains(cells[1], "Holdfast") {
			name, _, _ := strings.Cut(strings.TrimLeft(cells[1], " ["), "]")
			rows[name] = fmt.Sprint(strings.TrimSpace(cells[3]), ", ", strings.TrimSpace(cells[4]), ", ", strings.TrimSpace(cells[5]))
		}
	}
	severities := []string{"critical", "warning", "info"}
	for _, r := range rules(t, true) {
		a := r.Annotations
		if a["summary"] == "" || a["description"] == "" || a["runbook_url"] != pageURL+r.Alert+".md" || r.For == "" || !slices.Contains(severities, r.Labels["severity"]) {
			t.Errorf("%s is not whole: %+v", r.Alert, r)
		}
		if strings.Contains(r.Expr, "cluster") && !strings.Contains(a["description"], "$labels.cluster_namespace }}/{{ $labels.cluster_name") {
			t.Errorf("%s does not say which cluster: %s", r.Alert, a["description"])
		}
		number := "–"
		if m := threshold.FindString(r.Expr); m != "" {
			number = "`" + m + "`"
		}
		want := fmt.Sprint(r.Labels["severity"], ", ", r.For, ", ", number)
		if rows[r.Alert] != want {
			t.Errorf("%s has in %s %q, want %q", r.Alert, overview, rows[r.Alert], want)
		}
		delete(rows, r.Alert)
	}
	for name := range rows {
		t.Errorf("%s has %s, and there is no such alert", overview, name)
	}
}

// TestRunbooks: each alert has its page, which says what it means, how to look
// and what to do; and each page its alert.
func TestRunbooks(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(pagesFolder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, p := range pages {
		left[strings.TrimSuffix(filepath.Base(p), ".md")] = true
	}
	for _, r := range rules(t, true) {
		page, err := os.ReadFile(filepath.Join(pagesFolder, r.Alert+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		delete(left, r.Alert)
		text := "\n" + string(page)
		for _, part := range []string{"\n# " + r.Alert + "\n", "\n## What it means\n", "\n## How to look\n", "\n## What to do\n"} {
			if !strings.Contains(text, part) {
				t.Errorf("the page of %s has no %q", r.Alert, part)
			}
		}
	}
	for name := range left {
		t.Errorf("%s/%s.md is about no alert", pagesFolder, name)
	}
}

var seriesName = regexp.MustCompile(`\bholdfast_[a-z_]+\b`)

// served reports whether the controller serves a series of this name.
func served(name string) bool {
	for _, s := range metrics.Table() {
		if s.Name == name || s.Type == "histogram" && (name == s.Name+"_bucket" || name == s.Name+"_sum" || name == s.Name+"_count") {
			return true
		}
	}
	return false
}

// TestRulesNameSeries: an expression on a series that nobody serves is silent for
// ever.
func TestRulesNameSeries(t *testing.T) {
	recorded := map[string]bool{}
	for _, r := range rules(t, false) {
		recorded[r.Record] = true
	}
	record := regexp.MustCompile(`\b[a-z]+:holdfast_[a-z_]+:[a-z0-9_]+`)
	for _, r := range rules(t, false) {
		expr := record.ReplaceAllStringFunc(r.Expr, func(name string) string {
			if !recorded[name] {
				t.Errorf("%s%s asks for %s, which nothing records", r.Alert, r.Record, name)
			}
			return ""
		})
		for _, name := range seriesName.FindAllString(expr, -1) {
			if !served(name) {
				t.Errorf("%s%s asks for %s, which is not served", r.Alert, r.Record, name)
			}
		}
	}
}

// TestRules has promtool play series to each alert: it fires, with its labels and
// texts, and just below it does not.
func TestRules(t *testing.T) {
	promtool := tool(t, "promtool")
	for path := range ruleFiles(t) {
		if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
	for _, r := range rules(t, true) {
		t.Run(r.Alert, func(t *testing.T) {
			path := filepath.Join(casesFolder, r.Alert+".yaml")
			fires, silent := cases(t, path, r.Alert)
			if fires == 0 || silent == 0 {
				t.Errorf("%s has the alert fire %d times and not fire %d times, want each", path, fires, silent)
			}
			out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", path).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// cases counts what a file of promtool expects of an alert.
func cases(t *testing.T, path, alert string) (fires, silent int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Tests []struct {
			Checks []struct {
				Alert  string `json:"alertname"`
				Expect []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal(data, &f); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, test := range f.Tests {
		for _, c := range test.Checks {
			switch {
			case c.Alert != alert:
			case len(c.Expect) > 0:
				fires++
			default:
				silent++
			}
		}
	}
	return fires, silent
}
