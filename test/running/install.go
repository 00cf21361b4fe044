package running

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// creators are how many objects are created at once.
const creators = 8

// Install creates objects with their status, as a backup is restored: owners
// come before what they own, and references lead to the new UIDs. What exists
// already, as an object that belongs to no namespace does for the second
// cluster, is left as it is.
func Install(ctx context.Context, c client.Client, objects []client.Object) error {
	uids, namespaces := map[types.UID]types.UID{}, map[string]bool{}
	for len(objects) > 0 {
		kind, n := fmt.Sprintf("%T", objects[0]), 0
		for n < len(objects) && fmt.Sprintf("%T", objects[n]) == kind {
			if ns := objects[n].GetNamespace(); ns != "" && !namespaces[ns] {
				namespaces[ns] = true
				err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					return err
				}
			}
			n++
		}
		if err := installKind(ctx, c, objects[:n], uids); err != nil {
			return err
		}
		objects = objects[n:]
	}
	return nil
}

// installKind creates objects of one kind side by side: none owns another.
func installKind(ctx context.Context, c client.Client, objects []client.Object, uids map[types.UID]types.UID) error {
	var (
		mu    sync.Mutex
		errs  []error
		group sync.WaitGroup
		next  = make(chan client.Object)
	)
	made := map[types.UID]types.UID{}
	for range creators {
		group.Go(func() {
			for o := range next {
				uid, err := create(ctx, c, o, uids)
				mu.Lock()
				made[o.GetUID()] = uid
				if err != nil {
					errs = append(errs, fmt.Errorf("install %T %s: %w", o, client.ObjectKeyFromObject(o), err))
				}
				mu.Unlock()
			}
		})
	}
	for _, o := range objects {
		next <- o
	}
	close(next)
	group.Wait()
	for old, now := range made {
		uids[old] = now
	}
	return errors.Join(errs...)
}

func create(ctx context.Context, c client.Client, o client.Object, uids map[types.UID]types.UID) (types.UID, error) {
	created := o.DeepCopyObject().(client.Object)
	created.SetResourceVersion("")
	created.SetUID("")
	owners := created.GetOwnerReferences()
	for i := range owners {
		if now, known := uids[owners[i].UID]; known {
			owners[i].UID = now
		}
	}
	created.SetOwnerReferences(owners)
	full := created.DeepCopyObject().(client.Object)
	if err := c.Create(ctx, created); err != nil {
		if apierrors.IsAlreadyExists(err) && o.GetNamespace() == "" {
			err = nil
		}
		return "", err
	}
	full.SetResourceVersion(created.GetResourceVersion())
	full.SetUID(created.GetUID())
	return created.GetUID(), client.IgnoreNotFound(c.Status().Update(ctx, full)) // not every kind has one
}
