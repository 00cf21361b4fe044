package remediation_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// crash is one row of the crash matrix: drift, and what it is to come to, once,
// whenever the process was killed on the way.
type crash struct {
	policy string
	drift  func(*world)
	done   func(*world)
	// writes are how many there are at least: fewer would mean that the row
	// does not do what it says.
	writes int
}

// crashes are the rows: setting values, and each path of replacement.
func crashes() map[string]crash {
	rows := map[string]crash{"patch": {
		drift: func(w *world) { w.tamper("a-1-m1", "/tags/team", "red") },
		done: func(w *world) {
			r := w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
			if got := w.have("a-1-m1", "/tags/team"); got != "blue" || len(r.Status.Attempts) != 1 {
				w.t.Errorf("team is %s after %d attempts", got, len(r.Status.Attempts))
			}
		},
		writes: 6,
	}}
	rows["disruptive patch"] = crash{
		drift: func(w *world) {
			w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "p"}, Spec: corev1.PodSpec{
				NodeName: w.node("a-1-m1").Name, Containers: []corev1.Container{{Name: "c", Image: "x"}},
				TerminationGracePeriodSeconds: ptr.To(int64(0)), // there is no kubelet
			}})
			w.tamper("a-1-m1", "/instanceType", "t3.nano")
		},
		done: func(w *world) {
			w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
			if got := w.have("a-1-m1", "/instanceType"); got != "m5.large" || w.node("a-1-m1").Spec.Unschedulable {
				w.t.Errorf("the type is %s; the node can be used: %v", got, !w.node("a-1-m1").Spec.Unschedulable)
			}
		},
		writes: 10, // one of them the eviction
	}
	for name, p := range paths {
		switch name {
		case "external remedy", "gone in the cloud", "surge, not ready", "surge, dying":
			continue // they take the same steps as others
		}
		writes := 6
		if p.strategy == v1alpha1.StrategySurge {
			writes = 10
		}
		rows[name] = crash{policy: p.policy, drift: func(w *world) { w.drift(p) }, done: func(w *world) { w.replaced(p) }, writes: writes}
	}
	return rows
}

// TestCrashMatrix kills the process after each single write, to the API server
// or to the cloud, on each way of repair. A new process that knows nothing but
// what is stored brings it to the same end: nothing twice, nothing left over.
func TestCrashMatrix(t *testing.T) {
	for name, row := range crashes() {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "patch" && name != "surge" {
				t.Skip("the other paths run without -short")
			}
			whole := newWorld(t, row.policy)
			row.drift(whole)
			mutations := whole.cloud.Mutations()
			whole.run(5 * time.Minute)
			row.done(whole)
			mutations = whole.cloud.Mutations() - mutations
			writes := slices.Clone(whole.proc.writes)
			if len(writes) < row.writes {
				t.Fatalf("only %d writes: %v", len(writes), writes)
			}
			for i := range writes {
				t.Run(fmt.Sprintf("after write %d", i+1), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, row.policy)
					row.drift(w)
					before := w.cloud.Mutations()
					w.proc = w.process(i + 1)
					if err := w.proc.run(5 * time.Minute); !errors.Is(err, errKilled) {
						t.Fatalf("the process was not killed after %d writes (%v): %v", i+1, w.proc.writes, err)
					}
					last := w.proc.writes[i]
					w.capi.step() // the world goes on meanwhile
					w.capi.step()
					w.start()
					w.run(6 * time.Minute)
					row.done(w)
					if n := w.cloud.Mutations() - before; n != mutations {
						t.Errorf("killed after %q: %d changes to the cloud, want %d", last, n, mutations)
					}
					before = len(w.proc.writes)
					w.run(2 * time.Minute)
					if after := w.proc.writes[before:]; len(after) > 0 {
						t.Errorf("killed after %q: steady state writes: %v", last, after)
					}
				})
			}
		})
	}
}

// TestRestartGoesOnToItsEnd: a cloud that needs three calls to stop, change and
// start a machine shows the wanted type after the first. The change is asked for
// as it began until the cloud says that it is complete, also by a process that
// starts after the first call.
func TestRestartGoesOnToItsEnd(t *testing.T) {
	drift := func(t *testing.T) *world {
		w := newWorld(t, "")
		w.restart = &restart{}
		w.node("a-1-m1")
		w.tamper("a-1-m1", "/instanceType", "t3.nano")
		return w
	}
	done := func(w *world) {
		w.t.Helper()
		w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
		if want := []string{"/instanceType=m5.large", "/instanceType=m5.large", "/instanceType=m5.large"}; !slices.Equal(w.restart.asked, want) {
			w.t.Errorf("the cloud was asked for %q, want the same three times", w.restart.asked)
		}
	}
	whole := drift(t)
	whole.run(6 * time.Minute)
	done(whole)
	for i, write := range whole.proc.writes {
		if !strings.HasPrefix(write, "apply to ") {
			continue
		}
		t.Run(fmt.Sprintf("killed after write %d", i+1), func(t *testing.T) {
			w := drift(t)
			w.proc = w.process(i + 1)
			if err := w.proc.run(6 * time.Minute); !errors.Is(err, errKilled) {
				t.Fatalf("the process was not killed: %v", err)
			}
			calls := len(w.restart.asked)
			w.start()
			w.run(7 * time.Minute)
			if calls == 3 { // nobody learnt that it was complete: it is asked once more
				w.phase("a-1-m1", v1alpha1.PhaseSucceeded, "Verified")
				return
			}
			done(w)
		})
	}
}
