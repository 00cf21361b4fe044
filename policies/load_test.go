package policies

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// testCatalog is a small catalog: enough of each kind of row.
var testCatalog = map[string][]providers.CatalogRow{
	"aws": {
		{Kind: "Instance", Path: "/instanceType", Mutability: providers.InPlaceDisruptive},
		{Kind: "Instance", Path: "/imageId", Mutability: providers.Immutable},
		{Kind: "Instance", Path: "/state", Mutability: providers.InPlace},
		{Kind: "Instance", Path: "/scheduledEvents", Mutability: providers.ReadOnly},
		{Kind: "Instance", Path: "/tags/KEY", Mutability: providers.InPlace},
		{Kind: "Instance", Path: "/rootVolume/size", Mutability: providers.InPlace},
		{Kind: "Instance", Path: "/rootVolume/encrypted", Mutability: providers.Immutable},
		{Kind: "SecurityGroup", Path: "/ingress", Mutability: providers.InPlace},
		{Kind: "VPC", Path: "/cidrBlock", Mutability: providers.Immutable},
	},
	"vsphere": {
		{Kind: "VirtualMachine", Path: "/numCPUs", Mutability: providers.InPlaceDisruptive},
		{Kind: "VirtualMachine", Path: "/networks/INDEX/networkName", Mutability: providers.InPlace},
	},
}

const head = "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: p}\n"

var testNow = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func problemsOf(yaml string) []string {
	_, problems := LoadSources(Options{Catalog: testCatalog, Now: testNow}, Source{Name: "p.yaml", Data: []byte(yaml)})
	var out []string
	for _, p := range problems {
		out = append(out, strings.TrimPrefix(p.String(), "p.yaml:"))
	}
	return out
}

