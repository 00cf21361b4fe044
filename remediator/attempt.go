package remediator

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Limit is how many attempts are allowed; a record keeps no more than ten.
func Limit(a v1alpha1.Attempts) int { return min(int(a.Max), MaxAttempts) }

// Used counts the attempts that count against the limit now: those within the
// period, since a person last wanted it tried again, that the cloud let begin.
func Used(r *v1alpha1.Remediation, attempts []v1alpha1.Attempt, limit v1alpha1.Attempts, now time.Time) int {
	n := 0
	for _, t := range counted(r, attempts) {
		if limit.Per == nil || now.Sub(t) < limit.Per.Duration {
			n++
		}
	}
	return n
}

func counted(r *v1alpha1.Remediation, attempts []v1alpha1.Attempt) []time.Time {
	var out []time.Time
	since := func(t time.Time) {
		if r.Spec.RetriedAt == nil || t.After(r.Spec.RetriedAt.Time) {
			out = append(out, t)
		}
	}
	for _, t := range r.Spec.PriorAttempts {
		since(t.Time)
	}
	for i := range attempts {
		if attempts[i].Outcome != v1alpha1.OutcomeHeld {
			since(attempts[i].StartedAt.Time)
		}
	}
	return out
}

// AttemptsOf gives the times of the attempts that count.
func AttemptsOf(r *v1alpha1.Remediation) []time.Time { return counted(r, r.Status.Attempts) }

func lastOutcome(s *v1alpha1.RemediationStatus) string {
	if n := len(s.Attempts); n > 0 {
		return s.Attempts[n-1].Outcome
	}
	return ""
}

// Begin gives the status of a record whose next attempt begins now; it is to be
// stored before anything is changed. The record must be Pending.
func Begin(r *v1alpha1.Remediation, now time.Time) (v1alpha1.RemediationStatus, error) {
	s := *r.Status.DeepCopy()
	if s.Phase != v1alpha1.PhasePending {
		return s, fmt.Errorf("a record that is %s cannot begin", s.Phase)
	}
	at := stamp(now)
	s.AttemptCount++
	s.Attempts = append(s.Attempts, v1alpha1.Attempt{Number: s.AttemptCount, StartedAt: at})
	if extra := len(s.Attempts) - MaxAttempts; extra > 0 {
		s.Attempts = s.Attempts[extra:]
	}
	s.StartedAt, s.EndedAt, s.Replacement, s.Drain = &at, nil, nil, nil
	s.ObservedGeneration, s.Seal = r.Generation, Seal(&r.Spec)
	open(&s, v1alpha1.PhaseRunning, ReasonActing, fmt.Sprintf("attempt %d has begun", s.AttemptCount), nil)
	for _, kind := range []string{v1alpha1.ConditionExecuted, v1alpha1.ConditionRemoved, v1alpha1.ConditionVerified} {
		meta.RemoveStatusCondition(&s.Conditions, kind)
	}
	return s, nil
}

// Wait gives the status of a Running or Verifying record that waits for what
// the reason says.
func Wait(r *v1alpha1.Remediation, reason, message string) v1alpha1.RemediationStatus {
	s := *r.Status.DeepCopy()
	s.ObservedGeneration = r.Generation
	s.Reason, s.Message = reason, Line(message, maxMessage)
	return s
}

// Acted gives the status of a Running record whose act is done: a later read
// must show it.
func Acted(r *v1alpha1.Remediation, message string, now time.Time) v1alpha1.RemediationStatus {
	s := Wait(r, ReasonWaitingForRead, message)
	s.Phase = v1alpha1.PhaseVerifying
	condition(&s, r, v1alpha1.ConditionExecuted, true, "Done", s.Message, now)
	return s
}

// ActedAt is the time by which the last attempt had done what it does, zero if
// it has not. Times are kept in whole seconds, so this is the end of its second.
func ActedAt(r *v1alpha1.Remediation) time.Time {
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionExecuted); c != nil && c.Status == "True" {
		return c.LastTransitionTime.Add(time.Second)
	}
	return time.Time{}
}

