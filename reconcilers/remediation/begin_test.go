package remediation_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/remediator"
)

// TestSlowReadHoldsNobodyBack: while the read before one beginning hangs, others
// begin; and when it comes back, it knows that they have.
func TestSlowReadHoldsNobodyBack(t *testing.T) {
	w := newWorld(t, "")
	w.tamper("a-1-m2", "/tags/team", "red")
	if err := w.proc.sweep(); err != nil {
		t.Fatal(err)
	}
	hangs, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.after = map[string]func(){"a-1-m2": func() { // what is in flight was read, and nothing is
		once.Do(func() {
			close(hangs)
			<-goOn
		})
	}}
	done := make(chan error, 1)
	slow := w.record("a-1-m2").Name
	go func() { done <- w.proc.reconcile(slow) }()
	<-hangs
	w.tamper("a-1-m1", "/tags/team", "red") // which is the first in order
	w.touched["a-1-m2"] = false             // so that its record stays as it was read
	if err := w.proc.sweep(); err != nil {
		t.Fatal(err)
	}
	began := make(chan error, 1)
	quick := w.record("a-1-m1").Name
	go func() { began <- w.proc.reconcile(quick) }()
	select {
	case err := <-began:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a read that hangs keeps another record from its beginning")
	}
	w.phase("a-1-m1", v1alpha1.PhaseVerifying, "")
	w.touched["a-1-m2"] = true
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.phase("a-1-m2", v1alpha1.PhaseBlocked, "Budget")
	if n := w.applied(); n != 1 {
		t.Errorf("%d changes, and the budget is one at a time", n)
	}
	w.run(4 * time.Minute)
	w.phase("a-1-m2", v1alpha1.PhaseSucceeded, "Verified")
}

// TestNothingIsKeptOfWhatEnded: what a cloud has not settled is forgotten with
// the attempt, or with the record.
func TestNothingIsKeptOfWhatEnded(t *testing.T) {
	unsettled := func(t *testing.T) *world {
		w := newWorld(t, "")
		w.restart = &restart{}
		w.tamper("a-1-m1", "/tags/team", "red")
		w.run(10 * time.Second)
		w.phase("a-1-m1", v1alpha1.PhaseRunning, remediator.ReasonSettling)
		if n := w.proc.controller.Underway(); n != 1 {
			t.Fatalf("%d changes are kept, want the one under way", n)
		}
		return w
	}
	t.Run("the record is deleted", func(t *testing.T) {
		w := unsettled(t)
		r := w.record("a-1-m1")
		if err := w.api.Delete(w.ctx(), r); err != nil {
			t.Fatal(err)
		}
		if err := w.proc.reconcile(r.Name); err != nil {
			t.Fatal(err)
		}
		if n := w.proc.controller.Underway(); n != 0 {
			t.Errorf("%d changes are kept of a record that is gone", n)
		}
	})
	t.Run("the attempt ends", func(t *testing.T) {
		w := unsettled(t)
		w.run(5 * time.Minute)
		w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
		if n := w.proc.controller.Underway(); n != 0 {
			t.Errorf("%d changes are kept of an attempt that has ended", n)
		}
	})
	t.Run("it never settles", func(t *testing.T) {
		w := unsettled(t)
		w.restart.never = true
		w.run(40 * time.Minute)
		if n := w.proc.controller.Underway(); n > 1 {
			t.Errorf("%d changes are kept of one record", n)
		}
	})
}

// lacking is an API server whose lists of records are empty.
type lacking struct{ client.Reader }

func (lacking) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.SetResourceVersion("18446744073709551615") // newer than any write
	return nil
}

// TestListThatLacksWhatIsInFlight: facts by which more would begin than may are
// none. Once the attempt has ended, nothing is missed.
func TestListThatLacksWhatIsInFlight(t *testing.T) {
	w := newWorld(t, "")
	w.tamper("a-1-m1", "/tags/team", "red")
	for range 12 {
		w.run(10 * time.Second)
		if w.record("a-1-m1").Status.Phase.InFlight() {
			break
		}
	}
	whole := w.proc.store.Reader
	w.proc.store.Reader = lacking{whole}
	if _, _, err := w.proc.store.Facts(w.ctx()); err == nil || !strings.Contains(err.Error(), w.record("a-1-m1").Name) {
		t.Errorf("facts of a list that lacks an attempt in flight: %v", err)
	}
	w.proc.store.Reader = whole
	w.run(4 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
	w.proc.store.Reader = lacking{whole}
	if _, _, err := w.proc.store.Facts(w.ctx()); err != nil {
		t.Errorf("facts after its end: %v", err)
	}
}
