package remediation_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// TestPatch: a label is set back, the record tells the story, and afterwards
// nothing is written any more.
func TestPatch(t *testing.T) {
	w := newWorld(t, "")
	w.tamper("a-1-m1", "/tags/team", "red")
	w.run(4 * time.Minute)
	r := w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
	if got := w.have("a-1-m1", "/tags/team"); got != "blue" {
		t.Errorf("team is %q", got)
	}
	want := []string{
		"a-1-m1 ->Pending Ready", "a-1-m1 Pending->Running Acting", "a-1-m1 Running->Verifying WaitingForRead", "a-1-m1 Verifying->Succeeded Verified",
	}
	if diff := cmp.Diff(want, w.told); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
	if len(r.OwnerReferences) != 1 || r.OwnerReferences[0].Kind != "Cluster" || r.Spec.Machine.Name != "a-1-m1" || r.Spec.Scope.Account != "111122223333" ||
		len(r.Spec.Plan) != 1 || *r.Spec.Plan[0].Seen != "red" || *r.Spec.Plan[0].Want != "blue" {
		t.Errorf("record: %+v", r)
	}
	if n := w.applied(); n != 1 {
		t.Errorf("the cloud was asked %d times", n)
	}
	before := len(w.proc.writes)
	w.run(5 * time.Minute)
	if after := w.proc.writes[before:]; len(after) > 0 {
		t.Errorf("steady state writes: %v", after)
	}
}

// TestNoDriftNoWrite: nothing drifts, nothing is written, and in a mode that
// does not enforce nothing is either.
func TestNoDriftNoWrite(t *testing.T) {
	w := newWorld(t, "")
	w.run(3 * time.Minute)
	w.policy("  mode: dryRun\n"[:0] + "  rules: [{id: tags, target: {kind: Instance}, paths: [/tags], action: observe}]\n")
	w.tamper("a-1-m1", "/tags/team", "red")
	w.run(3 * time.Minute)
	if len(w.proc.writes) > 0 || w.applied() > 0 {
		t.Errorf("wrote %v, and %d times to the cloud", w.proc.writes, w.applied())
	}
}

