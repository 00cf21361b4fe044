package status

import (
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// TestAnsweredByAllScopes: who asked for a sweep of a cluster that lives in two
// scopes is answered when both were read since.
func TestAnsweredByAllScopes(t *testing.T) {
	ref := detector.ClusterRef{Namespace: "prod", Name: "c1"}
	a, b := providers.Scope{Provider: "aws", Account: "1", Region: "a"}, providers.Scope{Provider: "aws", Account: "1", Region: "b"}
	outcome := func(s providers.Scope, asked string, mods ...func(*sweep.Outcome)) *sweep.Outcome {
		c := &clusterv1.Cluster{}
		c.Namespace, c.Name = ref.Namespace, ref.Name
		c.Annotations = map[string]string{v1alpha1.AnnotationSweepNow: asked, v1alpha1.AnnotationSwept: "0"}
		o := &sweep.Outcome{
			Scope: s, Scopes: map[detector.ClusterRef][]providers.Scope{ref: {a, b}},
			Inventory: &inventory.Inventory{Clusters: []*inventory.Cluster{{Object: c}}},
			Result:    &sweep.Result{Clusters: []sweep.ClusterResult{{Ref: ref, Scope: s, TakenAt: time.Unix(1, 0)}}},
		}
		for _, mod := range mods {
			mod(o)
		}
		return o
	}
	unread := func(o *sweep.Outcome) { o.Result.Clusters[0].TakenAt = time.Time{} }
	targeted := func(o *sweep.Outcome) { o.Owners = map[providers.OwnerRef]bool{} }
	alone := func(o *sweep.Outcome) { o.Scopes[ref] = o.Scopes[ref][:1] }
	for name, tt := range map[string]struct {
		outcomes []*sweep.Outcome
		want     []int // answers after each
	}{
		"both":                           {[]*sweep.Outcome{outcome(a, "1"), outcome(b, "1")}, []int{0, 1}},
		"one, twice":                     {[]*sweep.Outcome{outcome(a, "1"), outcome(a, "1")}, []int{0, 0}},
		"the other before the asked":     {[]*sweep.Outcome{outcome(a, "0"), outcome(b, "1")}, []int{0, 0}},
		"the other for a request before": {[]*sweep.Outcome{outcome(a, "1"), outcome(b, "2"), outcome(a, "2")}, []int{0, 0, 1}},
		"one could not be read":          {[]*sweep.Outcome{outcome(a, "1"), outcome(b, "1", unread), outcome(b, "1")}, []int{0, 0, 1}},
		"some owners of the other":       {[]*sweep.Outcome{outcome(a, "1"), outcome(b, "1", targeted)}, []int{0, 0}},
		"one scope":                      {[]*sweep.Outcome{outcome(a, "1", alone)}, []int{1}},
		"it left the other":              {[]*sweep.Outcome{outcome(a, "1"), outcome(a, "1", alone)}, []int{0, 1}},
		"a new cluster of that name":     {[]*sweep.Outcome{outcome(a, "1"), {Gone: []detector.ClusterRef{ref}}, outcome(b, "1")}, []int{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			r := requests{}
			for i, o := range tt.outcomes {
				if got := len(r.answered(o)); got != tt.want[i] {
					t.Errorf("%d answers after outcome %d, want %d", got, i, tt.want[i])
				}
			}
		})
	}
}
