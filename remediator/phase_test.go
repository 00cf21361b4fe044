package remediator_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/remediator"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

var owner = providers.OwnerRef{APIVersion: "x/v1", Kind: "AWSMachine", Namespace: "prod", Name: "w-1", UID: "uid-1"}

// aDecision is one that may be executed, changed by mods.
func aDecision(mods ...func(*policies.Decision)) *policies.Decision {
	d := &policies.Decision{
		Finding: detector.Finding{Fingerprint: "fp", Owner: owner, Status: detector.Drifted, SeenAt: now,
			Cluster:  detector.ClusterRef{Namespace: "prod", Name: "eu"},
			Resource: detector.ResourceRef{Provider: "aws", Kind: "Instance", ID: "i-1"},
			Diffs:    []detector.Diff{{Path: "/tags/a", Want: providers.String("x"), Type: detector.Removed, Mutability: providers.InPlace}}},
		Action: policies.Patch, Mode: policies.ModeEnforce, Reason: "rule r says patch", Rule: policies.RuleRef{ID: "r"},
		Attempts: v1alpha1.Attempts{Max: 3, Per: &metav1.Duration{Duration: 24 * time.Hour}},
	}
	for _, m := range mods {
		m(d)
	}
	return d
}

func blockedBy(gates ...string) func(*policies.Decision) {
	return func(d *policies.Decision) {
		for _, g := range gates {
			d.Blocked = append(d.Blocked, policies.Block{By: g, Detail: "closed"})
		}
	}
}

func replacing(d *policies.Decision) { d.Action = policies.Replace }

// aRecord is the record of a decision in a phase; one that has begun or ended
// has made one attempt an hour ago.
func aRecord(phase v1alpha1.RemediationPhase, mods ...func(*v1alpha1.Remediation)) *v1alpha1.Remediation {
	r := &v1alpha1.Remediation{}
	r.Namespace, r.Name, r.Generation = "prod", "w-1-x", 1
	r.Spec = remediator.Spec(aDecision(), remediator.Subject{})
	r.Status.Phase, r.Status.ObservedGeneration = phase, 1
	at := metav1.NewTime(now.Add(-time.Hour))
	attempt := v1alpha1.Attempt{Number: 1, StartedAt: at}
	switch {
	case phase.InFlight():
		r.Status.AttemptCount, r.Status.Attempts, r.Status.StartedAt = 1, []v1alpha1.Attempt{attempt}, &at
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionExecuted, Status: "True", LastTransitionTime: at}}
	case phase.Ended():
		attempt.EndedAt = &at
		attempt.Outcome = map[v1alpha1.RemediationPhase]string{v1alpha1.PhaseSucceeded: v1alpha1.OutcomeSucceeded}[phase]
		if attempt.Outcome == "" {
			attempt.Outcome = v1alpha1.OutcomeFailed
		}
		r.Status.AttemptCount, r.Status.Attempts, r.Status.EndedAt = 1, []v1alpha1.Attempt{attempt}, &at
	}
	for _, m := range mods {
		m(r)
	}
	return r
}

func ofReplace(r *v1alpha1.Remediation) { r.Spec.Action = "replace" }

func approved(yes bool) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) { r.Spec.Approved, r.Spec.ApprovedBy = ptr.To(yes), "anna" }
}

func retriedAt(t time.Time) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) { r.Spec.RetriedAt = ptr.To(metav1.NewTime(t)) }
}

// attempts gives a record attempts that ended ago with an outcome.
func attempts(outcome string, ago ...time.Duration) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) {
		r.Status.Attempts = nil
		for i, d := range ago {
			at := metav1.NewTime(now.Add(-d))
			r.Status.Attempts = append(r.Status.Attempts, v1alpha1.Attempt{Number: int32(i + 1), StartedAt: at, EndedAt: &at, Outcome: outcome})
		}
		r.Status.AttemptCount = int32(len(ago))
	}
}

func held(by string, until time.Time) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) {
		r.Status.Blocked = []v1alpha1.GateBlock{{By: by, Until: ptr.To(metav1.NewTime(until))}}
	}
}

// seen is a clear verdict on a decision; nil is no drift.
func seen(d *policies.Decision) remediator.Verdict {
	return remediator.Verdict{At: now, SeenAt: now, Clear: true, Decision: d, Remains: d != nil}
}

