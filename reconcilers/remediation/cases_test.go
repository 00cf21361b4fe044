package remediation_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

type ctxType = context.Context

func stamp(t time.Time) *metav1.Time { return ptr.To(metav1.NewTime(t.Truncate(time.Second))) }

// heldBy expects that a gate keeps a machine from being repaired or replaced.
func heldBy(t *testing.T, gate string, do func(*world)) {
	t.Helper()
	w := newWorld(t, "")
	do(w)
	w.tamper("a-1-m1", "/tags/team", "red")
	w.tamper("a-1-m2", "/keyName", "other")
	w.run(5 * time.Minute)
	for _, m := range []string{"a-1-m1", "a-1-m2"} {
		w.phase(m, v1alpha1.PhaseBlocked, gate)
	}
	if w.applied() > 0 || len(w.capi.deleted) > 0 {
		t.Error("acted")
	}
}

func pauseCluster(w *world) {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "eu"}}
	w.update(c, func() { c.Spec.Paused = ptr.To(true) })
}

// TestC52FrozenZone: where the nodes of a whole zone cannot be reached, nothing
// in it is touched, whatever its machines look like; when that has cleared, it
// goes on.
func TestC52FrozenZone(t *testing.T) {
	w := newWorld(t, "")
	ready := func(holds bool) {
		for _, m := range w.machines() {
			w.update(&m, func() {
				m.Spec.FailureDomain = "z1"
				condition(&m, clusterv1.MachineReadyCondition, holds, "X")
			})
		}
	}
	ready(false)
	w.tamper("a-1-m1", "/keyName", "other")
	w.run(3 * time.Minute)
	if r := w.phase("a-1-m1", v1alpha1.PhaseBlocked, ""); !blockedBy(r, "ZoneFreeze") || len(w.capi.deleted) > 0 {
		t.Errorf("blocked by %v", r.Status.Blocked)
	}
	ready(true)
	w.run(5 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "")
}

func blockedBy(r *v1alpha1.Remediation, gate string) bool {
	return slices.ContainsFunc(r.Status.Blocked, func(b v1alpha1.GateBlock) bool { return b.By == gate })
}

// TestC53HaltAfterFailedReplacement: a replacement that never joins fails, and
// halts its pool: the other machines stay. A whole group, or a person, ends it.
func TestC53HaltAfterFailedReplacement(t *testing.T) {
	w := newWorld(t, "")
	w.capi.neverReady, w.proc.controller.Times.Replace = true, 10*time.Minute
	for _, m := range []string{"a-1-m1", "a-1-m2", "a-1-m3"} {
		w.tamper(m, "/keyName", "other")
	}
	w.run(5 * time.Minute)
	if n := len(w.capi.deleted); n != 1 {
		t.Fatalf("%d machines were replaced at once", n)
	}
	w.run(8 * time.Minute)
	first := w.phase(w.capi.deleted[0], v1alpha1.PhaseFailed, "NotReady")
	if n := len(w.capi.deleted); n != 1 {
		t.Fatalf("%d machines were replaced after a failure\n\t%s", n, w.story())
	}
	for _, r := range w.records() {
		if r.UID != first.UID && !blockedBy(&r, "Halted") {
			t.Errorf("%s is %s, blocked by %v", r.Spec.Owner.Name, r.Status.Phase, r.Status.Blocked)
		}
	}
	// The machine joins after all.
	w.capi.neverReady = false
	late := w.find(w.capi.created[len(w.capi.created)-1])
	w.update(late, func() { condition(late, clusterv1.MachineReadyCondition, true, "X") })
	w.run(20 * time.Minute)
	if n := len(w.capi.deleted); n != 3 {
		t.Errorf("%d machines were replaced when the group was whole again\n\t%s", n, w.story())
	}
	first = w.phase(first.Spec.Owner.Name, v1alpha1.PhaseFailed, "NotReady")
	if !meta.IsStatusConditionTrue(first.Status.Conditions, v1alpha1.ConditionVerified) {
		t.Errorf("conditions: %v", first.Status.Conditions)
	}
}

