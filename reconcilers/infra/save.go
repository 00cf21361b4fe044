package infra

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// change has an owner's object changed, and stores it where it differs, spec
// before status. Whoever else has written the object meanwhile is not
// overwritten: it is read again and the change is made to what it is now. So a
// change has to be one that can be made twice.
func (r *reconciler) change(ctx context.Context, owner *providers.Owner, change func() error) error {
	first := true
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if !first {
			live := owner.Infra.DeepCopyObject().(client.Object)
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(owner.Infra), live); err != nil {
				return err
			}
			if live.GetUID() != owner.Infra.GetUID() {
				return fmt.Errorf("%s was deleted and made anew", owner.Ref)
			}
			live.GetObjectKind().SetGroupVersionKind(owner.Infra.GetObjectKind().GroupVersionKind())
			r.replace(owner, live)
		}
		first = false
		before := owner.Infra.DeepCopyObject().(client.Object)
		if err := change(); err != nil {
			return err
		}
		return r.store(ctx, owner, before)
	})
}

// replace has an owner mean another copy of its object.
func (r *reconciler) replace(owner *providers.Owner, o client.Object) {
	if owner.InfraCluster == owner.Infra {
		owner.InfraCluster = o
	}
	owner.Infra = o
}

func (r *reconciler) store(ctx context.Context, owner *providers.Owner, before client.Object) error {
	spec, status, err := differ(before, owner.Infra)
	if err != nil || !spec && !status {
		return err
	}
	after := owner.Infra
	kind := after.GetObjectKind().GroupVersionKind()
	lock := client.MergeFromWithOptimisticLock{}
	if spec {
		// A write overwrites what it is given by what it gets back, which has
		// the old status.
		written := after.DeepCopyObject().(client.Object)
		if err := r.client.Patch(ctx, written, client.MergeFromWithOptions(before, lock)); err != nil {
			return client.IgnoreNotFound(err)
		}
		after.SetResourceVersion(written.GetResourceVersion())
		before.SetResourceVersion(written.GetResourceVersion())
	}
	if status {
		written := after.DeepCopyObject().(client.Object)
		if err := r.client.Status().Patch(ctx, written, client.MergeFromWithOptions(before, lock)); err != nil {
			return client.IgnoreNotFound(err)
		}
		after.SetResourceVersion(written.GetResourceVersion())
	}
	after.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// differ says which halves of an object differ.
func differ(a, b client.Object) (spec, status bool, err error) {
	was, err := halves(a)
	if err != nil {
		return false, false, err
	}
	is, err := halves(b)
	if err != nil {
		return false, false, err
	}
	status = !reflect.DeepEqual(was["status"], is["status"])
	delete(was, "status")
	delete(is, "status")
	return !reflect.DeepEqual(was, is), status, nil
}

func halves(o client.Object) (out map[string]any, err error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	return out, json.Unmarshal(data, &out)
}
