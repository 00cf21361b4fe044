package policies

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// The tests in this file are named after real situations from public reports.

const defaultsEnforced = "spec: {mode: enforce}\n"

// seenLong makes every finding old enough for every grace.
func seenLong(in *Input) {
	for _, d := range Decide(*in) {
		in.History[HistoryKey(d.Finding.Owner, d.Finding.Fingerprint)] = History{FirstSeen: in.Now.Add(-24 * time.Hour), Observations: 10}
	}
}

func state(have, reason string) func(*detector.Finding) {
	return func(f *detector.Finding) {
		f.Diffs = []detector.Diff{{Path: "/state", Want: providers.String("running"), Have: providers.String(have), Type: detector.Changed, Mutability: providers.InPlace}}
		f.Have = &providers.Resource{Fields: providers.FieldsOf(map[string]providers.Field{"/state": {Value: providers.String(have)}, "/stateReason": {Value: providers.String(reason)}})}
	}
}

func missing(reason string) func(*detector.Finding) {
	return func(f *detector.Finding) {
		f.Status, f.Reason = detector.Missing, reason
		f.Diffs = []detector.Diff{{Path: "/state", Want: providers.String("running"), Type: detector.Removed}}
		f.Have = nil
	}
}

// TestC58StateReason: (a) stopped by a person is only reported; (b) stopped by
// the cloud and (c) terminated by a spot interruption are replaced.
func TestC58StateReason(t *testing.T) {
	tests := map[string]struct {
		f      detector.Finding
		action Action
		rule   string
	}{
		"a: by a person":         {instanceFinding(workerRef(0), state("stopped", "Client.UserInitiatedShutdown")), Observe, "aws-instance-stopped"},
		"a: from inside":         {instanceFinding(workerRef(0), state("stopped", "Client.InstanceInitiatedShutdown")), Observe, "aws-instance-stopped"},
		"b: scheduled stop":      {instanceFinding(workerRef(0), state("stopped", "Server.ScheduledStop")), Replace, "aws-instance-stopped-by-cloud"},
		"b: spot stopped":        {instanceFinding(workerRef(0), state("stopped", "Server.SpotInstanceShutdown")), Replace, "aws-instance-stopped-by-cloud"},
		"no reason given":        {instanceFinding(workerRef(0), withDiffs(detector.Diff{Path: "/state", Mutability: providers.InPlace})), Observe, "aws-instance-stopped"},
		"c: spot reclaimed":      {instanceFinding(workerRef(0), missing("terminated: Server.SpotInstanceTermination")), Replace, "aws-instance-missing"},
		"nothing is there":       {instanceFinding(workerRef(0), missing("not in a complete snapshot")), Replace, "aws-instance-missing"},
		"a bastion is only seen": {instanceFinding(infraRef, missing("not in a complete snapshot"), func(f *detector.Finding) { f.Pool, f.Zone = "", "" }), Observe, "aws-bastion"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ds := Decide(makeInput(t, withPolicy(t, defaultsEnforced), withFindings(tc.f), seenLong))
			if len(ds) != 1 || ds[0].Action != tc.action || ds[0].Rule.ID != tc.rule || ds[0].Executable() != (tc.action == Replace) {
				t.Errorf("got %v by %s (%s), want %s by %s", summary(ds), ds[0].Rule.ID, ds[0].Reason, tc.action, tc.rule)
			}
		})
	}
}

// TestC07ClaimedRuleIsNeverRevoked: a rule that says that it is a controller's
// may be one, so no policy revokes it; and may be a lie, so it is critical.
func TestC07ClaimedRuleIsNeverRevoked(t *testing.T) {
	f := instanceFinding(infraRef, func(f *detector.Finding) {
		f.Resource.Kind = "SecurityGroup"
		f.Diffs = []detector.Diff{claimed("/ingress", "tcp 22-22 from 0.0.0.0/0")}
	})
	for name, spec := range map[string]string{
		"defaults":                         defaultsEnforced,
		"a policy that patches everything": "spec: {mode: enforce, rules: [{id: all, target: {provider: aws, kind: SecurityGroup, statuses: [Drifted]}, severity: critical, action: patch}]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			ds := Decide(makeInput(t, withPolicy(t, spec), withFindings(f), seenLong))
			if len(ds) != 1 || ds[0].Action != Observe || ds[0].Severity != Critical || ds[0].Executable() {
				t.Errorf("got %v (%s)", summary(ds), ds[0].Reason)
			}
		})
	}
}

