package remediator

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// Replacer has Machines replaced by Cluster API. It never touches an instance,
// and no Machine that nothing would replace. Each of its writes carries the UID
// and the version of the object that it was decided on, and may be repeated.
type Replacer struct {
	Objects
	Client client.Client
}

// NoPathError says that a Machine cannot be replaced in the way that is wanted.
type NoPathError struct {
	// Reason is ReasonNoPath or ReasonNoSurge.
	Reason  string
	Message string
}

func (e *NoPathError) Error() string { return e.Message }

func noPath(format string, args ...any) *NoPathError {
	return &NoPathError{Reason: ReasonNoPath, Message: fmt.Sprintf(format, args...)}
}

// Progress is how far a replacement got.
type Progress struct {
	// Replacement is to be stored before Advance is called again.
	Replacement v1alpha1.Replacement
	// Done: the old Machine is being deleted or is gone, and nothing more is to
	// be asked for.
	Done bool
	// Reason and Message say what is waited for.
	Reason, Message string
}

// reasonDrifted is the reason of HealthCheckSucceeded where Holdfast set it.
const reasonDrifted = v1alpha1.ConditionInfrastructureDrifted

// Choose picks the path by which a record's Machine is replaced; it writes
// nothing. Errors are *[NoPathError] where there is none.
//
//   - A MachineHealthCheck that covers the Machine is asked, by the annotation
//     cluster.x-k8s.io/remediate-machine (Cluster API since 1.7); its limits on
//     how many are unhealthy hold.
//   - Else a MachineSet or KubeadmControlPlane is asked, by the conditions
//     HealthCheckSucceeded and OwnerRemediated that health checks set for them;
//     their limits hold: maxInFlight, preflight checks, etcd's quorum.
//   - A surge, where the rule says so, is not for a Machine that is not ready and
//     that a MachineHealthCheck covers: that one is asked.
//   - A Machine of a MachineSet is deleted where the rule says so, or where a
//     health check would have another controller remediate it.
func (p *Replacer) Choose(ctx context.Context, r *v1alpha1.Remediation) (*v1alpha1.Replacement, error) {
	m, err := p.machine(ctx, r)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, noPath("the Machine does not exist any more")
	}
	c := controllers{machine: m}
	if c.set, err = p.machineSetOf(ctx, m); err != nil {
		return nil, err
	}
	if c.plane, err = p.controlPlaneOf(ctx, m); err != nil {
		return nil, err
	}
	if c.check, err = p.healthCheckOf(ctx, m); err != nil {
		return nil, err
	}
	if none := c.none(); none != nil {
		return nil, none
	}
	if r.Spec.Strategy == v1alpha1.ReplaceSurge && !c.dying() {
		return p.chooseSurge(ctx, r, c.set)
	}
	return c.choose(r)
}

// controllers are who may replace a Machine; each may be nil.
type controllers struct {
	machine *clusterv1.Machine
	set     *clusterv1.MachineSet
	plane   *unstructured.Unstructured
	check   *clusterv1.MachineHealthCheck
}

// none says why nobody would replace the Machine, nil if somebody would.
func (c *controllers) none() error {
	asked := c.check != nil && !external(c.check)
	switch {
	case c.set == nil && c.plane == nil && !asked:
		return noPath("nothing is known to replace Machine %s: it has no MachineSet and no KubeadmControlPlane, and no MachineHealthCheck covers it", c.machine.Name)
	case c.set == nil && c.plane == nil && metav1.GetControllerOf(c.machine) == nil:
		return noPath("Machine %s has no owner that would make another", c.machine.Name)
	case c.set != nil && (!c.set.DeletionTimestamp.IsZero() || c.set.Spec.Replicas != nil && *c.set.Spec.Replicas == 0):
		return noPath("MachineSet %s makes no machines any more", c.set.Name)
	case c.plane != nil && c.plane.GetDeletionTimestamp() != nil:
		return noPath("KubeadmControlPlane %s is being deleted", c.plane.GetName())
	default:
		return nil
	}
}

// dying: a MachineHealthCheck may have the Machine deleted at any moment, since it
// is not ready. A surge would keep no capacity that it gives, and the MachineSet
// would make one machine more in its place while the number is raised.
func (c *controllers) dying() bool {
	return c.check != nil && !external(c.check) && !isReady(c.machine)
}

