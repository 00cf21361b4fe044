package node

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

func nodesOf(snap *providers.Snapshot) []string {
	var out []string
	for _, r := range snap.OfKind(providers.KindNode) {
		out = append(out, r.ID.Name)
	}
	return out
}

// compare gives what comparing an owner with a snapshot finds, but for the
// instance.
func (w *world) compare(o *providers.Owner, snap *providers.Snapshot) []string {
	w.t.Helper()
	want, err := w.provider.Desired(o, snap)
	if err != nil {
		w.t.Fatal(err)
	}
	r := detector.Compare(o, want, snap, detector.Options{Now: created.Add(24 * time.Hour)})
	c, err := w.provider.Confirm(w.t.Context(), snap.Scope, detector.Unconfirmed(r))
	if err != nil {
		w.t.Fatal(err)
	}
	r = detector.Settle(r, snap, c, detector.Options{Now: created.Add(24 * time.Hour)})
	var out []string
	for _, f := range r.Findings {
		text := fmt.Sprintf("%s %s", f.Resource.Kind, f.Status)
		for _, d := range f.Diffs {
			text += fmt.Sprintf(" %s %s", d.Path, d.Type)
		}
		if f.Status == detector.NotChecked || f.Status == detector.Unknown {
			text += ": " + f.Reason
		}
		out = append(out, text)
	}
	return out
}

// Each row drifts a Node as a person would, and says what is found.
func TestDriftOfNodes(t *testing.T) {
	declared := joins(registered("pool=general", corev1.Taint{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}))
	for name, tc := range map[string]struct {
		do   func(w *world)
		want []string
	}{
		"nothing": {func(*world) {}, nil},
		"a label taken away": {
			func(w *world) { w.edit("m1", func(n *corev1.Node) { delete(n.Labels, "pool") }) },
			[]string{"Node Drifted /metadata/labels/pool removed"},
		},
		"a label changed": {
			func(w *world) { w.edit("m1", func(n *corev1.Node) { n.Labels["pool"] = "other" }) },
			[]string{"Node Drifted /metadata/labels/pool changed"},
		},
		"a label of somebody's own": {func(w *world) { w.edit("m1", func(n *corev1.Node) { n.Labels["mine"] = "x" }) }, nil},
		"a taint taken away": {
			func(w *world) { w.edit("m1", func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] }) },
			[]string{"Node Drifted /spec/taints removed"},
		},
		"a taint changed": {
			func(w *world) { w.edit("m1", func(n *corev1.Node) { n.Spec.Taints[0].Value = "no" }) },
			[]string{"Node Drifted /spec/taints removed"},
		},
		"cordoned": {func(w *world) { w.edit("m1", func(n *corev1.Node) { n.Spec.Unschedulable = true }) }, nil},
		"the Node deleted": {
			func(w *world) {
				if err := w.client.Delete(w.t.Context(), &corev1.Node{ObjectMeta: w.meta("m1")}); err != nil {
					w.t.Fatal(err)
				}
			},
			[]string{"Node Missing /state removed"},
		},
		"another instance answers to the name": {
			func(w *world) {
				if err := w.client.Delete(w.t.Context(), &corev1.Node{ObjectMeta: w.meta("m1")}); err != nil {
					w.t.Fatal(err)
				}
				w.node("m1", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu-1a/i-other" })
			},
			[]string{"Node Drifted /spec/providerID changed"},
		},
		"an older kubelet": {
			func(w *world) { w.kubelet("m1", "v1.32.9") },
			[]string{"Node Drifted /status/nodeInfo/kubeletVersion changed"},
		},
		"a vendor's kubelet": {func(w *world) { w.kubelet("m1", testVersion+"-eks-1") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m1, m2 := w.owner("c1", "m1", declared), w.owner("c1", "m2", declared)
			for _, m := range []string{"m1", "m2"} {
				w.node(m, func(n *corev1.Node) {
					n.Labels = map[string]string{"pool": "general", "kubernetes.io/hostname": m}
					n.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
				})
			}
			tc.do(w)
			snap := w.observe(m1, m2)
			if diff := cmp.Diff(tc.want, w.compare(m1, snap)); diff != "" {
				t.Errorf("m1 (-want +got):\n%s", diff)
			}
			if got := w.compare(m2, snap); len(got) > 0 {
				t.Errorf("m2 was left alone, and %v", got)
			}
		})
	}
}

