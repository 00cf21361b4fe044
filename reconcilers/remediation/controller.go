package remediation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/remediator"
)

// Reader reads one owner now, object and cloud, and decides on it with what is
// in flight now everywhere; the Outcome goes to no sink. An owner that does not
// exist any more gives an Outcome without decisions. An error means that it
// could not be read, and then nothing may be done. [sweep.Daemon] is one.
type Reader interface {
	Fresh(ctx context.Context, cluster detector.ClusterRef, owner providers.OwnerRef) (*sweep.Outcome, error)
}

// Times bound what a record waits for; zero fields have the value of
// [DefaultTimes].
type Times struct {
	// Settle is the time from an act to the first read that may show it.
	Settle time.Duration
	// Patience is the time from an act after which a read that still shows the
	// drift is believed: clouds are eventually consistent.
	Patience time.Duration
	// Act bounds one attempt to set values, the draining of a node included.
	Act time.Duration
	// Take bounds the time in which Cluster API is to take up a replacement.
	Take time.Duration
	// Replace bounds the time from the end of the old machine to a whole group.
	Replace time.Duration
	// Verify bounds the time in which a read must tell whether a patch helped.
	Verify time.Duration
	// Poll is the time between two looks at what Cluster API or a cloud does.
	Poll time.Duration
}

// DefaultTimes suit real clouds.
var DefaultTimes = Times{
	Settle: 15 * time.Second, Patience: 2 * time.Minute, Act: 30 * time.Minute, Take: time.Hour,
	Replace: 30 * time.Minute, Verify: 30 * time.Minute, Poll: 15 * time.Second,
}

// Retention says how long records are kept after their end.
type Retention struct {
	// Keep is how many ended records a cluster keeps at most; 0 is no limit.
	Keep int
	// TTL is how long an ended record is kept; 0 is for ever. One that latched,
	// failed or was denied is kept as long as its drift is there.
	TTL time.Duration
}

// Controller drives records to their end. It must run in one process at a time
// only; [Store.Fence] guards each write against another that leads by now.
type Controller struct {
	*Store
	// Daemon reads before each act and after it.
	Daemon Reader
	// Asker is told when an owner is worth a read, so that conditions and
	// metrics follow; it may be nil.
	Asker sweep.Asker
	// Appliers write, by the provider's name.
	Appliers map[string]providers.Applier
	// Replacer and Drainer work through Cluster API.
	Replacer *remediator.Replacer
	Drainer  *remediator.Drainer
	// Times and Retention; zero Retention keeps everything.
	Times     Times
	Retention Retention
	// Concurrency is how many records are driven at once; 4 if it is zero.
	// Beginnings are one at a time all the same; reads are not.
	Concurrency int

	// beginning makes beginning one step with the look whether anything has
	// begun since what is in flight was read. No read of a cloud is made in it.
	beginning sync.Mutex
	mu        sync.Mutex
	// underway are the changes of the attempts in flight, one a record: a cloud
	// may not have settled them, or has, and they are to be verified.
	underway map[types.NamespacedName]underway
}

// underway is the change of one attempt.
type underway struct {
	uid     types.UID
	attempt int32
	change  providers.Change
	settled bool
}

// SetupWithManager registers the controller. It runs on the leader alone.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	n := c.Concurrency
	if n == 0 {
		n = 4
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("remediation").
		For(&v1alpha1.Remediation{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: n}).
		Complete(c)
}

func (c *Controller) times() Times {
	t := c.Times
	set := func(d *time.Duration, or time.Duration) {
		if *d == 0 {
			*d = or
		}
	}
	set(&t.Settle, DefaultTimes.Settle)
	set(&t.Patience, DefaultTimes.Patience)
	set(&t.Act, DefaultTimes.Act)
	set(&t.Take, DefaultTimes.Take)
	set(&t.Replace, DefaultTimes.Replace)
	set(&t.Verify, DefaultTimes.Verify)
	set(&t.Poll, DefaultTimes.Poll)
	return t
}

// Reconcile takes the next step of one record. A conflict means that somebody
// else wrote meanwhile, and the step is taken anew on what they wrote.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := c.step(ctx, req.NamespacedName)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return result, err
}

