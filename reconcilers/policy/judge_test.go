package policy

import (
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/policies"
)

func doc(name, spec string) []byte {
	return []byte("apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: " + name + "}\nspec: " + spec + "\n")
}

func src(file string, data []byte) policies.Source { return policies.Source{Name: file, Data: data} }

// TestSettle: which version of each source comes into effect.
func TestSettle(t *testing.T) {
	good, bad := doc("a", "{mode: observe}"), doc("a", "{mod: observe}")
	base := doc("a", "{rules: [{id: r, target: {kind: Instance}, action: observe}]}")
	dependent := doc("b", "{match: {clusters: [{name: c}]}, rules: [{id: r, severity: low}]}")
	cases := map[string]struct {
		reason     string
		candidates []candidate
		effect     map[string]string // by source: new, good or none
	}{
		"all good":           {"", []candidate{{Source: src("a", good)}, {Source: src("b", doc("b", "{}"))}}, map[string]string{"a": "new", "b": "new"}},
		"bad, and never was": {"others still load", []candidate{{Source: src("a", bad)}, {Source: src("b", doc("b", "{}"))}}, map[string]string{"a": "none", "b": "new"}},
		"bad, once good":     {"the last good stays", []candidate{{Source: src("a", bad), good: good}}, map[string]string{"a": "good"}},
		"bad base": {"what depends on it is not to blame", []candidate{{Source: src("a", bad), good: base}, {Source: src("b", dependent), good: dependent}},
			map[string]string{"a": "good", "b": "new"}},
		"base taken away": {"then its dependent stands alone and cannot", []candidate{{Source: src("a", good), good: base}, {Source: src("b", dependent), good: dependent}},
			map[string]string{"a": "new", "b": "none"}},
		"name taken by a newcomer": {"who was there first keeps it", []candidate{{Source: src("0", doc("a", "{mode: enforce}"))}, {Source: src("a", good), good: good}},
			map[string]string{"0": "none", "a": "new"}},
		"unreadable": {"a mount that went away takes nothing with it", []candidate{{Source: policies.Source{Name: "a"}, good: good, unreadable: "gone"}}, map[string]string{"a": "good"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set, results := settle(policies.Options{}, c.candidates)
			if set == nil {
				t.Fatal("no set")
			}
			for _, r := range results {
				got := "none"
				switch {
				case r.inEffect && r.valid():
					got = "new"
				case r.inEffect:
					got = "good"
				}
				if got != c.effect[r.Name] {
					t.Errorf("%s: %s is in effect, want %s (%s): %v", r.Name, got, c.effect[r.Name], c.reason, r.problems)
				}
			}
		})
	}
}

// TestFieldPaths: what is wrong with an object is told by field, not by line.
func TestFieldPaths(t *testing.T) {
	data := doc("a", "{rules: [{id: r, target: {kind: Instance}, action: observe, when: 'have.x ==='}], windows: [{kind: deny, cron: 61 * * * *, duration: 1h}]}")
	_, results := settle(policies.Options{}, []candidate{{Source: src(objectPrefix+"a", data)}})
	got := strings.Join(sentences(&results[0]), "\n")
	for _, want := range []string{"spec.rules[0].when: ", "spec.windows[0].cron: "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "DriftPolicy/a") {
		t.Errorf("lines are told of an object:\n%s", got)
	}
}
