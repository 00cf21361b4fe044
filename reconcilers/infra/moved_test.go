package infra_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// TestMovedHere: a cluster whose statuses were lost, since it was moved from another
// management cluster or restored, has been ready once by its Machines' provider ids:
// what differs is drift.
func TestMovedHere(t *testing.T) {
	w := begin(t)
	w.Want(w.ref("AWSCluster", "eu"), network()...)
	cluster, infra := w.cluster("eu")
	w.built(infra)
	w.edit(cluster, false, func() { cluster.Spec.Paused = ptr.To(true) })
	m, _ := w.machine(cluster, "m")
	w.edit(m, false, func() { m.Spec.ProviderID = "fake://m" })
	w.stop()
	for _, c := range w.Calls() {
		if c.Op == fake.OpApply && c.IDs[0].Kind == providers.KindVPC {
			w.Alter(c.IDs[0], func(r *providers.Resource) {
				r.Set(fake.Later+"/dns", providers.Field{Value: providers.Bool(false)})
			})
		}
	}
	before := w.done(fake.OpApply)
	w.start()
	w.edit(cluster, false, func() { cluster.Spec.Paused = nil })
	more := providers.Resource{ID: providers.Provisional(providers.KindSubnet, "b"), Name: "b", Needs: []providers.ID{vpc}}
	w.Want(w.ref("AWSCluster", "eu"), append(network(), more)...)
	w.edit(infra, false, func() { infra.Labels = map[string]string{"more": "subnets"} })
	w.eventually("extended", func() error {
		if n := len(w.done(fake.OpCreate)); n != 4 {
			return fmt.Errorf("%d things were made", n)
		}
		return nil
	})
	w.want(w.done(fake.OpApply), before)
}

// TestMovedAway: what clusterctl deletes here after it has moved it elsewhere is not
// unmade, also where its Cluster, which is paused, is seen to be gone first.
func TestMovedAway(t *testing.T) {
	w := begin(t)
	w.Want(w.ref("AWSCluster", "eu"), network()...)
	cluster, infra := w.cluster("eu")
	w.built(infra)
	w.edit(infra, false, func() { infra.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""} })
	for _, o := range []client.Object{cluster, infra} {
		if err := w.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.gone(cluster)
	time.Sleep(time.Second)
	w.want(w.done(fake.OpDelete), nil)
	w.edit(infra, false, func() { infra.Annotations = nil }) // it is deleted for good
	w.gone(infra)
	if n := w.things(); n != 0 {
		t.Errorf("%d things are left", n)
	}
}

// built waits until the network is there and set up.
func (w *world) built(infra client.Object) {
	w.t.Helper()
	w.eventually("built", func() error {
		if n := len(w.done(fake.OpApply)); n != 2 {
			return fmt.Errorf("%d things are set up", n)
		}
		return nil
	})
	w.says(infra, fake.WaitingFor, "")
}