// Failed gives the status of an attempt that did not work. What the error
// says decides what becomes of it:
//
//   - Unsupported, Foreign: Latched, since trying again cannot help;
//   - Protected, Moved, NeedsDisruption: Blocked, and the attempt does not
//     count: nothing was changed, and the slot is free (C60);
//   - anything else: Failed, which may be tried again within the attempts.
func Failed(r *v1alpha1.Remediation, err error, now time.Time) v1alpha1.RemediationStatus {
	reason, message := ReasonError, Line(err.Error(), maxMessage)
	var apply *providers.ApplyError
	if errors.As(err, &apply) {
		reason = apply.Reason
	}
	switch reason {
	case providers.ReasonUnsupported, providers.ReasonForeign:
		return Ended(r, v1alpha1.PhaseLatched, v1alpha1.OutcomeFailed, reason, message, now)
	case providers.ReasonProtected, providers.ReasonMoved, providers.ReasonDisruptive:
		return Held(r, reason, message, now)
	default:
		return Ended(r, v1alpha1.PhaseFailed, v1alpha1.OutcomeFailed, reason, message, now)
	}
}

// Ended gives the status of a record whose attempt ended in a phase.
func Ended(r *v1alpha1.Remediation, phase v1alpha1.RemediationPhase, outcome, reason, message string, now time.Time) v1alpha1.RemediationStatus {
	s := *r.Status.DeepCopy()
	s.ObservedGeneration = r.Generation
	message = Line(message, maxMessage)
	finish(&s, outcome, message, now)
	end(&s, phase, reason, message, now)
	if phase == v1alpha1.PhaseSucceeded || phase == v1alpha1.PhaseFailed || phase == v1alpha1.PhaseLatched {
		condition(&s, r, v1alpha1.ConditionVerified, phase == v1alpha1.PhaseSucceeded, reason, message, now)
	}
	return s
}

// Held gives the status of a record whose attempt changed nothing.
func Held(r *v1alpha1.Remediation, reason, message string, now time.Time) v1alpha1.RemediationStatus {
	s := *r.Status.DeepCopy()
	s.ObservedGeneration = r.Generation
	message = Line(message, maxMessage)
	finish(&s, v1alpha1.OutcomeHeld, message, now)
	s.Replacement = nil
	until := stamp(now.Add(holdFor))
	open(&s, v1alpha1.PhaseBlocked, reason, message, []v1alpha1.GateBlock{{By: reason, Detail: message, Until: &until}})
	return s
}

func finish(s *v1alpha1.RemediationStatus, outcome, message string, now time.Time) {
	if n := len(s.Attempts); n > 0 && s.Attempts[n-1].Outcome == "" {
		at := stamp(now)
		a := &s.Attempts[n-1]
		a.Outcome, a.Message, a.EndedAt = outcome, message, &at
	}
}

// CannotBegin gives the status of a record that may be done by every gate, and
// cannot be: it is looked at again after a time.
func CannotBegin(r *v1alpha1.Remediation, reason, message string, now time.Time) v1alpha1.RemediationStatus {
	s := *r.Status.DeepCopy()
	s.ObservedGeneration = r.Generation
	message = Line(message, maxMessage)
	until := stamp(now.Add(holdFor))
	open(&s, v1alpha1.PhaseBlocked, reason, message, []v1alpha1.GateBlock{{By: reason, Detail: message, Until: &until}})
	return s
}

// own reports blocks that are no gate of the policies.
func own(by string) bool {
	switch by {
	case ReasonCoolDown, ReasonProtected, ReasonMoved, ReasonNoPath, ReasonNoSurge, ReasonNeedsStop, ReasonNotExecuted:
		return true
	}
	return false
}

// Recheck is when a record that waits for no gate of the policies is to be
// looked at again; zero if it waits for none.
func Recheck(r *v1alpha1.Remediation) time.Time {
	var at time.Time
	for _, b := range r.Status.Blocked {
		if own(b.By) && b.Until != nil && b.Until.After(at) {
			at = b.Until.Time
		}
	}
	return at
}

// pauses are the record's own blocks: what could not begin is not tried again
// for a time, and what did not help not at once, unless a person wants it.
func pauses(r *v1alpha1.Remediation, attempts []v1alpha1.Attempt, now time.Time) []v1alpha1.GateBlock {
	var out []v1alpha1.GateBlock
	for _, b := range r.Status.Blocked {
		if own(b.By) && b.By != ReasonCoolDown && b.Until != nil && b.Until.After(now) && !retriedSince(r, b.Until.Add(-holdFor)) {
			out = append(out, b)
		}
	}
	n := len(attempts)
	if n == 0 || attempts[n-1].EndedAt == nil || retriedSince(r, attempts[n-1].EndedAt.Time) {
		return out
	}
	last := &attempts[n-1]
	if last.Outcome == v1alpha1.OutcomeSucceeded || last.Outcome == v1alpha1.OutcomeHeld {
		return out
	}
	if until := stamp(last.EndedAt.Add(coolDown(attempts))); until.After(now) {
		out = append(out, v1alpha1.GateBlock{By: ReasonCoolDown, Until: &until,
			Detail: Line("the last attempt ended a short while ago: "+last.Message, maxMessage)})
	}
	return out
}

