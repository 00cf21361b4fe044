package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/management"
)

// world is where rows are played: one cluster, and the daemon that looks after
// it.
type world struct {
	t      *testing.T
	client client.Client
	// namespace and cluster are the Cluster's.
	namespace, cluster string
	d                  *daemon
	// policy is the text in which MODE stands for the mode.
	policy string
	// mutations are the daemon's own calls so far.
	mutations func() []string
	// eventually waits, and fails the test in the end.
	eventually func(ctx context.Context, what string, condition func(context.Context) error)
	// drifted are the rows of the catalog that were found and told.
	drifted *coverage
	// shared: other tests have clusters of the same name in the account, and what
	// belongs to nobody may be any one's, which is Unknown.
	shared bool
}

// on makes the world of a cluster of the ground.
func on(t *testing.T, g *management.Ground, c *management.Cluster, d *daemon, policy string, mutations func() []string, drifted *coverage) *world {
	return &world{
		t: t, client: g.Client, namespace: g.Namespace, cluster: c.Name, d: d, policy: policy, mutations: mutations, drifted: drifted, shared: true,
		eventually: func(ctx context.Context, what string, condition func(context.Context) error) {
			t.Helper()
			c.Eventually(ctx, what, condition)
		},
	}
}

// quiet waits until all has been read and nothing drifts.
func (w *world) quiet(ctx context.Context) {
	w.t.Helper()
	w.eventually(ctx, "read, and without a finding", func(context.Context) error {
		read, err := w.d.sum("holdfast_sweep_last_success_timestamp_seconds", map[string]string{"cluster_name": w.cluster})
		if err == nil && read == 0 {
			err = errors.New("no sweep has ended")
		}
		return errors.Join(err, w.counted(nil))
	})
}

// play tampers with rows that touch nothing in common, and looks what is found,
// told and done in each mode: the same in all of them, and nothing at all but in
// enforce, of which answer says what must come of it. In the end nothing drifts.
func (w *world) play(ctx context.Context, batch []*row, answer func(ctx context.Context, rows []played, since time.Time)) {
	w.t.Helper()
	before, since := len(w.mutations()), time.Now()
	var (
		rows  []played
		names []string
	)
	for _, r := range batch {
		names = append(names, r.name)
		found, undo, err := r.do(ctx)
		if err != nil {
			w.t.Fatalf("%s: %v", r.name, err)
		}
		rows = append(rows, played{row: r, found: found, undo: undo})
	}
	wanted := findings(rows)
	w.t.Logf("%d rows: %s", len(batch), strings.Join(names, "; "))
	w.sweep(ctx)
	w.found(ctx, "observe", wanted)
	w.announced(ctx, wanted, since, driftDetected)
	w.mode(ctx, "dryRun")
	w.found(ctx, "dryRun", wanted)
	if calls := w.mutations()[before:]; len(calls) > 0 {
		w.t.Errorf("nobody asked the daemon to do anything, and it called %v", calls)
	}
	w.noRecord(ctx, since)
	w.drifted.add(wanted)
	w.mode(ctx, "enforce")
	answer(ctx, rows, since)
	w.eventually(ctx, "without a finding", func(ctx context.Context) error {
		return errors.Join(w.counted(nil), w.clean(ctx, wanted))
	})
	w.announced(ctx, wanted, since, driftResolved)
	w.mode(ctx, "observe")
}

// repaired waits until each row has records that say what was wrong, and one of
// them of each resource has succeeded.
func (w *world) repaired(ctx context.Context, rows []played, _ time.Time) {
	w.t.Helper()
	w.eventually(ctx, fmt.Sprintf("so that %d rows are repaired", len(rows)), func(ctx context.Context) error {
		records := w.records(ctx)
		var errs []error
		for _, r := range rows {
			if err := repairedBy(records, r.found); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", r.name, err))
			}
		}
		return errors.Join(errs...)
	})
}

// repairedBy says what is missing for findings of one tamper to be repaired.
// What mends one of them may mend another: where a route table and a subnet
// disagree, there is nothing left to do for the second.
func repairedBy(records []driftv1.Remediation, found []expected) error {
	var errs []error
	any := false
	for i := range found {
		s := standingOf(records, &found[i])
		any = any || s.succeeded
		if len(s.left) > 0 || !s.succeeded && !s.needless {
			errs = append(errs, fmt.Errorf("%s: no plan has %v; %s", found[i].key(), s.left, s.says))
		}
	}
	if len(errs) == 0 && !any {
		errs = append(errs, errors.New("no record has succeeded"))
	}
	return errors.Join(errs...)
}

