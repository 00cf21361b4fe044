package providerobjects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ConditionReady is the type of the condition.
const ConditionReady = "Ready"

// How long until Secrets are read again: none of them is watched, which would be
// to keep all of a management cluster in memory.
const (
	whenWell = 10 * time.Minute
	whenBad  = 30 * time.Second
)

// Options are what the controller is told.
type Options struct {
	// Loaded are the parts that run, by the names of --reconcilers.
	Loaded []string
	// Auto has the process end, to be started again, when Providers name a part
	// that was not loaded (--reconcilers auto).
	Auto bool
	// Namespace is the only one that Holdfast looks after, empty for all.
	Namespace string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// reconciler says on all Providers at once what Holdfast makes of them: which of
// two holds for a part is known of both together.
type reconciler struct {
	Options
	client client.Client
	reader client.Reader
	// more takes the parts that were not loaded.
	more chan []string
}

// SetUp adds the controller to a manager. Without the CRD, or the right to list its
// objects, there is nothing to do, and that is said once.
func (o Options) SetUp(ctx context.Context, mgr ctrl.Manager) error {
	log := mgr.GetLogger().WithName("providers")
	switch served, err := o.served(ctx, mgr); {
	case apierrors.IsForbidden(err):
		log.Info("Provider objects may not be listed, so none are read", "error", err.Error())
		return nil
	case err != nil:
		return err
	case !served:
		log.Info("Provider objects are not served, so none are read", "kind", Kind.String())
		return nil
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &reconciler{Options: o, client: mgr.GetClient(), reader: mgr.GetAPIReader(), more: make(chan []string, 1)}
	if err := mgr.Add(restarter(r.more)); err != nil {
		return err
	}
	watched := &unstructured.Unstructured{}
	watched.SetGroupVersionKind(Kind)
	all := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("provider").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Watches(watched, handler.EnqueueRequestsFromMapFunc(all)).
		Complete(r)
}

// served tells whether there are Providers to read. A watch that is not allowed
// would end the manager after minutes.
func (o Options) served(ctx context.Context, mgr ctrl.Manager) (bool, error) {
	_, err := mgr.GetRESTMapper().RESTMapping(Kind.GroupKind(), Kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up Providers: %w", err)
	}
	_, err = list(ctx, mgr.GetAPIReader(), o.Namespace)
	return err == nil, err
}

// Reconcile implements [reconcile.Reconciler].
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	// Live, as credentials are: what an object says of itself is to be what holds.
	objects, err := list(ctx, r.reader, r.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	var errs []error
	again := whenWell
	holds := map[string]types.NamespacedName{} // by clusterctl's label
	var missing []string
	for _, o := range objects {
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		said := Read(o)
		condition, err := r.judge(ctx, said, holds)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		switch condition.Reason {
		case ReasonServed:
		case ReasonNotLoaded:
			missing = append(missing, said.Part)
		default:
			again = whenBad
		}
		errs = append(errs, r.mirror(ctx, o, said), r.tell(ctx, o, condition))
	}
	if r.Auto && len(missing) > 0 {
		slices.Sort(missing)
		select {
		case r.more <- slices.Compact(missing):
		default:
		}
	}
	return reconcile.Result{RequeueAfter: again}, errors.Join(errs...)
}

// judge says what Holdfast makes of a Provider; holds are those that were judged
// before it.
func (r *reconciler) judge(ctx context.Context, said Registered, holds map[string]types.NamespacedName) (metav1.Condition, error) {
	problem, has := r.serves(said, holds), false
	if problem == nil {
		var err error
		if has, err = said.check(ctx, r.reader); err != nil && !errors.As(err, &problem) {
			return metav1.Condition{}, fmt.Errorf("judge Provider %s: %w", said.Object, err)
		}
	}
	if problem != nil {
		return metav1.Condition{Type: ConditionReady, Status: metav1.ConditionFalse, Reason: problem.Reason, Message: problem.Text}, nil
	}
	whose := ""
	switch {
	case has:
		whose = ", with the credentials of Secret " + said.Secret.String()
	case said.Part == AWS || said.Part == VSphere:
		whose = ", with credentials of the process and of identity objects"
	}
	return metav1.Condition{
		Type: ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonServed,
		Message: fmt.Sprintf("Holdfast serves %s %s, contract %s%s", said.label(), brief(said.Version), said.Contract, whose),
	}, nil
}

// serves tells whether the part runs for a Provider, and notes the first of each.
func (r *reconciler) serves(said Registered, holds map[string]types.NamespacedName) *RefusedError {
	if p := said.Fits(r.Namespace); p != nil {
		return p
	}
	if first, ok := holds[said.label()]; ok {
		return problem(ReasonDuplicate, "%s is registered by Provider %s already, which is older and holds: delete one; clusters have credentials of their own by identity objects",
			said.label(), first)
	}
	holds[said.label()] = said.Object
	if slices.Contains(r.Loaded, said.Part) {
		return nil
	}
	if r.Auto {
		return problem(ReasonNotLoaded, "the reconcilers of %s are loaded when Holdfast starts, which it does again now", said.Part)
	}
	return problem(ReasonNotLoaded, "Holdfast was started without the reconcilers of %s: add %s to --reconcilers", said.Part, said.Part)
}

// mirror writes what a spec says to the fields that clusterctl reads.
func (r *reconciler) mirror(ctx context.Context, o *unstructured.Unstructured, said Registered) error {
	want := fields{said.Name, said.Type, said.Version}
	if !said.bySpec || said.Part == "" || said.top == want {
		return nil
	}
	before := o.DeepCopy()
	for key, value := range map[string]string{"providerName": want.name, "type": want.kind, "version": want.version} {
		o.Object[key] = value
	}
	if err := r.client.Patch(ctx, o, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write Provider %s for clusterctl: %w", said.Object, err)
	}
	return nil
}

// tell writes a condition, on change only. Others in the list are left alone.
func (r *reconciler) tell(ctx context.Context, o *unstructured.Unstructured, c metav1.Condition) error {
	c.ObservedGeneration = o.GetGeneration()
	before := o.DeepCopy()
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if found, ok := o.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found, &status); err != nil {
			status.Conditions = nil // nobody else's form is known: ours replaces it
		}
	}
	c.LastTransitionTime = metav1.NewTime(r.Now())
	if !meta.SetStatusCondition(&status.Conditions, c) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(o.Object, content["conditions"], "status", "conditions"); err != nil {
		return fmt.Errorf("status of Provider %s: %w", o.GetName(), err)
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("provider", klog.KObj(o), "reason", c.Reason)
	err = r.client.Status().Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err):
		// The object is gone, or its CRD is upstream's, which has no status.
		log.Info("Provider cannot be told: it is gone, or its CRD has no status", "message", c.Message)
		return nil
	case err != nil:
		return fmt.Errorf("write status of Provider %s: %w", o.GetName(), err)
	}
	log.Info("Provider told", "message", c.Message)
	return nil
}

// restarter ends the manager when parts are missing. That a part is no longer
// named ends nothing: whoever runs it may have clusters to delete yet.
type restarter chan []string

// NeedLeaderElection is true: the one who judges is the one who has to load.
func (restarter) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (r restarter) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case parts := <-r:
		return fmt.Errorf("provider objects name reconcilers that were not there at the start (%s): starting again loads them", strings.Join(parts, ", "))
	}
}
