package remediation_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/reconcilers/remediation"
	"github.com/holdfast-io/holdfast/remediator"
)

func (w *world) refOf(machine string) *v1alpha1.ObjectRef {
	return &v1alpha1.ObjectRef{APIVersion: coreVersion, Kind: "Machine", Name: machine, UID: w.find(machine).UID}
}

// TestAlteredBefore: whoever may approve a record may write its spec, and does
// not get to choose what is replaced.
func TestAlteredBefore(t *testing.T) {
	w := newWorld(t, `  safety: {maxDriftRatio: 100%, minHealthy: 50%}
  rules: [{id: key, target: {kind: Instance}, paths: [/keyName], action: replace, replace: {strategy: delete}, grace: {for: 0s}, approval: required}]
`)
	w.tamper("a-1-m1", "/keyName", "other")
	w.run(2 * time.Minute)
	r := w.phase("a-1-m1", v1alpha1.PhaseAwaitingApproval, "")
	w.edit(r, func(r *v1alpha1.Remediation) {
		r.Spec.Approved, r.Spec.Machine = ptr.To(true), w.refOf("a-1-m2")
		r.Spec.Scope.Account = "999999999999"
	})
	if err := w.proc.reconcile(r.Name); err != nil {
		t.Fatal(err)
	}
	w.run(5 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
	if len(w.capi.deleted) != 1 || w.capi.deleted[0] != "a-1-m1" {
		t.Errorf("deleted %v", w.capi.deleted)
	}
}

// TestAlteredAfter: an attempt does not go on under another spec than it began
// with, and goes on once that is set back.
func TestAlteredAfter(t *testing.T) {
	w := newWorld(t, ", replace: {strategy: surge}")
	w.tamper("a-1-m1", "/keyName", "other")
	if err := w.proc.sweep(); err != nil {
		t.Fatal(err)
	}
	r := w.record("a-1-m1")
	if err := w.proc.reconcile(r.Name); err != nil {
		t.Fatal(err)
	}
	r = w.phase("a-1-m1", v1alpha1.PhaseRunning, "")
	own := r.Spec.Machine
	w.edit(r, func(r *v1alpha1.Remediation) { r.Spec.Machine = w.refOf("a-1-m2") })
	w.run(3 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseRunning, "Altered")
	if len(w.capi.deleted) > 0 {
		t.Fatalf("deleted %v", w.capi.deleted)
	}
	if _, flights, err := w.proc.store.Facts(w.ctx()); err != nil || len(flights) != 1 || !flights[0].ControlPlane || !flights[0].Anywhere {
		t.Errorf("in flight: %+v, %v", flights, err)
	}
	w.edit(r, func(r *v1alpha1.Remediation) { r.Spec.Machine = own })
	w.run(5 * time.Minute)
	w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
	if len(w.capi.deleted) != 1 || w.capi.deleted[0] != "a-1-m1" {
		t.Errorf("deleted %v", w.capi.deleted)
	}
}

// TestWrittenOnce: what a record is about cannot be changed at all.
func TestWrittenOnce(t *testing.T) {
	w := newWorld(t, "")
	w.tamper("a-1-m1", "/tags/team", "red")
	if err := w.proc.sweep(); err != nil {
		t.Fatal(err)
	}
	r := w.record("a-1-m1")
	for what, edit := range map[string]func(*v1alpha1.RemediationSpec){
		"clusterName": func(s *v1alpha1.RemediationSpec) { s.ClusterName = "another" },
		"owner":       func(s *v1alpha1.RemediationSpec) { s.Owner.UID = "another" },
		"fingerprint": func(s *v1alpha1.RemediationSpec) { s.Fingerprint = "another" },
		"resource":    func(s *v1alpha1.RemediationSpec) { s.Resource.ID = "another" },
	} {
		next := r.DeepCopy()
		edit(&next.Spec)
		if err := w.api.Update(w.ctx(), next); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), what) {
			t.Errorf("edit of %s: %v", what, err)
		}
	}
}

// TestOtherSpelling: a record of a release that knew its owner's kind in another
// version goes on, before and after its attempt has begun.
func TestOtherSpelling(t *testing.T) {
	for name, begun := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.tamper("a-1-m1", "/tags/team", "red")
			if err := w.proc.sweep(); err != nil {
				t.Fatal(err)
			}
			r := w.record("a-1-m1")
			older := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: r.Name, Labels: r.Labels, OwnerReferences: r.OwnerReferences}, Spec: r.Spec}
			older.Spec.Owner.APIVersion = "infrastructure.cluster.x-k8s.io/v1beta1"
			if err := w.api.Delete(w.ctx(), r); err != nil {
				t.Fatal(err)
			}
			w.create(older)
			if begun {
				older.Status = r.Status
				older.Status.Phase = v1alpha1.PhasePending
				status, err := remediator.Begin(older, w.clock.Now())
				if err != nil {
					t.Fatal(err)
				}
				older.Status = status
				if err := w.api.Status().Update(w.ctx(), older); err != nil {
					t.Fatal(err)
				}
			}
			w.run(10 * time.Minute)
			w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
		})
	}
}

// TestMadeByHand: a record that somebody made gives no further attempts, and
// says that it is nothing.
func TestMadeByHand(t *testing.T) {
	w := newWorld(t, "")
	w.tamper("a-1-m1", "/tags/team", "red")
	if err := w.proc.sweep(); err != nil {
		t.Fatal(err)
	}
	r := w.record("a-1-m1")
	forged := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "by-hand"}, Spec: r.Spec}
	w.create(forged)
	if err := w.proc.reconcile("by-hand"); err != nil {
		t.Fatal(err)
	}
	w.get("by-hand", forged)
	if forged.Status.Phase != v1alpha1.PhaseBlocked || forged.Status.Reason != "Altered" || w.applied() > 0 {
		t.Errorf("%s (%s), %d writes", forged.Status.Phase, forged.Status.Reason, w.applied())
	}
}

// TestOtherNamespace: who may write records in one namespace approves nothing in
// another, and takes nothing back that stands there.
func TestOtherNamespace(t *testing.T) {
	w := newWorld(t, `  safety: {maxDriftRatio: 100%, minHealthy: 50%}
  rules: [{id: tags, target: {kind: Instance}, paths: [/tags], action: patch, grace: {for: 0s}, approval: required}]
`)
	w.tamper("a-1-m1", "/tags/team", "red")
	if err := w.proc.sweep(); err != nil {
		t.Fatal(err)
	}
	r := w.record("a-1-m1")
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns + "-zz"}})
	forged := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns + "-zz", Name: r.Name}, Spec: r.Spec}
	forged.Spec.Approved = ptr.To(true)
	w.create(forged)
	all := &remediation.Store{Client: w.api, Reader: w.api, Now: w.clock.Now}
	history, _, err := all.Facts(w.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if h, known := history[policies.HistoryKey(remediator.OwnerOf(r), r.Spec.Fingerprint)]; !known || h.ApprovedBy != "" {
		t.Errorf("known %t, approved by %q", known, h.ApprovedBy)
	}
}