// standing is what the records about one finding come to.
type standing struct {
	// left are the differences that no plan has.
	left []difference
	// succeeded, needless: some record has succeeded, or has become needless.
	succeeded, needless bool
	says                string
}

func standingOf(records []driftv1.Remediation, f *expected) standing {
	s := standing{left: f.diffs}
	var says []string
	for i := range records {
		r := &records[i]
		owner := r.Spec.Owner.Kind + "/" + r.Spec.Owner.Name
		if r.Spec.Resource.Kind != f.kind || f.id != "" && r.Spec.Resource.ID != f.id || f.id == "" && owner != f.owner {
			continue
		}
		left := unplanned(r, f.diffs)
		if len(left) < len(f.diffs) { // an earlier row's else
			s.succeeded = s.succeeded || r.Status.Phase == driftv1.PhaseSucceeded
			s.needless = s.needless || r.Status.Phase == driftv1.PhaseCancelled && r.Status.Reason == "DriftGone"
		}
		s.left = unplanned(r, s.left)
		says = append(says, fmt.Sprintf("%s is %s (%s): %s", r.Name, r.Status.Phase, r.Status.Reason, r.Status.Message))
	}
	s.says = strings.Join(says, "; ")
	return s
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

// left tells that nothing is done about rows, whoever asks, and undoes them.
func (w *world) left(ctx context.Context, rows []played, since time.Time) {
	w.t.Helper()
	before := len(w.mutations())
	w.found(ctx, "enforce", findings(rows))
	w.noRecord(ctx, since)
	w.undo(ctx, rows)
	if calls := w.mutations()[before:]; len(calls) > 0 {
		w.t.Errorf("there is nothing that the daemon could do, and it called %v", calls)
	}
}

// noRecord expects that no record was made since, and that the older ones have
// ended.
func (w *world) noRecord(ctx context.Context, since time.Time) {
	w.t.Helper()
	for _, r := range w.records(ctx) {
		if !r.Status.Phase.Ended() || !r.CreationTimestamp.Time.Before(since.Truncate(time.Second)) {
			w.t.Errorf("there is nothing to be done, and there is record %s, made at %s: it is %s (%s): %s", r.Name, r.CreationTimestamp, r.Status.Phase, r.Status.Reason, r.Status.Message)
		}
	}
}

// undo undoes what was done, the last first, and asks for a look.
func (w *world) undo(ctx context.Context, rows []played) {
	w.t.Helper()
	for _, r := range slices.Backward(rows) {
		if err := r.undo(ctx); err != nil {
			w.t.Fatalf("undo %s: %v", r.name, err)
		}
	}
	w.sweep(ctx)
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
	w.eventually(ctx, "following "+mode, func(context.Context) error {
		if reads() == before {
			return errors.New("no read since")
		}
		return nil
	})
}

// sweep asks for one.
func (w *world) sweep(ctx context.Context) {
	w.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.cluster}, cluster); err != nil {
		w.t.Fatal(err)
	}
	base := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, driftv1.AnnotationSweepNow, time.Now().Format(time.RFC3339Nano))
	if err := w.client.Patch(ctx, cluster, client.MergeFrom(base)); err != nil {
		w.t.Fatal(err)
	}
}

// records are those of the cluster.
func (w *world) records(ctx context.Context) []driftv1.Remediation {
	w.t.Helper()
	list := &driftv1.RemediationList{}
	if err := w.client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(r driftv1.Remediation) bool { return r.Spec.ClusterName != w.cluster })
}

// coverage gathers which rows of a provider's catalog have drifted.
type coverage struct {
	catalog []providers.CatalogRow
	seen    map[string]bool // by kind and path of the row
}

func cover(catalog []providers.CatalogRow) *coverage {
	return &coverage{catalog: catalog, seen: map[string]bool{}}
}

func (c *coverage) add(found map[string]*expected) {
	for _, f := range found {
		for _, d := range f.diffs {
			for _, row := range c.catalog {
				if row.Kind == f.kind && matches(row.Path, d.path) {
					c.seen[row.Kind+row.Path] = true
				}
			}
		}
	}
}

// matches matches a pointer with a row's, in which an upper-case segment stands
// for any.
func matches(row, path string) bool {
	return slices.EqualFunc(providers.Segments(row), providers.Segments(path), func(want, have string) bool {
		return want == have || want == strings.ToUpper(want)
	})
}
