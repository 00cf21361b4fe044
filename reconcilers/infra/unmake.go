package infra

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-io/holdfast/providers"
)

// unmake has all go that was made for a deleted owner, then lets the owner go.
func (r *reconciler) unmake(ctx context.Context, owner *providers.Owner) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(owner.Infra, r.kind.Finalizer) {
		return reconcile.Result{}, nil
	}
	deleted := owner.Infra.GetDeletionTimestamp().Time
	again := reconcile.Result{RequeueAfter: r.poll.again(r.clock.Since(deleted))}
	if n := machinesOf(owner); n > 0 {
		p := providers.Progress{Deleting: true, Failed: fmt.Errorf("%d machines of the cluster are still there: a network goes after what is in it", n)}
		return again, r.note(ctx, owner, nil, p, nil)
	}
	scope, err := r.provider.Scope(ctx, owner)
	if err != nil {
		return reconcile.Result{}, r.failed(ctx, owner, nil, err)
	}
	// What is not recorded can only be told to be there from a read that began
	// after the deletion, of which the API server keeps whole seconds.
	snap, err := r.snapshots.since(ctx, r.provider, scope, deleted.Add(time.Second))
	if err != nil {
		return reconcile.Result{}, r.failed(ctx, owner, nil, err)
	}
	w := &work{reconciler: r, owner: owner, scope: scope, snap: snap, made: map[providers.ID]bool{}}
	gone, err := w.clear(ctx, r.clock.Now())
	if err != nil {
		return reconcile.Result{}, r.failed(ctx, owner, w.snap, err)
	}
	if !gone {
		err := r.note(ctx, owner, w.snap, w.progress, nil)
		if w.progress.Failed != nil {
			r.tell(owner, "Failed", w.progress.Failed.Error())
		}
		return again, errors.Join(w.progress.Failed, err)
	}
	if err := r.release(ctx, owner); err != nil {
		return reconcile.Result{}, r.failed(ctx, owner, w.snap, err)
	}
	r.said.forget(owner.Ref.UID)
	ctrl.LoggerFrom(ctx).Info("Unmade")
	return reconcile.Result{}, r.change(ctx, owner, func() error {
		controllerutil.RemoveFinalizer(owner.Infra, r.kind.Finalizer)
		return nil
	})
}

// clear deletes what is doomed, as far as it goes now, and says whether nothing
// is left. That nothing is left, and that it cannot be told, is only believed of a
// read that began after the work did.
func (w *work) clear(ctx context.Context, began time.Time) (gone bool, err error) {
	sent := map[providers.ID]bool{}
	for range rounds {
		doomed, unclear := w.builder.Doomed(w.owner, w.snap)
		w.progress = providers.Progress{Deleting: true, Open: stillThere(doomed)}
		if unclear != nil || len(doomed) == 0 {
			now, err := w.snapshots.since(ctx, w.provider, w.scope, began)
			if err != nil {
				return false, err
			}
			if now == w.snap {
				return unclear == nil, unclear
			}
			w.snap = now
			continue
		}
		var done []providers.ID
		for _, have := range doomedNow(doomed) {
			if sent[have.ID] {
				continue
			}
			sent[have.ID] = true
			if err := w.remove(ctx, have); err != nil {
				if w.progress.Failed == nil && !errors.Is(err, providers.ErrPending) {
					w.progress.Failed, w.progress.At = err, have.ID
				}
				continue
			}
			done = append(done, have.ID)
		}
		if len(done) == 0 {
			return false, w.look(ctx, ids(doomed))
		}
		if err := w.look(ctx, done); err != nil || w.progress.Failed != nil {
			return false, err
		}
	}
	return false, nil
}

func (w *work) remove(ctx context.Context, have *providers.Resource) error {
	if err := w.builder.Delete(ctx, w.scope, providers.Deletion{Owner: w.owner, Have: have}); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Deleted", "kind", have.ID.Kind, "id", have.ID.Name, "name", have.Name)
	w.event(w.owner, corev1.EventTypeNormal, "Deleted"+have.ID.Kind, fmt.Sprintf("deleted %s %s (%s)", have.ID.Kind, have.ID.Name, have.Name))
	return nil
}

func ids(resources []providers.Resource) []providers.ID {
	out := make([]providers.ID, len(resources))
	for i := range resources {
		out[i] = resources[i].ID
	}
	return out
}

// machinesOf counts the machines' objects that a cluster still has.
func machinesOf(owner *providers.Owner) int {
	if owner.Machine != nil || owner.Infra != owner.InfraCluster {
		return 0
	}
	return len(owner.Siblings) - 1
}
