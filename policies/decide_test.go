package policies

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// TestGates closes one gate at a time of a decision that nothing else blocks.
func TestGates(t *testing.T) {
	w0 := workerRef(0)
	window := strings.Replace(enforceTypes, "spec:\n", "spec:\n  windows:\n  - {kind: deny, cron: \"0 0 * * *\", duration: 12h}\n", 1)
	tests := map[string]struct {
		reason string
		mods   []inputMod
		want   []string
		until  time.Time
	}{
		"none":         {reason: "nothing stands against it"},
		"mode observe": {mods: []inputMod{withPolicy(t, strings.Replace(enforceTypes, "enforce", "observe", 1))}, want: []string{GateMode}},
		"mode dryRun":  {mods: []inputMod{withPolicy(t, strings.Replace(enforceTypes, "enforce", "dryRun", 1))}, want: []string{GateMode}},
		"no policies":  {reason: "the built-in ones observe, and wait", mods: []inputMod{func(in *Input) { in.Policies = nil }}, want: []string{GateMode, GateGrace}},
		"cluster not known": {reason: "a gatherer that forgets a cluster must not make it a free-for-all",
			mods: []inputMod{func(in *Input) { in.Clusters = nil }}, want: []string{GateNotKnown, GateBudget}},
		"paused":                     {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.Paused = Yes("Cluster is paused") })}, want: []string{GatePaused}},
		"not known if paused":        {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.Paused = Fact{} })}, want: []string{GatePaused}},
		"deleting":                   {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.Deleting = Yes("x") })}, want: []string{GateDeleting}},
		"not known if deleting":      {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.Deleting = Fact{} })}, want: []string{GateDeleting}},
		"moving":                     {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.Moving = Yes("x") })}, want: []string{GateMoving}},
		"not known if moving":        {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.Moving = Fact{} })}, want: []string{GateMoving}},
		"externally managed":         {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.ExternallyManaged = Yes("x") })}, want: []string{GateExternallyManaged}},
		"not known who manages":      {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.ExternallyManaged = Fact{} })}, want: []string{GateExternallyManaged}},
		"rollout":                    {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.Rollout = Yes("x") })}, want: []string{GateRollout}},
		"not known if rolling out":   {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.Rollout = Fact{} })}, want: []string{GateRollout}},
		"old revision":               {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.OldRevision = Yes("x") })}, want: []string{GateOldRevision}},
		"revision not known":         {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.OldRevision = Fact{} })}, want: []string{GateOldRevision}},
		"skip-remediation":           {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.SkipRemediation = Yes("x") })}, want: []string{GateSkipRemediation}},
		"not known if skipped":       {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.SkipRemediation = Fact{} })}, want: []string{GateSkipRemediation}},
		"ambiguous":                  {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.Ambiguous = Yes("two VMs") })}, want: []string{GateAmbiguous}},
		"not known if ambiguous":     {mods: []inputMod{owner(w0, func(o *OwnerFacts) { o.Ambiguous = Fact{} })}, want: []string{GateAmbiguous}},
		"seen too seldom":            {mods: []inputMod{withPolicy(t, "spec: {mode: enforce}\n"), history(History{FirstSeen: testNow.Add(-time.Hour), Observations: 2})}, want: []string{GateGrace}},
		"seen too short":             {mods: []inputMod{withPolicy(t, "spec: {mode: enforce}\n"), history(History{FirstSeen: testNow.Add(-20 * time.Minute), Observations: 3})}, want: []string{GateGrace}, until: testNow.Add(10 * time.Minute)},
		"seen long enough":           {mods: []inputMod{withPolicy(t, "spec: {mode: enforce}\n"), history(History{FirstSeen: testNow.Add(-30 * time.Minute), Observations: 3})}},
		"not known since when":       {mods: []inputMod{withPolicy(t, "spec: {mode: enforce}\n"), history(History{Observations: 3})}, want: []string{GateGrace}},
		"snapshot old":               {mods: []inputMod{func(in *Input) { in.Findings[0].SeenAt = testNow.Add(-11 * time.Minute) }}, want: []string{GateStaleSnapshot}},
		"snapshot age not known":     {mods: []inputMod{func(in *Input) { in.Findings[0].SeenAt = time.Time{} }}, want: []string{GateStaleSnapshot}},
		"snapshot from the future":   {mods: []inputMod{func(in *Input) { in.Findings[0].SeenAt = testNow.Add(time.Hour) }}, want: []string{GateStaleSnapshot}},
		"breaker open":               {mods: []inputMod{cluster(func(c *ClusterFacts) { c.Breaker = Yes("opened at 9:00") })}, want: []string{GateMassDrift}},
		"breaker not known":          {mods: []inputMod{cluster(func(c *ClusterFacts) { c.Breaker = Fact{} })}, want: []string{GateMassDrift}},
		"number of owners not known": {mods: []inputMod{cluster(func(c *ClusterFacts) { c.Owners = 0 })}, want: []string{GateMassDrift}},
		"zone not known":             {mods: []inputMod{cluster(func(c *ClusterFacts) { c.Zones = nil })}, want: []string{GateZoneFreeze}},
		"one unready in a small zone": {reason: "it may be the very machine",
			mods: []inputMod{cluster(func(c *ClusterFacts) { c.Zones = map[string]ZoneFacts{"z1": {Machines: 1, Unhealthy: 1}} })}},
		"pool not known": {mods: []inputMod{cluster(func(c *ClusterFacts) { c.Pools = nil })}, want: []string{GateMinHealthy}},
		"too few ready":  {mods: []inputMod{cluster(func(c *ClusterFacts) { c.Pools["MachineDeployment/a"] = PoolFacts{Desired: 10, Ready: 8} })}, want: []string{GateMinHealthy}},
		"the unready one is the one": {mods: []inputMod{
			cluster(func(c *ClusterFacts) { c.Pools["MachineDeployment/a"] = PoolFacts{Desired: 10, Ready: 8} }),
			owner(w0, func(o *OwnerFacts) { o.Ready = No() })}},
		"not known whether ready counts as ready": {mods: []inputMod{
			cluster(func(c *ClusterFacts) { c.Pools["MachineDeployment/a"] = PoolFacts{Desired: 10, Ready: 8} }),
			owner(w0, func(o *OwnerFacts) { o.Ready = Fact{} })}, want: []string{GateMinHealthy}},
		"control plane, observed": {mods: []inputMod{withFindings(instanceFinding(controlPlaneRef(0), controlPlane, withDiffs(typeDiff)))}, want: []string{GateControlPlane}},
		"halted": {mods: []inputMod{func(in *Input) {
			in.InFlight = []InFlight{{Cluster: testCluster, Owner: workerRef(5), Pool: "MachineDeployment/a", Action: Replace, Failed: "never joined"}}
		}}, want: []string{GateHalted}},
		"in flight not known": {mods: []inputMod{func(in *Input) { in.InFlight = nil }}, want: []string{GateBudget}},
		"budget used": {mods: []inputMod{func(in *Input) {
			in.InFlight = []InFlight{{Cluster: testCluster, Owner: workerRef(5), Pool: "MachineDeployment/a", Action: Replace, By: "MachineHealthCheck"}}
		}}, want: []string{GateBudget}},
		"in flight itself": {mods: []inputMod{withPolicy(t, strings.Replace(enforceTypes, "spec:\n", "spec:\n  budgets: [{scope: pool, max: 5}, {scope: cluster, max: 5}]\n", 1)), func(in *Input) {
			in.InFlight = []InFlight{{Cluster: testCluster, Owner: w0, Pool: "MachineDeployment/a", Action: Replace, By: "a person"}}
		}}, want: []string{GateBudget}},
		"machines not counted": {mods: []inputMod{cluster(func(c *ClusterFacts) { c.Machines = 0 })}, want: []string{GateBudget}},
		"window":               {mods: []inputMod{withPolicy(t, window)}, want: []string{GateWindow}, until: testNow.Add(2 * time.Hour)},
		"approval":             {mods: []inputMod{withPolicy(t, strings.Replace(enforceTypes, "type,", "type, approval: required,", 1))}, want: []string{GateApproval}},
		"approved":             {mods: []inputMod{withPolicy(t, strings.Replace(enforceTypes, "type,", "type, approval: required,", 1)), history(History{ApprovedBy: "anna"})}},
		"attempts used": {mods: []inputMod{history(History{Attempts: []time.Time{testNow.Add(-time.Hour), testNow.Add(-2 * time.Hour), testNow.Add(-23 * time.Hour)}})},
			want: []string{GateAttempts}, until: testNow.Add(time.Hour)},
		"attempts long ago": {mods: []inputMod{history(History{Attempts: []time.Time{testNow.Add(-25 * time.Hour), testNow.Add(-2 * time.Hour), testNow.Add(-26 * time.Hour)}})}},
		"latched":           {mods: []inputMod{history(History{Latched: "another controller reverts it"})}, want: []string{GateAttempts}},
		"held":              {mods: []inputMod{history(History{Held: "denied by anna"})}, want: []string{GateHeld}},
		"held for a time":   {mods: []inputMod{history(History{Held: "protected", HeldUntil: testNow.Add(time.Hour)})}, want: []string{GateHeld}, until: testNow.Add(time.Hour)},
		"held until now":    {mods: []inputMod{history(History{Held: "protected", HeldUntil: testNow})}},
		"no history":        {mods: []inputMod{func(in *Input) { in.History = nil }}, want: []string{GateAttempts}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ds := Decide(makeInput(t, tc.mods...))
			if len(ds) != 1 {
				t.Fatalf("%d decisions", len(ds))
			}
			d := ds[0]
			if diff := cmp.Diff(tc.want, gatesOf(d)); diff != "" {
				t.Errorf("%s: blocked (-want +got):\n%s%+v", tc.reason, diff, d.Blocked)
			}
			if d.Action != Replace || d.Rule.ID != "aws-instance-type" {
				// Not knowing the cluster's facts does not change what is wanted.
				t.Errorf("decided %s by %s: %s", d.Action, d.Rule.ID, d.Reason)
			}
			if d.Executable() != (len(tc.want) == 0) {
				t.Errorf("executable: %v", d.Executable())
			}
			for _, b := range d.Blocked {
				if b.Detail == "" || strings.Contains(b.Detail, "\n") {
					t.Errorf("block without one line of detail: %+v", b)
				}
				if !b.Until.Equal(tc.until) {
					t.Errorf("%s opens at %s, want %s", b.By, b.Until, tc.until)
				}
			}
		})
	}
}

