package node

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels"

	"github.com/holdfast-io/holdfast/providers"
)

// Kubelet's flags that say how a Node registers (Kubernetes reference,
// "kubelet"). They act on that day alone: nothing looks after what they set.
const (
	argNodeLabels = "node-labels"
	argTaints     = "register-with-taints"
)

// wantedLabels are the labels of an owner's Node that somebody declared: what
// kubelet registered it with, and over that what Cluster API keeps there of the
// Machine's own labels.
func wantedLabels(owner *providers.Owner) map[string]string {
	out := map[string]string{}
	for i, r := range registrations(owner) {
		declared := map[string]string{}
		for pair := range strings.SplitSeq(arg(r, argNodeLabels), ",") {
			if key, value, ok := label(pair); ok {
				declared[key] = value
			}
		}
		if i == 0 {
			out = declared
			continue
		}
		for key, value := range out {
			if declared[key] != value {
				delete(out, key) // which of the two the node used cannot be told
			}
		}
	}
	for key, value := range labels.GetManagedLabels(owner.Machine.Labels) {
		out[key] = value
	}
	return out
}

// label reads KEY=VALUE. What is no label, or is filled in on the machine, is
// none that could be compared.
func label(pair string) (key, value string, ok bool) {
	key, value, _ = strings.Cut(strings.TrimSpace(pair), "=")
	return key, value, len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

// wantedTaints are the taints of an owner's Node that somebody declared, and that
// are to stay.
func wantedTaints(owner *providers.Owner) []string {
	var taints []corev1.Taint
	for i, r := range registrations(owner) {
		declared := registeredTaints(r)
		if i == 0 {
			taints = declared
			continue
		}
		taints = both(taints, declared)
	}
	for _, t := range machineTaints(owner.Machine) {
		taints, _ = ensure(taints, t)
	}
	var out []string
	for i := range taints {
		if !transient(taints[i].Key) {
			out = append(out, taints[i].ToString())
		}
	}
	return out
}

// registeredTaints are those of the flag, which overrides kubeadm's own list.
func registeredTaints(r *bootstrapv1.NodeRegistrationOptions) (out []corev1.Taint) {
	if text := arg(r, argTaints); text != "" {
		for one := range strings.SplitSeq(text, ",") {
			if t, err := parseTaint(strings.TrimSpace(one)); err == nil {
				out = append(out, t)
			}
		}
		return out
	}
	if r.Taints == nil {
		return nil
	}
	for _, t := range *r.Taints {
		out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return out
}

func both(a, b []corev1.Taint) (out []corev1.Taint) {
	for _, x := range a {
		for _, y := range b {
			if x.MatchTaint(&y) && x.Value == y.Value {
				out = append(out, x)
			}
		}
	}
	return out
}

// registrations are how an owner's Node may have registered. A worker joins. The
// first machine of a control plane is initialised and the others join; where a
// configuration has both, what they agree in is what was declared.
func registrations(owner *providers.Owner) (out []*bootstrapv1.NodeRegistrationOptions) {
	config, ok := owner.Bootstrap.(*bootstrapv1.KubeadmConfig)
	if !ok {
		return nil
	}
	says := func(r *bootstrapv1.NodeRegistrationOptions) bool {
		return len(r.KubeletExtraArgs) > 0 || r.Taints != nil
	}
	if init := &config.Spec.InitConfiguration.NodeRegistration; owner.ControlPlane && says(init) {
		out = append(out, init)
	}
	if join := &config.Spec.JoinConfiguration.NodeRegistration; says(join) {
		out = append(out, join)
	}
	return out
}

func arg(r *bootstrapv1.NodeRegistrationOptions, name string) string {
	for _, a := range r.KubeletExtraArgs {
		if strings.TrimLeft(a.Name, "-") == name && a.Value != nil {
			return *a.Value
		}
	}
	return ""
}