// TestC54InFlight: of three slots a health check uses two; one machine is to be
// skipped, so of three that drift one is replaced.
func TestC54InFlight(t *testing.T) {
	w := newWorld(t, `  safety: {maxDriftRatio: 100%, minHealthy: 0%}
  budgets: [{scope: cluster, max: 3}, {scope: pool, max: 5}]
  rules: [{id: key, target: {kind: Instance}, paths: [/keyName], action: replace, grace: {for: 0s}}]
`)
	w.capi.stuck = true
	for _, name := range []string{"a-1-m1", "a-1-m2"} { // a health check's, on their way out
		m := w.find(name)
		w.update(m, func() { condition(m, clusterv1.MachineOwnerRemediatedCondition, false, "X") })
		w.capi.remove(w.find(name))
	}
	m := w.find("a-1-m3")
	w.update(m, func() { m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""} })
	for _, name := range []string{"a-1-m3", "a-1-m4", "cp-m5"} {
		w.tamper(name, "/keyName", "other")
	}
	w.run(3 * time.Minute)
	w.phase("a-1-m3", v1alpha1.PhaseBlocked, "SkipRemediation")
	w.phase("a-1-m4", v1alpha1.PhaseVerifying, "")
	w.phase("cp-m5", v1alpha1.PhaseBlocked, "")
}

// TestC55Rollout: a pool that rolls out, and a machine of an old revision, are
// left to the rollout.
func TestC55Rollout(t *testing.T) {
	w := newWorld(t, "")
	old := w.find("a-1-m2")
	w.update(old, func() { condition(old, clusterv1.MachineUpToDateCondition, false, "NotUpToDate") })
	w.tamper("a-1-m2", "/keyName", "other")
	w.tamper("a-1-m1", "/keyName", "other")
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "a"}}
	w.run(time.Minute)
	w.phase("a-1-m2", v1alpha1.PhaseBlocked, "OldRevision")
	w.update(md, func() { md.Spec.Paused = ptr.To(true) }) // a new generation that nobody has seen
	w.capi.deaf = true
	w.run(2 * time.Minute)
	if len(w.capi.deleted) > 1 {
		t.Errorf("deleted %v", w.capi.deleted)
	}
	w.phase("a-1-m2", v1alpha1.PhaseBlocked, "OldRevision")
}

// TestC61BlockedOnDrain: a drain that a PodDisruptionBudget holds up is waited
// for: no finalizer is touched, and no other machine is replaced meanwhile.
func TestC61BlockedOnDrain(t *testing.T) {
	w := newWorld(t, "")
	w.capi.stuck = true
	w.tamper("a-1-m1", "/keyName", "other")
	w.run(2 * time.Minute)
	w.tamper("a-1-m2", "/keyName", "other")
	w.proc.controller.Times.Replace, w.proc.controller.Times.Take = time.Minute, time.Minute
	w.run(8 * time.Minute)
	r := w.phase("a-1-m1", v1alpha1.PhaseVerifying, "BlockedOnDrain")
	if !strings.Contains(r.Status.Message, "disruption budget") {
		t.Errorf("message: %s", r.Status.Message)
	}
	w.phase("a-1-m2", v1alpha1.PhaseBlocked, "")
	if m := w.find("a-1-m1"); m == nil || !slices.Contains(m.Finalizers, finalizer) {
		t.Error("the finalizer is gone")
	}
	w.capi.stuck = false
	w.run(10 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "")
	w.phase("a-1-m2", v1alpha1.PhaseSucceeded, "")
}