// choose picks among those that would.
func (c *controllers) choose(r *v1alpha1.Remediation) (*v1alpha1.Replacement, error) {
	elsewhere := c.check != nil && external(c.check)
	switch {
	case c.set != nil && (r.Spec.Strategy == v1alpha1.ReplaceDelete || elsewhere):
		return &v1alpha1.Replacement{Strategy: v1alpha1.StrategyDelete}, nil
	case elsewhere:
		return nil, noPath("MachineHealthCheck %s hands Machine %s to another controller, which may not replace it", c.check.Name, c.machine.Name)
	case c.check != nil:
		return &v1alpha1.Replacement{Strategy: v1alpha1.StrategyHealthCheck}, nil
	default:
		return &v1alpha1.Replacement{Strategy: v1alpha1.StrategyOwnerRemediation}, nil
	}
}

// Taken reports that a record's Machine is being deleted or is gone: whatever
// was asked for is happening.
func (p *Replacer) Taken(ctx context.Context, r *v1alpha1.Remediation) (bool, error) {
	m, err := p.machine(ctx, r)
	return err == nil && (m == nil || !m.DeletionTimestamp.IsZero()), err
}

// Advance takes the next step of a record's replacement, which must be in its
// status. It may be called again at any time: what is done already is not done
// twice. taken says that its Machine was just seen to be taken: a later read that
// is behind that one must not bring it back.
func (p *Replacer) Advance(ctx context.Context, r *v1alpha1.Remediation, taken bool) (Progress, error) {
	if r.Status.Replacement == nil {
		return Progress{}, fmt.Errorf("remediation %s has no way of replacement stored", r.Name)
	}
	out := Progress{Replacement: *r.Status.Replacement}
	var (
		m   *clusterv1.Machine
		err error
	)
	if !taken {
		if m, err = p.machine(ctx, r); err != nil {
			return out, err
		}
	}
	if out.Replacement.Strategy == v1alpha1.StrategySurge {
		return p.surge(ctx, r, m)
	}
	if m == nil || !m.DeletionTimestamp.IsZero() {
		out.Done = true
		return out, nil
	}
	switch out.Replacement.Strategy {
	case v1alpha1.StrategyHealthCheck:
		out.Reason, out.Message = ReasonWaitingForHealth, "a MachineHealthCheck was asked to remediate Machine "+m.Name+deferred(m)
		err = p.annotate(ctx, m, clusterv1.RemediateMachineAnnotation)
	case v1alpha1.StrategyOwnerRemediation:
		out.Reason, out.Message = ReasonWaitingForOwner, "the controller of Machine "+m.Name+" was asked to remediate it"+deferred(m)
		err = p.markUnhealthy(ctx, r, m)
	case v1alpha1.StrategyDelete:
		out.Reason, out.Message = ReasonWaitingForDeletion, "Machine "+m.Name+" is deleted"
		err = p.delete(ctx, m)
	default:
		err = fmt.Errorf("strategy %q is not known", out.Replacement.Strategy)
	}
	return out, err
}

// deferred quotes why an owner does not remediate a Machine now.
func deferred(m *clusterv1.Machine) string {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Message == "" {
		return ""
	}
	return ": " + c.Message
}

// precondition names the object as it was read: the API server refuses the
// patch once it is another one, or has changed.
func precondition(o client.Object) map[string]any {
	return map[string]any{"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion()}
}

func (p *Replacer) annotate(ctx context.Context, m *clusterv1.Machine, key string) error {
	if _, set := m.Annotations[key]; set {
		return nil
	}
	return p.patchAnnotation(ctx, m, key, "")
}

// patchAnnotation sets an annotation, or removes it where the value is nil.
func (p *Replacer) patchAnnotation(ctx context.Context, m *clusterv1.Machine, key string, value any) error {
	metadata := precondition(m)
	metadata["annotations"] = map[string]any{key: value}
	if err := p.merge(ctx, m, map[string]any{"metadata": metadata}); err != nil {
		return fmt.Errorf("annotate Machine %s with %s: %w", m.Name, key, err)
	}
	return nil
}

func (p *Replacer) merge(ctx context.Context, o client.Object, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	target := o.DeepCopyObject().(client.Object)
	return p.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, data), client.FieldOwner(v1alpha1.FieldManager))
}

