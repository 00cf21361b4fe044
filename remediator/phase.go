package remediator

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
)

// Bounds of one record.
const (
	// MaxAttempts is how many attempts a record keeps, and so the most that
	// can be counted.
	MaxAttempts = 10
	// coolDownBase doubles with each attempt in a row that did not help, up to
	// coolDownMost.
	coolDownBase = time.Minute
	coolDownMost = 30 * time.Minute
	// holdFor is how long an attempt that the cloud did not let begin waits
	// before it is tried again.
	holdFor = time.Hour
)

// Judge gives the status that follows for a record from a verdict. It is pure:
// it changes neither argument. It never begins anything ([Begin] does), and
// leaves what is Running to who drives it.
//
// Ends stay ends: Latched until spec.retriedAt, Cancelled by a denial until it
// is taken back, a Failed replacement until it is retried; what else has ended
// opens anew when the drift is seen again.
func Judge(r *v1alpha1.Remediation, v Verdict, now time.Time) v1alpha1.RemediationStatus {
	s := *r.Status.DeepCopy()
	s.ObservedGeneration = r.Generation
	answer(&s, r, now)
	retried := Retried(r)
	switch {
	case s.Phase == v1alpha1.PhaseRunning:
		return s
	case s.Phase == v1alpha1.PhaseVerifying:
		if r.Spec.Action == v1alpha1.WriteAction(policies.Patch) {
			verifyPatch(&s, r, v, now)
		}
		return s
	case denied(r) && s.Phase.Ended():
		return s
	case denied(r):
		end(&s, v1alpha1.PhaseCancelled, ReasonDenied, deniedBy(r), now)
		return s
	case retried:
		s.EndedAt = nil // so that it is retried once
		open(&s, v1alpha1.PhasePending, ReasonRetried, "a person wants it tried again", nil)
	}
	if !v.Clear || s.Phase.Ended() && !reopens(&s, r, v) {
		return s
	}
	if s.Phase == v1alpha1.PhaseSucceeded {
		revert(&s, v)
	}
	before(&s, r, v, now)
	return s
}

// reopens reports whether what has ended opens anew by a verdict.
func reopens(s *v1alpha1.RemediationStatus, r *v1alpha1.Remediation, v Verdict) bool {
	switch s.Phase {
	case v1alpha1.PhaseLatched:
		return false
	case v1alpha1.PhaseFailed:
		return wanted(v) && r.Spec.Action != v1alpha1.WriteAction(policies.Replace)
	case v1alpha1.PhaseSucceeded:
		return recurred(v, s)
	default:
		return wanted(v)
	}
}

// Retried reports whether a person wants tried again what has ended, or is held.
func Retried(r *v1alpha1.Remediation) bool {
	at := r.Spec.RetriedAt
	if at == nil {
		return false
	}
	switch r.Status.Phase {
	case v1alpha1.PhaseFailed, v1alpha1.PhaseLatched, v1alpha1.PhaseCancelled:
		return r.Status.EndedAt == nil || at.After(r.Status.EndedAt.Time)
	case v1alpha1.PhaseBlocked:
		return slices.ContainsFunc(r.Status.Blocked, func(b v1alpha1.GateBlock) bool {
			if n := len(r.Status.Attempts); b.By == ReasonCoolDown && n > 0 && r.Status.Attempts[n-1].EndedAt != nil {
				return at.After(r.Status.Attempts[n-1].EndedAt.Time)
			}
			return own(b.By) && b.By != ReasonCoolDown && b.Until != nil && at.After(b.Until.Add(-holdFor))
		})
	default:
		return false
	}
}

func denied(r *v1alpha1.Remediation) bool { return r.Spec.Approved != nil && !*r.Spec.Approved }

func deniedBy(r *v1alpha1.Remediation) string {
	if r.Spec.ApprovedBy == "" {
		return "denied by spec.approved"
	}
	return "denied by " + Line(r.Spec.ApprovedBy, maxName)
}

// ApprovedBy names who approved a record, empty if nobody has.
func ApprovedBy(r *v1alpha1.Remediation) string {
	switch {
	case r.Spec.Approved == nil || !*r.Spec.Approved:
		return ""
	case r.Spec.ApprovedBy == "":
		return "spec.approved"
	default:
		return Line(r.Spec.ApprovedBy, maxName)
	}
}

// answer keeps the condition that shows a person's answer.
func answer(s *v1alpha1.RemediationStatus, r *v1alpha1.Remediation, now time.Time) {
	switch {
	case r.Spec.Approved == nil:
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionApproved)
	case *r.Spec.Approved:
		condition(s, r, v1alpha1.ConditionApproved, true, "Approved", "approved by "+ApprovedBy(r), now)
	default:
		condition(s, r, v1alpha1.ConditionApproved, false, ReasonDenied, deniedBy(r), now)
	}
}

func condition(s *v1alpha1.RemediationStatus, r *v1alpha1.Remediation, kind string, holds bool, reason, message string, now time.Time) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason,
		Message: message, ObservedGeneration: r.Generation, LastTransitionTime: stamp(now)})
}

// stamp is a time as the API server keeps it.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// wanted reports whether the verdict still asks for an action.
func wanted(v Verdict) bool {
	d := v.Decision
	return d != nil && d.Ignored == nil && d.Mode == policies.ModeEnforce && (d.Action == policies.Patch || d.Action == policies.Replace)
}