// TestC62ExternallyManaged: what somebody else manages is not written to; the
// cluster's machines are.
func TestC62ExternallyManaged(t *testing.T) {
	w := newWorld(t, `  safety: {maxDriftRatio: 100%}
  rules: [{id: tags, target: {}, paths: [/tags], action: patch, grace: {for: 0s}}]
`)
	infra := &infrav1.AWSCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "eu"}}
	w.update(infra, func() { infra.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "terraform"} })
	vpc := providers.ID{Kind: providers.KindVPC, Name: "vpc-1"}
	field := func(v string) providers.Fields {
		return providers.FieldsOf(map[string]providers.Field{"/tags/team": {Value: providers.String(v), Mutability: providers.InPlace}})
	}
	w.cloud.Want(providers.OwnerRef{Kind: "AWSCluster", Namespace: w.ns, Name: "eu"}, providers.Resource{ID: vpc, Fields: field("blue")})
	w.cloud.Put(&providers.Resource{ID: vpc, Fields: field("red")})
	w.tamper("a-1-m1", "/tags/team", "red")
	w.touched["eu"] = true
	w.run(4 * time.Minute)
	w.phase("eu", v1alpha1.PhaseBlocked, "ExternallyManaged")
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "")
	if w.applied() != 1 {
		t.Errorf("the cloud was asked %d times", w.applied())
	}
}

// TestC63Move: clusterctl pauses the Cluster while it moves: nothing is done on
// either side, and what has begun waits.
func TestC63Move(t *testing.T) {
	heldBy(t, "Paused", pauseCluster)
	t.Run("begun", func(t *testing.T) {
		w := newWorld(t, "")
		w.capi.deaf = true // its owner has not taken it up yet
		w.tamper("a-1-m1", "/keyName", "other")
		w.run(time.Minute)
		w.phase("a-1-m1", v1alpha1.PhaseRunning, "WaitingForOwner")
		pauseCluster(w)
		writes := len(w.proc.writes)
		w.run(5 * time.Minute)
		w.phase("a-1-m1", v1alpha1.PhaseRunning, "Waiting")
		if n := w.proc.writes[writes:]; len(n) != 1 { // that it waits
			t.Errorf("wrote %v", n)
		}
	})
}

// TestC65NoIdentity: a machine without a provider id, and one of two that claim
// an instance, are waited for.
func TestC65NoIdentity(t *testing.T) {
	w := newWorld(t, "")
	fields := providers.FieldsOf(map[string]providers.Field{"/keyName": {Value: providers.String("k"), Mutability: providers.Immutable}})
	wants := func(machine string, r providers.Resource) {
		r.Fields = fields
		w.cloud.Want(providers.OwnerRef{Kind: "AWSMachine", Namespace: w.ns, Name: machine}, r)
		w.touched[machine] = true
	}
	wants("a-1-m1", providers.Resource{ID: providers.ID{Kind: providers.KindInstance}, Unsettled: true})
	wants("a-1-m2", providers.Resource{ID: idOf("a-1-m3")})
	w.tamper("a-1-m3", "/keyName", "other")
	w.run(5 * time.Minute)
	if len(w.capi.deleted) > 0 || w.applied() > 0 {
		t.Errorf("acted: deleted %v\n\t%s", w.capi.deleted, w.story())
	}
}

