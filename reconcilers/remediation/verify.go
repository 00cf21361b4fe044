package remediation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/remediator"
)

// verify looks whether what was done has helped.
func (c *Controller) verify(ctx context.Context, r *v1alpha1.Remediation) (ctrl.Result, error) {
	if r.Spec.Action == v1alpha1.WriteAction(policies.Replace) {
		return c.verifyReplacement(ctx, r)
	}
	t, acted := c.times(), remediator.ActedAt(r)
	if wait := acted.Add(t.Settle).Sub(c.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	poll := ctrl.Result{RequeueAfter: t.Poll}
	read, err := c.fresh(resuming(ctx, r), r, remediator.OwnerOf(r))
	if err != nil {
		if c.Now().Sub(acted) > t.Verify {
			return c.end(ctx, r, remediator.Ended(r, v1alpha1.PhaseFailed, v1alpha1.OutcomeFailed, remediator.ReasonNotVerified, err.Error(), c.Now()))
		}
		return ctrl.Result{}, err
	}
	v := remediator.VerdictOn(r, read)
	v.SeenAt = read.SeenAt
	v.Anew = remediator.ChangedAnew(r, read, c.found(r))
	switch since := c.Now().Sub(acted); {
	case !v.Clear && since > t.Verify:
		return c.end(ctx, r, remediator.Ended(r, v1alpha1.PhaseFailed, v1alpha1.OutcomeFailed, remediator.ReasonNotVerified,
			"no read could tell whether it helped", c.Now()))
	case !v.Clear, v.Remains && !v.Anew && since < t.Patience:
		return c.wait(ctx, r, remediator.ReasonWaitingForRead, "a later read is to show the wanted values", poll)
	case !v.Remains && !v.OwnerGone && r.Spec.Disruptive && r.Spec.Machine != nil:
		return c.verifyStarted(ctx, r, v, since)
	}
	return c.end(ctx, r, remediator.Judge(r, v, c.Now()))
}

// verifyStarted waits for a machine that was stopped to be ready again.
func (c *Controller) verifyStarted(ctx context.Context, r *v1alpha1.Remediation, v remediator.Verdict, since time.Duration) (ctrl.Result, error) {
	if err := c.uncordon(ctx, r); err != nil {
		return ctrl.Result{}, err
	}
	ready, err := c.Replacer.Ready(ctx, r)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case ready:
		return c.end(ctx, r, remediator.Judge(r, v, c.Now()))
	case since > c.times().Replace:
		return c.end(ctx, r, remediator.Ended(r, v1alpha1.PhaseFailed, v1alpha1.OutcomeFailed, remediator.ReasonNotReady,
			"the values are as wanted, but the machine did not become ready again", c.Now()))
	}
	return c.wait(ctx, r, remediator.ReasonWaitingForReady, "the values are as wanted; the machine is to become ready again", ctrl.Result{RequeueAfter: c.times().Poll})
}

// verifyReplacement waits for the old machine to go and the group to be whole,
// then looks whether the new machine is any better.
func (c *Controller) verifyReplacement(ctx context.Context, r *v1alpha1.Remediation) (ctrl.Result, error) {
	poll := ctrl.Result{RequeueAfter: c.times().Poll}
	g, err := c.Replacer.Group(ctx, r)
	if err != nil {
		return ctrl.Result{}, err
	}
	status := remediator.ReplacementOf(r, g, c.Now(), c.times().Replace)
	if status.Phase == v1alpha1.PhaseVerifying {
		return poll, c.write(ctx, r, status)
	}
	if status.Phase == v1alpha1.PhaseSucceeded && g.New != nil {
		same, clear, err := c.sameDrift(ctx, r, g.New)
		switch {
		case err != nil, !clear && c.removedSince(r) < c.times().Replace:
			return poll, c.write(ctx, r, remediator.Wait(r, remediator.ReasonWaitingForRead, "Machine "+g.New.Name+" is to be read"))
		case same:
			latched := r.DeepCopy()
			latched.Status = status
			latched.Status.Phase, latched.Status.Attempts, latched.Status.EndedAt = r.Status.Phase, r.Status.Attempts, nil
			status = remediator.Ended(latched, v1alpha1.PhaseLatched, v1alpha1.OutcomeNoEffect, remediator.ReasonSameDrift,
				fmt.Sprintf("Machine %s, which took its place, drifts in the same way: its template or another controller makes it so", g.New.Name), c.Now())
		}
	}
	return c.end(ctx, r, status)
}

func (c *Controller) removedSince(r *v1alpha1.Remediation) time.Duration {
	if at := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionRemoved); at != nil {
		return c.Now().Sub(at.LastTransitionTime.Time)
	}
	return 0
}

// sameDrift reads the infrastructure of the machine that took the place.
func (c *Controller) sameDrift(ctx context.Context, r *v1alpha1.Remediation, m *clusterv1.Machine) (same, clear bool, err error) {
	ref := m.Spec.InfrastructureRef
	owner := providers.OwnerRef{Kind: ref.Kind, Namespace: m.Namespace, Name: ref.Name}
	object := &metav1.PartialObjectMetadata{}
	mapping, err := c.Replacer.Mapper.RESTMapping(ref.GroupKind())
	if err != nil {
		return false, false, err
	}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := c.Reader.Get(ctx, keyOf(m.Namespace, ref.Name), object); err != nil {
		return false, false, fmt.Errorf("get %s %s: %w", ref.Kind, ref.Name, err)
	}
	owner.UID, owner.APIVersion = object.UID, r.Spec.Owner.APIVersion
	read, err := c.fresh(ctx, r, owner)
	if err != nil {
		return false, false, err
	}
	return remediator.SameDrift(r, read.Decisions, ref.Name), remediator.ReadOf(read, owner), nil
}

// end stores an end, having made a node schedulable again, and asks for a read
// that brings conditions and metrics up to date.
func (c *Controller) end(ctx context.Context, r *v1alpha1.Remediation, status v1alpha1.RemediationStatus) (ctrl.Result, error) {
	if err := c.uncordon(ctx, r); err != nil {
		if !c.late(r, 2*c.times().Act+c.times().Replace) {
			return ctrl.Result{}, err
		}
		status.Message += "; node " + r.Status.Drain.Node + " is still cordoned"
	}
	if err := c.write(ctx, r, status); err != nil {
		return ctrl.Result{}, err
	}
	c.ask(r)
	return after(remediator.Recheck(r), c.Now()), nil
}

func (c *Controller) uncordon(ctx context.Context, r *v1alpha1.Remediation) error {
	if r.Status.Drain == nil || !r.Status.Drain.Cordoned {
		return nil
	}
	if err := c.fenced(ctx); err != nil {
		return err
	}
	return c.Drainer.Uncordon(ctx, r)
}

func (c *Controller) ask(r *v1alpha1.Remediation) {
	if c.Asker != nil {
		c.Asker.Ask(sweep.Request{Cluster: clusterOf(r), Owners: []providers.OwnerRef{remediator.OwnerOf(r)}, Cause: "Verify"})
	}
}