// TestJudge: every phase with every kind of verdict.
func TestJudge(t *testing.T) {
	const (
		pending, awaiting, blocked = v1alpha1.PhasePending, v1alpha1.PhaseAwaitingApproval, v1alpha1.PhaseBlocked
		running, verifying         = v1alpha1.PhaseRunning, v1alpha1.PhaseVerifying
		succeeded, failed          = v1alpha1.PhaseSucceeded, v1alpha1.PhaseFailed
		latched, cancelled         = v1alpha1.PhaseLatched, v1alpha1.PhaseCancelled
	)
	unclear := remediator.Verdict{At: now}
	gone := remediator.Verdict{At: now, SeenAt: now, Clear: true, OwnerGone: true}
	executable := seen(aDecision())
	asks := seen(aDecision(blockedBy(policies.GateApproval)))
	window := seen(aDecision(blockedBy(policies.GateApproval, policies.GateWindow)))
	observed := seen(aDecision(func(d *policies.Decision) { d.Action = policies.Observe }))
	ignored := seen(aDecision(func(d *policies.Decision) { d.Ignored = &policies.Ignored{} }))
	lowered := seen(aDecision(func(d *policies.Decision) { d.Mode = policies.ModeDryRun }))
	part := remediator.Verdict{At: now, SeenAt: now, Clear: true, Remains: true}
	old := seen(aDecision())
	old.SeenAt = now.Add(-2 * time.Hour)
	type want struct {
		phase   v1alpha1.RemediationPhase
		reason  string
		outcome string // of the last attempt; not compared if empty
	}
	tests := map[string]struct {
		record  *v1alpha1.Remediation
		verdict remediator.Verdict
		want    want
	}{
		"new, executable":       {aRecord(""), executable, want{pending, "Ready", ""}},
		"new, not read":         {aRecord(""), unclear, want{"", "", ""}},
		"new, wants approval":   {aRecord(""), asks, want{awaiting, "Approval", ""}},
		"new, several gates":    {aRecord(""), window, want{blocked, "Approval", ""}},
		"new, denied":           {aRecord("", approved(false)), executable, want{cancelled, "Denied", ""}},
		"pending, unclear":      {aRecord(pending), unclear, want{pending, "", ""}},
		"pending, gone":         {aRecord(pending), gone, want{cancelled, "OwnerGone", ""}},
		"pending, no drift":     {aRecord(pending), seen(nil), want{cancelled, "DriftGone", ""}},
		"pending, gate closes":  {aRecord(pending), seen(aDecision(blockedBy(policies.GatePaused))), want{blocked, "Paused", ""}},
		"pending, observed now": {aRecord(pending), observed, want{cancelled, "PolicyChanged", ""}},
		"pending, ignored now":  {aRecord(pending), ignored, want{cancelled, "PolicyChanged", ""}},
		"pending, mode lowered": {aRecord(pending), lowered, want{cancelled, "PolicyChanged", ""}},
		"pending, denied unread": {aRecord(pending, approved(false)), unclear,
			want{cancelled, "Denied", ""}},
		"awaiting, approved":      {aRecord(awaiting, approved(true)), executable, want{pending, "Ready", ""}},
		"awaiting, still":         {aRecord(awaiting), asks, want{awaiting, "Approval", ""}},
		"blocked, opens":          {aRecord(blocked), executable, want{pending, "Ready", ""}},
		"running is left alone":   {aRecord(running), seen(nil), want{running, "", ""}},
		"running, denied":         {aRecord(running, approved(false)), executable, want{running, "", ""}},
		"verifying, helped":       {aRecord(verifying), seen(nil), want{succeeded, "Verified", "Succeeded"}},
		"verifying, no effect":    {aRecord(verifying), executable, want{blocked, "CoolDown", "NoEffect"}},
		"verifying, in part":      {aRecord(verifying), part, want{failed, "NoEffect", "NoEffect"}},
		"verifying, unclear":      {aRecord(verifying), unclear, want{verifying, "", ""}},
		"verifying, read before":  {aRecord(verifying), old, want{verifying, "", ""}},
		"verifying, owner gone":   {aRecord(verifying), gone, want{cancelled, "OwnerGone", "Held"}},
		"verifying, last attempt": {aRecord(verifying, func(r *v1alpha1.Remediation) { attempts("NoEffect", 3*time.Hour, 2*time.Hour)(r); running2(r) }), executable, want{latched, "NoEffect", "NoEffect"}},
		"verifying a replacement": {aRecord(verifying, ofReplace), seen(nil), want{verifying, "", ""}},
		"succeeded, seen again":   {aRecord(succeeded), executable, want{pending, "Ready", "Reverted"}},
		"succeeded, read before":  {aRecord(succeeded), old, want{succeeded, "", "Succeeded"}},
		"succeeded, no drift":     {aRecord(succeeded), seen(nil), want{succeeded, "", "Succeeded"}},
		"succeeded, denied later": {aRecord(succeeded, approved(false)), executable, want{succeeded, "", ""}},
		"reverted just now":       {aRecord(succeeded, attempts("Succeeded", 30*time.Second), func(r *v1alpha1.Remediation) { r.Status.EndedAt = &r.Status.Attempts[0].StartedAt }), executable, want{blocked, "CoolDown", "Reverted"}},
		"reverted too often":      {aRecord(succeeded, attempts("Succeeded", 3*time.Hour, 2*time.Hour, time.Hour)), executable, want{latched, "Reverted", "Reverted"}},
		"reverted, long apart":    {aRecord(succeeded, attempts("Succeeded", 50*time.Hour, 26*time.Hour, time.Hour)), executable, want{pending, "Ready", "Reverted"}},
		"failed patch, again":     {aRecord(failed), executable, want{pending, "Ready", "Failed"}},
		"failed patch, just now":  {aRecord(failed, attempts("Failed", 30*time.Second)), executable, want{blocked, "CoolDown", "Failed"}},
		"failed patch, no drift":  {aRecord(failed), seen(nil), want{failed, "", ""}},
		"failed too often":        {aRecord(failed, attempts("Failed", 3*time.Hour, 2*time.Hour, time.Hour)), executable, want{latched, "AttemptsUsed", "Failed"}},
		"held does not count":     {aRecord(blocked, attempts("Held", 5*time.Hour, 4*time.Hour, 3*time.Hour, 2*time.Hour)), executable, want{pending, "Ready", "Held"}},
		"held for a time":         {aRecord(blocked, attempts("Held", time.Minute), held("Protected", now.Add(time.Minute))), executable, want{blocked, "Protected", ""}},
		"held, time is over":      {aRecord(blocked, attempts("Held", 2*time.Hour), held("Protected", now)), executable, want{pending, "Ready", ""}},
		"held, retried":           {aRecord(blocked, attempts("Held", time.Minute), held("Protected", now.Add(59*time.Minute)), retriedAt(now)), executable, want{pending, "Ready", ""}},
		"held, retried before":    {aRecord(blocked, attempts("Held", time.Minute), held("Protected", now.Add(59*time.Minute)), retriedAt(now.Add(-2*time.Minute))), executable, want{blocked, "Protected", ""}},
		"cooling down, retried":   {aRecord(blocked, attempts("NoEffect", 30*time.Second), held("CoolDown", now.Add(30*time.Second)), retriedAt(now)), executable, want{pending, "Ready", ""}},
		"cooling, retried before": {aRecord(blocked, attempts("NoEffect", 30*time.Second), held("CoolDown", now.Add(30*time.Second)), retriedAt(now.Add(-time.Minute))), executable, want{blocked, "CoolDown", ""}},
		"failed replacement":      {aRecord(failed, ofReplace), executable, want{failed, "", ""}},
		"failed repl., retried":   {aRecord(failed, ofReplace, retriedAt(now)), seen(aDecision(replacing)), want{pending, "Ready", ""}},
		"latched, seen":           {aRecord(latched), executable, want{latched, "", ""}},
		"latched, no drift":       {aRecord(latched), seen(nil), want{latched, "", ""}},
		"latched, gone":           {aRecord(latched), gone, want{latched, "", ""}},
		"latched, retried early":  {aRecord(latched, retriedAt(now.Add(-2*time.Hour))), executable, want{latched, "", ""}},
		"latched, retried":        {aRecord(latched, retriedAt(now), attempts("NoEffect", 3*time.Hour, 2*time.Hour, time.Hour)), executable, want{pending, "Ready", ""}},
		"latched, retried unread": {aRecord(latched, retriedAt(now)), unclear, want{pending, "Retried", ""}},
		"latched, retried closed": {aRecord(latched, retriedAt(now)), window, want{blocked, "Approval", ""}},
		"cancelled, seen again":   {aRecord(cancelled), executable, want{pending, "Ready", ""}},
		"cancelled, gone":         {aRecord(cancelled), gone, want{cancelled, "", ""}},
		"denied, seen again":      {aRecord(cancelled, approved(false)), executable, want{cancelled, "", ""}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := tc.record.DeepCopy()
			s := remediator.Judge(tc.record, tc.verdict, now)
			got := want{s.Phase, s.Reason, ""}
			if n := len(s.Attempts); n > 0 && tc.want.outcome != "" {
				got.outcome = s.Attempts[n-1].Outcome
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got):\n%s%+v", diff, s)
			}
			if (s.EndedAt != nil) != s.Phase.Ended() {
				t.Errorf("phase %s ended at %v", s.Phase, s.EndedAt)
			}
			if diff := cmp.Diff(before, tc.record); diff != "" {
				t.Errorf("the record was changed:\n%s", diff)
			}
			// Judging the same again changes nothing: steady state writes nothing.
			again := tc.record.DeepCopy()
			again.Status = s
			if twice := remediator.Judge(again, tc.verdict, now); remediator.Changed(&s, &twice) {
				t.Errorf("judged again (-once +twice):\n%s", cmp.Diff(s, twice))
			}
		})
	}
}

