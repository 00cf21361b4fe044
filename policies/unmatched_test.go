package policies

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
)

// TestUnmatched: a policy that is for no cluster is told with what was likely meant.
func TestUnmatched(t *testing.T) {
	clusters := map[detector.ClusterRef]map[string]string{
		{Namespace: "prod", Name: "prod-eu"}: {"tier": "prod"}, {Namespace: "test", Name: "lab"}: {"tier": "test"}}
	for name, tc := range map[string]struct{ match, want string }{
		"a default":                   {"", ""},
		"one that is there":           {"{clusters: [{namespace: prod, name: prod-eu}, {name: x}]}", ""},
		"a star":                      {`{clusters: [{name: "*"}]}`, ""},
		"misspelt":                    {"{clusters: [{namespace: prod, name: prod-ue}]}", "spec.match.clusters names prod/prod-ue; did you mean prod/prod-eu?"},
		"misspelt, in any namespace":  {"{clusters: [{name: lba}]}", "spec.match.clusters names */lba; did you mean test/lab?"},
		"in another namespace":        {"{clusters: [{namespace: default, name: lab}]}", "spec.match.clusters names default/lab; did you mean test/lab?"},
		"nothing like it":             {`{clusters: [{namespace: stage, name: "us-*"}, {name: quite-another}]}`, "spec.match.clusters names stage/us-*, */quite-another"},
		"many":                        {`{clusters: [{name: aaaaaaaa1}, {name: aaaaaaaa2}, {name: aaaaaaaa3}, {name: aaaaaaaa4}, {name: aaaaaaaa5}, {name: aaaaaaaa6}]}`, "spec.match.clusters names */aaaaaaaa1, */aaaaaaaa2, */aaaaaaaa3, */aaaaaaaa4, */aaaaaaaa5, 1 more"},
		"no such label":               {"{clusterSelector: {matchLabels: {tier: stage}}}", "spec.match.clusterSelector selects clusters with the labels tier=stage"},
		"the name without the labels": {"{clusters: [{name: lab}], clusterSelector: {matchLabels: {tier: prod}}}", "spec.match.clusterSelector selects clusters with the labels tier=prod"},
		"excluded":                    {"{clusters: [{name: lab}], exclude: [{namespace: test, name: \"*\"}]}", "spec.match.exclude leaves none of those that it is for otherwise"},
	} {
		spec := "spec: {}\n"
		if tc.match != "" {
			spec = "spec: {match: " + tc.match + "}\n"
		}
		set, problems := LoadSources(Options{}, source("p", spec))
		if err := problems.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var want []Unmatched
		if tc.want != "" {
			want = []Unmatched{{Why: tc.want}}
		}
		got := set.Unmatched(clusters)
		for i := range got {
			if got[i].Policy != "p" || got[i].File != "p.yaml" || got[i].Line == 0 {
				t.Errorf("%s: %+v", name, got[i])
			}
			got[i].Origin = Origin{}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if got := Builtin().Unmatched(nil); got != nil {
		t.Errorf("built-in policies are for nobody: %v", got)
	}
}