func TestLoadProblems(t *testing.T) {
	tests := map[string]struct {
		yaml string
		want []string
	}{
		"nothing wrong":            {yaml: head + "spec: {mode: dryRun}\n"},
		"enforce":                  {yaml: head + "spec: {mode: enforce}\n"},
		"mode off needs no quotes": {yaml: head + "spec: {mode: off}\n"},
		"bad mode": {yaml: head + "spec:\n  mode: enforc\n",
			want: []string{`5:9: spec.mode cannot be "enforc"; did you mean "enforce"? known are off, observe, dryRun, enforce`}},
		"no value": {yaml: head + "spec:\n  mode:\n",
			want: []string{`5:8: spec.mode has no value; give one, or remove the key`}},
		"wrong types": {yaml: head + "spec:\n  mode: [a]\n  rules: {a: b}\n  windows: x\n  match: [a]\n",
			want: []string{
				"5:9: spec.mode is a list, not text",
				`6:10: spec.rules is a mapping, not a list; write each entry on a line of its own that begins with "- ", or use [ ]`,
				`7:12: spec.windows is a single value, not a list; write each entry on a line of its own that begins with "- ", or use [ ]`,
				"8:10: spec.match is a list, not a mapping",
			}},
		"number for text": {yaml: head + "spec:\n  rules:\n  - {id: 12, target: {}, action: observe}\n",
			want: []string{`6:10: spec.rules[0].id is int, not text; put it in quotes: "12"`}},
		"schedule": {yaml: head + "spec:\n  schedule: {cron: \"99 * * * *\", timeZone: Europe/Berln, jitter: 1d, staleAfter: -1h}\n",
			want: []string{
				`5:20: "99 * * * *" is no schedule: minute field "99": 99 is more than 59; write minute, hour, day, month and weekday, such as "0 8 * * mon-fri"`,
				`5:44: no time zone is called "Europe/Berln"; did you mean "Europe/Berlin"?`,
				`5:66: spec.schedule.jitter cannot be "1d"; days are not a unit: write 24h`,
				"5:82: spec.schedule.staleAfter cannot be negative; give a duration of 0s or more",
			}},
		"cron that never comes": {yaml: head + "spec:\n  schedule: {cron: \"0 0 30 2 *\"}\n",
			want: []string{`5:20: "0 0 30 2 *" is no schedule: it never comes: there is no such day; write minute, hour, day, month and weekday, such as "0 8 * * mon-fri"`}},
		"cron with every": {yaml: head + "spec:\n  schedule: {cron: \"@every 1h\"}\n",
			want: []string{`5:20: "@every 1h" is no schedule: @every depends on when the program started; write minute, hour, day, month and weekday, such as "0 8 * * mon-fri"`}},
		"cron with zone": {yaml: head + "spec:\n  schedule: {cron: \"TZ=UTC 0 8 * * *\"}\n",
			want: []string{`5:20: "TZ=UTC 0 8 * * *" is no schedule: a zone inside cron is not read: use timeZone; write minute, hour, day, month and weekday, such as "0 8 * * mon-fri"`}},
		"local time": {yaml: head + "spec:\n  schedule: {timeZone: Local}\n",
			want: []string{`5:24: no time zone is called "Local"; use an IANA name such as Europe/Berlin`}},
		"unknown provider, kind and path": {yaml: head + `spec:
  rules:
  - {id: a, target: {provider: asw}, action: observe}
  - {id: b, target: {kind: Instnce}, action: observe}
  - {id: c, target: {provider: aws, kind: VirtualMachine}, action: observe}
  - {id: d, target: {kind: Instance}, paths: [/instancType, /tags/a/b], action: observe}
  - {id: e, target: {kind: Instance}, paths: [/rootVolume, /tags, "/tags/x*", /state, "/root*/size"], action: observe}
`, want: []string{
			`6:32: no provider is called "asw"; did you mean "aws"?`,
			`7:28: no resource kind is called "Instnce"; did you mean "Instance"?`,
			`8:43: no resource kind is called "VirtualMachine" in provider aws; provider vsphere has it`,
			"9:47: Instance has no field /instancType; did you mean /instanceType?",
			"9:61: Instance has no field /tags/a/b; did you mean /tags/KEY?",
		}},
		"wrong paths beside a wrong provider or kind": {yaml: head + `spec:
  rules:
  - {id: a, target: {provider: asw, kind: Instnce}, paths: [/instancType], action: observe}
  - {id: b, target: {kind: Instnce}, paths: [/imageld, /imageId], action: observe}
  - {id: c, target: {provider: aws, kind: VirtualMachine}, paths: [/numCPU], action: observe}
  - {id: d, target: {provider: nobody, kind: VPC}, paths: [/cidrBlok], action: observe}
  - {id: e, target: {kind: Whatever}, paths: [/imageld], action: observe}
`, want: []string{
			`6:32: no provider is called "asw"; did you mean "aws"?`,
			`6:43: no resource kind is called "Instnce" in provider aws; did you mean "Instance"?`,
			"6:61: Instance has no field /instancType; did you mean /instanceType?",
			`7:28: no resource kind is called "Instnce"; did you mean "Instance"?`,
			"7:46: Instance has no field /imageld; did you mean /imageId?",
			`8:43: no resource kind is called "VirtualMachine" in provider aws; provider vsphere has it`,
			"8:68: VirtualMachine has no field /numCPU; did you mean /numCPUs?",
			`9:32: no provider is called "nobody"; known are aws, vsphere`,
			"9:60: VPC has no field /cidrBlok; did you mean /cidrBlock?",
			`10:28: no resource kind is called "Whatever"; known are Instance, SecurityGroup, VPC, VirtualMachine`,
		}},
		"fields of expressions": {yaml: head + `spec:
  rules:
  - {id: a, target: {kind: Instance}, action: observe, when: have.instancetype == 'x'}
  - {id: b, target: {provider: aws, kind: Instance, name: x}, action: observe, when: "true && has(want.rootvolume.size)"}
  - {id: c, target: {kind: Instance, id: i-1}, action: observe, when: "have.rootVolume.sise > 1 && have['imageld'] == '' && have.?imageIds.orValue('') == ''"}
  - {id: d, target: {kind: Instance, id: i-2}, action: observe, when: "have.tags['a/b'] == 'x' && has(have.tags.x) && have.tags[owner.name] == 'y' && have.rootVolume.exists(k, k == 'size') && have.state == '' && have.imageId.startsWith('a') && cluster.labels.foo == 'x'"}
  - {id: e, target: {provider: aws}, action: observe, when: have.whatever == 'x'}
  - {id: f, target: {kind: Instnce}, action: observe, when: have.instancetype == 'x'}
  - {id: aws-instance-type, when: have.foo.bar == have.instanceType.x}
  ignore:
  - {reason: x, target: {kind: VirtualMachine}, when: "have.networks['0'].networkname == 'x' || have.networks['0'].networkName == 'y'"}
`, want: []string{
			"6:62: warning: Instance has no field have.instancetype; did you mean have.instanceType?",
			"7:99: warning: Instance has no field want.rootvolume.size; did you mean want.rootVolume.size?",
			"8:72: warning: Instance has no field have.rootVolume.sise; did you mean have.rootVolume.size?",
			"8:100: warning: Instance has no field have.imageld; did you mean have.imageId?",
			"8:125: warning: Instance has no field have.imageIds; did you mean have.imageId?",
			`11:28: no resource kind is called "Instnce"; did you mean "Instance"?`,
			"11:61: warning: Instance has no field have.instancetype; did you mean have.instanceType?",
			"12:35: warning: Instance has no field have.foo.bar; see the catalog of drift for the fields there are",
			"12:51: warning: Instance has no field have.instanceType.x; did you mean have.instanceType?",
			"14:56: warning: VirtualMachine has no field have.networks['0'].networkname; did you mean have.networks['INDEX'].networkName?",
		}},
		"syntax of expressions": {yaml: head + `spec:
  rules:
  - {id: a, target: {kind: Instance}, action: observe, when: have.state ==}
  - {id: b, target: {kind: VPC}, action: observe, when: "have.state = 'x'"}
  - {id: c, target: {kind: SecurityGroup}, action: observe, when: "have.a == == b"}
  - {id: d, target: {kind: VirtualMachine}, action: observe, when: "have.a == 'x"}
  - id: e
    target: {id: x}
    action: observe
    when: |
      have.state == 'x' &&
        (true ||
  - {id: f, target: {id: y}, action: observe, when: "true @ false"}
`, want: []string{
			"6:75: the expression cannot be used: syntax error at column 14 of the expression: it ends too early; complete it: an operand or a closing bracket is missing",
			"7:69: the expression cannot be used: syntax error at column 12 of the expression: there is no operator =; compare with ==",
			"8:78: the expression cannot be used: syntax error at column 11 of the expression: == is not expected here",
			`9:79: the expression cannot be used: syntax error at column 11 of the expression: the text that begins with 'x is not closed, or has an escape that does not exist; write a backslash as \\`,
			"15:17: the expression cannot be used: syntax error at line 2, column 11 of the expression: it ends too early; complete it: an operand or a closing bracket is missing",
			"16:59: the expression cannot be used: syntax error at column 6 of the expression: @ has no meaning here",
		}},
		"paths": {yaml: head + "spec:\n  rules:\n  - {id: a, target: {}, action: observe, paths: [imageId, \"/a~2\", \"\"]}\n",
			want: []string{
				`6:50: the path "imageId" does not begin with /; write "/imageId"`,
				`6:59: the path "/a~2" has a ~ that is followed by neither 0 nor 1; write ~1 for / and ~0 for ~ inside a segment`,
				"6:67: a path cannot be empty; leave paths out to mean every field",
			}},
		"patch of what cannot be patched": {yaml: head + `spec:
  rules:
  - {id: a, target: {kind: Instance}, paths: [/imageId, /scheduledEvents, /rootVolume, /instanceType], action: patch}
  - {id: aws-instance-image, action: patch}
`, want: []string{
			"6:47: /imageId of Instance cannot be patched; use observe or replace",
			"6:57: /scheduledEvents of Instance cannot be patched; use observe: there is nothing to write",
			"7:38: /imageId of Instance cannot be patched; use observe or replace",
		}},
		"patch of what is gone": {yaml: head + `spec:
  rules:
  - {id: a, target: {kind: Instance, statuses: [Missing]}, action: patch}
  - {id: b, target: {kind: VPC, statuses: [Missing, Unexpected]}, action: patch}
  - {id: c, target: {kind: VPC, statuses: [Missing, Drifted]}, action: patch}
  - {id: aws-vpc-missing, action: patch}
`, want: []string{
			"6:68: what is Missing cannot be patched: patching sets fields of what exists and is Drifted; use observe, or replace for machines",
			"7:75: what is Missing or Unexpected cannot be patched: patching sets fields of what exists and is Drifted; use observe",
			"9:35: what is Missing cannot be patched: patching sets fields of what exists and is Drifted; use observe",
		}},
		"replacement of what is no machine": {yaml: head + "spec:\n  rules:\n  - {id: a, target: {kind: VPC}, action: replace}\n",
			want: []string{"6:42: VPC cannot be replaced: it belongs to a cluster, and only machines are replaced; use observe or patch"}},
		"shadowed": {yaml: head + `spec:
  rules:
  - {id: special, target: {provider: aws, kind: Instance}, paths: [/tags/a], when: "diff.type == 'added'", action: observe}
  - {id: general, target: {kind: Instance}, paths: [/tags], action: patch}
  - {id: last, target: {kind: Instance}, paths: [/tags/b], action: observe}
`, want: []string{`6:5: rule "special" can never win: rule "general" in line 7 matches everything it matches and comes later; put the more specific rule last, or give the later one a when`}},
		"not shadowed": {yaml: head + `spec:
  rules:
  - {id: a, target: {kind: Instance}, paths: [/tags], action: patch}
  - {id: b, target: {kind: Instance}, paths: [/tags], when: "diff.type == 'added'", action: observe}
  - {id: c, target: {kind: Instance, statuses: [Missing]}, action: observe}
  - {id: d, target: {kind: Instance, id: "i-*"}, paths: ["/tags/x*"], action: observe}
`},
		"incomplete rule": {yaml: head + "spec:\n  rules:\n  - {id: aws-instance-typ, severity: low}\n  - {id: aws-instance-type, severity: low}\n",
			want: []string{
				`6:5: rule "aws-instance-typ" has no action, and no weaker policy has a rule of that id; add it, or did you mean to change the rule "aws-instance-type"?`,
				`6:5: rule "aws-instance-typ" has no target, and no weaker policy has a rule of that id; add it, or did you mean to change the rule "aws-instance-type"?`,
			}},
		"rule twice": {yaml: head + "spec:\n  rules:\n  - {id: a, target: {}, action: observe, when: now == now}\n  - {id: a, target: {kind: VPC}, action: observe}\n",
			want: []string{`7:10: rule "a" stands in line 6 already; give each rule of a policy an id of its own`}},
		"grace and attempts": {yaml: head + "spec:\n  rules:\n  - id: a\n    target: {}\n    action: observe\n    grace: {observations: 0, for: x}\n    attempts: {per: 0s}\n",
			want: []string{
				"9:27: spec.rules[0].grace.observations cannot be 0; give a whole number from 1 to 2147483647",
				`9:35: spec.rules[0].grace.for cannot be "x"; write it like 90s, 30m, 10h or 1h30m`,
				`10:15: spec.rules[0].attempts needs the key "max"; add it`,
				"10:21: attempts.per cannot be 0s; give a duration above 0s, or leave it out",
			}},
		"expression": {yaml: head + `spec:
  rules:
  - {id: a, target: {}, action: observe, when: hve.state == 'x'}
  - {id: b, target: {kind: VPC}, action: observe, when: "owner.poool == 'x'"}
  - id: c
    target: {kind: Instance}
    action: observe
    when: |
      have.state == 'x' &&
        foo == 1
  - {id: d, target: {kind: SecurityGroup}, action: observe, when: have.state}
  - {id: e, target: {kind: VirtualMachine}, action: observe, when: ""}
`, want: []string{
			"6:48: the expression cannot be used: undeclared reference to 'hve' (in container ''); did you mean have?",
			"7:63: the expression cannot be used: undefined field 'poool'",
			"13:9: the expression cannot be used: undeclared reference to 'foo' (in container ''); an expression sees want, have, owner, cluster, finding, diff, now",
			"14:67: the expression cannot be used: expression gives dyn, not true or false; compare it with something, as in have.state == 'running'",
			"15:68: the expression is empty; remove the key to mean always",
		}},
		"ignore": {yaml: head + `spec:
  ignore:
  - {paths: [/tags/x], expiresAt: 2026-03-01}
  - {reason: x, target: {}}
  - {reason: "", paths: [/tags/x], expiresAt: tomorrow}
  - {reason: y, paths: [/tags/x], expiresAt: 2027-03-01}
`, want: []string{
			`6:5: spec.ignore[0] needs the key "reason"; add it`,
			"6:35: warning: this entry ended on 2026-03-01 and ignores nothing; remove it, or renew it",
			"7:5: this entry would ignore everything; name a target, paths or when",
			"8:14: the reason is empty; say why the drift is accepted",
			`8:47: expiresAt cannot be "tomorrow"; write a date such as 2027-03-01 or a time such as 2027-03-01T12:00:00Z`,
		}},
		"budget, window and safety": {yaml: head + `spec:
  budgets:
  - {scope: pools, max: 110%}
  - {scope: pool, max: -1, actions: [observe]}
  windows:
  - {kind: deny, cron: "0 8 * * mon-fri", duration: 1000h, timeZone: Mars/Olympus}
  safety: {maxDriftRatio: 30, maxSnapshotAge: 0s, minHealthy: 9.5}
`, want: []string{
			`6:13: spec.budgets[0].scope cannot be "pools"; did you mean "pool"? known are pool, zone, cluster, all`,
			`6:25: spec.budgets[0].max cannot be "110%": no whole percentage from 0% to 100%; give a whole number such as 3, or a percentage such as "10%"`,
			`7:24: spec.budgets[1].max cannot be -1; give a whole number such as 3, or a percentage such as "10%"`,
			`7:38: spec.budgets[1].actions[0] cannot be "observe"; known are patch, replace`,
			"9:53: a window cannot last 1000h0m0s; give a duration above 0s and up to 744h",
			`9:70: no time zone is called "Mars/Olympus"; use an IANA name such as Europe/Berlin`,
			`10:27: spec.safety.maxDriftRatio is int, not a percentage; write it as "30%"`,
			"10:47: maxSnapshotAge cannot be 0s: nothing could ever act; give a duration above 0s",
			`10:63: spec.safety.minHealthy is float, not a number or a percentage; give a whole number such as 3, or a percentage such as "10%"`,
		}},
		"another type than is wanted": {yaml: head + `spec:
  mode: false
  schedule: {jitter: 5, staleAfter: true}
  safety: {maxDriftRatio: 0.3, maxUnhealthyZone: 0.07, minHealthy: 0.8}
  budgets: [{scope: cluster, max: "3"}, {scope: pool, max: 0.125}]
  rules:
  - {id: a, action: true, target: {provider: 5}, attempts: {max: "3"}}
`, want: []string{
			`5:9: spec.mode is bool, not text; write "off" in quotes if that was meant: without them many tools read it as false; known are off, observe, dryRun, enforce`,
			"6:22: spec.schedule.jitter is int, not a duration; give it a unit: write 5s for seconds, 5m for minutes",
			"6:37: spec.schedule.staleAfter is bool, not a duration; write it like 90s, 30m, 10h or 1h30m",
			`7:27: spec.safety.maxDriftRatio is float, not a percentage; write it as "30%"`,
			`7:50: spec.safety.maxUnhealthyZone is float, not a percentage; write it as "7%"`,
			`7:68: spec.safety.minHealthy is float, not a number or a percentage; write it as "80%"`,
			`8:35: spec.budgets[0].max cannot be "3": no percentage: the sign % is not there; write it as "3%", or without quotes if 3 of them are meant`,
			`8:60: spec.budgets[1].max is float, not a number or a percentage; give a whole number such as 3, or a percentage such as "10%"`,
			"10:21: spec.rules[0].action is bool, not text; known are ignore, observe, patch, replace",
			`10:46: spec.rules[0].target.provider is int, not text; put it in quotes: "5"`,
			"10:66: spec.rules[0].attempts.max is str, not a number; write it without quotes: 3",
		}},
		"a percentage as text without its sign": {yaml: head + `spec: {safety: {maxDriftRatio: "0.3", maxUnhealthyZone: "25", minHealthy: "0.5"}}` + "\n", want: []string{
			`4:32: safety.maxDriftRatio cannot be "0.3": no percentage: the sign % is not there; write it as "30%"`,
			`4:57: safety.maxUnhealthyZone cannot be "25": no percentage: the sign % is not there; write it as "25%"`,
			`4:75: spec.safety.minHealthy cannot be "0.5": no percentage: the sign % is not there; write it as "50%"`,
		}},
		"selector": {yaml: head + "spec:\n  match: {clusterSelector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}}\n",
			want: []string{`5:28: the selector cannot be used: "Is" is not a valid label selector operator; use the operators In, NotIn, Exists and DoesNotExist`}},
		"other document": {yaml: "apiVersion: v1\nkind: ConfigMap\n",
			want: []string{
				`1:13: the document's apiVersion is "v1"; write drift.holdfast.io/v1alpha1`,
				`2:7: the document's kind is "ConfigMap"; only DriftPolicy is read here`,
			}},
		"no mapping": {yaml: "- a\n", want: []string{"1:1: the document is no mapping; begin it with apiVersion: drift.holdfast.io/v1alpha1"}},
		"missing keys": {yaml: "kind: DriftPolicy\nmetadata: {}\n",
			want: []string{
				`1:1: the document needs the key "apiVersion"; add it`,
				`1:1: the document needs the key "spec"; add it`,
				`2:11: metadata needs the key "name"; add it`,
			}},
		"what an API server adds": {yaml: "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: p, uid: x, resourceVersion: \"1\", generation: 2, creationTimestamp: 2026-01-01T00:00:00Z, managedFields: [{a: b}]}\nspec: {}\n"},
		"metadata typo":           {yaml: "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: p, lables: {a: b}}\nspec: {}\n", want: []string{`3:21: unknown key "lables" in metadata; did you mean "labels"?`}},
		"empty":                   {yaml: "# nothing\n", want: []string{"1:1: the file holds no DriftPolicy; remove it, or write one"}},
		"name twice, also of a built-in policy": {yaml: head + "spec: {}\n---\n" + head + "spec: {}\n---\n" + strings.Replace(head, "name: p", "name: builtin-aws", 1) + "spec: {}\n",
			want: []string{
				`8:18: the name "p" is taken by the policy at p.yaml:3:18; give each policy a name of its own`,
				`13:18: the name "builtin-aws" is taken by the policy at builtin/aws.yaml:2:1; give each policy a name of its own`,
			}},
		"syntax":         {yaml: head + "spec: {mode: observe\n", want: []string{"4:1: not valid YAML: did not find expected ',' or '}'; check the indentation, the colons and the quotes around this line"}},
		"unknown anchor": {yaml: head + "spec: *x\n", want: []string{"4:7: not valid YAML: unknown anchor 'x' referenced; define the anchor before its use"}},
		"too large":      {yaml: "#" + strings.Repeat("x", maxFileBytes), want: []string{"1:1: the file has 1048577 bytes, more than 1048576; split it into several files"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, problemsOf(tc.yaml)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestC67StrictYAML: a misspelt key, a key given twice and a tab are refused
// with their lines; an anchor that is merged and then overridden is fine.
func TestC67StrictYAML(t *testing.T) {
	tests := map[string]struct {
		yaml string
		want []string
	}{
		"misspelt":   {yaml: head + "spec:\n  mathc: {}\n", want: []string{`5:3: unknown key "mathc" in spec; did you mean "match"?`}},
		"twice":      {yaml: head + "spec:\n  mode: observe\n  mode: enforce\n", want: []string{`6:3: key "mode" is given twice, first in line 5; remove one of them`}},
		"tab":        {yaml: head + "spec:\n\tmode: observe\n  \trules: []\n", want: []string{"5:1: a tab is used for indentation; use spaces", "6:3: a tab is used for indentation; use spaces"}},
		"overridden": {yaml: head + "spec:\n  rules:\n  - &base\n    id: a\n    target: {kind: Instance}\n    paths: [/tags/a]\n    action: patch\n  - <<: *base\n    id: b\n    paths: [/tags/b]\n"},
		"merged from several, the first wins": {yaml: head + "spec:\n  rules:\n  - &x {id: a, target: {kind: Instance}, paths: [/tags/a], action: patch}\n  - &y {id: b, target: {kind: Instance}, paths: [/tags/b], action: nothing}\n  - {<<: [*x, *y], id: c, paths: [/tags/c]}\n",
			want: []string{`7:68: spec.rules[1].action cannot be "nothing"; known are ignore, observe, patch, replace`}},
		"merge of no mapping": {yaml: head + "spec:\n  <<: x\n", want: []string{"5:7: << needs a mapping or a list of mappings; refer to an anchor of a mapping: <<: *name"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, problemsOf(tc.yaml)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestC67LastGoodStays: a set that does not load is nil, so that it cannot
// take the place of the last good one.
func TestC67LastGoodStays(t *testing.T) {
	set, problems := LoadSources(Options{}, Source{Name: "a.yaml", Data: []byte(head + "spec: {mode: enforce}\n")},
		Source{Name: "b.yaml", Data: []byte("x: [")})
	if set != nil || problems.Err() == nil {
		t.Errorf("got a set from a file that does not load: %v", problems)
	}
}

func TestAliasBombs(t *testing.T) {
	lists := "a0: &a0 [" + strings.TrimSuffix(strings.Repeat("x, ", 10), ", ") + "]\n"
	merges := "m0: &m0 {k0: v}\n"
	for i := 1; i < 9; i++ {
		p, n := string(rune('0'+i-1)), string(rune('0'+i))
		lists += "a" + n + ": &a" + n + " [" + strings.TrimSuffix(strings.Repeat("*a"+p+", ", 10), ", ") + "]\n"
		merges += "m" + n + ": &m" + n + " {<<: [" + strings.TrimSuffix(strings.Repeat("*m"+p+", ", 10), ", ") + "]}\n"
	}
	tests := map[string]struct{ yaml, want string }{
		"lists in paths":     {lists + head + "spec: {rules: [{id: a, paths: *a8}]}\n", "WrongType"},
		"rules of rules":     {head + "spec:\n  rules: &a [" + strings.Repeat("{id: x, paths: &p ["+strings.Repeat("/a,", 100)+"]},", 1) + strings.Repeat("{id: y, paths: *p},", 2000) + "]\n", "TooManyNodes"},
		"merges":             {merges + head + "spec: {<<: *m8}\n", "TooManyNodes"},
		"contains itself":    {head + "spec: &a\n  rules: [*a]\n", ""},
		"merges itself":      {head + "spec: &a\n  <<: *a\n", ""},
		"deep":               {head + "spec: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\n", ""},
		"deeper than YAML's": {head + "spec: " + strings.Repeat("[", 20000) + "\n", "Syntax"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, problems := LoadSources(Options{}, Source{Name: "p.yaml", Data: []byte(tc.yaml)})
			if problems.Err() == nil {
				t.Fatal("accepted")
			}
			if tc.want != "" && !strings.Contains(codes(problems), tc.want) {
				t.Errorf("problems %s, want %s", codes(problems), tc.want)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func codes(ps Problems) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.Code)
	}
	return strings.Join(out, " ")
}

// contradictory says everything at once and its opposite: it loads, and must
// come to something.
const contradictory = head + `spec:
  match: {clusters: [{name: "*"}], clusterSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}, exclude: [{name: "?"}]}
  mode: enforce
  schedule: {cron: "59 23 29 2 sun", timeZone: Pacific/Apia, jitter: 9999h, staleAfter: 1ns}
  rules:
  - {id: a, target: {id: "*"}, paths: ["/*"], action: replace, severity: info, when: "have.rootVolume.size / 0 == 1"}
  - {id: b, target: {statuses: [NotChecked, Unknown, Foreign]}, action: replace, grace: {for: 0s, observations: 2147483647}, attempts: {max: 1, per: 1ns}}
  - {id: c, target: {kind: Instance}, paths: ["/*/*", "/tags/~0~1"], when: "diff.want == diff.have || now > timestamp('0001-01-01T00:00:00Z') && have.tags[finding.resource.id] != want['x'].y", action: ignore}
  ignore:
  - {reason: a, when: "1 / int(finding.observations - 1) == 1"}
  - {reason: b, target: {name: "***"}, expiresAt: 0001-01-01}
  budgets: [{scope: all, max: 0}, {scope: all, max: 100%}, {scope: zone, actions: [patch, patch], max: 2147483647}]
  windows:
  - {kind: allow, cron: "* * * * *", duration: 744h}
  - {kind: deny, cron: "* * * * *", duration: 744h, timeZone: Europe/Dublin}
  - {kind: allow, cron: "0 0 29 2 *", duration: 1ns}
  safety: {maxDriftRatio: 0%, maxUnhealthyZone: 0%, maxSnapshotAge: 1ns, minHealthy: 2147483647, controlPlane: enforce}
`

// TestContradictoryPolicy: what contradicts itself loads, and is decided.
func TestContradictoryPolicy(t *testing.T) {
	set, problems := LoadSources(Options{Catalog: testCatalog, Now: testNow}, Source{Name: "p.yaml", Data: []byte(contradictory)})
	if set == nil {
		t.Fatal(problems)
	}
	in := makeInput(t, withFindings(everyStatus()...))
	in.Policies = set
	ds := Decide(in)
	if len(ds) == 0 {
		t.Error("nothing was decided")
	}
	for i := range ds {
		if ds[i].Executable() {
			t.Errorf("%s of %s would be executed", ds[i].Action, ds[i].Finding.Resource.ID)
		}
	}
}

// everyStatus is a finding of each status, with the fields that rules ask for.
func everyStatus() []detector.Finding {
	var out []detector.Finding
	for i, s := range []detector.Status{detector.Drifted, detector.Missing, detector.Unexpected, detector.Foreign, detector.NotChecked, detector.Unknown} {
		f := instanceFinding(workerRef(i), withDiffs(typeDiff, tagDiff("a/b")))
		f.Status = s
		if notDrift(s) {
			f.Diffs = nil
		}
		f.Have = &providers.Resource{}
		f.Have.Set("/tags/a", providers.Field{Value: providers.String("x")})
		f.Have.Set("/rootVolume/size", providers.Field{Value: providers.Int(8)})
		f.Fingerprint = detector.Fingerprint(&f)
		out = append(out, f)
	}
	return out
}

// TestFileWithoutEnding: a policy in a folder that is not read for its name is told.
func TestFileWithoutEnding(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"eu", "README.md"} {
		put(name, head+"spec: {}\n")
	}
	put("LICENSE", "no policy\n")
	load := func() []string {
		t.Helper()
		_, problems := Load(Options{}, dir)
		out := make([]string, len(problems))
		for i, p := range problems {
			out[i] = strings.ReplaceAll(p.String(), dir, "DIR")
		}
		return out
	}
	unread := "DIR/eu: warning: this looks like a policy, and is not read; policy files end in .yaml, .yml or .json"
	if d := cmp.Diff([]string{"DIR: the folder holds no policy file; policy files end in .yaml, .yml or .json", unread}, load()); d != "" {
		t.Error(d)
	}
	put("us.yaml", head+"spec: {}\n")
	if d := cmp.Diff([]string{unread}, load()); d != "" {
		t.Error(d)
	}
}

// yamlLines counts lines as YAML does, which breaks them at more than \n.
func yamlLines(s string) int {
	n := 1
	for _, r := range s {
		if strings.ContainsRune("\n\r\u0085\u2028\u2029", r) {
			n++
		}
	}
	return n
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(head + "spec: {mode: off}\n"))
	f.Add([]byte(head + "spec: &a\n  <<: *a\n"))
	f.Add([]byte(head + "spec:\n\tmode: x\n"))
	f.Add([]byte(contradictory))
	f.Add([]byte("\r\r?"))
	entries, err := defaultFiles.ReadDir("defaults")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		data, err := defaultFiles.ReadFile("defaults/" + e.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(strings.Replace(string(data), "name: builtin", "name: copy", 1)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, problems := LoadSources(Options{Catalog: testCatalog, Now: testNow}, Source{Name: "p.yaml", Data: data})
		if (set == nil) != (problems.Err() != nil) {
			t.Fatalf("set %v with problems %v", set, problems)
		}
		for _, p := range problems {
			if p.File != "p.yaml" || p.Line < 1 || p.Column < 1 || p.Message == "" || p.Code == "" {
				t.Errorf("problem without a place: %#v", p)
			}
			if p.Line > yamlLines(string(data))+1 {
				t.Errorf("problem outside the file: %s", p)
			}
		}
		if set == nil {
			return
		}
		for _, x := range set.For(testCluster, nil).Explain() {
			if x.From.File == "" {
				t.Errorf("%s comes from nowhere", x.Name)
			}
		}
		// Whatever a policy says, deciding ends, and what nobody saw stays
		// without an action.
		in := makeInput(t, withFindings(everyStatus()...))
		in.Policies = set
		for _, d := range Decide(in) {
			if acts(d.Action) && notDrift(d.Finding.Status) {
				t.Errorf("%s follows from what is %s", d.Action, d.Finding.Status)
			}
		}
	})
}

func detectorRef(namespace, name string) detector.ClusterRef {
	return detector.ClusterRef{Namespace: namespace, Name: name}
}