func (c *Controller) step(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	r, err := c.get(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	c.letGo(key, r)
	if r == nil || !r.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	ctx = log.IntoContext(ctx, c.logger(ctx, r))
	if why := remediator.Altered(r); why != "" && (!r.Status.Phase.Ended() || remediator.Retried(r)) {
		return ctrl.Result{}, c.write(ctx, r, remediator.Barred(r, why))
	}
	if at := r.Spec.RetriedAt; at != nil && at.After(c.Now()) {
		// Asked for in the second in which the last attempt ended.
		if ahead := at.Sub(c.Now()); ahead <= time.Second {
			return ctrl.Result{RequeueAfter: ahead}, nil
		}
		return c.retryNow(ctx, r)
	}
	return c.next(ctx, key, r)
}

// next is the step that a record's phase asks for.
func (c *Controller) next(ctx context.Context, key types.NamespacedName, r *v1alpha1.Remediation) (ctrl.Result, error) {
	switch r.Status.Phase {
	case v1alpha1.PhaseRunning:
		return c.run(ctx, r)
	case v1alpha1.PhaseVerifying:
		return c.verify(ctx, r)
	case v1alpha1.PhaseAwaitingApproval, v1alpha1.PhaseBlocked:
		answered := r.Generation != r.Status.ObservedGeneration || remediator.Retried(r)
		if at := remediator.Recheck(r); !answered && (at.IsZero() || c.Now().Before(at)) {
			return after(at, c.Now()), nil
		}
		return c.begin(ctx, key)
	case "", v1alpha1.PhasePending:
		return c.begin(ctx, key)
	default:
		return c.ended(ctx, r)
	}
}

// retryNow sets a retry that is dated ahead, by a clock that is wrong, to the
// present: until its time had come each attempt would end before it, and so be
// tried again at once and never counted.
func (c *Controller) retryNow(ctx context.Context, r *v1alpha1.Remediation) (ctrl.Result, error) {
	if err := c.fenced(ctx); err != nil {
		return ctrl.Result{}, err
	}
	next, now := r.DeepCopy(), metav1.NewTime(c.Now().UTC().Truncate(time.Second))
	next.Spec.RetriedAt = &now
	if err := c.Client.Update(ctx, next, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: time.Second}, nil
}

// after requeues at a time; not at all where it is zero.
func after(at, now time.Time) ctrl.Result {
	if at.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(at.Sub(now), time.Second)}
}

func (c *Controller) logger(ctx context.Context, r *v1alpha1.Remediation) logr.Logger {
	return log.FromContext(ctx).WithValues("remediation", r.Namespace+"/"+r.Name, "owner", r.Spec.Owner.Name, "action", r.Spec.Action)
}

// get reads a record live, nil if it is gone.
func (c *Controller) get(ctx context.Context, key types.NamespacedName) (*v1alpha1.Remediation, error) {
	r := &v1alpha1.Remediation{}
	err := c.Reader.Get(ctx, key, r)
	switch {
	case apierrors.IsNotFound(err):
		c.versions.forget(key)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get Remediation %s: %w", key, err)
	}
	return r, c.versions.get(r)
}

// fresh reads a record's owner, or another of its cluster.
func (c *Controller) fresh(ctx context.Context, r *v1alpha1.Remediation, owner providers.OwnerRef) (remediator.Read, error) {
	read, _, err := c.freshSubjects(ctx, r, owner)
	return read, err
}

func (c *Controller) freshSubjects(ctx context.Context, r *v1alpha1.Remediation, owner providers.OwnerRef) (remediator.Read, subjects, error) {
	began := c.Now()
	o, err := c.Daemon.Fresh(ctx, clusterOf(r), owner)
	if err != nil {
		return remediator.Read{}, subjects{}, fmt.Errorf("read %s: %w", owner, err)
	}
	var read remediator.Read
	var sub subjects
	for _, cluster := range o.Inventory.Clusters {
		if cluster.Object.Namespace == r.Namespace && cluster.Object.Name == r.Spec.ClusterName {
			read, sub = readOf(o, cluster), subjectsOf(o, cluster)
			sub.everywhere = o.Policies.For(clusterOf(r), cluster.Object.Labels).CountsEverywhere()
		}
	}
	// What was read was read after this, whatever snapshot it was laid over.
	read.SeenAt = began
	return read, sub, nil
}

// begin decides anew on a record that has not begun, and begins its attempt if
// nothing stands against it.
func (c *Controller) begin(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	r, read, result, err := c.decide(ctx, key)
	if err != nil || r == nil || r.Status.Phase != v1alpha1.PhaseRunning {
		return result, err
	}
	log.FromContext(ctx).Info("Remediation has begun", "attempt", r.Status.AttemptCount)
	return c.act(ctx, r, read)
}

// redecisions is how often a record is decided on anew at once because another
// one began meanwhile.
const redecisions = 3