func retriedSince(r *v1alpha1.Remediation, t time.Time) bool {
	return r.Spec.RetriedAt != nil && r.Spec.RetriedAt.After(t)
}

// coolDown doubles with each attempt in a row that did not help.
func coolDown(attempts []v1alpha1.Attempt) time.Duration {
	d := coolDownBase
	for i := len(attempts) - 2; i >= 0 && d < coolDownMost; i-- {
		if attempts[i].Outcome == v1alpha1.OutcomeSucceeded {
			break
		}
		d *= 2
	}
	return min(d, coolDownMost)
}

// recurred reports drift that was seen again after it was repaired.
func recurred(v Verdict, s *v1alpha1.RemediationStatus) bool {
	return wanted(v) && s.EndedAt != nil && v.SeenAt.After(s.EndedAt.Add(time.Second))
}

// revert says of the last attempt that somebody set back what it did.
func revert(s *v1alpha1.RemediationStatus, v Verdict) {
	contest(s, v)
	if n := len(s.Attempts); n > 0 && s.Attempts[n-1].Outcome == v1alpha1.OutcomeSucceeded {
		s.Attempts[n-1].Outcome = v1alpha1.OutcomeReverted
	}
}

// contest names who sets back what was done. Who is not known any more stays
// named.
func contest(s *v1alpha1.RemediationStatus, v Verdict) {
	if by := Line(v.ChangedBy, maxName); by != "" {
		s.ContestedBy = by
	}
}

// verifyPatch judges what was patched by a read later than the act.
func verifyPatch(s *v1alpha1.RemediationStatus, r *v1alpha1.Remediation, v Verdict, now time.Time) {
	if !v.Clear || !v.OwnerGone && v.SeenAt.Before(ActedAt(r)) {
		return
	}
	at := *r
	at.Status = *s
	switch {
	case v.OwnerGone:
		*s = Ended(&at, v1alpha1.PhaseCancelled, v1alpha1.OutcomeHeld, ReasonOwnerGone, r.Spec.Owner.Kind+" "+r.Spec.Owner.Name+" does not exist any more", now)
	case !v.Remains:
		*s = Ended(&at, v1alpha1.PhaseSucceeded, v1alpha1.OutcomeSucceeded, ReasonVerified, "a later read shows the wanted values", now)
	default:
		outcome, message := v1alpha1.OutcomeNoEffect, "a later read still shows the drift"
		if v.Anew {
			outcome, message = v1alpha1.OutcomeReverted, "a later read shows another value than before: it was changed again"
			contest(s, v)
			at.Status = *s
		}
		*s = Ended(&at, v1alpha1.PhaseFailed, outcome, outcome, message, now)
		if wanted(v) {
			at.Status = *s
			before(s, &at, v, now)
		}
	}
}

// HistoryOf is what the policies are to know of a record.
func HistoryOf(r *v1alpha1.Remediation) policies.History {
	h := policies.History{Attempts: AttemptsOf(r), ApprovedBy: ApprovedBy(r)}
	if r.Status.Phase == v1alpha1.PhaseSucceeded || r.Status.Phase == v1alpha1.PhaseCancelled && r.Status.Reason != ReasonDenied {
		h.ApprovedBy = "" // it was for what has ended: the same drift again is asked about again
	}
	if r.Spec.FirstSeen != nil {
		h.FirstSeen = r.Spec.FirstSeen.Time
	}
	if r.Status.Phase == v1alpha1.PhaseLatched && !Retried(r) {
		h.Latched = Line(r.Status.Message, maxMessage)
		if h.Latched == "" {
			h.Latched = "latched"
		}
	}
	for _, b := range pauses(r, r.Status.Attempts, time.Time{}) {
		if b.Until.After(h.HeldUntil) {
			h.Held, h.HeldUntil = b.By+": "+b.Detail, b.Until.Time
		}
	}
	if denied(r) {
		h.Held, h.HeldUntil = deniedBy(r), time.Time{}
	}
	return h
}
