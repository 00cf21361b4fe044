package remediation

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/remediator"
)

func asNoPath(err error, target **remediator.NoPathError) bool { return errors.As(err, target) }

// hardGates say that an object is none of Holdfast's business now, or that
// nothing is known: what has begun waits for them too. Others say when a thing
// may begin, and what has begun goes on to its end.
var hardGates = []string{policies.GateMode, policies.GateNotDrift, policies.GateNotKnown, policies.GatePaused, policies.GateDeleting,
	policies.GateMoving, policies.GateExternallyManaged, policies.GateSkipRemediation, policies.GateAmbiguous}

// hardBlock gives the hard gate that holds a record. Where the drift is not the
// record's any more, or none shows, as when a change is half-way, the gates that
// are about the owner hold all the same.
func hardBlock(r *v1alpha1.Remediation, v remediator.Verdict, read remediator.Read) *policies.Block {
	if v.Decision == nil {
		return read.HeldBy(r)
	}
	i := slices.IndexFunc(v.Decision.Blocked, func(b policies.Block) bool { return slices.Contains(hardGates, b.By) })
	if i < 0 {
		return nil
	}
	return &v.Decision.Blocked[i]
}

// wantedStill reports whether what is decided now is what the record does.
func wantedStill(r *v1alpha1.Remediation, d *policies.Decision) bool {
	return remediator.Acting(d) && string(d.Action) == string(r.Spec.Action)
}

// run goes on with an attempt that has begun, in this process or in one that
// died: it looks again before it does anything.
func (c *Controller) run(ctx context.Context, r *v1alpha1.Remediation) (ctrl.Result, error) {
	if r.Spec.Action == v1alpha1.WriteAction(policies.Replace) {
		taken, err := c.Replacer.Taken(ctx, r)
		if err != nil {
			return ctrl.Result{}, err
		}
		if taken {
			return c.replace(ctx, r, true)
		}
	}
	read, err := c.fresh(resuming(ctx, r), r, remediator.OwnerOf(r))
	if err != nil {
		return ctrl.Result{}, err
	}
	return c.act(ctx, r, read)
}

// act does what an attempt does, on a read just now.
func (c *Controller) act(ctx context.Context, r *v1alpha1.Remediation, read remediator.Read) (ctrl.Result, error) {
	v := remediator.VerdictOn(r, read)
	poll := ctrl.Result{RequeueAfter: c.times().Poll}
	b := hardBlock(r, v, read)
	// What the cloud has not settled goes on as it began, whatever shows of it.
	if change, ok := c.pending(r); ok && b == nil && !v.OwnerGone {
		return c.apply(ctx, r, change)
	}
	if !v.Clear {
		return c.wait(ctx, r, remediator.ReasonWaitingForRead, "the resource could not be read in full", poll)
	}
	if b != nil {
		return c.wait(ctx, r, remediator.ReasonWaiting, b.By+": "+b.Detail, poll)
	}
	if r.Spec.Action == v1alpha1.WriteAction(policies.Replace) {
		if v.Decision == nil || !wantedStill(r, v.Decision) {
			return c.takeBack(ctx, r, v)
		}
		return c.replace(ctx, r, false)
	}
	return c.patch(ctx, r, v, read)
}

func (c *Controller) wait(ctx context.Context, r *v1alpha1.Remediation, reason, message string, result ctrl.Result) (ctrl.Result, error) {
	return result, c.write(ctx, r, remediator.Wait(r, reason, message))
}

// patch sets values. A machine that is stopped for it is emptied first.
func (c *Controller) patch(ctx context.Context, r *v1alpha1.Remediation, v remediator.Verdict, read remediator.Read) (ctrl.Result, error) {
	switch {
	case v.OwnerGone:
		return c.end(ctx, r, remediator.Ended(r, v1alpha1.PhaseCancelled, v1alpha1.OutcomeHeld, remediator.ReasonOwnerGone, "its owner does not exist any more", c.Now()))
	case v.Decision != nil && !wantedStill(r, v.Decision) && r.Status.Drain == nil:
		return c.end(ctx, r, remediator.Ended(r, v1alpha1.PhaseCancelled, v1alpha1.OutcomeHeld, remediator.ReasonPolicyChanged, "nothing is to be done any more: "+v.Decision.Reason, c.Now()))
	}
	drained := false
	if r.Spec.Disruptive && r.Spec.Machine != nil {
		done, result, err := c.drain(ctx, r)
		if err != nil || !done {
			return result, err
		}
		drained = true
	}
	change, ok := remediator.ChangeOf(r, read, drained)
	if !ok {
		return c.acted(ctx, r, "the cloud has the wanted values already")
	}
	return c.apply(ctx, r, change)
}

