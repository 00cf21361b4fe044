package faults

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers"
)

func infras(w *world) []*infrav1.AWSMachine      { return all[infrav1.AWSMachine](w) }
func records(w *world) []*v1alpha1.Remediation   { return all[v1alpha1.Remediation](w) }
func kindOf(group, kind string) schema.GroupKind { return schema.GroupKind{Group: group, Kind: kind} }

// oracle knows what is, and judges what is done.
type oracle struct {
	p *process
	// record is whose step is under way, since when: everything that happens
	// has a number.
	record string
	since  int // the store's state at the beginning of the step
	seq    int
	begun  int
	// fixed and spoilt tell when an instance was last set right and wrong by
	// people; done when an attempt last did something.
	fixed, spoilt map[string]int
	done          map[string]int
	acts          map[string]int
	wrong         []string
}

func newOracle(p *process) *oracle {
	return &oracle{p: p, fixed: map[string]int{}, spoilt: map[string]int{}, done: map[string]int{}, acts: map[string]int{}}
}

func (o *oracle) begin(record string) {
	o.seq++
	o.record, o.begun, o.since = record, o.seq, len(o.p.world.store.states)-1
	o.p.v.oldest = o.since
}

func (o *oracle) tampered(machine string, drifts bool) {
	o.seq++
	if drifts {
		o.spoilt[machine] = o.seq
	} else {
		o.fixed[machine] = o.seq
	}
}

func (o *oracle) fault(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	o.p.log("WRONG: %s", s)
	o.wrong = append(o.wrong, s)
}

// sometime reports whether something held in some state that the step was
// served, or that there was since it began.
func (o *oracle) sometime(holds func(state) bool) bool {
	states := o.p.world.store.states
	for i := max(o.p.v.oldest, 0); i < len(states); i++ {
		if holds(states[i]) {
			return true
		}
	}
	return false
}

// judge is asked right before or after an act takes effect: before is what was.
func (o *oracle) judge(what string, machine string, uid types.UID, before state) {
	o.seq++
	o.acts[what]++
	w := o.p.world
	r := &v1alpha1.Remediation{}
	if o.record == "" || !w.get(o.record, r) {
		o.fault("%s of %s by no record", what, machine)
		return
	}
	w.log("process: %s %s by %s attempt %d", what, machine, r.Name, r.Status.AttemptCount)
	if r.Status.Phase != v1alpha1.PhaseRunning {
		o.fault("%s of %s: its record is %s", what, machine, r.Status.Phase)
	}
	target := before[key{kindOf(clusterv1.GroupVersion.Group, machineKind), types.NamespacedName{Namespace: ns, Name: machine}}]
	switch {
	case r.Spec.Machine == nil || r.Spec.Machine.Name != machine || uid != "" && r.Spec.Machine.UID != uid:
		o.fault("%s of %s %s: its record is about %+v", what, machine, uid, r.Spec.Machine)
	case uid != "" && target.GetDeletionTimestamp() != nil:
		o.fault("%s of %s, which is being deleted", what, machine)
	}
	if !o.sometime(func(s state) bool {
		owner := s[key{kindOf(infrav1.GroupVersion.Group, infraKind), types.NamespacedName{Namespace: ns, Name: r.Spec.Owner.Name}}]
		return owner != nil && owner.GetUID() == r.Spec.Owner.UID && owner.GetDeletionTimestamp() == nil
	}) {
		o.fault("%s of %s: its owner is another object by now", what, machine)
	}
	if !o.sometime(func(s state) bool {
		c := s[key{kindOf(clusterv1.GroupVersion.Group, clusterKind), types.NamespacedName{Namespace: ns, Name: "eu"}}]
		paused, _, _ := unstructured.NestedBool(c.Object, "spec", "paused")
		return !paused
	}) {
		o.fault("%s of %s: the cluster is paused", what, machine)
	}
	if !w.drifts(machine, "") && o.fixed[machine] < o.begun {
		o.fault("%s of %s, which does not drift", what, machine)
	}
	for _, other := range records(w) {
		if other.Name != r.Name && other.Status.Phase.InFlight() {
			o.fault("%s of %s, while %s (%s) is in flight: the budget is 1", what, machine, other.Name, other.Status.Phase)
		}
	}
	attempt := fmt.Sprintf("%s/%d/%s", r.UID, r.Status.AttemptCount, what)
	if last, again := o.done[attempt]; again && o.spoilt[machine] < last {
		o.fault("%s of %s twice in attempt %d", what, machine, r.Status.AttemptCount)
	}
	o.done[attempt] = o.seq
}

