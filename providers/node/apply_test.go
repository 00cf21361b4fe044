package node

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// change makes what the remediator would of a wanted field.
func (w *world) change(o *providers.Owner, snap *providers.Snapshot, fields ...providers.FieldChange) providers.Change {
	w.t.Helper()
	want := wanted(o, snap)
	if want == nil {
		w.t.Fatal("no Node is wanted")
	}
	return providers.Change{Resource: want.ID, Owner: o.Ref, Want: want, Have: snap.Resources[want.ID], Fields: fields, Token: "0"}
}

func setLabel(key, value string) providers.FieldChange {
	return providers.FieldChange{Path: labelPath(key), Want: providers.String(value), Mutability: providers.InPlace}
}

func addTaint(text string) providers.FieldChange {
	return providers.FieldChange{Path: pathTaints, Want: providers.String(text), Element: true, Mutability: providers.InPlace}
}

func (w *world) live(name string) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func isPatch(call string) bool { return strings.HasPrefix(call, "PATCH ") }

// A label and a taint come back, all else stays, and asking twice writes once.
func TestApply(t *testing.T) {
	w := newWorld(t)
	m1 := w.owner("c1", "m1", joins(registered("pool=general", corev1.Taint{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule})))
	w.node("m1", func(n *corev1.Node) {
		n.Labels = map[string]string{"mine": "x"}
		n.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "no", Effect: corev1.TaintEffectNoSchedule}, {Key: "gpu", Effect: corev1.TaintEffectNoExecute}, {Key: "other", Effect: corev1.TaintEffectNoSchedule}}
	})
	snap := w.observe(m1)
	c := w.change(m1, snap, setLabel("pool", "general"), addTaint("gpu=yes:NoSchedule"))
	for range 2 {
		if err := w.provider.Apply(t.Context(), snap.Scope, c); err != nil {
			t.Fatal(err)
		}
	}
	n := w.live("m1")
	if diff := cmp.Diff(map[string]string{"mine": "x", "pool": "general"}, n.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	var taints []string
	for _, x := range n.Spec.Taints {
		if !strings.HasPrefix(x.Key, "node.kubernetes.io/") {
			taints = append(taints, x.ToString())
		}
	}
	if diff := cmp.Diff([]string{"gpu=yes:NoSchedule", "gpu:NoExecute", "other:NoSchedule"}, taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if writes := w.fronts["c1"].count(isPatch); writes != 1 {
		t.Errorf("%d writes", writes)
	}
	if got := w.compare(m1, w.observe(m1)); len(got) > 0 {
		t.Errorf("repaired, and %v", got)
	}
}

// What is another resource's is the cloud's to write.
func TestApplyOfTheCloud(t *testing.T) {
	w := newWorld(t)
	m1 := w.owner("c1", "m1")
	id := providers.ID{Kind: providers.KindInstance, Name: "i-m1"}
	snap := w.observe(m1)
	err := w.provider.Apply(t.Context(), snap.Scope, providers.Change{Resource: id, Owner: m1.Ref, Want: &providers.Resource{ID: id},
		Have: snap.Resources[id], Fields: []providers.FieldChange{{Path: "/type", Want: providers.String("m5"), Mutability: providers.InPlace}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.observe(m1).Resources[id].Fields.Get("/type").Value.Text(); got != "m5" {
		t.Errorf("the instance's type is %q", got)
	}
}

func TestApplyRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		do     func(w *world)
		field  providers.FieldChange
		reason string
	}{
		"a label to take away": {nil, providers.FieldChange{Path: labelPath("pool"), Have: providers.String("x"), Mutability: providers.InPlace}, providers.ReasonUnsupported},
		"another field":        {nil, providers.FieldChange{Path: "/spec/unschedulable", Want: providers.Bool(true), Mutability: providers.InPlace}, providers.ReasonUnsupported},
		"all labels":           {nil, providers.FieldChange{Path: pathLabels, Want: providers.String("x"), Mutability: providers.InPlace}, providers.ReasonUnsupported},
		"no taint":             {nil, addTaint("nonsense"), providers.ReasonRefused},
		"the version":          {nil, providers.FieldChange{Path: pathVersion, Want: providers.String("v1"), Mutability: providers.Immutable}, providers.ReasonUnsupported},
		"an impossible label":  {nil, setLabel("pool", "not a value"), providers.ReasonRefused},
		"a Node that is gone":  {func(w *world) { w.deleteNode("m1") }, setLabel("pool", "general"), providers.ReasonMoved},
		"another one's Node": {func(w *world) {
			w.deleteNode("m1")
			w.node("m1", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu-1a/i-2" })
		}, setLabel("pool", "general"), providers.ReasonMoved},
		"a cluster that is not": {func(w *world) { w.remove("c1-kubeconfig") }, setLabel("pool", "general"), ""},
		"a server that forbids": {func(w *world) {
			w.fronts["c1"].bent(func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPatch {
					return false
				}
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(http.StatusForbidden)
				_, _ = rw.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
				return true
			})
		}, setLabel("pool", "general"), providers.ReasonNotPermitted},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m1 := w.owner("c1", "m1", joins(registered("pool=general")))
			w.node("m1")
			snap := w.observe(m1)
			before := w.live("m1")
			c := w.change(m1, snap, tc.field)
			if tc.do != nil {
				tc.do(w)
			}
			err := w.provider.Apply(t.Context(), snap.Scope, c)
			var refusal *providers.ApplyError
			switch errors.As(err, &refusal); {
			case err == nil:
				t.Error("it was written")
			case tc.reason == "" && refusal != nil:
				t.Errorf("it is refused for good: %v", err)
			case tc.reason != "" && (refusal == nil || refusal.Reason != tc.reason):
				t.Errorf("it says %v, want reason %s", err, tc.reason)
			}
			if tc.do == nil && w.live("m1").ResourceVersion != before.ResourceVersion {
				t.Error("the Node was written to")
			}
		})
	}
}