// TestC69FreshRead: what was decided on is read again before the act, and
// dropped where it has moved: drift that is gone, a machine of the same name
// with another UID, an annotation that nobody has told of.
func TestC69FreshRead(t *testing.T) {
	for name, move := range map[string]func(*world){
		"no drift": func(w *world) { w.tamper("a-1-m1", "/keyName", "k") },
		"another machine": func(w *world) {
			m := w.find("a-1-m1")
			infra := &infrav1.AWSMachine{}
			w.get("a-1-m1", infra)
			if err := w.api.Delete(w.ctx(), infra); err != nil {
				w.t.Fatal(err)
			}
			infra.UID, infra.ResourceVersion = "", ""
			w.create(infra)
			_ = m
		},
		"skipped": func(w *world) {
			m := w.find("a-1-m1")
			w.update(m, func() { m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.tamper("a-1-m1", "/keyName", "other")
			if err := w.proc.sweep(); err != nil {
				t.Fatal(err)
			}
			r := w.phase("a-1-m1", v1alpha1.PhasePending, "Ready")
			move(w)
			for range 3 {
				if err := w.proc.reconcile(r.Name); err != nil {
					t.Fatal(err)
				}
				w.capi.step()
				w.clock.Step(time.Minute)
			}
			if r := w.record("a-1-m1"); r.Status.AttemptCount != 0 || len(w.capi.deleted) > 0 {
				t.Errorf("acted: %s, deleted %v", r.Status.Phase, w.capi.deleted)
			}
		})
	}
}

// TestSameDrift: a machine that comes up with what its predecessor was replaced
// for is not replaced again, nor is anything else of the group.
func TestSameDrift(t *testing.T) {
	w := newWorld(t, "")
	w.capi.spoil = func(m string) { w.tamper(m, "/keyName", "other") }
	w.tamper("a-1-m1", "/keyName", "other")
	w.tamper("a-1-m2", "/keyName", "other")
	w.run(30 * time.Minute)
	if len(w.capi.deleted) != 1 {
		t.Fatalf("replaced %v\n\t%s", w.capi.deleted, w.story())
	}
	r := w.phase(w.capi.deleted[0], v1alpha1.PhaseLatched, "SameDrift")
	if r.Status.Attempts[0].Outcome != v1alpha1.OutcomeNoEffect {
		t.Errorf("attempt: %+v", r.Status.Attempts[0])
	}
	if other := w.phase("a-1-m2", v1alpha1.PhaseBlocked, ""); w.capi.deleted[0] == "a-1-m1" && !blockedBy(other, "Halted") {
		t.Errorf("blocked by %v", other.Status.Blocked)
	}
	// A person may want it all the same.
	w.capi.spoil = nil
	w.edit(r, func(r *v1alpha1.Remediation) { r.Spec.RetriedAt = stamp(w.clock.Now()) })
	w.run(20 * time.Minute)
	for _, m := range w.capi.created[7:] {
		if w.find(m) != nil && w.have(m, "/keyName") != "k" {
			t.Errorf("%s still drifts\n\t%s", m, w.story())
		}
	}
}

// TestSlowRunaway: where the new machine is spoilt only later, each one in its
// turn is a new drift of a new machine; the attempts go along with the place.
func TestSlowRunaway(t *testing.T) {
	w := newWorld(t, "")
	w.tamper("a-1-m1", "/keyName", "other")
	for range 8 {
		w.run(6 * time.Minute)
		if newest := w.capi.created[len(w.capi.created)-1]; newest != "cp-m7" && w.find(newest) != nil {
			w.tamper(newest, "/keyName", "other")
		}
	}
	if n := len(w.capi.deleted); n != 3 {
		t.Errorf("replaced %d times: %v\n\t%s", n, w.capi.deleted, w.story())
	}
	w.phase(w.capi.created[len(w.capi.created)-1], v1alpha1.PhaseLatched, "AttemptsUsed")
}

// TestNotTaken: a request that nobody takes up is taken back, so that nothing
// happens later that nobody counts.
func TestNotTaken(t *testing.T) {
	for name, p := range map[string]path{
		"health check": {prepare: healthCheck}, "machine set": {}, "surge": {policy: ", replace: {strategy: surge}", prepare: func(w *world) { w.capi.neverReady = true }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, p.policy)
			w.capi.deaf, w.proc.controller.Times.Take = true, 3*time.Minute
			p.machine = "a-1-m1"
			w.drift(p)
			w.run(6 * time.Minute)
			w.phase("a-1-m1", v1alpha1.PhaseFailed, "NotTaken")
			w.capi.deaf, w.capi.neverReady = false, false
			w.run(5 * time.Minute)
			if slices.Contains(w.capi.deleted, "a-1-m1") || len(w.machines()) != 7 {
				t.Errorf("deleted %v, %d machines are there", w.capi.deleted, len(w.machines()))
			}
			md := &clusterv1.MachineDeployment{}
			if w.get("a", md); *md.Spec.Replicas != 4 {
				t.Errorf("%d replicas", *md.Spec.Replicas)
			}
		})
	}
}