// TestGateOrder closes every gate that can be closed together: they are listed
// in the order of Gates.
func TestGateOrder(t *testing.T) {
	spec := `spec:
  mode: dryRun
  rules:
  - {id: aws-instance-type, approval: required}
  safety: {maxDriftRatio: 1%}
  windows: [{kind: deny, cron: "0 0 * * *", duration: 12h}]
`
	bad := OwnerFacts{Paused: Yes("x"), Deleting: Yes("x"), Moving: Yes("x"), ExternallyManaged: Yes("x"), Rollout: Yes("x"),
		OldRevision: Yes("x"), SkipRemediation: Yes("x"), Ambiguous: Yes("x"), Replaceable: Yes("x")}
	in := makeInput(t, withPolicy(t, spec), withFindings(instanceFinding(controlPlaneRef(0), controlPlane, withDiffs(typeDiff))),
		func(in *Input) { in.Owners[controlPlaneRef(0)] = bad },
		cluster(func(c *ClusterFacts) {
			c.Breaker = Yes("x")
			c.Zones = map[string]ZoneFacts{"z1": {Machines: 10, Unhealthy: 10}}
			c.Pools = nil
		}),
		func(in *Input) {
			in.InFlight = []InFlight{{Cluster: testCluster, Owner: controlPlaneRef(1), Pool: "KubeadmControlPlane/cp", Action: Replace, Failed: "x"},
				{Cluster: testCluster, Owner: controlPlaneRef(2), Pool: "KubeadmControlPlane/cp", Action: Replace, By: "x"}}
			in.Findings[0].SeenAt = time.Time{}
		}, history(History{Latched: "x", Held: "x", Observations: 1}))
	want := slices.DeleteFunc(Gates(), func(g string) bool { return g == GateNotDrift || g == GateNotKnown || g == GateDisruptive })
	ds := Decide(in)
	if diff := cmp.Diff(want, gatesOf(ds[0])); diff != "" {
		t.Errorf("blocked (-want +got):\n%s", diff)
	}
}

