package alerts

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	clientprom "github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-io/holdfast/reconcilers/metrics"
	"github.com/holdfast-io/holdfast/reconcilers/notify"
)

// targetLabels are those that Prometheus, or its operator, gives to all series of a
// target, and Prometheus itself to alerts.
var targetLabels = []string{"job", "instance", "namespace", "pod", "container", "endpoint", "alertname"}

// seriesLabels are the labels of every series that the controller serves or the
// rules record, by name; nil where they follow from an expression.
func seriesLabels(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{"ALERTS_FOR_STATE": nil}
	for _, s := range metrics.Table() {
		out[s.Name] = append([]string{}, s.Labels...)
		if s.Type == "histogram" {
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				out[s.Name+end] = append(slices.Clone(s.Labels), "le")
			}
		}
	}
	n, err := notify.New(notify.Config{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *clientprom.Desc, 100)
	n.Describe(descs)
	close(descs)
	for d := range descs {
		m := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`).FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("no name and labels in %s", d)
		}
		out[m[1]] = strings.Split(m[2], ",")
	}
	for _, r := range rules(t, false) {
		if r.Record != "" {
			out[r.Record] = nil
		}
	}
	return out
}

var (
	// namedSeries is a series as expressions and documents name it, with the labels
	// that select or, in documents, list it.
	namedSeries = regexp.MustCompile(`((?:\b[a-z]+:)?\bholdfast_\w+(?::\w+)?|\bALERTS_FOR_STATE\b)(\{(?:[^{}"]|"[^"]*")*\})?`)
	selected    = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping    = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)`)
	inTemplate  = regexp.MustCompile(`\$labels\.(\w+)`)
	inLegend    = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	listed      = regexp.MustCompile(`label_values\((\w+)(?:\{[^}]*\})?, (\w+)\)`)
	word        = regexp.MustCompile(`\w+`)
	quoted      = regexp.MustCompile(`"[^"]*"|%q`)
)

// names finds what is wrong with the series and labels that a text names.
type names struct {
	series map[string][]string
	labels map[string]bool
}

func newNames(t *testing.T) *names {
	t.Helper()
	n := &names{series: seriesLabels(t), labels: map[string]bool{"le": true}}
	for _, labels := range n.series {
		for _, l := range labels {
			n.labels[l] = true
		}
	}
	for _, l := range targetLabels {
		n.labels[l] = true
	}
	// Those of series of client-go and controller-runtime.
	n.labels["method"] = true
	return n
}

// wrong tells each series that is not there, and each label that a series has not.
func (n *names) wrong(text string) (out []string) {
	for _, m := range namedSeries.FindAllStringSubmatch(text, -1) {
		labels, there := n.series[m[1]]
		if !there {
			out = append(out, "no series "+m[1])
			continue
		}
		inside := strings.Trim(quoted.ReplaceAllString(m[2], ""), "{}")
		found := selected.FindAllStringSubmatch(inside, -1)
		if found == nil {
			for _, w := range word.FindAllString(inside, -1) {
				found = append(found, []string{w, w})
			}
		}
		for _, l := range found {
			if labels == nil && n.labels[l[1]] || slices.Contains(labels, l[1]) || slices.Contains(targetLabels, l[1]) {
				continue
			}
			out = append(out, m[1]+" has no label "+l[1])
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(text, -1) {
		for _, l := range word.FindAllString(m[1], -1) {
			if !n.labels[l] {
				out = append(out, "no label "+l)
			}
		}
	}
	for _, m := range slices.Concat(inTemplate.FindAllStringSubmatch(text, -1), inLegend.FindAllStringSubmatch(text, -1)) {
		if !n.labels[m[1]] && m[1] != "else" && m[1] != "end" {
			out = append(out, "no label "+m[1])
		}
	}
	for _, m := range listed.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(n.series[m[1]], m[2]) && !slices.Contains(targetLabels, m[2]) {
			out = append(out, m[1]+" has no label "+m[2])
		}
	}
	return out
}

// TestNames: each series and label that rules, dashboards and documents name is
// one that the controller serves.
func TestNames(t *testing.T) {
	n := newNames(t)
	texts := map[string]string{}
	for _, r := range rules(t, false) {
		texts["rule "+r.Alert+r.Record] = strings.Join(slices.Concat([]string{r.Expr}, slices.Collect(maps.Values(r.Annotations))), "\n")
	}
	for file := range dashboards(t) {
		data, err := os.ReadFile(filepath.Join(dashboardsFolder, file))
		if err != nil {
			t.Fatal(err)
		}
		var whole any
		if err := json.Unmarshal(data, &whole); err != nil {
			t.Fatal(err)
		}
		texts[file] = strings.Join(leaves(whole), "\n")
	}
	maps.Copy(texts, documents(t))
	for name, text := range texts {
		for _, w := range n.wrong(text) {
			t.Errorf("%s: %s", name, w)
		}
	}
}

// leaves are all texts of a document of JSON.
func leaves(of any) (out []string) {
	switch of := of.(type) {
	case string:
		out = append(out, of)
	case []any:
		for _, v := range of {
			out = append(out, leaves(v)...)
		}
	case map[string]any:
		for _, v := range of {
			out = append(out, leaves(v)...)
		}
	}
	return out
}

// documents are README and everything in docs. Terraform's names there look like
// series.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	terraform := regexp.MustCompile("(?s)```hcl.*?```")
	read := func(path string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[path] = terraform.ReplaceAllString(string(data), "")
	}
	read("../../README.md")
	read("../../charts/holdfast/README.md")
	err := filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			read(path)
		}
		return err
	})
	if err != nil || len(out) < 20 {
		t.Fatalf("%d documents: %v", len(out), err)
	}
	return out
}

// TestNamesAreLookedAt: what is misspelled is found.
func TestNamesAreLookedAt(t *testing.T) {
	n := newNames(t)
	for _, text := range []string{
		"`holdfast_finding` is", "holdfast_leader{provider=\"aws\"} == 1", "sum without (instans) (holdfast_leader)", "{{ $labels.clustername }}",
		"{{severty}}", "label_values(holdfast_leader, provider)", "cluster:holdfast_findings:min", "holdfast_notifications_total{route,result}",
		"holdfast_sweep_duration_seconds_buckets", `max(holdfast_policy_valid{polcy=~"a|b{c"})`,
	} {
		if got := n.wrong(text); len(got) != 1 {
			t.Errorf("%s: %q, want one thing that is wrong", text, got)
		}
	}
	for _, text := range []string{
		`sum without (instance) (rate(holdfast_event_lag_seconds_bucket{le="+Inf",job=~"$job"}[5m]))`, "holdfast_notifications_total{route,outcome}",
		`ALERTS_FOR_STATE{alertname="HoldfastDaemonDown",job=%q}`, `cluster:holdfast_oldest_blocked_age:seconds{reason!~"Mode"}`,
	} {
		if got := n.wrong(text); len(got) != 0 {
			t.Errorf("%s: %q, want nothing", text, got)
		}
	}
}