// TestApproval: an action waits for a person, goes on when approved, ends when
// denied, and an approval is for one time.
func TestApproval(t *testing.T) {
	w := newWorld(t, `  safety: {maxDriftRatio: 100%, minHealthy: 50%}
  rules: [{id: tags, target: {kind: Instance}, paths: [/tags], action: patch, grace: {for: 0s}, approval: required}]
`)
	w.tamper("a-1-m1", "/tags/team", "red")
	w.tamper("a-1-m2", "/tags/team", "red")
	w.run(2 * time.Minute)
	approve, deny := w.phase("a-1-m1", v1alpha1.PhaseAwaitingApproval, "Approval"), w.phase("a-1-m2", v1alpha1.PhaseAwaitingApproval, "Approval")
	if w.applied() > 0 {
		t.Fatal("acted without approval")
	}
	yes, no := true, false
	w.edit(approve, func(r *v1alpha1.Remediation) { r.Spec.Approved, r.Spec.ApprovedBy = &yes, "anna" })
	w.edit(deny, func(r *v1alpha1.Remediation) { r.Spec.Approved, r.Spec.ApprovedBy = &no, "anna" })
	w.run(4 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
	w.phase("a-1-m2", v1alpha1.PhaseCancelled, "Denied")
	if w.have("a-1-m1", "/tags/team") != "blue" || w.have("a-1-m2", "/tags/team") != "red" {
		t.Error("the wrong one was repaired")
	}
	w.tamper("a-1-m1", "/tags/team", "red")
	w.run(3 * time.Minute)
	if r := w.phase("a-1-m1", v1alpha1.PhaseAwaitingApproval, "Approval"); r.Spec.Approved != nil || r.Status.Attempts[0].Outcome != v1alpha1.OutcomeReverted {
		t.Errorf("an approval counts twice: %+v", r)
	}
	w.edit(deny, func(r *v1alpha1.Remediation) { r.Spec.Approved = &yes })
	w.run(4 * time.Minute)
	w.phase("a-1-m2", v1alpha1.PhaseSucceeded, "Verified")
}

// TestRunaway: a repair that has no effect is tried as often as allowed, then
// not again until a person says so.
func TestRunaway(t *testing.T) {
	w := newWorld(t, "")
	w.cloud.Inert(idOf("a-1-m1"), true)
	w.tamper("a-1-m1", "/tags/team", "red")
	w.run(30 * time.Minute)
	r := w.phase("a-1-m1", v1alpha1.PhaseLatched, "NoEffect")
	if n := w.applied(); n != 3 || len(r.Status.Attempts) != 3 {
		t.Errorf("the cloud was asked %d times in %d attempts", n, len(r.Status.Attempts))
	}
	w.cloud.Inert(idOf("a-1-m1"), false)
	w.run(10 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseLatched, "")
	w.edit(r, func(r *v1alpha1.Remediation) { r.Spec.RetriedAt = stamp(w.clock.Now()) })
	w.run(5 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "")
}

// TestRetryAhead: a retry that a wrong clock dates ahead is one retry.
func TestRetryAhead(t *testing.T) {
	w := newWorld(t, "")
	w.cloud.Inert(idOf("a-1-m1"), true)
	w.tamper("a-1-m1", "/tags/team", "red")
	w.run(30 * time.Minute)
	r := w.phase("a-1-m1", v1alpha1.PhaseLatched, "NoEffect")
	before := w.applied()
	w.edit(r, func(r *v1alpha1.Remediation) { r.Spec.RetriedAt = stamp(w.clock.Now().Add(48 * time.Hour)) })
	w.run(40 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseLatched, "NoEffect")
	if n := w.applied() - before; n != 3 {
		t.Errorf("the cloud was asked %d times more", n)
	}
}

// TestContested: somebody who sets the value back each time is named, and the
// fight ends.
func TestContested(t *testing.T) {
	const terraform = "arn:aws:iam::111122223333:user/terraform"
	w := newWorld(t, "")
	w.by = terraform
	for range 20 {
		w.tamper("a-1-m1", "/tags/team", "red")
		w.run(3 * time.Minute)
		if r := w.record("a-1-m1"); len(r.Status.Attempts) == 2 {
			w.by = "" // the event of the last time was lost
		}
	}
	r := w.phase("a-1-m1", v1alpha1.PhaseLatched, "Reverted")
	if n := w.applied(); n != 3 {
		t.Errorf("repaired %d times", n)
	}
	for _, a := range r.Status.Attempts {
		if a.Outcome != v1alpha1.OutcomeReverted {
			t.Errorf("attempt: %+v", a)
		}
	}
	if r.Status.ContestedBy != terraform || !strings.Contains(r.Status.Message, "set back by "+terraform) {
		t.Errorf("contested by %q: %s", r.Status.ContestedBy, r.Status.Message)
	}
}

// TestChangedAgainBeforeItIsVerified: a value that is neither the wanted one nor
// the one before was changed again, which no patience makes go by; the old one
// may be a read that is late.
func TestChangedAgainBeforeItIsVerified(t *testing.T) {
	acted := func(t *testing.T) *world {
		w := newWorld(t, "")
		w.tamper("a-1-m1", "/tags/team", "red")
		for range 12 {
			w.run(10 * time.Second)
			if w.record("a-1-m1").Status.Phase == v1alpha1.PhaseVerifying {
				return w
			}
		}
		t.Fatalf("nothing was done:\n\t%s", w.story())
		return nil
	}
	t.Run("to another value", func(t *testing.T) {
		w := acted(t)
		w.by = "anna"
		w.tamper("a-1-m1", "/tags/team", "green")
		w.run(40 * time.Second)
		if r := w.phase("a-1-m1", v1alpha1.PhaseBlocked, "CoolDown"); r.Status.Attempts[0].Outcome != v1alpha1.OutcomeReverted || r.Status.ContestedBy != "anna" {
			t.Errorf("%+v, contested by %q", r.Status.Attempts, r.Status.ContestedBy)
		}
		w.run(110 * time.Second)
		w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
	})
	t.Run("to the value before", func(t *testing.T) {
		w := acted(t)
		w.tamper("a-1-m1", "/tags/team", "red")
		w.run(90 * time.Second)
		w.phase("a-1-m1", v1alpha1.PhaseVerifying, "WaitingForRead")
		w.run(time.Minute)
		if r := w.record("a-1-m1"); r.Status.Attempts[0].Outcome != v1alpha1.OutcomeNoEffect {
			t.Errorf("%+v", r.Status.Attempts)
		}
	})
}

// TestC60Protected: a resource that the cloud protects is left as it is, and
// the slot is free for the next.
func TestC60Protected(t *testing.T) {
	w := newWorld(t, "")
	w.cloud.Fail(fake.OpApply, &providers.ApplyError{Reason: providers.ReasonProtected, Err: errors.New("OperationNotPermitted")})
	w.tamper("a-1-m1", "/tags/team", "red")
	w.run(2 * time.Minute)
	r := w.phase("a-1-m1", v1alpha1.PhaseBlocked, "Protected")
	if r.Status.Attempts[0].Outcome != v1alpha1.OutcomeHeld || w.applied() != 1 {
		t.Errorf("%+v, asked %d times", r.Status, w.applied())
	}
	w.cloud.Fail(fake.OpApply, nil)
	w.tamper("a-1-m2", "/tags/team", "red")
	w.run(4 * time.Minute)
	w.phase("a-1-m2", v1alpha1.PhaseSucceeded, "")
	w.phase("a-1-m1", v1alpha1.PhaseBlocked, "Protected")
	w.clock.Step(time.Hour)
	w.run(4 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "")
}

// TestFailure: errors that may pass are tried again within the attempt, and do
// not make a second one.
func TestFailure(t *testing.T) {
	w := newWorld(t, "")
	w.cloud.LoseAnswers(true)
	w.tamper("a-1-m1", "/tags/team", "red")
	if err := w.proc.run(time.Minute); err == nil {
		t.Fatal("no error")
	}
	w.cloud.LoseAnswers(false)
	w.run(3 * time.Minute)
	r := w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "")
	if len(r.Status.Attempts) != 1 {
		t.Errorf("attempts: %+v", r.Status.Attempts)
	}
	tokens := map[string]bool{}
	for _, c := range w.cloud.Calls() {
		if c.Op == fake.OpApply {
			tokens[c.Change.Token] = true
		}
	}
	if len(tokens) != 1 {
		t.Errorf("%d tokens in one attempt", len(tokens))
	}
}