// TestDisruptivePatch: a patch that stops the machine needs the rule's word,
// and counts as a disruption in every gate, also once it has begun.
func TestDisruptivePatch(t *testing.T) {
	spec := func(more string) string {
		return "spec: {mode: enforce, rules: [{id: aws-instance-type, action: patch, grace: {for: 0s}" + more + "}], safety: {minHealthy: 90%, controlPlane: enforce}, budgets: [{scope: pool, max: 5}, {scope: cluster, max: 5}]}\n"
	}
	member := instanceFinding(controlPlaneRef(0), controlPlane, withDiffs(typeDiff))
	begun := func(in *Input) {
		in.InFlight = []InFlight{{Cluster: testCluster, Owner: controlPlaneRef(1), Pool: "KubeadmControlPlane/cp", ControlPlane: true, Action: Patch, Disruptive: true, By: "holdfast"}}
	}
	down := cluster(func(c *ClusterFacts) { c.ControlPlane = No() })
	tests := map[string]struct {
		spec string
		mods []inputMod
		want []string
	}{
		"not allowed":    {spec: spec(""), want: []string{GateDisruptive}},
		"never":          {spec: spec(", disruptive: never"), want: []string{GateDisruptive}},
		"allowed":        {spec: spec(", disruptive: allowed")},
		"too few ready":  {spec: spec(", disruptive: allowed"), mods: []inputMod{cluster(func(c *ClusterFacts) { c.Pools["MachineDeployment/a"] = PoolFacts{Desired: 10, Ready: 8} })}, want: []string{GateMinHealthy}},
		"another member": {spec: spec(", disruptive: allowed"), mods: []inputMod{withFindings(member), begun}, want: []string{GateControlPlane}},
		"a member down":  {spec: spec(", disruptive: allowed"), mods: []inputMod{withFindings(member), down}, want: []string{GateControlPlane}},
		"the member that is down": {spec: spec(", disruptive: allowed"), mods: []inputMod{withFindings(member), down,
			owner(controlPlaneRef(0), func(o *OwnerFacts) { o.Spare = Yes("the other 2 are ready") })}},
		"of tags, freely": {spec: spec(""), mods: []inputMod{withFindings(instanceFinding(workerRef(0), withDiffs(tagDiff("a")))), history(History{FirstSeen: testNow.Add(-time.Hour), Observations: 9})}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := Decide(makeInput(t, append([]inputMod{withPolicy(t, tc.spec)}, tc.mods...)...))[0]
			if diff := cmp.Diff(tc.want, gatesOf(d)); diff != "" {
				t.Errorf("blocked (-want +got):\n%s%+v", diff, d.Blocked)
			}
			if d.Action != Patch {
				t.Errorf("decided %s: %s", d.Action, d.Reason)
			}
		})
	}
}