// TestTakenBack: drift that goes before anybody took up the replacement.
func TestTakenBack(t *testing.T) {
	w := newWorld(t, "")
	w.capi.deaf = true
	w.tamper("a-1-m1", "/keyName", "other")
	w.run(time.Minute)
	w.tamper("a-1-m1", "/keyName", "k")
	w.run(2 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseCancelled, "TakenBack")
	w.capi.deaf = false
	w.run(2 * time.Minute)
	if len(w.capi.deleted) > 0 {
		t.Errorf("deleted %v", w.capi.deleted)
	}
}

// TestNoPath: a Machine that nothing would replace is never deleted, whatever
// the rule says.
func TestNoPath(t *testing.T) {
	for name, policy := range map[string]string{"auto": "", "delete": ", replace: {strategy: delete}", "surge": ", replace: {strategy: surge}"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, policy)
			m := w.find("a-1-m1")
			w.update(m, func() {
				m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Robot", Name: "r", UID: "u", Controller: ptr.To(true)}}
			})
			w.tamper("a-1-m1", "/keyName", "other")
			w.run(3 * time.Minute)
			r := w.phase("a-1-m1", v1alpha1.PhaseBlocked, "")
			if r.Status.AttemptCount != 0 || len(w.capi.deleted) > 0 {
				t.Errorf("acted: %+v", r.Status)
			}
		})
	}
}

// TestActionChanged: a replacement that nobody took up yet is taken back when the
// policy wants the value set instead.
func TestActionChanged(t *testing.T) {
	const policy = "  safety: {maxDriftRatio: 100%, minHealthy: 50%}\n  rules: [{id: tags, target: {kind: Instance}, paths: [/tags], grace: {for: 0s}, action: "
	w := newWorld(t, policy+"replace}]\n")
	w.capi.deaf = true
	w.tamper("a-1-m1", "/tags/team", "red")
	w.run(time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseRunning, "WaitingForOwner")
	w.policy(policy + "patch}]\n")
	w.run(2 * time.Minute)
	w.capi.deaf = false
	w.run(4 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
	if len(w.capi.deleted) > 0 || w.have("a-1-m1", "/tags/team") != "blue" {
		t.Errorf("deleted %v, %s\n\t%s", w.capi.deleted, w.have("a-1-m1", "/tags/team"), w.story())
	}
}

// TestPausedWhileSettling: a pause holds also what the cloud has begun to do.
func TestPausedWhileSettling(t *testing.T) {
	w := newWorld(t, "")
	w.cloud.Fail(fake.OpApply, providers.ErrPending)
	w.tamper("a-1-m1", "/tags/team", "red")
	w.run(30 * time.Second)
	w.phase("a-1-m1", v1alpha1.PhaseRunning, "Settling")
	pauseCluster(w)
	before := w.applied()
	w.run(time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseRunning, "Waiting")
	if n := w.applied() - before; n > 0 {
		t.Errorf("wrote %d times to a paused cluster's machine", n)
	}
}

// TestHeldWhileNothingShows: what the cloud is in the middle of waits too when the
// read shows no drift any more that would tell of the gate.
func TestHeldWhileNothingShows(t *testing.T) {
	for name, hold := range map[string]func(*world){
		"paused": pauseCluster,
		"mode annotated": func(w *world) {
			m := w.find("a-1-m1")
			w.update(m, func() { m.Annotations = map[string]string{v1alpha1.AnnotationMode: "observe"} })
		},
		"mode": func(w *world) {
			set, problems := policies.LoadSources(policies.Options{}, policies.Source{Name: "p.yaml", Data: []byte(
				strings.Replace(policyHead, "mode: enforce", "mode: observe", 1) + strings.ReplaceAll(policyBase, "REPLACE", ""))})
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			w.set = set
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.restart = &restart{never: true}
			w.tamper("a-1-m1", "/tags/team", "red")
			w.run(10 * time.Second)
			w.phase("a-1-m1", v1alpha1.PhaseRunning, "Settling")
			hold(w)
			before := w.applied()
			w.run(time.Minute)
			w.phase("a-1-m1", v1alpha1.PhaseRunning, "Waiting")
			if n := w.applied() - before; n > 0 {
				t.Errorf("wrote %d times", n)
			}
		})
	}
}
