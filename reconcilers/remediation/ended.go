package remediation

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/remediator"
)

func keyOf(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// recheckEnded is how often an ended record that is not to be forgotten yet is
// looked at.
const recheckEnded = time.Hour

// ended looks after a record that has ended: a person may want it tried again,
// a failed replacement may have recovered, and in the end it is deleted.
func (c *Controller) ended(ctx context.Context, r *v1alpha1.Remediation) (ctrl.Result, error) {
	switch {
	case remediator.Retried(r):
		return c.begin(ctx, client.ObjectKeyFromObject(r))
	case r.Status.Phase == v1alpha1.PhaseCancelled && r.Status.Reason == remediator.ReasonDenied && (r.Spec.Approved == nil || *r.Spec.Approved):
		return c.begin(ctx, client.ObjectKeyFromObject(r)) // the denial was taken back
	case r.Status.Phase == v1alpha1.PhaseFailed && remediator.Halts(r):
		recovered, err := c.recovered(ctx, r)
		if err != nil || !recovered {
			return ctrl.Result{RequeueAfter: c.times().Poll}, err
		}
	}
	return c.collect(ctx, r)
}

// recovered looks whether the group of a failed replacement became whole. That
// the old machine is gone is part of it, whoever has removed it in the end.
func (c *Controller) recovered(ctx context.Context, r *v1alpha1.Remediation) (bool, error) {
	g, err := c.Replacer.Group(ctx, r)
	if err != nil || !g.Healthy() {
		return false, err
	}
	return true, c.write(ctx, r, remediator.Recovered(r, c.Now()))
}

// collect deletes records that have ended long ago, or are more than a cluster
// keeps. What was denied, failed or latched says what is not to be done: it is
// kept while its drift is there.
func (c *Controller) collect(ctx context.Context, r *v1alpha1.Remediation) (ctrl.Result, error) {
	if r.Status.EndedAt == nil || c.Retention.TTL == 0 && c.Retention.Keep == 0 {
		return ctrl.Result{}, nil
	}
	if c.Retention.Keep > 0 && forgettable(r) {
		if gone, err := c.trim(ctx, r); gone || err != nil {
			return ctrl.Result{}, err
		}
	}
	if c.Retention.TTL == 0 {
		return ctrl.Result{}, nil
	}
	if left := r.Status.EndedAt.Add(c.Retention.TTL).Sub(c.Now()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if !forgettable(r) {
		read, err := c.fresh(ctx, r, remediator.OwnerOf(r))
		if err != nil {
			return ctrl.Result{}, err
		}
		if v := remediator.VerdictOn(r, read); !v.Clear || v.Decision != nil {
			return ctrl.Result{RequeueAfter: recheckEnded}, nil
		}
	}
	return ctrl.Result{}, c.forget(ctx, r)
}

// forgettable records hold nothing back.
func forgettable(r *v1alpha1.Remediation) bool {
	return r.Status.Phase == v1alpha1.PhaseSucceeded ||
		r.Status.Phase == v1alpha1.PhaseCancelled && r.Status.Reason != remediator.ReasonDenied
}

// trim deletes the oldest of a cluster's ended records that are too many; gone
// says that the given one was among them.
func (c *Controller) trim(ctx context.Context, r *v1alpha1.Remediation) (gone bool, err error) {
	all, err := c.list(ctx, client.InNamespace(r.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: r.Spec.ClusterName})
	if err != nil {
		return false, err
	}
	all = slices.DeleteFunc(all, func(o v1alpha1.Remediation) bool {
		return clusterOf(&o) != clusterOf(r) || !forgettable(&o) || o.Status.EndedAt == nil
	})
	slices.SortFunc(all, func(a, b v1alpha1.Remediation) int { return b.Status.EndedAt.Compare(a.Status.EndedAt.Time) })
	for i := c.Retention.Keep; i < len(all); i++ {
		if err := c.forget(ctx, &all[i]); err != nil {
			return gone, err
		}
		gone = gone || all[i].UID == r.UID
	}
	return gone, nil
}

func (c *Controller) forget(ctx context.Context, r *v1alpha1.Remediation) error {
	if err := c.fenced(ctx); err != nil {
		return err
	}
	uid, version := r.UID, r.ResourceVersion
	err := c.Client.Delete(ctx, r.DeepCopy(), client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Remediation %s: %w", r.Name, err)
	}
	c.versions.forget(client.ObjectKeyFromObject(r))
	return nil
}