// applied judges a change right before the cloud makes it. One that changes
// nothing is none.
func (o *oracle) applied(c *providers.Change) {
	machine := c.Resource.Name[len("i-"):]
	changes := false
	for _, f := range c.Fields {
		changes = changes || o.p.drifts(machine, f.Path)
	}
	if c.Owner.Name != machine {
		o.fault("a change of %s for %s", c.Resource, c.Owner.Name)
	}
	if changes {
		o.judge("patch", machine, "", o.p.world.store.latest())
	}
}

// wrote judges a write to the API server right after it was made.
func (o *oracle) wrote(verb string, k key, before state) {
	was, now := before[k], o.p.world.store.latest()[k]
	switch k.kind.Kind {
	case recordKind:
		if verb == "delete" {
			o.fault("deleted record %s", k.name.Name)
		}
	case machineKind:
		o.wroteMachine(verb, k, was, now, before)
	case "MachineDeployment":
		from, _, _ := unstructured.NestedInt64(was.Object, "spec", "replicas")
		to, _, _ := unstructured.NestedInt64(now.Object, "spec", "replicas")
		if to > pool+1 || to < pool {
			o.fault("%s of %s: from %d to %d replicas", verb, k.name.Name, from, to)
		}
		if to > from {
			if r := (&v1alpha1.Remediation{}); o.p.get(o.record, r) && r.Spec.Machine != nil {
				o.judge("grow for", r.Spec.Machine.Name, "", before)
			} else {
				o.fault("grown by no record")
			}
		}
	default:
		o.fault("%s of %s %s", verb, k.kind.Kind, k.name.Name)
	}
}

func (o *oracle) wroteMachine(verb string, k key, was, now *unstructured.Unstructured, before state) {
	if verb == "delete" {
		o.judge("delete", k.name.Name, was.GetUID(), before)
		return
	}
	for _, a := range []string{clusterv1.RemediateMachineAnnotation, clusterv1.DeleteMachineAnnotation} {
		_, had := was.GetAnnotations()[a]
		if _, has := now.GetAnnotations()[a]; has && !had {
			o.judge("annotate "+a, k.name.Name, was.GetUID(), before)
		}
	}
	if st := o.p.world.store; st.unhealthy(now) && !st.unhealthy(was) {
		o.judge("mark unhealthy", k.name.Name, was.GetUID(), before)
	}
	if !maps.Equal(was.GetLabels(), now.GetLabels()) || fmt.Sprint(was.Object["spec"]) != fmt.Sprint(now.Object["spec"]) {
		o.fault("%s changes more of %s than it may", verb, k.name.Name)
	}
}

func (s *store) unhealthy(u *unstructured.Unstructured) bool {
	m := &clusterv1.Machine{}
	must(s.fill(u, m))
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	return c != nil && c.Status == metav1.ConditionFalse
}

// anew has a Machine go at once, and another one come under its name: what was
// wrong with the old one's instance is not wrong with the new one's.
func (w *world) anew(o *oracle, m *clusterv1.Machine) {
	w.log("people: %s anew", m.Name)
	must(w.store.remove(m))
	if w.get(m.Name, m) {
		w.finish(m)
	}
	w.machine(m.Name)
	o.tampered(m.Name, false)
}

// infraAnew has the infrastructure object of a Machine go, and another one come
// under its name, for the same instance.
func (w *world) infraAnew(m *clusterv1.Machine) {
	if !m.DeletionTimestamp.IsZero() {
		return
	}
	old := &infrav1.AWSMachine{}
	if !w.get(m.Name, old) {
		return
	}
	w.log("people: infrastructure of %s anew", m.Name)
	must(w.store.remove(old))
	w.infra(m)
}