// markUnhealthy sets the two conditions by which health checks hand a Machine
// to its owner, in both contracts' words: HealthCheckSucceeded is False, and
// OwnerRemediated is False, which the owner then keeps up to date.
func (p *Replacer) markUnhealthy(ctx context.Context, r *v1alpha1.Remediation, m *clusterv1.Machine) error {
	marked := m.DeepCopy()
	message := Line("rule "+r.Spec.Rule.ID+" wants it replaced: see Remediation "+r.Name, maxMessage)
	if !meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition) {
		meta.SetStatusCondition(&marked.Status.Conditions, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition,
			Status: metav1.ConditionFalse, Reason: reasonDrifted, Message: message})
		v1beta1conditions.MarkFalse(marked, clusterv1.MachineHealthCheckSucceededV1Beta1Condition, reasonDrifted, clusterv1.ConditionSeverityWarning, "%s", message)
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition); c == nil || c.Status != metav1.ConditionFalse {
		meta.SetStatusCondition(&marked.Status.Conditions, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition,
			Status: metav1.ConditionFalse, Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: "Waiting for remediation"})
		v1beta1conditions.MarkFalse(marked, clusterv1.MachineOwnerRemediatedV1Beta1Condition, clusterv1.WaitingForRemediationV1Beta1Reason, clusterv1.ConditionSeverityWarning, "")
	}
	return p.patchConditions(ctx, m, marked)
}

func (p *Replacer) patchConditions(ctx context.Context, old, changed *clusterv1.Machine) error {
	patch := client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
	if data, err := patch.Data(changed); err == nil && len(data) <= len(`{"metadata":{"resourceVersion":""}}`)+len(old.ResourceVersion) {
		return nil // nothing to change
	}
	if err := p.Client.Status().Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("mark Machine %s for remediation: %w", old.Name, err)
	}
	return nil
}

func (p *Replacer) delete(ctx context.Context, m *clusterv1.Machine) error {
	uid, version := m.UID, m.ResourceVersion
	err := p.Client.Delete(ctx, m.DeepCopy(), client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Machine %s: %w", m.Name, err)
	}
	return nil
}

// Withdraw takes back what was asked for and has not been taken up, so that
// nothing happens later that nobody counts any more. It reports false where the
// Machine is being deleted already and nothing can be taken back.
func (p *Replacer) Withdraw(ctx context.Context, r *v1alpha1.Remediation) (bool, error) {
	if r.Status.Replacement == nil {
		return true, nil
	}
	m, err := p.machine(ctx, r)
	if err != nil {
		return false, err
	}
	if r.Status.Replacement.Strategy == v1alpha1.StrategySurge {
		if err := p.ungrow(ctx, r); err != nil {
			return false, err
		}
	}
	if m == nil || !m.DeletionTimestamp.IsZero() {
		return false, nil
	}
	switch r.Status.Replacement.Strategy {
	case v1alpha1.StrategyHealthCheck:
		if annotations.HasRemediateMachine(m) {
			err = p.patchAnnotation(ctx, m, clusterv1.RemediateMachineAnnotation, nil)
		}
	case v1alpha1.StrategySurge:
		if _, marked := m.Annotations[clusterv1.DeleteMachineAnnotation]; marked {
			err = p.patchAnnotation(ctx, m, clusterv1.DeleteMachineAnnotation, nil)
		}
	case v1alpha1.StrategyOwnerRemediation:
		err = p.unmark(ctx, m)
	}
	return err == nil, err
}

func (p *Replacer) unmark(ctx context.Context, m *clusterv1.Machine) error {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	if c == nil || c.Reason != reasonDrifted {
		return nil // somebody else's by now
	}
	back := m.DeepCopy()
	for _, kind := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
		meta.RemoveStatusCondition(&back.Status.Conditions, kind)
	}
	for _, kind := range []clusterv1.ConditionType{clusterv1.MachineHealthCheckSucceededV1Beta1Condition, clusterv1.MachineOwnerRemediatedV1Beta1Condition} {
		v1beta1conditions.Delete(back, kind)
	}
	return p.patchConditions(ctx, m, back)
}