// Whatever keeps a cluster's Nodes from being read leaves them unchecked, in
// words that stay the same; the cluster beside it is read.
func TestUnreadableClusters(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	answer := func(code int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(code)
			_, _ = rw.Write([]byte(body))
			return true
		}
	}
	for name, tc := range map[string]struct {
		do   func(w *world, f *front)
		says string
	}{
		"its API server hangs":        {func(_ *world, f *front) { f.bent(hang) }, "did not answer in time"},
		"its API server is not there": {func(w *world, _ *front) { w.replace("c1", kubeconfigTo(closedAddress(w.t), nil)) }, "cannot be reached: dial: connect: connection refused"},
		"it refuses": {func(_ *world, f *front) {
			f.bent(answer(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
		}, "does not permit it"},
		"it fails":                      {func(_ *world, f *front) { f.bent(answer(500, `oh`)) }, "could not be read"},
		"something else answers":        {func(_ *world, f *front) { f.bent(answer(200, `<html>`)) }, "could not be read"},
		"an empty object":               {func(_ *world, f *front) { f.bent(answer(200, `{}`)) }, "could not be read"},
		"its second page fails":         {func(_ *world, f *front) { f.bent(secondPage(answer(500, `oh`))) }, "could not be read"},
		"its second page hangs":         {func(_ *world, f *front) { f.bent(secondPage(hang)) }, "did not answer in time"},
		"the credentials have expired":  {func(w *world, _ *front) { w.replace("c1", w.stranger()) }, "does not accept the credentials"},
		"another authority":             {func(w *world, _ *front) { w.replace("c1", kubeconfigTo(server.Config.Host, nil)) }, "of another authority"},
		"no Secret":                     {func(w *world, _ *front) { w.remove("c1-kubeconfig") }, "there is no Secret"},
		"an empty Secret":               {func(w *world, _ *front) { w.replace("c1", nil) }, "is not complete"},
		"no kubeconfig":                 {func(w *world, _ *front) { w.replace("c1", []byte("secret: [")) }, "holds no kubeconfig that can be read"},
		"a kubeconfig without a server": {func(w *world, _ *front) { w.replace("c1", []byte("{}")) }, "is not complete"},
		"a kubeconfig that runs a program": {func(w *world, _ *front) {
			w.replace("c1", kubeconfigTo("http://x", func(c *clientcmdapi.Config) {
				c.AuthInfos["u"].Exec = &clientcmdapi.ExecConfig{Command: "/bin/sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
			}))
		}, "names a program to run"},
		"a kubeconfig that reads a file": {func(w *world, _ *front) {
			w.replace("c1", kubeconfigTo("http://x", func(c *clientcmdapi.Config) {
				c.AuthInfos["u"].TokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
			}))
		}, "names a file of credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := 30 * time.Second
			if strings.HasSuffix(name, "hangs") {
				limit = 2 * time.Second // in which the other cluster answers, whatever else runs
			}
			w := newWorld(t, WithTimes(limit, 2*limit, 3*limit), WithPage(1))
			m1, m2 := w.owner("c1", "m1"), w.owner("c2", "m2")
			w.node("m1")
			w.node("m2")
			tc.do(w, w.fronts["c1"])
			snap := w.observe(m1, m2)
			says := w.covers(snap, "c1")
			if !strings.Contains(says, tc.says) || strings.Contains(says, "\n") {
				t.Errorf("it says %q, want it to say %q", says, tc.says)
			}
			if got := w.covers(snap, "c2"); got != "" {
				t.Errorf("c2 was not read: %s", got)
			}
			if diff := cmp.Diff([]string{"Node NotChecked: " + says}, w.compare(m1, snap)); diff != "" {
				t.Errorf("m1 (-want +got):\n%s", diff)
			}
			if got := w.compare(m2, snap); len(got) > 0 {
				t.Errorf("m2: %v", got)
			}
			if again := w.covers(w.observe(m1, m2), "c1"); again != says {
				t.Errorf("it said %q, and then %q", says, again)
			}
			id := idOf(clusterOf(m1), "m1")
			c, err := w.provider.Confirm(t.Context(), snap.Scope, []providers.ID{id})
			if err != nil {
				t.Fatal(err)
			}
			if name != "its second page fails" && name != "its second page hangs" && c.Unconfirmed[id] == nil {
				t.Errorf("what cannot be read was confirmed: %+v", c.Resources[id])
			}
		})
	}
}

// secondPage bends what is asked for after a first page.
func secondPage(bend func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool {
		return r.URL.Query().Get("continue") != "" && bend(rw, r)
	}
}

// A list that the server lost the thread of is read again at once.
func TestExpiredPages(t *testing.T) {
	w := newWorld(t, WithPage(1))
	m1 := w.owner("c1", "m1")
	w.node("m1")
	w.node("m2")
	f := w.fronts["c1"]
	f.bent(secondPage(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusGone)
		_, _ = rw.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`))
		return true
	}))
	snap := w.observe(m1)
	if got := nodesOf(snap); len(got) != 2 || w.covers(snap, "c1") != "" {
		t.Errorf("seen were %v: %s", got, w.covers(snap, "c1"))
	}
}

func TestPages(t *testing.T) {
	w := newWorld(t, WithPage(2))
	m1 := w.owner("c1", "m1")
	for i := range 5 {
		w.node(fmt.Sprintf("m%d", i))
	}
	if got := nodesOf(w.observe(m1)); len(got) != 5 {
		t.Errorf("seen were %v", got)
	}
	if n := w.fronts["c1"].count(func(s string) bool { return strings.HasPrefix(s, "GET /api/v1/nodes?") }); n != 3 {
		t.Errorf("%d pages were read, want 3", n)
	}
	if n := w.fronts["c1"].count(func(s string) bool { return !strings.HasPrefix(s, "GET /api/v1/nodes?") }); n != 0 {
		t.Errorf("%d other calls were made", n)
	}
}

// What is asked for no more is not read for ever, and a renewed Secret is used.
func TestClustersComeAndGo(t *testing.T) {
	w := newWorld(t)
	m1, m2 := w.owner("c1", "m1"), w.owner("c2", "m2")
	w.node("m1")
	w.observe(m1, m2)
	for range remembered {
		w.observe(m1)
	}
	snap := w.observe(m1)
	if got := w.covers(snap, "c2"); got != "not asked for" {
		t.Errorf("c2, of which nobody asks: %q", got)
	}
	if got := w.covers(snap, "c1"); got != "" {
		t.Errorf("c1: %s", got)
	}
	w.provider.clients.mu.Lock()
	kept := len(w.provider.clients.kept)
	w.provider.clients.mu.Unlock()
	if kept != 1 {
		t.Errorf("%d connections are kept", kept)
	}
	other := newFront(t)
	w.replace("c1", other.kubeconfig())
	old := w.fronts["c1"].count(func(string) bool { return true })
	w.observe(m1)
	if n := w.fronts["c1"].count(func(string) bool { return true }); n != old || other.count(func(string) bool { return true }) == 0 {
		t.Error("the old Secret's server was called")
	}
}

// Forty clusters that hang hold up the one that answers once: the next time it is
// read first.
func TestHangingClusters(t *testing.T) {
	w := newWorld(t, WithTimes(3*time.Second, 6*time.Second, 4*time.Second))
	owners := []*providers.Owner{}
	for i := range 40 {
		o := w.owner(fmt.Sprintf("bad%d", i), fmt.Sprintf("m%d", i))
		w.fronts[o.Cluster.Name].bent(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
		owners = append(owners, o)
	}
	good := w.owner("good", "good")
	w.node("good")
	owners = append(owners, good)
	if got := w.covers(w.observe(owners...), "good"); got == "" {
		t.Fatal("forty clusters that hang left time for the last one: the test shows nothing")
	}
	begun := time.Now()
	snap := w.observe(owners...)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if got := w.covers(snap, "good"); got != "" {
		t.Errorf("the cluster that answers: %s", got)
	}
	if got := w.covers(snap, "bad39"); got == "" {
		t.Error("a cluster that hangs was read")
	}
}

// The cloud's failure is the scope's, and its kinds stand beside Nodes.
func TestTheCloudComesFirst(t *testing.T) {
	w := newWorld(t)
	m1 := w.owner("c1", "m1")
	w.node("m1")
	snap := w.observe(m1)
	if snap.Resources[providers.ID{Kind: "Instance", Name: "i-m1"}] == nil || len(nodesOf(snap)) != 1 {
		t.Errorf("seen were %v", snap.Resources)
	}
	w.cloud.Fail("Observe", client.IgnoreNotFound(fmt.Errorf("no cloud")))
	if _, err := w.provider.Observe(t.Context(), snap.Scope); err == nil || !strings.Contains(err.Error(), "no cloud") {
		t.Errorf("the cloud failed, and observe says %v", err)
	}
}
