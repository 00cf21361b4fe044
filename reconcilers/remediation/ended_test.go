package remediation_test

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/reconcilers/remediation"
	"github.com/holdfast-io/holdfast/remediator"
)

// TestRetention: what has ended is forgotten after a time, or when there is too
// much of it; what says that something is not to be done is kept while its
// drift is there.
func TestRetention(t *testing.T) {
	w := newWorld(t, "")
	retention := remediation.Retention{TTL: 2 * time.Hour, Keep: 1}
	for _, m := range []string{"a-1-m1", "a-1-m2"} {
		w.tamper(m, "/tags/team", "red")
		w.run(3 * time.Minute)
		w.phase(m, v1alpha1.PhaseSucceeded, "")
	}
	w.cloud.Inert(idOf("a-1-m3"), true)
	w.tamper("a-1-m3", "/tags/team", "red")
	w.run(20 * time.Minute)
	w.phase("a-1-m3", v1alpha1.PhaseLatched, "")
	no := false
	w.proc.controller.Retention = retention
	w.run(10 * time.Second)
	left := map[string]bool{}
	for _, r := range w.records() {
		left[r.Spec.Owner.Name] = true
	}
	if left["a-1-m1"] || !left["a-1-m2"] || !left["a-1-m3"] {
		t.Fatalf("of two that succeeded one is kept, the newest: %v", left)
	}
	w.edit(w.record("a-1-m3"), func(r *v1alpha1.Remediation) { r.Spec.Approved = &no })
	w.clock.Step(3 * time.Hour)
	w.run(10 * time.Second)
	if n := len(w.records()); n != 1 {
		t.Errorf("%d records are left", n)
	}
	w.phase("a-1-m3", v1alpha1.PhaseLatched, "")
	w.cloud.Inert(idOf("a-1-m3"), false)
	w.tamper("a-1-m3", "/tags/team", "blue")
	w.clock.Step(time.Hour)
	w.run(10 * time.Second)
	if n := len(w.records()); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

// TestGoneInTheEnd: a replacement that nobody took up halts its pool until the
// group is whole without the old machine, whoever has removed that.
func TestGoneInTheEnd(t *testing.T) {
	w := newWorld(t, "")
	w.capi.deaf, w.proc.controller.Times.Take = true, 3*time.Minute
	w.tamper("a-1-m1", "/keyName", "other")
	w.run(6 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseFailed, "NotTaken")
	w.capi.deaf = false
	if err := w.api.Delete(w.ctx(), w.find("a-1-m1")); err != nil {
		t.Fatal(err)
	}
	w.run(5 * time.Minute)
	if r := w.record("a-1-m1"); r == nil || remediator.Halts(r) {
		t.Errorf("the pool is still halted: %s", w.story())
	}
}