// TestC52ZoneFreeze: all ten nodes of a zone are unreachable while the cloud
// says that they run. Nothing in the zone is acted on, the other zone goes on,
// and it resumes when the zone has cleared.
func TestC52ZoneFreeze(t *testing.T) {
	other := instanceFinding(workerRef(1), withDiffs(typeDiff), func(f *detector.Finding) { f.Zone, f.Pool = "z2", "MachineDeployment/b" })
	mods := []inputMod{withFindings(typeDrift(0), other), cluster(func(c *ClusterFacts) {
		c.Owners, c.Machines = 40, 40
		c.Pools["MachineDeployment/b"] = PoolFacts{Desired: 10, Ready: 10}
		c.Zones = map[string]ZoneFacts{"z1": {Machines: 10, Unhealthy: 10}, "z2": {Machines: 10}}
	})}
	want := []string{"a-0 i-a-0 replace /instanceType !ZoneFreeze", "a-1 i-a-1 replace /instanceType"}
	if diff := cmp.Diff(want, summary(Decide(makeInput(t, mods...)))); diff != "" {
		t.Errorf("frozen (-want +got):\n%s", diff)
	}
	mods = append(mods, cluster(func(c *ClusterFacts) { c.Zones["z1"] = ZoneFacts{Machines: 10, Unhealthy: 1} }))
	want[0] = "a-0 i-a-0 replace /instanceType"
	if diff := cmp.Diff(want, summary(Decide(makeInput(t, mods...)))); diff != "" {
		t.Errorf("cleared (-want +got):\n%s", diff)
	}
}

// TestC52DriftOfAZone: a zone of which more than the share drifts is frozen
// though the cluster as a whole is below it.
func TestC52DriftOfAZone(t *testing.T) {
	in := makeInput(t, withFindings(typeDrift(0), typeDrift(1)), cluster(func(c *ClusterFacts) {
		c.Owners, c.Machines, c.Zones = 100, 100, map[string]ZoneFacts{"z1": {Machines: 4}}
	}))
	for _, d := range Decide(in) {
		if diff := cmp.Diff([]string{GateMassDrift}, gatesOf(d)[:1]); diff != "" {
			t.Errorf("blocked (-want +got):\n%s", diff)
		}
	}
}

