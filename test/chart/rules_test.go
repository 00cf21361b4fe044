package chart

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// groups are those of a file of rules as Prometheus reads it.
type groups []struct {
	Name  string
	Rules []map[string]any
}

func (g groups) alert(t *testing.T, name string) map[string]any {
	t.Helper()
	for _, group := range g {
		for _, rule := range group.Rules {
			if rule["alert"] == name {
				return rule
			}
		}
	}
	return nil
}

func plainRules(t *testing.T) groups {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "rules", "holdfast.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups groups }
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups
}

func renderedRules(t *testing.T, h *helm, values string) groups {
	t.Helper()
	out, err := h.template(t, "-f", valuesFile(t, values), "-s", "templates/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := objects(t, out)
	if len(found) != 1 || found[0].GetKind() != "PrometheusRule" {
		t.Fatalf("rendered %d objects", len(found))
	}
	return rulesOf(t, found[0])
}

func rulesOf(t *testing.T, u *unstructured.Unstructured) groups {
	t.Helper()
	data, err := yaml.Marshal(u.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var spec struct{ Groups groups }
	if err := yaml.UnmarshalStrict(data, &spec); err != nil {
		t.Fatalf("a PrometheusRule has groups alone: %v", err)
	}
	return spec.Groups
}

// TestPrometheusRule: it has the rules of the file, and the values change what
// they name and nothing else.
func TestPrometheusRule(t *testing.T) {
	for major, h := range helms(t) {
		if d := cmp.Diff(plainRules(t), renderedRules(t, h, "prometheusRule: {enabled: true}\n")); d != "" {
			t.Errorf("Helm %s (-file +rendered):\n%s", major, d)
		}
		want := plainRules(t)
		critical := want.alert(t, "HoldfastCriticalDrift")
		critical["for"] = "5m"
		for _, group := range want {
			for _, rule := range group.Rules {
				if labels, is := rule["labels"].(map[string]any); is && rule["alert"] != nil {
					labels["team"] = "platform"
				}
			}
		}
		labels, _ := critical["labels"].(map[string]any)
		labels["severity"], labels["team"], labels["tier"] = "page", "security", "1"
		for i, group := range want {
			for j, rule := range group.Rules {
				if rule["alert"] == "HoldfastBreakerOpen" {
					want[i].Rules = append(group.Rules[:j:j], group.Rules[j+1:]...)
					break
				}
			}
		}
		got := renderedRules(t, h, `prometheusRule:
  enabled: true
  alertLabels: {team: platform}
  alerts:
    HoldfastCriticalDrift: {for: 5m, severity: page, labels: {team: security, tier: "1"}}
    HoldfastPersistentDrift: {threshold: 3600}
    HoldfastBreakerOpen: {enabled: false}
`)
		persistent := want.alert(t, "HoldfastPersistentDrift")
		changed, _ := got.alert(t, "HoldfastPersistentDrift")["expr"].(string)
		if old, _ := persistent["expr"].(string); changed == old || len(changed) < 8 || changed[len(changed)-6:] != "> 3600" {
			t.Errorf("Helm %s: a threshold of 3600: %s", major, changed)
		}
		persistent["expr"] = changed
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("Helm %s, changed (-want +rendered):\n%s", major, d)
		}
	}
}

// TestDashboards: each is in a ConfigMap as it is in its file, found by its label.
func TestDashboards(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(folder, "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for major, h := range helms(t) {
		out, err := h.template(t, "--set", "dashboards.enabled=true", "-s", "templates/dashboards.yaml")
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, u := range objects(t, out) {
			m := into[corev1.ConfigMap](t, u)
			if m.Labels["grafana_dashboard"] != "1" {
				t.Errorf("Helm %s: %s has the labels %v", major, m.Name, m.Labels)
			}
			for name, text := range m.Data {
				found[name] = text
			}
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var want, have any
			if err := yaml.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(found[filepath.Base(f)]), &have); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, have); d != "" {
				t.Errorf("Helm %s: %s (-file +rendered):\n%s", major, f, d)
			}
		}
		if len(found) != len(files) {
			t.Errorf("Helm %s: %d dashboards of %d", major, len(found), len(files))
		}
	}
}
