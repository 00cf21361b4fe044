package status

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers"
)

const (
	typeDriftDetected         = v1alpha1.ConditionDriftDetected
	typeInfrastructureDrifted = v1alpha1.ConditionInfrastructureDrifted
)

// ours are the types that Holdfast sets.
var ours = []string{typeDriftDetected, typeInfrastructureDrifted}

// condition is one condition in the words of every contract.
type condition struct {
	kind            string
	status          metav1.ConditionStatus
	reason, message string
	// generation is that of the object which was compared; 0 where the place
	// has no observedGeneration.
	generation int64
	// since is when the status changed, as it stands in the object.
	since string
}

// same reports whether nothing about the condition would change. Where both are
// Unknown for the same reason, texts of one shape are the same: see [shape].
func (c *condition) same(have *condition) bool {
	if have == nil || c.status != have.status || c.reason != have.reason {
		return false
	}
	if have.generation != 0 && c.generation != 0 && c.generation != have.generation {
		return false
	}
	return c.message == have.message ||
		c.status == metav1.ConditionUnknown && providers.Shape(c.message) == providers.Shape(have.message)
}

// carried gives those of our conditions that a typed object carries, wherever
// its contract keeps them. Cluster API's conversions move them between the
// versions.
func carried(o client.Object) map[string]*condition {
	out := map[string]*condition{}
	add := func(kind string, c *condition) {
		if slices.Contains(ours, kind) && out[kind] == nil {
			c.kind = kind
			out[kind] = c
		}
	}
	if g, ok := o.(interface{ GetConditions() []metav1.Condition }); ok {
		for _, c := range g.GetConditions() {
			add(c.Type, &condition{status: c.Status, reason: c.Reason, message: c.Message, generation: c.ObservedGeneration})
		}
	}
	if g, ok := o.(interface {
		GetConditions() clusterv1beta1.Conditions
	}); ok {
		list := g.GetConditions()
		for i := range list {
			c := &list[i]
			add(string(c.Type), &condition{status: metav1.ConditionStatus(c.Status), reason: c.Reason, message: c.Message})
		}
	}
	if g, ok := o.(interface {
		GetV1Beta1Conditions() clusterv1.Conditions
	}); ok {
		list := g.GetV1Beta1Conditions()
		for i := range list {
			c := &list[i]
			add(string(c.Type), &condition{status: metav1.ConditionStatus(c.Status), reason: c.Reason, message: c.Message})
		}
	}
	return out
}

// readAt gives those of our conditions that a live object carries at a place.
func readAt(u *unstructured.Unstructured, at place) map[string]*condition {
	out := map[string]*condition{}
	list, _, _ := unstructured.NestedSlice(u.Object, at.path...)
	for _, entry := range list {
		m, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string { s, _ := m[key].(string); return s }
		kind := text("type")
		if !slices.Contains(ours, kind) {
			continue
		}
		generation, _ := m["observedGeneration"].(int64)
		out[kind] = &condition{kind: kind, status: metav1.ConditionStatus(text("status")), reason: text("reason"),
			message: text("message"), generation: generation, since: text("lastTransitionTime")}
	}
	return out
}

// entry is the condition as it goes into an object at a place.
func (c *condition) entry(at place, have *condition, now time.Time) map[string]any {
	since := now.UTC().Format(time.RFC3339)
	if have != nil && have.status == c.status && have.since != "" {
		since = have.since
	}
	out := map[string]any{"type": c.kind, "status": string(c.status), "reason": c.reason, "lastTransitionTime": since}
	if at.keyed || c.message != "" { // metav1.Condition requires it, the old contract wants none that is empty
		out["message"] = c.message
	}
	switch {
	case at.keyed && c.generation != 0:
		out["observedGeneration"] = c.generation
	case !at.keyed && c.status == metav1.ConditionFalse:
		// The contract wants one wherever the status is False, and for us False
		// is the good one.
		out["severity"] = string(clusterv1beta1.ConditionSeverityInfo)
	}
	return out
}

// merged is an atomic list with ours put in, or taken out where they are nil.
// All others stay as they are. The order is that of Cluster API's helpers, so
// that they have nothing to move: Ready first, then by type.
func merged(list []any, entries map[string]map[string]any) []any {
	out := make([]any, 0, len(list)+len(entries))
	for _, e := range list {
		if m, ok := e.(map[string]any); !ok || !slices.Contains(ours, typeOf(m)) {
			out = append(out, e)
		}
	}
	for _, kind := range ours {
		if e := entries[kind]; e != nil {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(orderOf(a), orderOf(b)) })
	return out
}

func typeOf(m map[string]any) string { s, _ := m["type"].(string); return s }

func orderOf(e any) string {
	m, _ := e.(map[string]any)
	if kind := typeOf(m); kind != string(clusterv1beta1.ReadyCondition) {
		return kind
	}
	return ""
}
