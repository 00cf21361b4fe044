package remediator

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
)

// ReplacementOf judges a replacement by how its group is, after the old Machine
// was taken up. within bounds the time from the end of the old Machine to a
// whole group; before that end nothing is bounded, since a drain may rightly
// take for ever (C61), and a Machine that is being deleted holds its slot. It
// is pure.
func ReplacementOf(r *v1alpha1.Remediation, g Group, now time.Time, within time.Duration) v1alpha1.RemediationStatus {
	if g.Old != nil {
		reason, message := waitingFor(g.Old)
		return Wait(r, reason, message)
	}
	at := *r
	at.Status = Wait(r, ReasonWaitingForReady, fmt.Sprintf("%d of %d machines of %s are ready", g.Ready, g.Desired, r.Spec.Pool))
	condition(&at.Status, r, v1alpha1.ConditionRemoved, true, "Gone", "the old Machine is gone", now)
	if g.New != nil {
		at.Status.Replacement = at.Status.Replacement.DeepCopy()
		if at.Status.Replacement == nil {
			at.Status.Replacement = &v1alpha1.Replacement{}
		}
		at.Status.Replacement.ReplacedBy = g.New.Name
	}
	switch {
	case g.Healthy():
		return Ended(&at, v1alpha1.PhaseSucceeded, v1alpha1.OutcomeSucceeded, ReasonVerified,
			fmt.Sprintf("%d of %d machines of %s are ready", g.Ready, g.Desired, r.Spec.Pool), now)
	case now.Sub(removedAt(&at)) > within:
		return Ended(&at, v1alpha1.PhaseFailed, v1alpha1.OutcomeFailed, ReasonNotReady,
			fmt.Sprintf("%s after the old machine was gone %d of %d machines of %s are ready", within, g.Ready, g.Desired, r.Spec.Pool), now)
	default:
		return at.Status
	}
}

func removedAt(r *v1alpha1.Remediation) time.Time {
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionRemoved)
	if c == nil {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// waitingFor says what a Machine that is being deleted waits for.
func waitingFor(m *clusterv1.Machine) (reason, message string) {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ReasonWaitingForDeletion, "Machine " + m.Name + " is being deleted"
	}
	reason = ReasonWaitingForDeletion
	if c.Reason == clusterv1.MachineDeletingDrainingNodeReason || c.Reason == clusterv1.MachineDeletingWaitingForVolumeDetachReason {
		reason = ReasonBlockedOnDrain
	}
	return reason, "Machine " + m.Name + " is being deleted: " + c.Message
}

// SameDrift reports that a read of the new machine's owner shows drift that the
// same rule would replace it for.
func SameDrift(r *v1alpha1.Remediation, decisions []policies.Decision, ownerName string) bool {
	for i := range decisions {
		d := &decisions[i]
		if d.Finding.Owner.Name == ownerName && d.Rule.ID == r.Spec.Rule.ID && d.Action == policies.Replace && wanted(Verdict{Decision: d}) {
			return true
		}
	}
	return false
}

// Recovered gives the status of a Failed replacement whose group became whole
// later: it stays Failed, and no longer halts its pool.
func Recovered(r *v1alpha1.Remediation, now time.Time) v1alpha1.RemediationStatus {
	s := *r.Status.DeepCopy()
	s.ObservedGeneration = r.Generation
	condition(&s, r, v1alpha1.ConditionVerified, true, ReasonRecovered, "the group became whole later", now)
	return s
}

// Halts reports that a replacement keeps its pool from the next one: it failed,
// or is not to be repeated, and nobody has seen the group whole or wants it
// tried again (C53).
func Halts(r *v1alpha1.Remediation) bool {
	if r.Spec.Action != v1alpha1.WriteAction(policies.Replace) || Retried(r) {
		return false
	}
	switch r.Status.Phase {
	case v1alpha1.PhaseFailed:
		return !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionVerified)
	case v1alpha1.PhaseLatched:
		return true
	default:
		return false
	}
}
