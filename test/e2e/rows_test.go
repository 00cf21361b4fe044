package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/test/management"
)

// expected is a finding that a tamper makes, whatever the cloud.
type expected struct {
	// owner is the object's kind and name, id the resource's; empty is the only
	// one of its kind that the owner has.
	owner, kind, id string
	status          detector.Status
	diffs           []difference
}

// key tells findings apart.
func (e *expected) key() string {
	if e.id == "" {
		return e.kind + " of " + e.owner
	}
	return e.kind + " " + e.id
}

// difference is one, with its values as text; empty is absence.
type difference struct{ path, want, have string }

// row is a tamper of a table as these tests play it.
type row struct {
	name string
	// do tampers, and gives what must be found and how it is undone.
	do func(context.Context) ([]expected, func(context.Context) error, error)
	// touches are the fields that it changes; a machine that it stops is touched
	// as a whole.
	touches []string
	// alone is one that only a repair undoes.
	alone bool
}

// world is where rows are played.
type world struct {
	*management.Ground
	t *testing.T
	c *management.Cluster
	d *daemon
	// policy is the text in which MODE stands for the mode.
	policy string
	// mutations are the daemon's own calls so far.
	mutations func() []string
	// conditions gives the DriftDetected condition of an owner, status and
	// message.
	condition func(ctx context.Context, owner string) (status, message string, err error)
}

// batches puts rows together that touch nothing in common.
func batches(rows []*row) (out [][]*row) {
	for _, r := range rows {
		i := slices.IndexFunc(out, func(batch []*row) bool {
			return !slices.ContainsFunc(batch, func(o *row) bool { return overlap(o.touches, r.touches) })
		})
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], r)
	}
	return out
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool {
			x, whole := strings.CutSuffix(x, "*")
			y, wholeY := strings.CutSuffix(y, "*")
			return x == y || whole && strings.HasPrefix(y, x) || wholeY && strings.HasPrefix(x, y)
		})
	})
}

// rehearse does and undoes each row, to learn what it touches.
func rehearse(ctx context.Context, t *testing.T, rows []*row) {
	t.Helper()
	for _, r := range rows {
		if r.alone {
			r.touches = []string{"*"}
			continue
		}
		found, undo, err := r.do(ctx)
		if err == nil && undo == nil {
			err = errors.New("it cannot be undone")
		}
		if err == nil {
			err = undo(ctx)
		}
		if err != nil {
			t.Fatalf("rehearse %s: %v", r.name, err)
		}
		for _, f := range found {
			for _, d := range f.diffs {
				touch := f.key() + " " + d.path
				if apart(d.path) || !strings.Contains(f.owner, "Machine") && f.status == detector.Missing {
					touch = f.key() + " *"
				}
				r.touches = append(r.touches, touch)
			}
		}
	}
}

// apart are fields that leave no other tamper room: the machine does not run
// while they differ or is stopped to set them back, or is not found where it was.
func apart(path string) bool {
	return slices.Contains([]string{"/state", "/instanceType", "/powerState", "/numCPUs", "/memoryMiB", "/folder", "/name"}, path)
}

// play tampers with a batch of rows, and looks what is found, told and done in
// each mode.
func (w *world) play(ctx context.Context, batch []*row) {
	w.t.Helper()
	before := len(w.mutations())
	wanted := map[string]*expected{}
	var names []string
	for _, r := range batch {
		names = append(names, r.name)
		found, _, err := r.do(ctx)
		if err != nil {
			w.t.Fatalf("%s: %v", r.name, err)
		}
		for _, f := range found {
			key := f.key()
			if wanted[key] == nil {
				wanted[key] = &expected{owner: f.owner, kind: f.kind, id: f.id, status: f.status}
			}
			wanted[key].diffs = append(wanted[key].diffs, f.diffs...)
		}
	}
	w.t.Logf("%d rows: %s", len(batch), strings.Join(names, "; "))
	sweepNow(ctx, w.t, w.Ground, w.c)
	w.found(ctx, "observe", wanted)
	w.mode(ctx, "dryRun")
	w.found(ctx, "dryRun", wanted)
	if calls := w.mutations()[before:]; len(calls) > 0 {
		w.t.Errorf("nobody asked the daemon to do anything, and it called %v", calls)
	}
	for _, r := range records(ctx, w.t, w.Ground) {
		if !r.Status.Phase.Ended() {
			w.t.Errorf("a record was made unasked: %s", r.Name)
		}
	}
	w.mode(ctx, "enforce")
	w.repaired(ctx, wanted)
	w.mode(ctx, "observe")
}

// watch tampers with rows that nothing is to be done about, whoever asks: they
// are found and told.
func (w *world) watch(ctx context.Context, batch []*row) {
	w.t.Helper()
	w.mode(ctx, "enforce")
	before := len(w.mutations())
	wanted := map[string]*expected{}
	var undos []func(context.Context) error
	for _, r := range batch {
		found, undo, err := r.do(ctx)
		if err != nil {
			w.t.Fatalf("%s: %v", r.name, err)
		}
		undos = append(undos, undo)
		for _, f := range found {
			wanted[f.key()] = &f
		}
	}
	sweepNow(ctx, w.t, w.Ground, w.c)
	w.found(ctx, "enforce", wanted)
	for _, undo := range undos {
		if err := undo(ctx); err != nil {
			w.t.Fatal(err)
		}
	}
	sweepNow(ctx, w.t, w.Ground, w.c)
	w.c.Eventually(ctx, "without a finding", func(context.Context) error { return w.counted(nil) })
	if calls := w.mutations()[before:]; len(calls) > 0 {
		w.t.Errorf("there is nothing that the daemon could do, and it called %v", calls)
	}
}

