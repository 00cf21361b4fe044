package remediation_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/remediator"
)

// path is one way in which a Machine is replaced.
type path struct {
	strategy v1alpha1.ReplaceStrategy
	policy   string
	machine  string
	prepare  func(*world)
	// least is how many workers stay ready at any time.
	least int
}

var paths = map[string]path{
	"health check":     {v1alpha1.StrategyHealthCheck, "", "a-1-m1", healthCheck, 3},
	"machine set":      {v1alpha1.StrategyOwnerRemediation, "", "a-1-m1", nil, 3},
	"control plane":    {v1alpha1.StrategyOwnerRemediation, "", "cp-m5", nil, 4},
	"delete":           {v1alpha1.StrategyDelete, ", replace: {strategy: delete}", "a-1-m1", nil, 3},
	"surge":            {v1alpha1.StrategySurge, ", replace: {strategy: surge}", "a-1-m1", nil, 4},
	"surge, topology":  {v1alpha1.StrategySurge, ", replace: {strategy: surge}", "a-1-m1", topology, 4},
	"surge, not ready": {v1alpha1.StrategySurge, ", replace: {strategy: surge}", "a-1-m1", dies, 3},
	"surge, dying": {v1alpha1.StrategyHealthCheck, ", replace: {strategy: surge}", "a-1-m1", func(w *world) {
		healthCheck(w)
		dies(w)
	}, 3},
	"external remedy":   {v1alpha1.StrategyDelete, "", "a-1-m1", externalCheck, 3},
	"gone in the cloud": {v1alpha1.StrategyOwnerRemediation, "", "a-1-m1", func(w *world) { w.cloud.Remove(idOf("a-1-m1")) }, 3},
}

// dies has a machine end, which its Machine shows.
func dies(w *world) {
	w.cloud.Remove(idOf("a-1-m1"))
	m := w.find("a-1-m1")
	w.update(m, func() { condition(m, clusterv1.MachineReadyCondition, false, "X") })
	w.capi.step()
}

func healthCheck(w *world) {
	w.create(&clusterv1.MachineHealthCheck{ObjectMeta: w.meta("h", nil), Spec: clusterv1.MachineHealthCheckSpec{ClusterName: "eu",
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.MachineDeploymentNameLabel: "a"}}}})
}

func externalCheck(w *world) {
	h := &clusterv1.MachineHealthCheck{ObjectMeta: w.meta("h", nil), Spec: clusterv1.MachineHealthCheckSpec{ClusterName: "eu",
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.MachineDeploymentNameLabel: "a"}}}}
	h.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{Kind: "Reboot", Name: "x", APIVersion: "remediation.example.com/v1"}
	w.create(h)
}

// topology makes the MachineDeployment one of the Cluster's topology, which
// would set back a number that is changed elsewhere.
func topology(w *world) {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "eu"}}
	w.update(c, func() {
		c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "c"}, Version: "v1.36.0", Workers: clusterv1.WorkersTopology{
			MachineDeployments: []clusterv1.MachineDeploymentTopology{
				{Class: "x", Name: "other", Replicas: ptr.To(int32(1))}, {Class: "x", Name: "workers", Replicas: ptr.To(int32(4))},
			}}}
	})
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "a"}}
	w.update(md, func() {
		md.Labels[clusterv1.ClusterTopologyOwnedLabel], md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] = "", "workers"
	})
}

// replaced expects that a machine was replaced by one path, once, without
// trace.
func (w *world) replaced(p path) {
	w.t.Helper()
	r := w.phase(p.machine, v1alpha1.PhaseSucceeded, "Verified")
	if r.Status.Replacement == nil || r.Status.Replacement.Strategy != p.strategy || r.Status.Replacement.ReplacedBy != w.capi.created[len(w.capi.created)-1] {
		w.t.Errorf("replacement: %+v, made %v", r.Status.Replacement, w.capi.created)
	}
	if len(w.capi.deleted) != 1 || w.capi.deleted[0] != p.machine || len(w.capi.created) != 8 || len(w.machines()) != 7 {
		w.t.Errorf("deleted %v, made %v\n\t%s", w.capi.deleted, w.capi.created, w.story())
	}
	if w.capi.least < p.least {
		w.t.Errorf("only %d workers were ready at a time", w.capi.least)
	}
	md := &clusterv1.MachineDeployment{}
	w.get("a", md)
	if *md.Spec.Replicas != 4 || md.Annotations["drift.holdfast.io/surge"] != "" {
		w.t.Errorf("the MachineDeployment has %d replicas and %v", *md.Spec.Replicas, md.Annotations)
	}
	for _, m := range w.machines() {
		for _, key := range []string{clusterv1.RemediateMachineAnnotation, clusterv1.DeleteMachineAnnotation} {
			if _, set := m.Annotations[key]; set {
				w.t.Errorf("%s has %s", m.Name, key)
			}
		}
	}
}

func (w *world) drift(p path) {
	if p.prepare != nil {
		p.prepare(w)
	}
	if w.cloud.Alter(idOf(p.machine), nothing) {
		w.tamper(p.machine, "/keyName", "other")
	}
	w.touched[p.machine] = true
}

// TestReplace: each path ends in a new machine, and writes nothing afterwards.
func TestReplace(t *testing.T) {
	for name, p := range paths {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, p.policy)
			w.drift(p)
			w.run(5 * time.Minute)
			w.replaced(p)
			before := len(w.proc.writes)
			w.run(2 * time.Minute)
			if after := w.proc.writes[before:]; len(after) > 0 {
				t.Errorf("steady state writes: %v", after)
			}
		})
	}
}

// TestTakenStaysTaken: a Machine that was seen to be gone is not brought back by
// a later read that is behind, so that nothing is grown for it any more.
func TestTakenStaysTaken(t *testing.T) {
	w := newWorld(t, paths["surge"].policy)
	w.drift(paths["surge"])
	if err := w.proc.sweep(); err != nil {
		t.Fatal(err)
	}
	r := w.record("a-1-m1") // its Machine is there, for whoever reads it
	r.Status.Replacement = &v1alpha1.Replacement{Strategy: v1alpha1.StrategySurge, Step: remediator.StepGrow, Replicas: ptr.To(int32(4))}
	before := len(w.proc.writes)
	progress, err := w.proc.controller.Replacer.Advance(w.ctx(), r, true)
	if err != nil || progress.Replacement.Step != remediator.StepShrink || len(w.proc.writes) > before {
		t.Errorf("%+v, %v, wrote %v", progress, err, w.proc.writes[before:])
	}
	if progress, err := w.proc.controller.Replacer.Advance(w.ctx(), r, false); err != nil || progress.Replacement.Step != remediator.StepGrow || len(w.proc.writes) == before {
		t.Errorf("of a Machine that is there: %+v, %v, wrote %v", progress, err, w.proc.writes[before:])
	}
}