// TestFailingIsTold: a record whose calls fail says so, with the first error and
// once, since each write of it would have it tried again at once.
func TestFailingIsTold(t *testing.T) {
	w := newWorld(t, "")
	w.cloud.Fail(fake.OpApply, errors.New("the cloud is away (request 1)"))
	w.tamper("a-1-m1", "/tags/team", "red")
	_ = w.proc.run(time.Minute)
	r := w.phase("a-1-m1", v1alpha1.PhaseRunning, "Retrying")
	if !strings.Contains(r.Status.Message, "the cloud is away (request 1)") {
		t.Errorf("it tells %q", r.Status.Message)
	}
	told := len(w.proc.writes)
	w.cloud.Fail(fake.OpApply, errors.New("the cloud is away (request 2)"))
	_ = w.proc.run(time.Minute)
	for _, again := range w.proc.writes[told:] {
		if !strings.HasPrefix(again, "apply to ") {
			t.Errorf("told again: %s", again)
		}
	}
	w.cloud.Fail(fake.OpApply, nil)
	w.run(3 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
}

// TestNoRightToRepair: an install that may make no records says what to do.
func TestNoRightToRepair(t *testing.T) {
	w := newWorld(t, "")
	w.proc.before = func(what string) error {
		if !strings.HasPrefix(what, "create *v1alpha1.Remediation") {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "remediations"}, "", errors.New("RBAC"))
	}
	w.tamper("a-1-m1", "/tags/team", "red")
	err := w.proc.run(time.Minute)
	if err == nil || !strings.Contains(err.Error(), "set mode: enforce in the chart's values") {
		t.Errorf("it says %v", err)
	}
	if w.applied() > 0 {
		t.Error("it repairs without a record")
	}
}

// TestFence: whoever does not lead any more writes nothing.
func TestFence(t *testing.T) {
	w := newWorld(t, "")
	w.tamper("a-1-m1", "/tags/team", "red")
	w.run(10 * time.Second) // the record is made
	w.proc.store.Fence = func(ctxType) error { return fmt.Errorf("another one leads") }
	writes, applied := len(w.proc.writes), w.applied()
	for range 3 {
		_ = w.proc.run(time.Minute)
	}
	if len(w.proc.writes) != writes || w.applied() != applied {
		t.Errorf("wrote %v", w.proc.writes[writes:])
	}
}

// TestCancelled: drift that goes by itself needs nothing.
func TestCancelled(t *testing.T) {
	w := newWorld(t, `  safety: {maxDriftRatio: 100%, minHealthy: 50%}
  windows: [{kind: deny, cron: "0 0 * * *", duration: 20h}]
  rules: [{id: tags, target: {kind: Instance}, paths: [/tags], action: patch, grace: {for: 0s}}]
`)
	w.tamper("a-1-m1", "/tags/team", "red")
	w.run(2 * time.Minute)
	if r := w.phase("a-1-m1", v1alpha1.PhaseBlocked, "Window"); r.Status.Blocked[0].Until == nil {
		t.Errorf("no time at which it opens: %+v", r.Status.Blocked)
	}
	w.tamper("a-1-m1", "/tags/team", "blue")
	w.run(2 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseCancelled, "DriftGone")
	if w.applied() > 0 {
		t.Error("acted")
	}
	w.edit(w.record("a-1-m1"), func(r *v1alpha1.Remediation) {
		if r.Labels[v1alpha1.LabelFingerprint] != r.Spec.Fingerprint {
			t.Error("the record's labels")
		}
	})
}
