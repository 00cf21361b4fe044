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
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/management"
)

// replacedIfApproved replaces any machine that differs in anything, once a person
// says so.
const replacedIfApproved = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: replaced}
spec:
  mode: MODE
  safety: {maxDriftRatio: 100%, maxUnhealthyZone: 100%, minHealthy: 0, controlPlane: enforce}
  budgets: [{scope: cluster, actions: [replace], max: 5}, {scope: pool, actions: [replace], max: 5}]
  rules:
  - {id: replaced, target: {provider: aws, statuses: [Drifted, Missing]}, action: replace, approval: required, grace: {for: 0s, observations: 1}}
`

// awsReplaced are the tampers with what AWS never changes of a machine.
var awsReplaced = []string{
	"image declared anew", "key pair declared anew", "subnet declared anew", "zone declared anew", "public address given to a private machine",
	"root volume declared encrypted", "key of the root volume declared anew", "further volume detached", "key of a further volume declared anew",
	"machine declared a spot instance", "tenancy declared dedicated", "host declared", "placement group declared", "partition of a placement group declared",
	"capacity reservation declared", "interface declared and not attached",
}

// Each row of the catalog that takes a new machine on AWS: it is found and told
// in each mode, and in enforce there is a record of the replacement that waits
// for a person. For a few of them that person says yes.
func TestAWSMachinesAreReplaced(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2, Storage: 1})
	c.WaitReady(ctx)
	play := newAWSRows(ctx, t, g, c, nil)
	rows := play.rows(awsReplaced)
	play.rehearse(ctx, rows)
	// What cannot be declared of one machine at once: an API server refuses it,
	// or one makes the other mean nothing.
	for name, apart := range map[string]string{
		"machine declared a spot instance": "market", "capacity reservation declared": "market",
		"subnet declared anew": "place", "zone declared anew": "place", "interface declared and not attached": "place",
		"host declared": "host", "partition of a placement group declared": "host",
	} {
		at := slices.IndexFunc(rows, func(r *row) bool { return r.name == name })
		rows[at].touches = append(rows[at].touches, apart)
	}

	drifted := cover(aws.Registration().Catalog)
	d := start(t, g, strings.ReplaceAll(replacedIfApproved, "MODE", "observe"))
	w := on(t, g, c, d, replacedIfApproved, func() []string { return awsMutations(g) }, drifted)
	w.quiet(ctx)
	for _, batch := range batches(rows) {
		w.play(ctx, batch, w.held)
	}
	drifted.check(t, awsPlayed)

	w.mode(ctx, "enforce")
	for _, name := range []string{"image declared anew", "root volume declared encrypted", "zone declared anew"} {
		t.Log(name)
		before := c.Workers(ctx, "general")
		found, _, err := newAWSRows(ctx, t, g, c, nil).rows([]string{name})[0].do(ctx)
		if err != nil {
			t.Fatal(err)
		}
		old := before[slices.IndexFunc(before, func(m *clusterv1.Machine) bool { return m.Name == found[0].machine() })]
		w.sweep(ctx)
		drifts(ctx, c, old, metav1.ConditionTrue)
		w.approve(ctx, old)
		c.WaitReplaced(ctx, old)
		w.eventually(ctx, "so that the replacement has succeeded", func(ctx context.Context) error {
			return replacedBy(w.records(ctx), old)
		})
		onlyGone(ctx, t, c, "general", before, len(before), old)
	}
	if calls := w.mutations(); len(calls) > 0 {
		t.Errorf("the daemon called %v: machines are replaced through Cluster API", calls)
	}
}

// held waits until each finding of a machine has a record of its replacement
// that waits for approval, and undoes the rows.
func (w *world) held(ctx context.Context, rows []played, _ time.Time) {
	w.t.Helper()
	before := len(w.mutations())
	w.eventually(ctx, "so that replacements wait for a person", func(ctx context.Context) error {
		records := w.records(ctx)
		var errs []error
		for _, f := range findings(rows) {
			if f.machine() == "" {
				continue
			}
			if !slices.ContainsFunc(records, func(r driftv1.Remediation) bool {
				return r.Spec.Resource.Kind == f.kind && r.Spec.Resource.ID == f.id && r.Spec.Action == "replace" &&
					awaits(&r) && len(unplanned(&r, f.diffs)) == 0
			}) {
				errs = append(errs, fmt.Errorf("no replacement is planned for %v of %s, which %s", f.diffs, f.key(), standingOf(records, f).says))
			}
		}
		return errors.Join(errs...)
	})
	w.undo(ctx, rows)
	w.eventually(ctx, "so that nothing waits any more", func(ctx context.Context) error {
		var errs []error
		for _, r := range w.records(ctx) {
			if r.Status.Phase != driftv1.PhaseCancelled {
				errs = append(errs, fmt.Errorf("%s is %s (%s)", r.Name, r.Status.Phase, r.Status.Reason))
			}
		}
		return errors.Join(errs...)
	})
	if calls := w.mutations()[before:]; len(calls) > 0 {
		w.t.Errorf("nobody has approved of anything, and the daemon called %v", calls)
	}
}

// awaits reports a record that waits for a person, whatever else holds it back.
func awaits(r *driftv1.Remediation) bool {
	return r.Status.Phase == driftv1.PhaseAwaitingApproval || r.Status.Phase == driftv1.PhaseBlocked &&
		slices.ContainsFunc(r.Status.Blocked, func(b driftv1.GateBlock) bool { return b.By == "Approval" })
}

// approve says yes to what waits about a Machine.
func (w *world) approve(ctx context.Context, m *clusterv1.Machine) {
	w.t.Helper()
	var waiting *driftv1.Remediation
	w.eventually(ctx, "so that the replacement of "+m.Name+" waits for approval", func(ctx context.Context) error {
		for _, r := range w.records(ctx) {
			if r.Spec.Machine != nil && r.Spec.Machine.UID == m.UID && r.Status.Phase == driftv1.PhaseAwaitingApproval {
				waiting = &r
				return nil
			}
		}
		return errors.New("no record does")
	})
	base := waiting.DeepCopy()
	yes := true
	waiting.Spec.Approved, waiting.Spec.ApprovedBy = &yes, "anna"
	if err := w.client.Patch(ctx, waiting, client.MergeFrom(base)); err != nil {
		w.t.Fatal(err)
	}
}

// What AWS has lost of a cluster's network, or is declared otherwise than it can
// become: it is found and told in each mode, and nothing is done, for nobody but
// the infrastructure provider makes it anew.
func TestAWSLossesAreTold(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	variants := awscluster.Variants()
	six := variants[slices.IndexFunc(variants, func(v awscluster.Variant) bool { return v.Name == "IPv6" })]
	clusters := []struct {
		*management.Cluster
		variant string
		undone  []string
		lost    [][]string
	}{
		{
			Cluster: g.AWSCluster(ctx, management.AWS{Workers: 1}),
			undone:  []string{"block of a subnet declared anew", "load balancer declared internal", "block of the VPC declared anew"},
			lost:    [][]string{{"NAT gateway deleted", "load balancer deleted"}},
		},
		{
			Cluster: g.AWSCluster(ctx, management.AWS{Name: "dev", Example: "dev-classic.yaml"}),
			lost:    [][]string{{"subnet deleted", "route table deleted"}},
		},
		{
			Cluster: g.AWSCluster(ctx, management.AWS{Name: "six", Workers: 1, Edit: six.Edit}), variant: six.Name,
			undone: []string{"IPv6 block of a subnet taken away"}, lost: [][]string{{"egress-only internet gateway deleted"}},
		},
	}
	for _, c := range clusters {
		c.WaitReady(ctx)
	}
	policy := strings.ReplaceAll(replacedIfApproved, "approval: required, ", "")
	d := start(t, g, strings.ReplaceAll(policy, "MODE", "observe"))
	drifted := cover(aws.Registration().Catalog)
	for _, c := range clusters {
		w := on(t, g, c.Cluster, d, policy, func() []string { return awsMutations(g) }, drifted)
		w.quiet(ctx)
		rows := newAWSRows(ctx, t, g, c.Cluster, nil)
		rows.variant = c.variant
		undone := rows.rows(c.undone)
		rows.rehearse(ctx, undone)
		w.quiet(ctx)
		for _, batch := range batches(undone) {
			w.play(ctx, batch, w.left)
		}
		for _, names := range c.lost {
			w.lose(ctx, rows.rows(names))
		}
	}
	drifted.check(t, awsPlayed)
	if calls := awsMutations(g); len(calls) > 0 {
		t.Errorf("the daemon called %v", calls)
	}
}

// lose plays rows that nothing undoes: the cluster is broken afterwards.
func (w *world) lose(ctx context.Context, batch []*row) {
	w.t.Helper()
	since := time.Now()
	var rows []played
	for _, r := range batch {
		w.t.Log(r.name)
		found, undo, err := r.do(ctx)
		if err != nil {
			w.t.Fatalf("%s: %v", r.name, err)
		}
		rows = append(rows, played{row: r, found: found, undo: undo})
	}
	wanted := findings(rows)
	w.sweep(ctx)
	w.found(ctx, "observe", wanted)
	w.announced(ctx, wanted, since, driftDetected)
	for _, mode := range []string{"dryRun", "enforce"} {
		w.mode(ctx, mode)
		w.found(ctx, mode, wanted)
		w.noRecord(ctx, since)
	}
	w.drifted.add(wanted)
	w.mode(ctx, "observe")
}
