package remediation_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

type ctxType = context.Context

func stamp(t time.Time) *metav1.Time { return ptr.To(metav1.NewTime(t.Truncate(time.Second))) }

// heldBy expects that a gate keeps a machine from being repaired or replaced.
func heldBy(t *testing.T, gate string, do func(*world)) {
	t.Helper()
	w := newWorld(t, "")
	do(w)
	w.tamper("a-1-m1", "/tags/team", "red")
	w.tamper("a-1-m2", "/keyName", "other")
	w.run(5 * time.Minute)
	for _, m := range []string{"a-1-m1", "a-1-m2"} {
		w.phase(m, v1alpha1.PhaseBlocked, gate)
	}
	if w.applied() > 0 || len(w.capi.deleted) > 0 {
		t.Error("acted")
	}
}

func pauseCluster(w *world) {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "eu"}}
	w.update(c, func() { c.Spec.Paused = ptr.To(true) })
}
