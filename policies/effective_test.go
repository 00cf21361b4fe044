package policies

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
)

// source makes a policy file whose name is the policy's.
func source(name, spec string) Source {
	return Source{Name: name + ".yaml", Data: []byte(strings.Replace(head, "name: p", "name: "+name, 1) + spec)}
}

func explained(t *testing.T, cluster detector.ClusterRef, labels map[string]string, prefix string, sources ...Source) []string {
	t.Helper()
	set, problems := LoadSources(Options{Catalog: testCatalog}, sources...)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, x := range set.For(cluster, labels).Explain() {
		if strings.HasPrefix(x.Name, prefix) {
			out = append(out, fmt.Sprintf("%s = %s (%s, %s:%d)", x.Name, x.Value, x.From.Level, x.From.File, x.From.Line))
		}
	}
	return out
}

// TestPrecedence: built-in < default < label-matched < cluster-named, for each
// kind of value in its own way.
func TestPrecedence(t *testing.T) {
	named := func(spec string) string {
		return "spec:\n  match: {clusters: [{namespace: prod, name: \"eu-*\"}]}\n" + spec
	}
	labelled := func(spec string) string {
		return "spec:\n  match: {clusterSelector: {matchLabels: {tier: prod}}}\n" + spec
	}
	dflt := func(spec string) string { return "spec:\n" + spec }
	tier := map[string]string{"tier": "prod"}
	tests := map[string]struct {
		sources []Source
		labels  map[string]string
		prefix  string
		want    []string
	}{
		"built-in mode": {prefix: "mode", want: []string{"mode = observe (built-in, builtin/any.yaml:7)"}},
		"mode of the named": {labels: tier, prefix: "mode",
			sources: []Source{source("c", named("  mode: dryRun\n")), source("b", labelled("  mode: enforce\n")), source("a", dflt("  mode: off\n"))},
			want:    []string{"mode = dryRun (cluster-named, c.yaml:6)"}},
		"mode of the labelled": {labels: tier, prefix: "mode",
			sources: []Source{source("c", named("  schedule: {jitter: 1m}\n")), source("b", labelled("  mode: enforce\n")), source("a", dflt("  mode: off\n"))},
			want:    []string{"mode = enforce (label-matched, b.yaml:6)"}},
		"mode of the default": {prefix: "mode",
			sources: []Source{source("b", labelled("  mode: enforce\n")), source("a", dflt("  mode: dryRun\n"))},
			want:    []string{"mode = dryRun (default, a.yaml:5)"}},
		"the safer mode within a level": {prefix: "mode",
			sources: []Source{source("a", dflt("  mode: enforce\n")), source("b", dflt("  mode: dryRun\n")), source("c", dflt("  mode: enforce\n"))},
			want:    []string{"mode = dryRun (default, b.yaml:5)"}},
		"excluded": {prefix: "mode",
			sources: []Source{source("a", "spec:\n  match: {exclude: [{name: eu-1}]}\n  mode: enforce\n")},
			want:    []string{"mode = observe (built-in, builtin/any.yaml:7)"}},
		"schedule by field, the zone with its cron": {labels: tier, prefix: "schedule",
			sources: []Source{source("a", dflt("  schedule: {cron: \"0 * * * *\", timeZone: Europe/Berlin}\n")), source("b", labelled("  schedule: {cron: \"0 1 * * *\"}\n")), source("c", named("  schedule: {jitter: 5m}\n"))},
			want: []string{
				"schedule.cron = 0 1 * * * (label-matched, b.yaml:6)",
				"schedule.timeZone = UTC (label-matched, b.yaml:6)",
				"schedule.jitter = 5m (cluster-named, c.yaml:6)",
				"schedule.staleAfter = 1h (built-in, builtin/any.yaml:8)",
			}},
		"rules by id and field": {labels: tier, prefix: "rules.aws-instance-type",
			sources: []Source{source("a", dflt("  rules: [{id: aws-instance-type, action: observe}]\n")), source("c", named("  rules: [{id: aws-instance-type, severity: low}]\n"))},
			want: []string{
				"rules.aws-instance-type.target = Drifted aws Instance (built-in, builtin/aws.yaml:26)",
				"rules.aws-instance-type.paths = /instanceType (built-in, builtin/aws.yaml:27)",
				"rules.aws-instance-type.severity = low (cluster-named, c.yaml:6)",
				"rules.aws-instance-type.action = observe (default, a.yaml:5)",
				"rules.aws-instance-type.grace = for 30m, 3 observations (built-in, builtin/aws.yaml:30)",
				"rules.aws-instance-type.attempts = 3 per 24h (built-in, builtin/aws.yaml:31)",
			}},
		"ignores append": {labels: tier, prefix: "ignore",
			sources: []Source{source("c", named("  ignore: [{paths: [/tags/c], reason: c}]\n")), source("a", dflt("  ignore: [{target: {kind: Instance}, paths: [/tags/a], reason: a, expiresAt: 2027-01-01}]\n"))},
			want: []string{
				"ignore[0] = /tags/a of Instance: a (until 2027-01-01) (default, a.yaml:5)",
				"ignore[1] = /tags/c: c (cluster-named, c.yaml:6)",
			}},
		"built-in budgets hold where no policy bounds": {prefix: "budgets",
			sources: []Source{source("a", dflt("  budgets: [{scope: pool, max: 2}, {scope: cluster, actions: [patch], max: 50%}]\n"))},
			want: []string{
				"budgets[0] = at most 10% in flight in the cluster (replace) (built-in, builtin/any.yaml:17)",
				"budgets[1] = at most 2 in flight in each pool (patch and replace) (default, a.yaml:5)",
				"budgets[2] = at most 50% in flight in the cluster (patch) (default, a.yaml:5)",
			}},
		"safety: a policy may loosen what is built in, the stricter of two policies holds": {labels: tier, prefix: "safety",
			sources: []Source{source("a", dflt("  safety: {maxDriftRatio: 50%, maxSnapshotAge: 20m, minHealthy: 2, controlPlane: enforce, maxUnhealthyZone: 90%}\n")),
				source("c", named("  safety: {maxDriftRatio: 60%, maxSnapshotAge: 15m, minHealthy: 10%}\n")), source("b", labelled("  safety: {controlPlane: observe}\n"))},
			want: []string{
				"safety.maxDriftRatio = 50% (default, a.yaml:5)",
				"safety.maxUnhealthyZone = 90% (default, a.yaml:5)",
				"safety.maxSnapshotAge = 15m (cluster-named, c.yaml:6)",
				"safety.minHealthy = 2 (default, a.yaml:5)",
				"safety.minHealthy = 10% (cluster-named, c.yaml:6)",
				"safety.controlPlane = observe (label-matched, b.yaml:6)",
			}},
		"windows": {prefix: "windows",
			sources: []Source{source("a", dflt("  windows: [{kind: deny, cron: \"0 8 * * mon-fri\", duration: 10h, timeZone: Europe/Berlin, actions: [replace]}]\n"))},
			want:    []string{`windows[0] = deny replace from "0 8 * * mon-fri" in Europe/Berlin for 10h (default, a.yaml:5)`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := explained(t, testCluster, tc.labels, tc.prefix, tc.sources...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			for i, j := 0, len(tc.sources)-1; i < j; i, j = i+1, j-1 {
				tc.sources[i], tc.sources[j] = tc.sources[j], tc.sources[i]
			}
			if diff := cmp.Diff(got, explained(t, testCluster, tc.labels, tc.prefix, tc.sources...)); diff != "" {
				t.Errorf("values depend on the order of files:\n%s", diff)
			}
		})
	}
}

// TestExplainIsComplete: every value says where it comes from.
func TestExplainIsComplete(t *testing.T) {
	for _, x := range Builtin().For(testCluster, nil).Explain() {
		if x.Value == "" || x.From.File == "" || x.From.Line == 0 || x.From.Policy == "" || x.From.Level == "" {
			t.Errorf("%+v", x)
		}
	}
}

// TestWhichRuleWins: the last that matches, and a more specific policy's after
// a less specific one's, also where it changes a rule of the latter.
func TestWhichRuleWins(t *testing.T) {
	named := "spec:\n  match: {clusters: [{name: eu-1}]}\n"
	tests := map[string]struct {
		sources []Source
		want    string
	}{
		"built-in":                     {nil, "aws-instance-type"},
		"any of a user's":              {[]Source{source("a", "spec: {rules: [{id: mine, target: {}, action: observe}]}\n")}, "mine"},
		"the later of one policy":      {[]Source{source("a", "spec: {rules: [{id: x, target: {kind: Instance}, action: observe}, {id: y, target: {kind: Instance}, paths: [/instanceType], action: observe}]}\n")}, "y"},
		"the named over the default":   {[]Source{source("a", named+"  rules: [{id: x, target: {kind: Instance}, action: observe}]\n"), source("b", "spec: {rules: [{id: y, target: {}, action: observe}]}\n")}, "x"},
		"the exact name over the star": {[]Source{source("a", named+"  rules: [{id: x, target: {}, action: observe}]\n"), source("b", strings.Replace(named, "eu-1", "\"eu-*\"", 1)+"  rules: [{id: y, target: {}, action: observe}]\n")}, "x"},
		"a changed rule moves up":      {[]Source{source("a", named+"  rules: [{id: aws-instance-type, severity: low}]\n"), source("b", "spec: {rules: [{id: y, target: {}, action: observe}]}\n")}, "aws-instance-type"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			set, problems := LoadSources(Options{Catalog: testCatalog}, tc.sources...)
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			d := Decide(makeInput(t, func(in *Input) { in.Policies = set }))[0]
			if d.Rule.ID != tc.want || d.Rule.Line == 0 || d.Rule.Policy == "" {
				t.Errorf("decided by %+v, want %s", d.Rule, tc.want)
			}
		})
	}
}
