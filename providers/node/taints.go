package node

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// transient reports taints that come and go by themselves: those with which a
// Node is kept empty until something on it is ready, which whoever makes it ready
// takes away, and those by which controllers tell of a Node's state. Their
// absence is how things should be.
//
// Kubernetes documentation, "Taints and Tolerations"; Cluster API,
// NodeUninitializedTaint; cluster-autoscaler FAQ, "startup taints".
func transient(key string) bool {
	domain, name, ok := strings.Cut(key, "/")
	if !ok {
		domain, name = "", key
	}
	switch domain {
	case "node.kubernetes.io", "node.cloudprovider.kubernetes.io", "node.cluster.x-k8s.io", "readiness.k8s.io",
		"startup-taint.cluster-autoscaler.kubernetes.io", "ignore-taint.cluster-autoscaler.kubernetes.io",
		"status-taint.cluster-autoscaler.kubernetes.io":
		return true
	}
	for _, word := range []string{"not-ready", "notready", "uninitialized", "startup"} {
		if strings.Contains(strings.ToLower(name), word) {
			return true
		}
	}
	switch key {
	case "DeletionCandidateOfClusterAutoscaler", "ToBeDeletedByClusterAutoscaler":
		return true
	}
	return false
}

// machineTaints are those that Cluster API keeps on a Node for as long as the
// Machine has them. What it sets once and lets go is no opinion.
func machineTaints(m *clusterv1.Machine) (out []corev1.Taint) {
	for _, t := range m.Spec.Taints {
		if t.Propagation == clusterv1.MachineTaintPropagationAlways {
			out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	return out
}

// parseTaint reads what [corev1.Taint.ToString] wrote: KEY=VALUE:EFFECT or
// KEY:EFFECT, as kubelet's --register-with-taints has it too.
func parseTaint(s string) (corev1.Taint, error) {
	what, effect, ok := cutLast(s, ":")
	t := corev1.Taint{Effect: corev1.TaintEffect(effect)}
	t.Key, t.Value, _ = strings.Cut(what, "=")
	switch {
	case !ok || t.Key == "":
		return t, fmt.Errorf("taint %q: want KEY=VALUE:EFFECT", s)
	case t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectPreferNoSchedule && t.Effect != corev1.TaintEffectNoExecute:
		return t, fmt.Errorf("taint %q: %q is no effect", s, effect)
	}
	return t, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// ensure puts a taint among others, in place of one with its key and effect:
// Kubernetes has no two of those on one Node.
func ensure(taints []corev1.Taint, t corev1.Taint) ([]corev1.Taint, bool) {
	for i := range taints {
		if !taints[i].MatchTaint(&t) {
			continue
		}
		if taints[i].Value == t.Value {
			return taints, false
		}
		taints[i].Value = t.Value
		return taints, true
	}
	return append(taints, t), true
}
