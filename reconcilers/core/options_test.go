package core

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestParseParts(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		want  []Part
		say   string
	}{
		"both, once each":     {names: []string{"core", " kubeadm", "core"}, want: []Part{Core, Kubeadm}},
		"beside another core": {names: []string{"kubeadm"}, want: []Part{Kubeadm}},
		"with infrastructure": {names: []string{"core", "aws"}, want: []Part{Core, AWS}},
		"not known":           {names: []string{"cor"}, say: `"cor" is not known; known: core, kubeadm, aws, vsphere`},
		"empty":               {names: []string{"core", ""}, say: `"" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseParts(c.names)
			if d := cmp.Diff(c.want, got); c.say == "" && (err != nil || d != "") {
				t.Errorf("%v, %s", err, d)
			}
			if c.say != "" && (err == nil || !strings.Contains(err.Error(), c.say)) {
				t.Errorf("the error is %v, want one that says %q", err, c.say)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Options)
		say  string
	}{
		"defaults":             {edit: func(*Options) {}},
		"no parts":             {edit: func(o *Options) { o.Parts = nil }, say: "no reconcilers are named"},
		"unknown controller":   {edit: func(o *Options) { o.Workers = map[string]int{"machines": 1} }, say: `controller "machines": it is not known; known: awscluster, awsmachine, cluster, clustercache`},
		"no workers":           {edit: func(o *Options) { o.Workers = map[string]int{"machine": 0} }, say: "want at least 1"},
		"sync period":          {edit: func(o *Options) { o.SyncPeriod = -time.Second }, say: "sync period"},
		"back-off":             {edit: func(o *Options) { o.Backoff.Most = time.Second }, say: "back-off from 5s to 1s"},
		"topologies":           {edit: func(o *Options) { o.Gates = map[string]bool{"ClusterTopology": true} }},
		"unknown gate":         {edit: func(o *Options) { o.Gates = map[string]bool{"Topology": true} }, say: `"Topology" is not known; known: AllAlpha, AllBeta, ClusterTopology`},
		"extensions":           {edit: func(o *Options) { o.Gates = map[string]bool{"RuntimeSDK": true} }, say: "RuntimeSDK: extensions cannot be called yet"},
		"extensions by alphas": {edit: func(o *Options) { o.Gates = map[string]bool{"AllAlpha": true} }, say: "extensions cannot be called yet"},
		"gate without another": {edit: func(o *Options) { o.Gates = map[string]bool{"PriorityQueue": false} }, say: "ReconcilerRateLimiting needs PriorityQueue"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Options{Parts: Parts()}
			o.Fill()
			c.edit(o)
			switch err := o.Validate(); {
			case c.say == "" && err != nil:
				t.Error(err)
			case c.say != "" && (err == nil || !strings.Contains(err.Error(), c.say)):
				t.Errorf("the error is %v, want one that says %q", err, c.say)
			}
		})
	}
	if feature.Gates.Enabled(feature.ClusterTopology) {
		t.Error("to try gates has switched them on")
	}
}

// The first failures wait as upstream has them; then it is 5 s, and doubles up to
// 5 min. What succeeds begins anew.
func TestBackoff(t *testing.T) {
	request := reconcile.Request{}
	l := limiter{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](10*time.Millisecond, time.Hour), DefaultBackoff}
	var got []time.Duration
	for range 13 {
		got = append(got, l.When(request))
	}
	ms := time.Millisecond
	want := []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms,
		5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	l.Forget(request)
	if w := l.When(request); w != 10*ms {
		t.Errorf("after a success the first wait is %s", w)
	}
}