func (c *Controller) decide(ctx context.Context, key types.NamespacedName) (*v1alpha1.Remediation, remediator.Read, ctrl.Result, error) {
	again := ctrl.Result{RequeueAfter: c.times().Poll}
	for range redecisions {
		r, err := c.get(ctx, key)
		if err != nil || r == nil || r.Status.Phase.InFlight() || remediator.Altered(r) != "" {
			return nil, remediator.Read{}, again, err
		}
		noted, at := noting(ctx)
		read, sub, err := c.freshSubjects(noted, r, remediator.OwnerOf(r))
		if err != nil {
			return nil, read, again, err
		}
		decided, result, err := c.decideOn(ctx, r, read, sub, at)
		if !errors.Is(err, errBegunMeanwhile) {
			return decided, read, result, err
		}
	}
	return nil, remediator.Read{}, ctrl.Result{RequeueAfter: time.Second}, nil
}

// errBegunMeanwhile says that a decision does not know what is in flight by now.
var errBegunMeanwhile = errors.New("another attempt has begun since what is in flight was read")

// decideOn begins the attempt of a record if a read and the facts that were read
// with it let it begin. The record is returned as it is stored then.
func (c *Controller) decideOn(ctx context.Context, r *v1alpha1.Remediation, read remediator.Read, sub subjects, at *facts) (*v1alpha1.Remediation, ctrl.Result, error) {
	again := ctrl.Result{RequeueAfter: c.times().Poll}
	v := remediator.VerdictOn(r, read)
	if restored, err := c.restore(ctx, r, v, sub); restored || err != nil {
		return nil, ctrl.Result{RequeueAfter: time.Second}, err
	}
	pending := r.DeepCopy()
	pending.Status = remediator.Judge(r, v, c.Now())
	if err := c.fenced(ctx); err != nil {
		return nil, again, err
	}
	switch d := v.Decision; {
	case !v.Clear:
		return r, again, c.write(ctx, r, pending.Status)
	case pending.Status.Phase != v1alpha1.PhasePending:
		err := c.write(ctx, r, pending.Status)
		return r, after(remediator.Recheck(r), c.Now()), err
	case !d.Executable() || string(d.Action) != string(r.Spec.Action):
		// The record is of what was decided before: its next outcome says so.
		c.ask(r)
		return r, again, c.write(ctx, r, pending.Status)
	}
	status, err := c.opening(ctx, pending)
	if err != nil {
		return nil, again, err
	}
	c.beginning.Lock()
	defer c.beginning.Unlock()
	if c.begun.since(at.at, clusterOf(r), sub.everywhere) {
		return nil, again, errBegunMeanwhile
	}
	err = c.write(ctx, r, status)
	if err == nil && r.Status.Phase == v1alpha1.PhaseRunning {
		c.begun.add(clusterOf(r))
	}
	return r, after(remediator.Recheck(r), c.Now()), err
}

// restore brings a record that is not what its decision says in line with it, so
// that nothing begins on what the policies said before or somebody wrote into
// it: it is decided on anew then.
func (c *Controller) restore(ctx context.Context, r *v1alpha1.Remediation, v remediator.Verdict, sub subjects) (bool, error) {
	if v.Decision == nil || !remediator.Acting(v.Decision) {
		return false, nil
	}
	was, next := remediator.Seal(&r.Spec), remediator.Judge(r, v, c.Now())
	err := c.refresh(ctx, r, v, sub, r.Status.Phase.Ended() && !next.Phase.Ended())
	return err == nil && remediator.Seal(&r.Spec) != was, err
}

// opening is the status by which an attempt begins, with the path that a
// replacement takes; or by which it turns out that it cannot.
func (c *Controller) opening(ctx context.Context, pending *v1alpha1.Remediation) (v1alpha1.RemediationStatus, error) {
	if pending.Spec.Action == v1alpha1.WriteAction(policies.Patch) {
		if c.Appliers[pending.Spec.Scope.Provider] == nil {
			return remediator.CannotBegin(pending, remediator.ReasonNotExecuted,
				"provider "+pending.Spec.Scope.Provider+" of this program cannot write", c.Now()), nil
		}
		return remediator.Begin(pending, c.Now())
	}
	replacement, err := c.Replacer.Choose(ctx, pending)
	if none := (*remediator.NoPathError)(nil); asNoPath(err, &none) {
		return remediator.CannotBegin(pending, none.Reason, none.Message, c.Now()), nil
	} else if err != nil {
		return pending.Status, err
	}
	status, err := remediator.Begin(pending, c.Now())
	status.Replacement = replacement
	return status, err
}
