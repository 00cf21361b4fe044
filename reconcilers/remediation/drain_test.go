package remediation_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// node gives the node of a machine, which it makes if there is none.
func (w *world) node(machine string) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.ns + "-" + machine}}
	err := w.api.Get(w.ctx(), client.ObjectKeyFromObject(n), n)
	if apierrors.IsNotFound(err) {
		m := w.find(machine)
		n.Spec.ProviderID = m.Spec.ProviderID
		w.create(n)
		w.update(m, func() { m.Status.NodeRef.Name = n.Name })
		w.t.Cleanup(func() { _ = w.api.Delete(w.ctx(), n) })
		return n
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// TestDisruptivePatch: before a machine is stopped its node is cordoned and
// drained, as PodDisruptionBudgets allow; afterwards it can be used again.
func TestDisruptivePatch(t *testing.T) {
	w := newWorld(t, "")
	n := w.node("a-1-m1")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "p", Labels: map[string]string{"app": "p"}},
		Spec: corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	w.create(pod)
	w.update(pod, func() {
		pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "p"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}}}
	w.create(pdb)
	w.tamper("a-1-m1", "/instanceType", "t3.nano")
	// An eviction that is refused is tried for ten seconds of real time.
	w.run(10 * time.Second)
	r := w.phase("a-1-m1", v1alpha1.PhaseRunning, "Draining")
	if !w.node("a-1-m1").Spec.Unschedulable || w.applied() > 0 || r.Status.Drain == nil || !r.Status.Drain.Cordoned {
		t.Fatalf("node %+v, asked %d times, %+v", w.node("a-1-m1").Spec, w.applied(), r.Status.Drain)
	}
	// Nobody else of the pool is stopped meanwhile.
	w.tamper("a-1-m2", "/instanceType", "t3.nano")
	w.run(10 * time.Second)
	w.phase("a-1-m2", v1alpha1.PhaseBlocked, "Budget")

	if err := w.api.Delete(w.ctx(), pdb); err != nil {
		t.Fatal(err)
	}
	w.run(time.Minute)
	w.get("p", pod)
	if pod.DeletionTimestamp == nil || w.applied() > 0 {
		t.Fatalf("the Pod was not evicted, or the machine stopped beneath it: asked %d times", w.applied())
	}
	if err := w.api.Delete(w.ctx(), pod, client.GracePeriodSeconds(0)); err != nil { // there is no kubelet
		t.Fatal(err)
	}
	w.run(4 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
	if w.node("a-1-m1").Spec.Unschedulable || w.have("a-1-m1", "/instanceType") != "m5.large" {
		t.Error("the node cannot be used, or the type is not as wanted")
	}
	for _, c := range w.cloud.Calls() {
		if c.Op == fake.OpApply && !c.Change.Disruptive {
			t.Errorf("%+v", c.Change)
		}
	}
	w.phase("a-1-m2", v1alpha1.PhaseSucceeded, "")
}

// TestCordonedBefore: a node that somebody else cordoned stays so.
func TestCordonedBefore(t *testing.T) {
	w := newWorld(t, "")
	n := w.node("a-1-m1")
	w.update(n, func() { n.Spec.Unschedulable = true })
	w.tamper("a-1-m1", "/instanceType", "t3.nano")
	w.run(4 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
	if !w.node("a-1-m1").Spec.Unschedulable {
		t.Error("the node was made schedulable")
	}
}

// TestNodeOfAnother: a node that bears the name of the machine's own and is that of
// another instance by now is left alone, and the machine is not stopped.
func TestNodeOfAnother(t *testing.T) {
	w := newWorld(t, "")
	n := w.node("a-1-m1")
	if err := w.api.Delete(w.ctx(), n); err != nil {
		t.Fatal(err)
	}
	another := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: corev1.NodeSpec{ProviderID: "aws:///z/i-another"}}
	w.create(another)
	w.tamper("a-1-m1", "/instanceType", "t3.nano")
	if err := w.proc.sweep(); err != nil {
		t.Fatal(err)
	}
	r := w.record("a-1-m1")
	if err := w.proc.reconcile(r.Name); err == nil {
		t.Error("nothing is said of a node that is another's")
	}
	w.phase("a-1-m1", v1alpha1.PhaseRunning, "")
	w.clock.Step(40 * time.Minute)
	if err := w.proc.reconcile(r.Name); err != nil {
		t.Error(err)
	}
	w.phase("a-1-m1", v1alpha1.PhaseFailed, "DrainFailed")
	if w.node("a-1-m1").Spec.Unschedulable || w.applied() > 0 {
		t.Errorf("cordoned: %v, asked the cloud %d times: %s", w.node("a-1-m1").Spec.Unschedulable, w.applied(), w.story())
	}
}
