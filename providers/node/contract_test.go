package node

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/providertest"
)

// TestContract has the decorator pass what every provider passes, beside a cloud
// that does.
func TestContract(t *testing.T) {
	taint := corev1.Taint{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	made := newWorld(t)
	registration := made.cloud.Registration(clusterv1.AddToScheme, providers.OwnerKind{GVK: clusterv1.GroupVersion.WithKind("Machine"), Role: providers.RoleMachine})
	providertest.Run(t, providertest.Harness{
		Registration: Extend(registration),
		New: func(t *testing.T) *providertest.Environment {
			w := newWorld(t)
			mods := []func(*providers.Owner){joins(registered("pool=general", taint)), labelled("node-role.kubernetes.io/worker=")}
			// The environments share one API server.
			one, two := w.namespace+"-1", w.namespace+"-2"
			m1, m2 := w.owner("c1", one, mods...), w.owner("c1", two, mods...)
			for _, name := range []string{one, two} {
				w.node(name, func(n *corev1.Node) {
					n.Labels = map[string]string{"pool": "general", "node-role.kubernetes.io/worker": ""}
					n.Spec.Taints = []corev1.Taint{taint}
				})
			}
			part := providers.ClusterPart(providers.KindNode, w.namespace, "c1")
			return &providertest.Environment{
				Provider: w.provider, Owners: []*providers.Owner{m1, m2},
				Mutations: func() int {
					return w.cloud.Mutations() + w.fronts["c1"].count(func(s string) bool { return s[:4] != "GET " })
				},
				Absent:    []providers.ID{idOf(clusterOf(m1), "m9"), {Kind: providers.KindInstance, Name: "i-m9"}},
				FailKinds: []string{part, providers.KindInstance},
				FailKind: func(_ *testing.T, kind string) func() {
					if kind != part {
						w.cloud.Cover(kind, errTest)
						return func() { w.cloud.Cover(kind, nil) }
					}
					w.fronts["c1"].bent(func(rw http.ResponseWriter, _ *http.Request) bool {
						rw.WriteHeader(http.StatusServiceUnavailable)
						return true
					})
					return func() { w.fronts["c1"].bent(nil) }
				},
				Remove: func(*testing.T) providers.ID {
					w.deleteNode(one)
					return idOf(clusterOf(m1), one)
				},
				Tampers: []providertest.Tamper{
					{Name: "label removed", Do: func(*testing.T) { w.edit(one, func(n *corev1.Node) { delete(n.Labels, "pool") }) }},
					{Name: "label changed", Do: func(*testing.T) { w.edit(one, func(n *corev1.Node) { n.Labels["pool"] = "x" }) }},
					{Name: "taint removed", Do: func(*testing.T) { w.edit(one, func(n *corev1.Node) { n.Spec.Taints = nil }) }},
					{Name: "all removed", Do: func(*testing.T) {
						w.edit(two, func(n *corev1.Node) { n.Spec.Taints, n.Labels = nil, nil })
					}},
				},
			}
		},
	})
}

var errTest = errors.New("refused")