// TestUnknownIsNothing: the zero facts, and each missing part of an Input,
// leave nothing executable.
func TestUnknownIsNothing(t *testing.T) {
	mods := map[string]inputMod{
		"owners":         func(in *Input) { in.Owners = nil },
		"zero owner":     func(in *Input) { in.Owners[workerRef(0)] = OwnerFacts{Replaceable: Yes("x")} },
		"clusters":       func(in *Input) { in.Clusters = nil },
		"zero cluster":   func(in *Input) { in.Clusters[testCluster] = ClusterFacts{} },
		"in flight":      func(in *Input) { in.InFlight = nil },
		"history":        func(in *Input) { in.History = nil },
		"policies":       func(in *Input) { in.Policies = nil },
		"now":            func(in *Input) { in.Now = time.Time{} },
		"seen at":        func(in *Input) { in.Findings[0].SeenAt = time.Time{} },
		"cluster's name": func(in *Input) { in.Findings[0].Cluster = detector.ClusterRef{} },
		"owner":          func(in *Input) { in.Findings[0].Owner = providers.OwnerRef{} },
	}
	for name, mod := range mods {
		t.Run(name, func(t *testing.T) {
			for _, d := range Decide(makeInput(t, mod)) {
				if d.Executable() {
					t.Errorf("executable: %+v", d)
				}
			}
		})
	}
	if Decide(Input{}) == nil {
		t.Error("no findings give nil, not an empty list")
	}
}

