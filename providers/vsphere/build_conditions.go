package vsphere

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// mostMessage bounds a condition's message.
const mostMessage = 1024

// oneLine makes what a cloud says fit for a condition.
func oneLine(s string) string {
	return providers.Cleaner{Max: mostMessage}.Clean(providers.Redact(s))
}

// state is what one condition says, in both of the contract's forms.
type state struct {
	status metav1.ConditionStatus
	// reason is the v1beta2 one; old is CAPV's of v1beta1, where it differs.
	reason, old string
	severity    clusterv1.ConditionSeverity
	message     string
}

func good(reason string) state { return state{status: metav1.ConditionTrue, reason: reason} }

func bad(reason, old string, severity clusterv1.ConditionSeverity, message string) state {
	return state{status: metav1.ConditionFalse, reason: reason, old: old, severity: severity, message: oneLine(message)}
}

// conditioned is an object with conditions of both forms.
type conditioned interface {
	GetConditions() []metav1.Condition
	SetConditions([]metav1.Condition)
	GetV1Beta1Conditions() clusterv1.Conditions
	SetV1Beta1Conditions(clusterv1.Conditions)
	GetGeneration() int64
}

// condition sets a condition in both forms; old is empty where v1beta1 has none.
// Times change only where the status does, and nothing where nothing does.
func condition(o conditioned, kind string, old clusterv1.ConditionType, s state, now time.Time) {
	all := slices.Clone(o.GetConditions())
	meta.SetStatusCondition(&all, metav1.Condition{
		Type: kind, Status: s.status, Reason: s.reason, Message: s.message, ObservedGeneration: o.GetGeneration(),
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
	o.SetConditions(all)
	if old != "" {
		oldCondition(o, old, s, now)
	}
}

func oldCondition(o conditioned, kind clusterv1.ConditionType, s state, now time.Time) {
	c := clusterv1.Condition{Type: kind, Status: "True", LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
	if s.status != metav1.ConditionTrue {
		c.Status, c.Reason, c.Message, c.Severity = "False", cmp.Or(s.old, s.reason), s.message, s.severity
		if s.status == metav1.ConditionUnknown {
			c.Status, c.Severity = "Unknown", ""
		}
	}
	all := slices.Clone(o.GetV1Beta1Conditions())
	i := slices.IndexFunc(all, func(c clusterv1.Condition) bool { return c.Type == kind })
	switch {
	case i < 0:
		all = append(all, c)
	default:
		if all[i].Status == c.Status {
			c.LastTransitionTime = all[i].LastTransitionTime
		}
		all[i] = c
	}
	// Ready first, as v1beta1 orders them.
	slices.SortFunc(all, func(a, b clusterv1.Condition) int {
		ready := func(c clusterv1.Condition) int {
			if c.Type == clusterv1.ReadyV1Beta1Condition {
				return 0
			}
			return 1
		}
		return cmp.Or(ready(a)-ready(b), cmp.Compare(a.Type, b.Type))
	})
	o.SetV1Beta1Conditions(all)
}

func withoutCondition(o conditioned, kind string, old clusterv1.ConditionType) {
	all := slices.Clone(o.GetConditions())
	if meta.RemoveStatusCondition(&all, kind) {
		o.SetConditions(all)
	}
	before := o.GetV1Beta1Conditions()
	if after := slices.DeleteFunc(slices.Clone(before), func(c clusterv1.Condition) bool { return c.Type == old }); len(after) != len(before) {
		o.SetV1Beta1Conditions(after)
	}
}

// ready sums conditions up: the first that is not true decides, those that are
// false before those that are unknown.
func ready(o conditioned, now time.Time, kinds ...string) {
	s := good(clusterv1.ReadyReason)
	for _, want := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, kind := range kinds {
			c := meta.FindStatusCondition(o.GetConditions(), kind)
			if c == nil || c.Status != want || s.status != metav1.ConditionTrue {
				continue
			}
			s = state{status: want, reason: clusterv1.NotReadyReason, old: c.Reason, severity: clusterv1.ConditionSeverityInfo, message: "* " + kind + ": " + cmp.Or(c.Message, c.Reason)}
			if want == metav1.ConditionUnknown {
				s.reason = clusterv1.ReadyUnknownReason
			}
		}
	}
	condition(o, clusterv1.ReadyCondition, clusterv1.ReadyV1Beta1Condition, s, now)
}