// drain empties the machine's node; what it is about to do is stored first.
func (c *Controller) drain(ctx context.Context, r *v1alpha1.Remediation) (bool, ctrl.Result, error) {
	if r.Status.Drain == nil {
		plan, err := c.Drainer.Plan(ctx, r)
		if err != nil {
			result, err := c.failing(ctx, r, remediator.ReasonDrainFailed, err)
			return false, result, err
		}
		if plan == nil {
			return true, ctrl.Result{}, nil
		}
		plan.StartedAt = metav1.NewTime(c.Now().UTC().Truncate(time.Second))
		status := remediator.Wait(r, remediator.ReasonDraining, "node "+plan.Node+" is being drained")
		status.Drain = plan
		if err := c.write(ctx, r, status); err != nil {
			return false, ctrl.Result{}, err
		}
	}
	if err := c.fenced(ctx); err != nil {
		return false, ctrl.Result{}, err
	}
	done, message, err := c.Drainer.Drain(ctx, r)
	switch {
	case err != nil:
		result, err := c.failing(ctx, r, remediator.ReasonDrainFailed, err)
		return false, result, err
	case !done && c.late(r, c.times().Act):
		result, err := c.end(ctx, r, remediator.Ended(r, v1alpha1.PhaseFailed, v1alpha1.OutcomeFailed, remediator.ReasonDrainFailed,
			"the node could not be drained in time: "+message, c.Now()))
		return false, result, err
	case !done:
		result, err := c.wait(ctx, r, remediator.ReasonDraining, "node "+r.Status.Drain.Node+" is being drained: "+message, ctrl.Result{RequeueAfter: c.times().Poll})
		return false, result, err
	}
	return true, ctrl.Result{}, nil
}

func (c *Controller) late(r *v1alpha1.Remediation, bound time.Duration) bool {
	return r.Status.StartedAt == nil || c.Now().Sub(r.Status.StartedAt.Time) > bound
}

// failing passes an error on, to be tried again, until the attempt's time is
// over; then the attempt has failed. The record tells the first error of a row
// and no other: texts that differ each time (request ids) would have it written
// each time, and each write has it tried again at once.
func (c *Controller) failing(ctx context.Context, r *v1alpha1.Remediation, reason string, err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err) || ctx.Err() != nil:
		return ctrl.Result{}, err
	case !c.late(r, c.times().Act):
		if r.Status.Reason != remediator.ReasonRetrying {
			err = errors.Join(err, c.write(ctx, r, remediator.Wait(r, remediator.ReasonRetrying, err.Error())))
		}
		return ctrl.Result{}, err
	}
	return c.end(ctx, r, remediator.Ended(r, v1alpha1.PhaseFailed, v1alpha1.OutcomeFailed, reason, err.Error(), c.Now()))
}

// apply hands a change to the provider. It is kept while the cloud has not
// settled it, so that it goes on as it began.
func (c *Controller) apply(ctx context.Context, r *v1alpha1.Remediation, change providers.Change) (ctrl.Result, error) {
	if err := c.fenced(ctx); err != nil {
		return ctrl.Result{}, err
	}
	s := r.Spec.Scope
	scope := providers.Scope{Provider: s.Provider, Account: s.Account, Region: s.Region, Identity: s.Identity}
	applier := c.Appliers[s.Provider]
	if applier == nil {
		return c.end(ctx, r, remediator.Held(r, remediator.ReasonNotExecuted, "provider "+s.Provider+" of this program cannot write", c.Now()))
	}
	err := applier.Apply(ctx, scope, change)
	var refused *providers.ApplyError
	switch {
	case err == nil:
		c.keep(r, &change, true)
		return c.acted(ctx, r, "the cloud has taken the change")
	case errors.Is(err, providers.ErrPending) && !c.late(r, c.times().Act):
		c.keep(r, &change, false)
		return c.wait(ctx, r, remediator.ReasonSettling, "the cloud has not completed the change yet", ctrl.Result{RequeueAfter: min(c.times().Poll, 5*time.Second)})
	case errors.As(err, &refused):
		c.keep(r, nil, true)
		log.FromContext(ctx).Info("The cloud refuses a change", "reason", refused.Reason)
		return c.end(ctx, r, remediator.Failed(r, err, c.Now()))
	default:
		return c.failing(ctx, r, remediator.ReasonError, err)
	}
}

