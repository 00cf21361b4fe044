package infra

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-io/holdfast/providers"
)

// hold has what an owner cannot be unmade without stay for as long as the owner
// does: users delete all that they once applied at once. What is not there, is being
// deleted, or is another's, is for the provider to tell of.
func (r *reconciler) hold(ctx context.Context, owner *providers.Owner) error {
	return r.held(ctx, owner, func(o client.Object, h providers.Hold) bool {
		if !o.GetDeletionTimestamp().IsZero() {
			return false
		}
		added := controllerutil.AddFinalizer(o, h.Finalizer)
		before := len(o.GetOwnerReferences())
		ours := util.HasExactOwnerRef(o.GetOwnerReferences(), r.reference(owner))
		o.SetOwnerReferences(util.EnsureOwnerRef(o.GetOwnerReferences(), r.reference(owner)))
		return added || !ours || len(o.GetOwnerReferences()) != before
	})
}

// release ends hold. It comes when nothing is left to unmake.
func (r *reconciler) release(ctx context.Context, owner *providers.Owner) error {
	return r.held(ctx, owner, func(o client.Object, h providers.Hold) bool {
		return controllerutil.RemoveFinalizer(o, h.Finalizer)
	})
}

// held stores what change makes of the objects that an owner holds.
func (r *reconciler) held(ctx context.Context, owner *providers.Owner, change func(client.Object, providers.Hold) bool) error {
	if r.registration.Holds == nil {
		return nil
	}
	for _, h := range r.registration.Holds(owner.Infra) {
		// It is read live: to have all Secrets in memory for one is too much.
		o := h.Object
		err := r.live.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) || err == nil && r.others(owner, o) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %T %s, which %s needs: %w", o, o.GetName(), owner.Ref, err)
		}
		before := o.DeepCopyObject().(client.Object)
		if !change(o, h) {
			continue
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.client.Patch(ctx, o, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("hold or release %T %s for %s: %w", o, o.GetName(), owner.Ref, err)
		}
	}
	return nil
}

// others reports whether an object belongs to another object of the provider's.
func (r *reconciler) others(owner *providers.Owner, o client.Object) bool {
	for _, ref := range o.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == r.kind.GVK.Group && (ref.Kind != r.kind.GVK.Kind || ref.Name != owner.Infra.GetName()) {
			return true
		}
	}
	return false
}

func (r *reconciler) reference(owner *providers.Owner) metav1.OwnerReference {
	apiVersion, kind := r.kind.GVK.ToAPIVersionAndKind()
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: owner.Infra.GetName(), UID: owner.Infra.GetUID()}
}