// TestStatuses: only drift and absence are ever acted upon, whatever rules say.
func TestStatuses(t *testing.T) {
	everything := "spec:\n  mode: enforce\n  rules:\n  - {id: all, target: {provider: aws}, action: replace}\n  safety: {maxDriftRatio: 100%}\n"
	tests := map[detector.Status]struct {
		action Action
		gates  []string
	}{
		detector.Drifted:    {Replace, nil},
		detector.Missing:    {Replace, nil},
		detector.Unexpected: {Observe, nil},
		detector.Foreign:    {Observe, nil},
		detector.NotChecked: {Observe, []string{GateNotDrift}},
		detector.Unknown:    {Observe, []string{GateNotDrift}},
		detector.InSync:     {Observe, []string{GateNotDrift}},
	}
	for status, want := range tests {
		t.Run(string(status), func(t *testing.T) {
			f := instanceFinding(workerRef(0), func(f *detector.Finding) { f.Status = status })
			d := Decide(makeInput(t, withPolicy(t, everything), withFindings(f)))[0]
			if d.Action != want.action || !slices.Equal(gatesOf(d), want.gates) {
				t.Errorf("%s %v (%s), want %s %v", d.Action, gatesOf(d), d.Reason, want.action, want.gates)
			}
		})
	}
}

// TestGateNotDrift: the gate stands also where no rule was downgraded before it:
// whoever adds a status cannot open it by forgetting the other guard.
func TestGateNotDrift(t *testing.T) {
	i := slices.IndexFunc(gates, func(g gate) bool { return g.name == GateNotDrift })
	for status, want := range map[detector.Status]bool{
		detector.Drifted: false, detector.Missing: false,
		detector.Unexpected: true, detector.Foreign: true, detector.NotChecked: true, detector.Unknown: true, detector.InSync: true, "Novel": true, "": true,
	} {
		c := &candidate{}
		c.Finding.Status = status
		if _, blocked := gates[i].check(newRun(Input{}), c); blocked != want {
			t.Errorf("%q: blocked %v", status, blocked)
		}
	}
}

// TestDowngrade: what a cloud cannot do, or nothing would make good, is
// observed with the reason.
func TestDowngrade(t *testing.T) {
	diff := func(path string, m providers.Mutability) detector.Diff {
		return detector.Diff{Path: path, Type: detector.Changed, Mutability: m, Want: providers.String("a"), Have: providers.String("b")}
	}
	sg := func(f *detector.Finding) { f.Resource.Kind, f.Pool, f.Zone = "SecurityGroup", "", "" }
	tests := map[string]struct {
		action string
		f      detector.Finding
		mods   []inputMod
		want   Action
		reason string
	}{
		"patch in place":          {action: "patch", f: instanceFinding(workerRef(0), withDiffs(diff("/a", providers.InPlace))), want: Patch},
		"patch with a stop":       {action: "patch", f: instanceFinding(workerRef(0), withDiffs(diff("/a", providers.InPlaceDisruptive))), want: Patch},
		"patch of the immutable":  {action: "patch", f: instanceFinding(workerRef(0), withDiffs(diff("/a", providers.Immutable))), want: Observe, reason: "the cloud cannot change /a in place"},
		"patch of the read-only":  {action: "patch", f: instanceFinding(workerRef(0), withDiffs(diff("/a", providers.ReadOnly))), want: Observe, reason: "there is nothing to write at /a"},
		"patch of nothing":        {action: "patch", f: instanceFinding(workerRef(0)), want: Observe, reason: "names no field to patch"},
		"patch a missing machine": {action: "patch", f: instanceFinding(workerRef(0), func(f *detector.Finding) { f.Status = detector.Missing }), want: Observe, reason: "cannot be patched, only replaced"},
		"patch a missing group":   {action: "patch", f: instanceFinding(infraRef, sg, func(f *detector.Finding) { f.Status = detector.Missing }), want: Observe, reason: "making it is the infrastructure provider's part"},
		"replace a group":         {action: "replace", f: instanceFinding(infraRef, sg, withDiffs(diff("/a", providers.InPlace))), want: Observe, reason: "only machines are replaced"},
		"replace without an owner that replaces": {action: "replace", f: instanceFinding(workerRef(0), withDiffs(diff("/a", providers.Immutable))),
			mods: []inputMod{owner(workerRef(0), func(o *OwnerFacts) { o.Replaceable = No() })}, want: Observe, reason: "no owner that replaces it"},
		"replace, owner not known": {action: "replace", f: instanceFinding(workerRef(0), withDiffs(diff("/a", providers.Immutable))),
			mods: []inputMod{owner(workerRef(0), func(o *OwnerFacts) { o.Replaceable = Fact{} })}, want: Observe, reason: "not known whether anything would make a new machine"},
		"skip-replace": {action: "replace", f: instanceFinding(workerRef(0), withDiffs(diff("/a", providers.Immutable))),
			mods: []inputMod{owner(workerRef(0), func(o *OwnerFacts) { o.Annotations = map[string]string{AnnotationSkipReplace: ""} })}, want: Observe, reason: AnnotationSkipReplace},
		"skip-replace: false": {action: "replace", f: instanceFinding(workerRef(0), withDiffs(diff("/a", providers.Immutable))),
			mods: []inputMod{owner(workerRef(0), func(o *OwnerFacts) { o.Annotations = map[string]string{AnnotationSkipReplace: "false"} })}, want: Replace},
		"an expression that cannot be told": {action: "replace, when: have.nothing == 1", f: instanceFinding(workerRef(0), withDiffs(typeDiff)), want: Observe, reason: "rule all at p.yaml:7:5 cannot be evaluated: no such key: nothing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := "spec:\n  mode: enforce\n  rules:\n  - {id: all, target: {provider: aws}, action: " + tc.action + "}\n"
			ds := Decide(makeInput(t, append([]inputMod{withPolicy(t, spec), withFindings(tc.f)}, tc.mods...)...))
			if len(ds) != 1 || ds[0].Action != tc.want || !strings.Contains(ds[0].Reason, tc.reason) {
				t.Errorf("got %v %q, want %s because %q", summary(ds), ds[0].Reason, tc.want, tc.reason)
			}
			if tc.want == Observe && ds[0].Executable() {
				t.Error("executable")
			}
		})
	}
}