// TestC53FailedReplacementHalts: while the first replacement has not joined
// the next waits; when it has failed, its whole group halts, and only it.
func TestC53FailedReplacementHalts(t *testing.T) {
	three := withPolicy(t, enforceTypes+"  budgets: [{scope: pool, max: 3}, {scope: cluster, max: 5}]\n")
	one := withPolicy(t, enforceTypes)
	flight := func(failed string) inputMod {
		return func(in *Input) {
			in.InFlight = []InFlight{{Cluster: testCluster, Owner: workerRef(9), Pool: "MachineDeployment/a", Action: Replace, By: "holdfast", Failed: failed}}
		}
	}
	tests := map[string]struct {
		mods []inputMod
		want []string
	}{
		"the last is not ready yet": {[]inputMod{one, flight("")}, []string{GateBudget}},
		"room for more":             {[]inputMod{three, flight("")}, nil},
		"the last has failed":       {[]inputMod{three, flight("its node never joined")}, []string{GateHalted}},
		"another pool has failed": {[]inputMod{three, flight("its node never joined"), func(in *Input) { in.InFlight[0].Pool = "MachineDeployment/b" }},
			nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, gatesOf(Decide(makeInput(t, tc.mods...))[0])); diff != "" {
				t.Errorf("blocked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestC54InFlightWhoeverBeganIt: limit 3, of which a health check already uses
// 2: one slot is left, and machines that are skipped, paused or being deleted
// do not take it.
func TestC54InFlightWhoeverBeganIt(t *testing.T) {
	in := makeInput(t, withPolicy(t, enforceTypes+"  budgets: [{scope: pool, max: 3}, {scope: cluster, max: 10}]\n  safety: {maxDriftRatio: 100%, minHealthy: 0%}\n"),
		withFindings(typeDrift(0), typeDrift(1), typeDrift(2), typeDrift(3), typeDrift(4)),
		owner(workerRef(0), func(o *OwnerFacts) { o.SkipRemediation = Yes("skip-remediation") }),
		owner(workerRef(1), func(o *OwnerFacts) { o.Paused = Yes("paused") }),
		owner(workerRef(2), func(o *OwnerFacts) { o.Deleting = Yes("deleting") }),
		func(in *Input) {
			in.InFlight = []InFlight{
				{Cluster: testCluster, Owner: workerRef(8), Pool: "MachineDeployment/a", Action: Replace, By: "MachineHealthCheck"},
				{Cluster: testCluster, Owner: workerRef(9), Pool: "MachineDeployment/a", Action: Replace, By: "MachineHealthCheck"},
			}
		})
	want := []string{
		"a-0 i-a-0 replace /instanceType !SkipRemediation",
		"a-1 i-a-1 replace /instanceType !Paused",
		"a-2 i-a-2 replace /instanceType !Deleting",
		"a-3 i-a-3 replace /instanceType",
		"a-4 i-a-4 replace /instanceType !Budget",
	}
	if diff := cmp.Diff(want, summary(Decide(in))); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// TestC55Rollout: machines of an old revision, and those of a pool that rolls
// out, are left to the rollout.
func TestC55Rollout(t *testing.T) {
	for gate, change := range map[string]func(*OwnerFacts){
		GateRollout:     func(o *OwnerFacts) { o.Rollout = Yes("MachineDeployment a is rolling out") },
		GateOldRevision: func(o *OwnerFacts) { o.OldRevision = Yes("MachineSet a-1 is not the newest") },
	} {
		d := Decide(makeInput(t, owner(workerRef(0), change)))[0]
		if diff := cmp.Diff([]string{gate}, gatesOf(d)); diff != "" || d.Executable() {
			t.Errorf("blocked (-want +got):\n%s", diff)
		}
	}
}

// TestC60BlockedSlotIsFree: a replacement that failed, for example because of
// termination protection, holds no slot of the cluster.
func TestC60BlockedSlotIsFree(t *testing.T) {
	in := makeInput(t, func(in *Input) {
		in.InFlight = []InFlight{{Cluster: testCluster, Owner: machineRef("b-0"), Pool: "MachineDeployment/b", Action: Replace, Failed: "termination protection"}}
	})
	if d := Decide(in)[0]; !d.Executable() {
		t.Errorf("blocked: %+v", d.Blocked)
	}
}

// TestC61NoSecondReplacement: a machine that is already being drained is not
// replaced again, however long that takes.
func TestC61NoSecondReplacement(t *testing.T) {
	in := makeInput(t, withPolicy(t, enforceTypes+"  budgets: [{scope: pool, max: 5}, {scope: cluster, max: 5}]\n"), func(in *Input) {
		in.InFlight = []InFlight{{Cluster: testCluster, Owner: workerRef(0), Pool: "MachineDeployment/a", Action: Replace, By: "deletion of Machine a-0"}}
	})
	if diff := cmp.Diff([]string{GateBudget}, gatesOf(Decide(in)[0])); diff != "" {
		t.Errorf("blocked (-want +got):\n%s", diff)
	}
}

// TestC62ExternallyManaged: nothing is written to an infrastructure cluster
// that somebody else manages; its machines are decided as ever.
func TestC62ExternallyManaged(t *testing.T) {
	rule := detector.Diff{Path: "/ingress", Element: true, Have: providers.String("tcp 22-22 from 10.0.0.0/8"), Type: detector.Added, Mutability: providers.InPlace}
	sg := instanceFinding(infraRef, withDiffs(rule), func(f *detector.Finding) {
		f.Resource.Kind, f.Resource.ID, f.Pool, f.Zone = "SecurityGroup", "sg-1", "", ""
	})
	in := makeInput(t, withPolicy(t, defaultsEnforced), withFindings(sg, typeDrift(0)),
		owner(infraRef, func(o *OwnerFacts) { o.ExternallyManaged = Yes("cluster.x-k8s.io/managed-by") }), seenLong)
	want := []string{"eu-1 sg-1 patch /ingress !ExternallyManaged", "a-0 i-a-0 replace /instanceType"}
	if diff := cmp.Diff(want, summary(Decide(in))); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// TestC63Move: while clusterctl moves the objects nothing is written, and what
// is missing at the source is no loss.
func TestC63Move(t *testing.T) {
	in := makeInput(t, withPolicy(t, defaultsEnforced), withFindings(instanceFinding(workerRef(0), missing("not found"))),
		owner(workerRef(0), func(o *OwnerFacts) {
			o.Paused, o.Moving, o.Deleting = Yes("Cluster is paused"), Yes("delete-for-move"), Yes("deleting")
		}), seenLong)
	if diff := cmp.Diff([]string{GatePaused, GateDeleting, GateMoving}, gatesOf(Decide(in)[0])); diff != "" {
		t.Errorf("blocked (-want +got):\n%s", diff)
	}
}

// TestC69OneSnapshot: a verdict older than the limit leads to nothing, for
// each finding by its own snapshot.
func TestC69OneSnapshot(t *testing.T) {
	old := typeDrift(0)
	old.SeenAt = testNow.Add(-10*time.Minute - time.Second)
	fresh := typeDrift(1)
	fresh.SeenAt = testNow.Add(-10 * time.Minute)
	want := []string{"a-0 i-a-0 replace /instanceType !StaleSnapshot", "a-1 i-a-1 replace /instanceType"}
	if diff := cmp.Diff(want, summary(Decide(makeInput(t, withFindings(old, fresh))))); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// TestC25AllAtOnce: when every machine drifts at once, as after a change of
// what a lookup gives, nothing is replaced.
func TestC25AllAtOnce(t *testing.T) {
	var fs []detector.Finding
	for i := range 10 {
		fs = append(fs, typeDrift(i))
	}
	for _, d := range Decide(makeInput(t, withFindings(fs...))) {
		if d.Executable() || gatesOf(d)[0] != GateMassDrift {
			t.Errorf("%v", gatesOf(d))
		}
	}
}

// TestC24UserData: a renewed bootstrap token is no reason for anything.
func TestC24UserData(t *testing.T) {
	f := instanceFinding(workerRef(0), withDiffs(detector.Diff{Path: "/userData", Type: detector.Changed, Mutability: providers.Immutable, Sensitive: true}))
	if d := Decide(makeInput(t, withPolicy(t, defaultsEnforced), withFindings(f), seenLong))[0]; d.Action != Ignore || d.Severity != Info {
		t.Errorf("%s %s", d.Action, d.Severity)
	}
}

// TestC09ForeignSecurityGroup: a group that nobody declared is reported, and
// detached only if a policy says so; one that is gone is attached again.
func TestC09ForeignSecurityGroup(t *testing.T) {
	added := detector.Diff{Path: "/securityGroups", Element: true, Have: providers.String("sg-default"), Type: detector.Added, Mutability: providers.InPlace}
	removed := detector.Diff{Path: "/securityGroups", Element: true, Want: providers.String("sg-app"), Type: detector.Removed, Mutability: providers.InPlace}
	f := instanceFinding(workerRef(0), withDiffs(added, removed))
	ds := Decide(makeInput(t, withPolicy(t, defaultsEnforced), withFindings(f), seenLong))
	want := []string{"a-0 i-a-0 observe /securityGroups", "a-0 i-a-0 patch /securityGroups"}
	if diff := cmp.Diff(want, summary(ds)); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	permitted := withPolicy(t, defaultsEnforced[:len("spec: {mode: enforce")]+", rules: [{id: aws-instance-foreign-security-group, action: patch}]}\n")
	for _, d := range Decide(makeInput(t, permitted, withFindings(f), seenLong)) {
		if d.Action != Patch {
			t.Errorf("%s: %s", d.Action, d.Reason)
		}
	}
}

// TestC28NoLeniency: another type is reported unless a policy lists it as good
// enough.
func TestC28NoLeniency(t *testing.T) {
	f := instanceFinding(workerRef(0), withDiffs(detector.Diff{Path: "/instanceType", Want: providers.String("t4g.nano"), Have: providers.String("t4g.micro"),
		Type: detector.Changed, Mutability: providers.InPlaceDisruptive}))
	if d := Decide(makeInput(t, withPolicy(t, defaultsEnforced), withFindings(f), seenLong))[0]; d.Action != Replace || d.Severity != High {
		t.Errorf("%s %s", d.Action, d.Severity)
	}
	lenient := withPolicy(t, "spec: {ignore: [{target: {kind: Instance}, paths: [/instanceType], when: \"diff.want == 't4g.nano' && diff.have == 't4g.micro'\", reason: as good}]}\n")
	if d := Decide(makeInput(t, lenient, withFindings(f)))[0]; d.Action != Ignore || d.Ignored == nil {
		t.Errorf("%s %v", d.Action, d.Ignored)
	}
}
