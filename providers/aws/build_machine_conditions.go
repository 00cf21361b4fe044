package aws

import (
	"errors"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	"sigs.k8s.io/cluster-api/util/deprecated/v1beta1/conditions"

	"github.com/holdfast-io/holdfast/providers"
)

// failed says that what building stopped at is the instance, or all.
func (n *machineNote) failed() bool {
	return n.progress.Failed != nil && (n.progress.At == providers.ID{} || n.progress.At.Kind == providers.KindInstance)
}

// failure is why building does not go on, else what is given.
func (n *machineNote) failure(otherwise string) string {
	if n.progress.Failed == nil {
		return n.clean(otherwise)
	}
	text := n.progress.Failed.Error()
	if errors.Is(n.progress.Failed, providers.ErrPending) {
		text = otherwise
	}
	return n.clean(text)
}

// longestNote bounds what a condition says.
const longestNote = 800

func (n *machineNote) clean(text string) string {
	return providers.Cleaner{Max: longestNote}.Clean(providers.Redact(text))
}

// not marks a condition false.
func (n *machineNote) not(t clusterv1beta1.ConditionType, reason string, severity clusterv1beta1.ConditionSeverity, text string) {
	conditions.Set(n.m, conditions.FalseCondition(t, reason, severity, "%s", n.old(t, reason, text)))
}

func (n *machineNote) unknown(t clusterv1beta1.ConditionType, reason, text string) {
	conditions.Set(n.m, conditions.UnknownCondition(t, reason, "%s", n.old(t, reason, n.clean(text))))
}

// old gives the message that stands there where the new one says the same with
// other request ids, ports and times. What Holdfast or AWS refuses has none.
func (n *machineNote) old(t clusterv1beta1.ConditionType, reason, text string) string {
	if refusal := (*providers.ApplyError)(nil); errors.As(n.progress.Failed, &refusal) {
		return text
	}
	if c := conditions.Get(n.m, t); c != nil && c.Reason == reason && c.Message != "" && text != "" && providers.Shape(c.Message) == providers.Shape(text) {
		return c.Message
	}
	return text
}

// summary makes Ready of the others, as CAPA does.
func (n *machineNote) summary() {
	of := []clusterv1beta1.ConditionType{infrav1.InstanceReadyCondition, infrav1.SecurityGroupsReadyCondition}
	if n.owner.ControlPlane {
		of = append(of, infrav1.ELBAttachedCondition)
	}
	conditions.SetSummary(n.m, conditions.WithConditions(of...),
		conditions.WithStepCounterIf(n.m.DeletionTimestamp.IsZero()), conditions.WithStepCounter())
}

// setTo points to a value, and leaves a pointer to an equal one as it is.
func setTo[T comparable](p **T, v T) {
	if *p == nil || **p != v {
		*p = &v
	}
}
