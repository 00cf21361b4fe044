package report

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contract are the names that scripts rely on. Removing or renaming one breaks
// them.
const contract = `
apiVersion
clusters clusters[].namespace clusters[].name clusters[].provider clusters[].scope clusters[].snapshotTime
clusters[].coverage clusters[].coverage.checked clusters[].coverage.notChecked clusters[].coverage.ratio
findings findings[].fingerprint
findings[].cluster findings[].cluster.namespace findings[].cluster.name
findings[].owner findings[].owner.apiVersion findings[].owner.kind findings[].owner.namespace findings[].owner.name findings[].owner.uid
findings[].resource findings[].resource.provider findings[].resource.kind findings[].resource.id findings[].resource.name
findings[].status findings[].severity findings[].action findings[].rule findings[].reason findings[].blockedBy
findings[].ignored findings[].ignored.by findings[].ignored.reason findings[].ignored.expiresAt
findings[].diffs findings[].diffs[].path findings[].diffs[].want findings[].diffs[].have findings[].diffs[].type findings[].diffs[].sensitive
findings[].firstSeen
summary summary.owners summary.checked summary.drifted summary.missing summary.notChecked summary.ignored
summary.bySeverity summary.bySeverity.critical summary.bySeverity.high summary.bySeverity.medium summary.bySeverity.low summary.bySeverity.info
summary.wouldPatch summary.wouldReplace
`

// additions are names beside the contract, documented in docs/report.md.
const additions = `
kind generated version
clusters[].ignored clusters[].foreign
clusters[].owners clusters[].owners[].apiVersion clusters[].owners[].kind clusters[].owners[].namespace clusters[].owners[].name
clusters[].owners[].uid clusters[].owners[].pool clusters[].owners[].source clusters[].owners[].inSync
clusters[].owners[].inSync[].provider clusters[].owners[].inSync[].kind clusters[].owners[].inSync[].id clusters[].owners[].inSync[].name
findings[].pool findings[].policy findings[].ruleAt findings[].ruleAt.file findings[].ruleAt.line findings[].ruleAt.column
findings[].blocks findings[].blocks[].by findings[].blocks[].detail findings[].blocks[].until
findings[].diffs[].adopted findings[].warnings findings[].since
summary.unexpected summary.unknown summary.foreign summary.blocked
problems problems[].cluster problems[].cluster.namespace problems[].cluster.name problems[].object problems[].reason problems[].message
compared compared.previous compared.new compared.unchanged compared.resolved compared.unverified
`

func TestJSONHasTheNamesOfTheContract(t *testing.T) {
	in := compared()
	in.ShowIgnored = true
	var doc any
	if err := json.Unmarshal(render(t, Build(in), FormatJSON, Style{}), &doc); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	collect(doc, "", seen)
	got := slices.Sorted(maps.Keys(seen))
	want := slices.Sorted(slices.Values(strings.Fields(contract + additions)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names in the JSON (-contract +got):\n%s", diff)
	}
}

// collect names every key; the findings that a comparison lists have the names
// of findings.
func collect(v any, at string, seen map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			path := strings.TrimPrefix(at+"."+key, ".")
			seen[path] = true
			if path == "compared.resolved" || path == "compared.unverified" {
				path = "findings"
			}
			collect(value, path, seen)
		}
	case []any:
		for _, element := range v {
			collect(element, at+"[]", seen)
		}
	}
}

// Lists that scripts walk are lists, also when there is nothing in them.
func TestJSONOfAnEmptyScan(t *testing.T) {
	got := string(render(t, Build(BuildInput{Now: at}), FormatJSON, Style{}))
	for _, want := range []string{`"clusters": []`, `"findings": []`, `"critical": 0`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	in := BuildInput{Now: at, Clusters: sample().Clusters[:1], Decisions: sample().Decisions[:1]}
	in.Decisions[0].Blocked, in.Decisions[0].Finding.Diffs = nil, nil
	got = string(render(t, Build(in), FormatJSON, Style{}))
	for _, want := range []string{`"blockedBy": []`, `"diffs": []`, `"ignored": null`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