// Kubelet writes to its Node while it is patched: what it wrote stays.
func TestApplyWhileOthersWrite(t *testing.T) {
	w := newWorld(t)
	m1 := w.owner("c1", "m1", joins(registered("", corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule})))
	w.node("m1")
	snap := w.observe(m1)
	interrupted := 0
	w.fronts["c1"].bent(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && interrupted < 2 {
			interrupted++
			w.edit("m1", func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: fmt.Sprintf("meanwhile-%d", interrupted), Effect: corev1.TaintEffectNoSchedule})
			})
		}
		return false
	})
	if err := w.provider.Apply(t.Context(), snap.Scope, w.change(m1, snap, addTaint("gpu:NoSchedule"))); err != nil {
		t.Fatal(err)
	}
	taints := w.live("m1").Spec.Taints
	for _, key := range []string{"meanwhile-1", "meanwhile-2", "gpu"} {
		if !slices.ContainsFunc(taints, func(x corev1.Taint) bool { return x.Key == key }) {
			t.Errorf("no taint %s among %v", key, taints)
		}
	}
}

// A Node that is made anew between the read and the write is not written to.
func TestApplyToAnotherNodeOfTheName(t *testing.T) {
	w := newWorld(t)
	m1 := w.owner("c1", "m1", joins(registered("pool=general")))
	w.node("m1")
	snap := w.observe(m1)
	again := false
	w.fronts["c1"].bent(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && !again {
			again = true
			w.deleteNode("m1")
			w.node("m1", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu-1a/i-2" })
		}
		return false
	})
	err := w.provider.Apply(t.Context(), snap.Scope, w.change(m1, snap, setLabel("pool", "general")))
	var refusal *providers.ApplyError
	if !errors.As(err, &refusal) || refusal.Reason != providers.ReasonMoved || !again {
		t.Errorf("it says %v", err)
	}
	if l := w.live("m1").Labels["pool"]; l != "" {
		t.Errorf("another instance's Node was given the label %q", l)
	}
}