// running2 adds an attempt that has acted.
func running2(r *v1alpha1.Remediation) {
	r.Status.Attempts = append(r.Status.Attempts, v1alpha1.Attempt{Number: 3, StartedAt: metav1.NewTime(now.Add(-time.Hour))})
}

// TestFailed: what the provider says decides what becomes of an attempt.
func TestFailed(t *testing.T) {
	for reason, want := range map[string]string{
		providers.ReasonUnsupported:  "Latched Failed",
		providers.ReasonForeign:      "Latched Failed",
		providers.ReasonNotPermitted: "Failed Failed",
		providers.ReasonRefused:      "Failed Failed",
		providers.ReasonProtected:    "Blocked Held",
		providers.ReasonMoved:        "Blocked Held",
		providers.ReasonDisruptive:   "Blocked Held",
		"":                           "Failed Failed",
	} {
		err := errors.New("no\nway \x1b[31m at https://user:pass@host/")
		if reason != "" {
			err = fmt.Errorf("apply: %w", &providers.ApplyError{Reason: reason, Err: err})
		}
		r := aRecord(v1alpha1.PhaseRunning)
		s := remediator.Failed(r, err, now)
		if got := string(s.Phase) + " " + s.Attempts[0].Outcome; got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
		if wantMessage := "no way \ufffd[31m at https://***@host/"; s.Attempts[0].Message != wantMessage && s.Attempts[0].Message != "apply: "+wantMessage {
			t.Errorf("%s: message %q", reason, s.Attempts[0].Message)
		}
		if r.Status.Phase != v1alpha1.PhaseRunning {
			t.Error("the record was changed")
		}
	}
}

// TestBegin: only what is Pending begins, and the attempt is in the record.
func TestBegin(t *testing.T) {
	for _, phase := range []v1alpha1.RemediationPhase{"", v1alpha1.PhaseAwaitingApproval, v1alpha1.PhaseBlocked, v1alpha1.PhaseRunning,
		v1alpha1.PhaseVerifying, v1alpha1.PhaseSucceeded, v1alpha1.PhaseFailed, v1alpha1.PhaseLatched, v1alpha1.PhaseCancelled} {
		if _, err := remediator.Begin(aRecord(phase), now); err == nil {
			t.Errorf("%q begins", phase)
		}
	}
	r := aRecord(v1alpha1.PhasePending, attempts("NoEffect", make([]time.Duration, 10)...))
	s, err := remediator.Begin(r, now)
	if err != nil || s.Phase != v1alpha1.PhaseRunning || s.AttemptCount != 11 || len(s.Attempts) != 10 || s.Attempts[9].Number != 11 || !s.StartedAt.Time.Equal(now) {
		t.Errorf("%v %+v", err, s)
	}
}