// mode changes the policy's and waits until the daemon has decided by it.
func (w *world) mode(ctx context.Context, mode string) {
	w.t.Helper()
	reads := func() float64 {
		n, err := w.d.sum("holdfast_reads_total", map[string]string{"reason": "PolicyChanged"})
		if err != nil {
			w.t.Fatal(err)
		}
		return n
	}
	before := reads()
	w.d.follow(w.t, strings.ReplaceAll(w.policy, "MODE", mode))
	w.c.Eventually(ctx, "following "+mode, func(context.Context) error {
		if reads() == before {
			return errors.New("no read since")
		}
		return nil
	})
}

// found waits until metrics, conditions and events tell of the findings.
func (w *world) found(ctx context.Context, mode string, wanted map[string]*expected) {
	w.t.Helper()
	w.c.Eventually(ctx, fmt.Sprintf("so that %d findings are told in mode %s", len(wanted), mode), func(ctx context.Context) error {
		return errors.Join(w.counted(wanted), w.told(ctx, wanted))
	})
}

// counted compares the metric of open findings.
func (w *world) counted(wanted map[string]*expected) error {
	counts := map[string]float64{}
	for _, f := range wanted {
		counts[f.kind+" "+string(f.status)]++
	}
	var errs []error
	total, err := w.d.sum("holdfast_findings", map[string]string{"cluster_name": w.c.Name})
	if err == nil && int(total) != len(wanted) {
		err = fmt.Errorf("the metric counts %v findings", total)
	}
	errs = append(errs, err)
	for key, want := range counts {
		kind, status, _ := strings.Cut(key, " ")
		have, err := w.d.sum("holdfast_findings", map[string]string{"cluster_name": w.c.Name, "kind": kind, "status": status})
		if err == nil && have != want {
			err = fmt.Errorf("the metric counts %v %s %s, not %v", have, status, kind, want)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// manyEntries is from how many resources of one owner on its condition says only
// how many more there are.
const manyEntries = 8

// told compares the conditions of owners.
func (w *world) told(ctx context.Context, wanted map[string]*expected) error {
	owners := map[string][]*expected{}
	for _, f := range wanted {
		owners[f.owner] = append(owners[f.owner], f)
	}
	var errs []error
	for owner, list := range owners {
		if owner == "" {
			continue // an orphan's
		}
		status, message, err := w.condition(ctx, owner)
		if err == nil && status != "True" {
			err = fmt.Errorf("%s has DriftDetected=%s: %s", owner, status, message)
		}
		for _, f := range list {
			if err == nil && len(list) <= manyEntries && f.id != "" && !strings.Contains(message, f.id) {
				err = fmt.Errorf("%s says nothing of %s: %s", owner, f.id, message)
			}
			for _, d := range f.diffs {
				if err == nil && len(list) <= manyEntries && len(f.diffs) <= 6 && f.status == detector.Drifted && !strings.Contains(message, d.path) {
					err = fmt.Errorf("%s says nothing of %s: %s", owner, d.path, message)
				}
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// repaired waits until each finding has a record that says what was wrong and
// has succeeded, and until nothing drifts any more.
func (w *world) repaired(ctx context.Context, wanted map[string]*expected) {
	w.t.Helper()
	w.c.Eventually(ctx, fmt.Sprintf("so that %d resources are repaired", len(wanted)), func(ctx context.Context) error {
		list := &driftv1.RemediationList{}
		if err := w.Client.List(ctx, list, client.InNamespace(w.Namespace)); err != nil {
			return err
		}
		var errs []error
		for _, f := range wanted {
			errs = append(errs, succeededFor(list.Items, f))
		}
		return errors.Join(errs...)
	})
	w.c.Eventually(ctx, "without a finding", func(ctx context.Context) error {
		errs := []error{w.counted(nil)}
		for _, f := range wanted {
			status, message, err := w.condition(ctx, f.owner)
			if err == nil && status != "False" {
				err = fmt.Errorf("%s has DriftDetected=%s: %s", f.owner, status, message)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

func succeededFor(list []driftv1.Remediation, f *expected) error {
	var others []string
	left, done := f.diffs, false
	for _, r := range list {
		owner := r.Spec.Owner.Kind + "/" + r.Spec.Owner.Name
		if r.Spec.Resource.Kind != f.kind || f.id != "" && r.Spec.Resource.ID != f.id || f.id == "" && owner != f.owner {
			continue
		}
		// What another repair mends in passing leaves a second record to the rest.
		left, done = unplanned(&r, left), done || r.Status.Phase == driftv1.PhaseSucceeded
		others = append(others, fmt.Sprintf("%s is %s (%s): %s", r.Name, r.Status.Phase, r.Status.Reason, r.Status.Message))
	}
	if done && len(left) == 0 {
		return nil
	}
	others = append(others, fmt.Sprintf("no plan has %v", left))
	return fmt.Errorf("%s: %s", f.key(), strings.Join(others, "; "))
}

// unplanned are those differences that a record does not have among its plan,
// with the values that the tamper left.
func unplanned(r *driftv1.Remediation, diffs []difference) (out []difference) {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	for _, d := range diffs {
		if !slices.ContainsFunc(r.Spec.Plan, func(p driftv1.PlannedChange) bool {
			return p.Path == d.path && (p.Sensitive || text(p.Want) == d.want && text(p.Seen) == d.have)
		}) {
			out = append(out, d)
		}
	}
	return out
}

// eventsOf are the reasons of the events about some objects.
func (w *world) eventsOf(ctx context.Context, uids ...types.UID) []string {
	w.t.Helper()
	list := &eventsv1.EventList{}
	if err := w.Client.List(ctx, list, client.InNamespace(w.Namespace)); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if slices.Contains(uids, e.Regarding.UID) {
			out = append(out, e.Reason)
		}
	}
	return out
}
