package infra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/infra/misplaced"
)

// reconciler brings the objects of one infrastructure kind to what they declare.
type reconciler struct {
	registration providers.Registration
	kind         providers.OwnerKind
	provider     providers.Provider
	builder      providers.Builder
	snapshots    *snapshots
	clock        clock.PassiveClock

	client client.Client
	live   client.Reader
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	events events.EventRecorder
	said   *said
	poll   Poll
}

// Poll is how often what takes its time in a cloud is looked at: after Least at
// first, and after Most at the longest.
type Poll struct{ Least, Most time.Duration }

// again is when to look at an owner again that waits for its cloud: the longer
// it has taken, the longer.
func (p Poll) again(since time.Duration) time.Duration {
	const part = 10
	return min(max(since/part, p.Least), p.Most)
}

// freshBuilding is the age at which what an owner waits for is read again.
const freshBuilding = 5 * time.Second

// Reconcile implements [reconcile.Reconciler].
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	infra, err := r.make(r.kind.GVK)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.client.Get(ctx, req.NamespacedName, infra); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if _, moved := infra.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; moved && !infra.GetDeletionTimestamp().IsZero() {
		// What was made for it belongs to its copy in another management cluster.
		// Its Cluster is paused, but may be seen to be gone before it is.
		ctrl.LoggerFrom(ctx).Info("Left to the management cluster that it was moved to")
		return reconcile.Result{}, nil
	}
	owner, err := r.owner(ctx, infra)
	switch {
	case errors.Is(err, errNotYet):
		return reconcile.Result{}, nil // its owner reference is an event
	case apierrors.IsNotFound(err) && infra.GetDeletionTimestamp().IsZero():
		return reconcile.Result{}, nil // what it belongs to is an event too
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("look around %s %s: %w", r.kind.GVK.Kind, req, err)
	case annotations.IsPaused(owner.Cluster, infra), annotations.IsExternallyManaged(infra):
		return reconcile.Result{}, nil
	case !infra.GetDeletionTimestamp().IsZero():
		return r.unmake(ctx, owner)
	default:
		return r.bring(ctx, owner)
	}
}

// bring brings an owner nearer to what it declares.
func (r *reconciler) bring(ctx context.Context, owner *providers.Owner) (reconcile.Result, error) {
	// It stands before the first write to the cloud, or what is made then could
	// be forgotten.
	if err := r.change(ctx, owner, func() error {
		controllerutil.AddFinalizer(owner.Infra, r.kind.Finalizer)
		return nil
	}); err != nil {
		return reconcile.Result{}, fmt.Errorf("add the finalizer of %s: %w", owner.Ref, err)
	}
	if err := r.hold(ctx, owner); err != nil {
		return reconcile.Result{}, r.failed(ctx, owner, nil, err)
	}
	ready, err := r.wasReady(ctx, owner)
	if err != nil {
		return reconcile.Result{}, err
	}
	if before := mustWait(owner, ready); before != "" {
		return reconcile.Result{}, r.note(ctx, owner, nil, providers.Progress{Before: before}, nil)
	}
	scope, err := r.provider.Scope(ctx, owner)
	if err != nil {
		return reconcile.Result{}, r.failed(ctx, owner, nil, err)
	}
	if err := r.change(ctx, owner, func() error { return r.builder.Settle(ctx, scope, owner) }); err != nil {
		return reconcile.Result{}, r.failed(ctx, owner, nil, err)
	}
	w := &work{reconciler: r, owner: owner, scope: scope, ready: ready, made: map[providers.ID]bool{}}
	if err := w.run(ctx); err != nil {
		return reconcile.Result{}, r.failed(ctx, owner, w.snap, err)
	}
	waiting := ""
	w.progress.WasReady = ready
	if err := r.note(ctx, owner, w.snap, w.progress, &waiting); err != nil {
		return reconcile.Result{}, err
	}
	if w.progress.Failed != nil {
		r.tell(owner, "Failed", w.progress.Failed.Error())
		return reconcile.Result{}, w.progress.Failed
	}
	r.said.forget(owner.Ref.UID)
	if waiting == "" {
		return reconcile.Result{}, nil
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Waiting", "for", waiting)
	return reconcile.Result{RequeueAfter: r.poll.again(r.clock.Since(owner.Infra.GetCreationTimestamp().Time))}, nil
}

// mustWait says what has to come before anything is made for an owner.
func mustWait(owner *providers.Owner, ready bool) string {
	switch {
	case owner.Machine == nil:
		return ""
	case !ptr.Deref(owner.Cluster.Status.Initialization.InfrastructureProvisioned, false):
		return providers.WaitingForClusterInfrastructure
	case owner.Machine.Spec.Bootstrap.DataSecretName == nil && !ready:
		return providers.WaitingForBootstrapData
	default:
		return ""
	}
}

// wasReady says whether the owner has been ready once: by what Cluster API has
// recorded above it (contract, "initialization"), or by the provider ids that it
// gives to Machines from then on. Those are in specs, and so are there when a
// cluster was moved to this management cluster or restored, which leaves every
// status behind.
func (r *reconciler) wasReady(ctx context.Context, owner *providers.Owner) (bool, error) {
	if m := owner.Machine; m != nil {
		return ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false) || m.Spec.ProviderID != "", nil
	}
	if ptr.Deref(owner.Cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return true, nil
	}
	machines := &clusterv1.MachineList{}
	if err := r.client.List(ctx, machines, client.InNamespace(owner.Cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: owner.Cluster.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the Machines of Cluster %s: %w", owner.Cluster.Name, err)
	}
	return slices.ContainsFunc(machines.Items, func(m clusterv1.Machine) bool { return m.Spec.ProviderID != "" }), nil
}

// note writes how far an owner is.
func (r *reconciler) note(ctx context.Context, owner *providers.Owner, snap *providers.Snapshot, p providers.Progress, waiting *string) error {
	var err error
	if p.Misplaced, err = r.misplaced(ctx, owner); err != nil {
		return err
	}
	err = r.change(ctx, owner, func() error {
		why := r.builder.Note(owner, snap, p)
		if waiting != nil {
			*waiting = why
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write the status of %s: %w", owner.Ref, err)
	}
	return nil
}

// misplaced says what stands in an owner's spec that is no field of its kind. Such
// fields do not show in what is read by types.
func (r *reconciler) misplaced(ctx context.Context, owner *providers.Owner) (string, error) {
	kind := owner.Infra.GetObjectKind().GroupVersionKind()
	if !misplaced.Known(kind.GroupKind()) {
		return "", nil
	}
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(kind)
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(owner.Infra), raw); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return misplaced.Message(misplaced.Find(raw)), nil
}

// failed writes why an owner does not go on, and gives the error on, so that the
// queue waits longer each time.
func (r *reconciler) failed(ctx context.Context, owner *providers.Owner, snap *providers.Snapshot, err error) error {
	if ctx.Err() != nil {
		return err // the process stops: that is no state of the owner's
	}
	p := providers.Progress{Failed: err, Deleting: !owner.Infra.GetDeletionTimestamp().IsZero()}
	r.tell(owner, "Failed", err.Error())
	return errors.Join(err, r.note(ctx, owner, snap, p, nil))
}