// TestSplit: one finding gives one decision for each rule that decides a part
// of it, with fingerprints of their own.
func TestSplit(t *testing.T) {
	spec := enforceTypes + `  - {id: tag-b, target: {kind: Instance}, paths: [/tags/b], action: observe}
  ignore:
  - {paths: ["/tags/backup~1*"], reason: backup tool, owner: storage-team, expiresAt: 2027-03-01}
  - {paths: [/tags/old], reason: migration, expiresAt: 2026-11-30}
`
	f := instanceFinding(workerRef(0), withDiffs(typeDiff, tagDiff("a"), tagDiff("b"), tagDiff("backup/last"), tagDiff("c"), tagDiff("old")))
	ds := Decide(makeInput(t, withPolicy(t, spec), withFindings(f)))
	want := []string{
		"a-0 i-a-0 replace /instanceType",
		"a-0 i-a-0 patch /tags/a /tags/c !Budget", // the machine is being replaced
		"a-0 i-a-0 observe /tags/b",
		"a-0 i-a-0 ignore /tags/backup~1last",
		"a-0 i-a-0 patch /tags/old !Budget",
	}
	if diff := cmp.Diff(want, summary(ds)); diff != "" {
		t.Fatalf("decisions (-want +got):\n%s", diff)
	}
	seen := map[string]bool{}
	for _, d := range ds {
		if seen[d.Finding.Fingerprint] || d.Finding.Fingerprint != detector.Fingerprint(&d.Finding) {
			t.Errorf("fingerprint of %v", d.Finding.Diffs)
		}
		seen[d.Finding.Fingerprint] = true
	}
	ignored := ds[3].Ignored
	if ignored == nil || ignored.By != "storage-team" || ignored.Reason != "backup tool" || ignored.Line != 11 || ignored.ExpiresAt.IsZero() {
		t.Errorf("ignored: %+v", ignored)
	}
	if !strings.Contains(ds[4].Reason, "the ignore entry at p.yaml:12:5 ended on 2026-11-30") {
		t.Errorf("reason: %s", ds[4].Reason)
	}
	whole := instanceFinding(workerRef(0), withDiffs(tagDiff("a"), tagDiff("c")))
	if d := Decide(makeInput(t, withFindings(whole)))[0]; d.Finding.Fingerprint != whole.Fingerprint {
		t.Error("a finding that is not split has another fingerprint")
	}
}