// keep keeps the change of a record's attempt, nil forgets it. settled says that
// the cloud has taken it.
func (c *Controller) keep(r *v1alpha1.Remediation, change *providers.Change, settled bool) {
	key := client.ObjectKeyFromObject(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if change == nil {
		delete(c.underway, key)
		return
	}
	if c.underway == nil {
		c.underway = map[types.NamespacedName]underway{}
	}
	c.underway[key] = underway{uid: r.UID, attempt: r.Status.AttemptCount, change: *change, settled: settled}
}

// letGo forgets the change of a record whose attempt has ended, or that is gone.
func (c *Controller) letGo(key types.NamespacedName, r *v1alpha1.Remediation) {
	if r != nil && r.Status.Phase.InFlight() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.underway, key)
}

func (c *Controller) kept(r *v1alpha1.Remediation) underway {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.underway[client.ObjectKeyFromObject(r)]; u.uid == r.UID && u.attempt == r.Status.AttemptCount {
		return u
	}
	return underway{settled: true}
}

// pending gives the change that the cloud has not settled yet.
func (c *Controller) pending(r *v1alpha1.Remediation) (providers.Change, bool) {
	u := c.kept(r)
	return u.change, !u.settled
}

// found is what the attempt under way found before it set it; nothing in a
// process that has not made the change.
func (c *Controller) found(r *v1alpha1.Remediation) []providers.FieldChange {
	return c.kept(r).change.Fields
}

func (c *Controller) acted(ctx context.Context, r *v1alpha1.Remediation, message string) (ctrl.Result, error) {
	return ctrl.Result{RequeueAfter: c.times().Settle}, c.write(ctx, r, remediator.Acted(r, message, c.Now()))
}

// replace takes one step of a replacement; each is stored before the next. taken
// says that the Machine was just seen to be on its way out.
func (c *Controller) replace(ctx context.Context, r *v1alpha1.Remediation, taken bool) (ctrl.Result, error) {
	if err := c.fenced(ctx); err != nil {
		return ctrl.Result{}, err
	}
	poll := ctrl.Result{RequeueAfter: c.times().Poll}
	progress, err := c.Replacer.Advance(ctx, r, taken)
	var moved *providers.ApplyError
	var none *remediator.NoPathError
	switch {
	case errors.As(err, &moved), asNoPath(err, &none):
		if _, err := c.Replacer.Withdraw(ctx, r); err != nil {
			return ctrl.Result{}, err
		}
		reason := remediator.ReasonMoved
		if none != nil {
			reason = none.Reason
		}
		return c.end(ctx, r, remediator.Held(r, reason, err.Error(), c.Now()))
	case err != nil:
		return ctrl.Result{}, err
	case progress.Done:
		return poll, c.write(ctx, r, remediator.Acted(r, "the old Machine is being deleted", c.Now()))
	}
	status := remediator.Wait(r, progress.Reason, progress.Message)
	status.Replacement = &progress.Replacement
	step := r.Status.Replacement.Step
	if err := c.write(ctx, r, status); err != nil {
		return ctrl.Result{}, err
	}
	if progress.Replacement.Step != step {
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil // the next step is stored: take it
	}
	if c.late(r, c.times().Take) {
		return c.giveUp(ctx, r)
	}
	return poll, nil
}

// giveUp takes back a request that nobody took up in time.
func (c *Controller) giveUp(ctx context.Context, r *v1alpha1.Remediation) (ctrl.Result, error) {
	back, err := c.Replacer.Withdraw(ctx, r)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !back {
		return ctrl.Result{RequeueAfter: c.times().Poll}, nil // it is being deleted after all
	}
	return c.end(ctx, r, remediator.Ended(r, v1alpha1.PhaseFailed, v1alpha1.OutcomeFailed, remediator.ReasonNotTaken,
		"nobody took up the replacement in time: "+r.Status.Message, c.Now()))
}

// takeBack ends a replacement that is not wanted any more and that nobody has
// taken up.
func (c *Controller) takeBack(ctx context.Context, r *v1alpha1.Remediation, v remediator.Verdict) (ctrl.Result, error) {
	if err := c.fenced(ctx); err != nil {
		return ctrl.Result{}, err
	}
	back, err := c.Replacer.Withdraw(ctx, r)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !back && !v.OwnerGone {
		return ctrl.Result{RequeueAfter: c.times().Poll}, nil
	}
	if !back {
		return c.replace(ctx, r, true)
	}
	return c.end(ctx, r, remediator.Ended(r, v1alpha1.PhaseCancelled, v1alpha1.OutcomeHeld, remediator.ReasonTakenBack,
		"it was not wanted any more before anything was done", c.Now()))
}
