package sweep

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
)

type sinkOf func(*Outcome)

func (f sinkOf) Consume(_ context.Context, o *Outcome) error { f(o); return nil }

// A cluster that goes while it is read is in the read's outcome, and its end was
// told before: it has to be told once more, or its series stay for good.
func TestC68ClusterGoesWhileItIsRead(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	there := detector.ClusterRef{Namespace: "prod", Name: "there"}
	gone := detector.ClusterRef{Namespace: "prod", Name: "gone"}
	var ends []detector.ClusterRef
	d := &Daemon{Sinks: []Sink{sinkOf(func(o *Outcome) { ends = append(ends, o.Gone...) })}}
	d.clusters = map[detector.ClusterRef]*cluster{there: {}}
	inv := &inventory.Inventory{}
	for _, ref := range []detector.ClusterRef{there, gone} {
		inv.Clusters = append(inv.Clusters, &inventory.Cluster{Object: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}})
	}
	outcome := &Outcome{Inventory: inv, Result: &Result{}}
	d.handWhole(ctx, outcome)
	if len(ends) != 1 || ends[0] != gone {
		t.Errorf("told to be gone: %v, want %v alone", ends, gone)
	}
}
