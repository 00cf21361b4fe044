package status

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Reasons of the condition DriftDetected. Where the cloud could not be read at
// all the reason is that of [providers.ScopeError], if there is one.
const (
	// ReasonInSync: all that was compared is as declared, or is accepted by a
	// policy. The status is False.
	ReasonInSync = "InSync"
	// ReasonMissing, ReasonDrifted and ReasonUnexpected name the worst of what
	// was found. The status is True.
	ReasonMissing    = "Missing"
	ReasonDrifted    = "Drifted"
	ReasonUnexpected = "Unexpected"
	// ReasonNotChecked and ReasonUnknown: something could not be compared, and
	// nothing that was drifts. The status is Unknown.
	ReasonNotChecked = "NotChecked"
	ReasonUnknown    = "Unknown"
)

// Reasons of the condition InfrastructureDrifted.
const (
	// ReasonToBeReplaced: the policy answers the drift with a replacement, and
	// nothing holds it back.
	ReasonToBeReplaced = "ToBeReplaced"
	// ReasonNotToBeReplaced: anything else.
	ReasonNotToBeReplaced = "NotToBeReplaced"
)

// verdict is what one read came to for one object.
type verdict struct {
	status  metav1.ConditionStatus
	reason  string
	message string
	// unread says that a failed read is all there is: it changes no verdict that
	// an earlier read gave, until that is stale.
	unread bool
	// replace says that a replacement is decided and held back by nothing, or
	// by nothing but its own progress.
	replace, onlyItself bool
	// drift names the fingerprints of what drifts.
	drift string
}

// scopeReasons are the words that sweep puts before the reason of a finding
// whose scope could not be used.
var scopeReasons = []string{
	providers.ReasonCredentials, providers.ReasonForbidden, providers.ReasonWrongAccount,
	providers.ReasonUnreachable, providers.ReasonInvalidSpec,
}

// judge makes the verdict on an object of which these are the decisions. unread
// tells of a finding that a failed read is its cause. It is pure.
func judge(decisions []*policies.Decision, unread func(*detector.Finding) bool) verdict {
	var drifts, gaps []*policies.Decision
	for _, d := range decisions {
		switch {
		case d.Ignored != nil, d.Action == policies.Ignore, d.Mode == policies.ModeOff:
		case isDrift(d.Finding.Status):
			drifts = append(drifts, d)
		case isGap(d.Finding.Status):
			gaps = append(gaps, d)
		}
	}
	switch {
	case len(drifts) > 0:
		return driftVerdict(drifts)
	case len(gaps) > 0:
		return gapVerdict(gaps, unread)
	default:
		return verdict{status: metav1.ConditionFalse, reason: ReasonInSync}
	}
}

func isDrift(s detector.Status) bool {
	return s == detector.Drifted || s == detector.Missing || s == detector.Unexpected
}

func isGap(s detector.Status) bool { return s == detector.NotChecked || s == detector.Unknown }

func driftVerdict(drifts []*policies.Decision) verdict {
	v := verdict{status: metav1.ConditionTrue, message: driftMessage(drifts)}
	for _, reason := range []string{ReasonMissing, ReasonDrifted, ReasonUnexpected} {
		if slices.ContainsFunc(drifts, func(d *policies.Decision) bool { return string(d.Finding.Status) == reason }) {
			v.reason = reason
			break
		}
	}
	prints := make([]string, 0, len(drifts))
	for _, d := range drifts {
		prints = append(prints, d.Finding.Fingerprint)
		if d.Action != policies.Replace || d.Mode != policies.ModeEnforce {
			continue
		}
		v.replace = v.replace || d.Executable()
		v.onlyItself = v.onlyItself || !slices.ContainsFunc(d.Blocked, foreignGate)
	}
	slices.Sort(prints)
	v.drift = strings.Join(prints, " ")
	return v
}

// foreignGate reports a gate that a replacement under way does not close by
// itself. The machine that is being replaced takes a budget's slot, is not
// ready, and has used up an attempt.
func foreignGate(b policies.Block) bool {
	switch b.By {
	case policies.GateBudget, policies.GateMinHealthy, policies.GateControlPlane, policies.GateAttempts:
		return false
	default:
		return true
	}
}

func gapVerdict(gaps []*policies.Decision, unread func(*detector.Finding) bool) verdict {
	v := verdict{status: metav1.ConditionUnknown, reason: ReasonNotChecked, unread: true}
	for _, d := range gaps {
		f := &d.Finding
		v.unread = v.unread && unread(f)
		if f.Status == detector.Unknown {
			v.reason = ReasonUnknown
		}
	}
	for _, d := range gaps {
		if word, _, found := strings.Cut(d.Finding.Reason, ": "); found && slices.Contains(scopeReasons, word) {
			v.reason = word
			// A cloud that is away comes back; credentials that are refused do
			// not, and nobody is to believe meanwhile that all is well.
			v.unread = v.unread && word == providers.ReasonUnreachable
		}
	}
	v.message = gapMessage(gaps)
	return v
}

// drifted is the verdict as the condition DriftDetected.
func (v *verdict) drifted() condition {
	return condition{kind: typeDriftDetected, status: v.status, reason: v.reason, message: v.message}
}

// infrastructureDrifted is the verdict as a Machine's condition
// InfrastructureDrifted. While the machine is being replaced, what that does to
// gates does not take the condition back.
func (v *verdict) infrastructureDrifted(m *clusterv1.Machine, before *condition) condition {
	c := condition{kind: typeInfrastructureDrifted, status: metav1.ConditionFalse, reason: ReasonNotToBeReplaced}
	underWay := before != nil && before.status == metav1.ConditionTrue && remediating(m)
	switch {
	case v.replace, underWay && v.onlyItself:
		c.status, c.reason, c.message = metav1.ConditionTrue, ReasonToBeReplaced, v.message
	case v.status == metav1.ConditionUnknown:
		c.status, c.reason, c.message = metav1.ConditionUnknown, v.reason, v.message
	}
	return c
}

// remediating reports a machine that its owner, or a MachineHealthCheck, was
// asked to replace.
func remediating(m *clusterv1.Machine) bool {
	_, asked := m.Annotations[clusterv1.RemediateMachineAnnotation]
	if asked || conditionIs(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse) {
		return true
	}
	if m.Status.Deprecated == nil || m.Status.Deprecated.V1Beta1 == nil {
		return false
	}
	for i := range m.Status.Deprecated.V1Beta1.Conditions {
		c := &m.Status.Deprecated.V1Beta1.Conditions[i]
		if c.Type == clusterv1.MachineOwnerRemediatedV1Beta1Condition {
			return string(c.Status) == string(metav1.ConditionFalse)
		}
	}
	return false
}

func conditionIs(conditions []metav1.Condition, kind string, status metav1.ConditionStatus) bool {
	for i := range conditions {
		if conditions[i].Type == kind {
			return conditions[i].Status == status
		}
	}
	return false
}