// TestIgnoreThatCannotBeTold: an ignore entry whose expression fails neither
// ignores nor lets act.
func TestIgnoreThatCannotBeTold(t *testing.T) {
	spec := enforceTypes + "  ignore:\n  - {paths: [/instanceType], reason: x, when: have.nothing == 1}\n"
	d := Decide(makeInput(t, withPolicy(t, spec)))[0]
	if d.Action != Observe || d.Ignored != nil || !strings.Contains(d.Reason, "the ignore entry at p.yaml:10:5 cannot be evaluated") {
		t.Errorf("%s, ignored %v: %s", d.Action, d.Ignored, d.Reason)
	}
}

func TestAnnotations(t *testing.T) {
	set := func(key, value string) inputMod {
		return owner(workerRef(0), func(o *OwnerFacts) { o.Annotations = map[string]string{key: value} })
	}
	observing := withPolicy(t, strings.Replace(enforceTypes, "enforce", "observe", 1))
	tests := map[string]struct {
		mods   []inputMod
		mode   Mode
		action Action
	}{
		"lower":                     {[]inputMod{set(AnnotationMode, "observe")}, ModeObserve, Replace},
		"dryRun":                    {[]inputMod{set(AnnotationMode, "dryRun")}, ModeDryRun, Replace},
		"off":                       {[]inputMod{set(AnnotationMode, "off")}, ModeOff, Ignore},
		"no mode at all":            {[]inputMod{set(AnnotationMode, "enforced")}, ModeObserve, Replace},
		"higher has no effect":      {[]inputMod{observing, set(AnnotationMode, "enforce")}, ModeObserve, Replace},
		"on the Cluster":            {[]inputMod{cluster(func(c *ClusterFacts) { c.Annotations = map[string]string{AnnotationMode: "observe"} })}, ModeObserve, Replace},
		"ignore the path":           {[]inputMod{set(AnnotationIgnore, "/tags/a, /instanceType")}, ModeEnforce, Ignore},
		"ignore all":                {[]inputMod{set(AnnotationIgnore, "*")}, ModeEnforce, Ignore},
		"ignore another path":       {[]inputMod{set(AnnotationIgnore, "/tags/*")}, ModeEnforce, Replace},
		"ignore nothing":            {[]inputMod{set(AnnotationIgnore, "")}, ModeEnforce, Replace},
		"ignore what is no pointer": {[]inputMod{set(AnnotationIgnore, "instanceType")}, ModeEnforce, Replace},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := Decide(makeInput(t, tc.mods...))[0]
			if d.Mode != tc.mode || d.Action != tc.action || d.Executable() != (tc.mode == ModeEnforce && tc.action == Replace) {
				t.Errorf("%s in mode %s, want %s in %s (%s, %v)", d.Action, d.Mode, tc.action, tc.mode, d.Reason, d.Blocked)
			}
			if strings.HasPrefix(name, "ignore ") && tc.action == Ignore && (d.Ignored == nil || !strings.Contains(d.Ignored.By, AnnotationIgnore)) {
				t.Errorf("ignored: %+v", d.Ignored)
			}
		})
	}
}

func TestFactsOf(t *testing.T) {
	object := func(annotations map[string]string) *v1alpha1.DriftPolicy {
		o := &v1alpha1.DriftPolicy{}
		o.Annotations = annotations
		o.Labels = map[string]string{"l": annotations["x"]}
		return o
	}
	labels, annotations := FactsOf(
		object(map[string]string{"x": "infra", AnnotationMode: "enforce", AnnotationIgnore: "/a", AnnotationSkipReplace: "false"}),
		object(map[string]string{"x": "machine", "y": "machine", AnnotationMode: "observe", AnnotationIgnore: "/b", AnnotationSkipReplace: "true"}))
	want := map[string]string{"x": "infra", "y": "machine", AnnotationMode: "observe", AnnotationIgnore: "/b,/a", AnnotationSkipReplace: "true"}
	if diff := cmp.Diff(want, annotations); diff != "" || labels["l"] != "infra" {
		t.Errorf("annotations (-want +got):\n%s labels %v", diff, labels)
	}
}