// Acting reports whether a decision has a record: it would change something,
// were it not for its gates, and its mode is enforce.
func Acting(d *policies.Decision) bool { return wanted(Verdict{Decision: d}) }

// before judges what has not begun, or has ended and is seen again.
func before(s *v1alpha1.RemediationStatus, r *v1alpha1.Remediation, v Verdict, now time.Time) {
	switch {
	case v.OwnerGone:
		end(s, v1alpha1.PhaseCancelled, ReasonOwnerGone, r.Spec.Owner.Kind+" "+r.Spec.Owner.Name+" does not exist any more", now)
		return
	case v.Decision == nil:
		end(s, v1alpha1.PhaseCancelled, ReasonDriftGone, "what it was about does not drift any more", now)
		return
	case !wanted(v):
		end(s, v1alpha1.PhaseCancelled, ReasonPolicyChanged, Line("nothing is to be done any more: "+v.Decision.Reason, maxMessage), now)
		return
	}
	if n, limit := Used(r, s.Attempts, v.Decision.Attempts, now), Limit(v.Decision.Attempts); n >= limit {
		reason := ReasonAttemptsUsed
		if last := lastOutcome(s); last == v1alpha1.OutcomeReverted || last == v1alpha1.OutcomeNoEffect {
			reason = last
		}
		end(s, v1alpha1.PhaseLatched, reason, latchedBecause(reason, n, s.ContestedBy), now)
		return
	}
	blocks := append(blocksOf(v.Decision.Blocked), pauses(r, s.Attempts, now)...)
	switch {
	case len(blocks) == 0:
		open(s, v1alpha1.PhasePending, ReasonReady, Line(v.Decision.Reason, maxMessage), nil)
	case len(blocks) == 1 && blocks[0].By == policies.GateApproval:
		open(s, v1alpha1.PhaseAwaitingApproval, policies.GateApproval, "waits for spec.approved", blocks)
	default:
		open(s, v1alpha1.PhaseBlocked, blocks[0].By, blocks[0].Detail, blocks)
	}
}

func latchedBecause(reason string, n int, by string) string {
	switch {
	case reason == ReasonReverted && by != "":
		return fmt.Sprintf("repaired %d times, and set back by %s; not tried again until spec.retriedAt is set", n, by)
	case reason == ReasonReverted:
		return fmt.Sprintf("repaired %d times, and set back each time; not tried again until spec.retriedAt is set", n)
	case reason == ReasonNoEffect:
		return fmt.Sprintf("tried %d times without effect; not tried again until spec.retriedAt is set", n)
	default:
		return fmt.Sprintf("tried %d times; not tried again until spec.retriedAt is set", n)
	}
}

func open(s *v1alpha1.RemediationStatus, phase v1alpha1.RemediationPhase, reason, message string, blocks []v1alpha1.GateBlock) {
	s.Phase, s.Reason, s.Message, s.Blocked, s.EndedAt = phase, reason, message, blocks, nil
}

func end(s *v1alpha1.RemediationStatus, phase v1alpha1.RemediationPhase, reason, message string, now time.Time) {
	if s.Phase != phase || s.EndedAt == nil {
		at := stamp(now)
		s.EndedAt = &at
	}
	s.Phase, s.Reason, s.Message, s.Blocked = phase, reason, message, nil
}

// blocksOf writes gates down. A detail may quote a cloud.
func blocksOf(blocked []policies.Block) []v1alpha1.GateBlock {
	out := make([]v1alpha1.GateBlock, 0, len(blocked))
	for _, b := range blocked {
		if b.By == policies.GateHeld {
			continue // that is what the record itself says
		}
		g := v1alpha1.GateBlock{By: b.By, Detail: Line(b.Detail, maxMessage)}
		if !b.Until.IsZero() {
			at := stamp(b.Until)
			g.Until = &at
		}
		out = append(out, g)
	}
	return out
}

// Changed reports whether a status is worth a write: that a counter in a text
// moved is not.
func Changed(old, now *v1alpha1.RemediationStatus) bool {
	type head struct {
		phase               v1alpha1.RemediationPhase
		reason, contestedBy string
		attempts            int32
		generation          int64
		draining            bool
	}
	headOf := func(s *v1alpha1.RemediationStatus) head {
		return head{s.Phase, s.Reason, s.ContestedBy, s.AttemptCount, s.ObservedGeneration, s.Drain != nil}
	}
	if headOf(old) != headOf(now) || !sameTime(old.StartedAt, now.StartedAt) || !sameTime(old.EndedAt, now.EndedAt) {
		return true
	}
	same := slices.EqualFunc(old.Blocked, now.Blocked, func(a, b v1alpha1.GateBlock) bool { return a.By == b.By && sameTime(a.Until, b.Until) }) &&
		slices.EqualFunc(old.Attempts, now.Attempts, func(a, b v1alpha1.Attempt) bool {
			return a.Number == b.Number && a.Outcome == b.Outcome && sameTime(a.EndedAt, b.EndedAt)
		}) &&
		slices.EqualFunc(old.Conditions, now.Conditions, func(a, b metav1.Condition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
		})
	return !same || !sameReplacement(old.Replacement, now.Replacement)
}

func sameTime(a, b *metav1.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(b)
}

func sameReplacement(a, b *v1alpha1.Replacement) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Strategy == b.Strategy && a.Step == b.Step && a.ReplacedBy == b.ReplacedBy && (a.Replicas == nil) == (b.Replicas == nil)
}
