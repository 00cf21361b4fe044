package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/providers/node"
	"github.com/holdfast-io/holdfast/test/management"
)

// forNodeRows answers whatever differs of any Node in one way.
const forNodeRows = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: node-rows}
spec:
  mode: MODE
  safety: {maxDriftRatio: 100%, maxUnhealthyZone: 100%, minHealthy: 0, controlPlane: enforce}
  budgets: [{scope: cluster, actions: [patch, replace], max: 20}, {scope: pool, actions: [patch, replace], max: 20}]
  rules:
  - {id: node-rows, target: {kind: Node, statuses: [Drifted, Missing]}, ACTION, grace: {for: 0s, observations: 1}}
`

// opPatchNode is how the daemon's metrics call a write to a workload cluster.
const opPatchNode = "workload:PatchNode"

// writes are the daemon's own calls that change something, of the cloud and of
// workload clusters.
func (d *daemon) writes(t *testing.T, cloud func() []string) func() []string {
	return func() []string {
		t.Helper()
		n, err := d.sum("holdfast_cloud_api_calls_total", map[string]string{"operation": opPatchNode})
		if err != nil {
			t.Fatal(err)
		}
		return append(cloud(), slices.Repeat([]string{opPatchNode}, int(n))...)
	}
}

func forNodeRowsBy(action string) string { return strings.ReplaceAll(forNodeRows, "ACTION", action) }

// asRegistered compares Nodes with what kubelet registered them with.
func asRegistered(ctx context.Context, c *management.Cluster, machines []*clusterv1.Machine) error {
	var errs []error
	nodes := c.Nodes(ctx)
	for _, m := range machines {
		n := nodes[m.Status.NodeRef.Name]
		if n.Labels[nodeLabel] != nodeLabelValue || !slices.Contains(n.Spec.Taints, nodeTaint) || n.Spec.ProviderID != m.Spec.ProviderID {
			errs = append(errs, fmt.Errorf("the Node of %s has the labels %v, the taints %v and the providerID %s", m.Name, n.Labels, n.Spec.Taints, n.Spec.ProviderID))
		}
	}
	return errors.Join(errs...)
}

// Each row of the catalog of Nodes on both clouds, in each mode: a label and a
// taint are set back, and of what nobody can write it is told, by a policy that
// would have all of it patched.
func TestNodeRowsAreSetBack(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	clusters := []*management.Cluster{
		g.AWSCluster(ctx, management.AWS{Workers: 2, Edit: tainted}),
		g.VSphereCluster(ctx, management.VSphere{Workers: 2, Edit: taintedVSphere}),
	}
	for _, c := range clusters {
		c.WaitReady(ctx)
	}
	policy := forNodeRowsBy("action: patch")
	d := start(t, g, strings.ReplaceAll(policy, "MODE", "observe"))
	cloud := func() []string { return append(awsMutations(g), g.VSphere().Log.Mutating()...) }
	writes := d.writes(t, cloud)
	vsphereBefore := len(cloud())
	drifted := cover(nodeCatalog(aws.Registration()))
	for _, c := range clusters {
		w := on(t, g, c, d, policy, writes, drifted)
		w.quiet(ctx)
		workers := c.Workers(ctx, "general")
		if err := asRegistered(ctx, c, workers); err != nil {
			t.Fatal(err)
		}
		for _, batch := range batches(nodeRows(c, workers, nodePatched)) {
			before := len(writes())
			w.play(ctx, batch, w.repaired)
			if err := asRegistered(ctx, c, workers); err != nil {
				t.Error(err)
			}
			// One for each Node; one that meets what somebody else wrote meanwhile is
			// tried again.
			if n := len(writes()) - before; n < len(workers) || n > writeAttempts*len(workers) {
				t.Errorf("the Nodes of %d machines are repaired, and there were %d writes", len(workers), n)
			}
		}
		for _, batch := range batches(nodeRows(c, workers, nodeReplaced)) {
			w.play(ctx, batch, w.left)
		}
		w.synced(ctx, c, workers[0])
		onlyGone(ctx, t, c, "general", workers, 2)
	}
	drifted.check(t, nodePlayed)
	if calls := cloud(); len(calls) != vsphereBefore {
		t.Errorf("the daemon called %v: a Node is no cloud's", calls[vsphereBefore:])
	}
}

// synced takes a label off that Cluster API keeps on a Machine's Node: it is back,
// whoever was first, and nothing is left to be done about it.
func (w *world) synced(ctx context.Context, c *management.Cluster, m *clusterv1.Machine) {
	w.t.Helper()
	const key, value = "node.cluster.x-k8s.io/tier", "gold"
	has := func(ctx context.Context) error {
		if got := c.Nodes(ctx)[m.Status.NodeRef.Name].Labels[key]; got != value {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	}
	base := m.DeepCopy()
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Labels[key] = value
	if err := w.client.Patch(ctx, m, client.MergeFrom(base)); err != nil {
		w.t.Fatal(err)
	}
	w.eventually(ctx, "so that Cluster API has put the Machine's label on its Node", has)
	w.mode(ctx, "enforce")
	c.LabelNode(ctx, m.Status.NodeRef.Name, key, "")
	w.sweep(ctx)
	w.eventually(ctx, "so that the label is back and no record is open", func(ctx context.Context) error {
		errs := []error{has(ctx), w.counted(nil)}
		for _, r := range w.records(ctx) {
			if !r.Status.Phase.Ended() {
				errs = append(errs, fmt.Errorf("%s is %s (%s): %s", r.Name, r.Status.Phase, r.Status.Reason, r.Status.Message))
			}
		}
		return errors.Join(errs...)
	})
	w.mode(ctx, "observe")
}

// writeAttempts is how often one write may be tried.
const writeAttempts = 5

// What nobody can write of a Node, and whatever else a policy wants a new machine
// for: there is a record that waits for a person, and when that person says yes,
// the machine is replaced by Cluster API and its successor's Node is as declared.
func TestMachinesAreReplacedForTheirNodes(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2, Edit: tainted})
	c.WaitReady(ctx)
	policy := forNodeRowsBy("action: replace, approval: required")
	d := start(t, g, strings.ReplaceAll(policy, "MODE", "observe"))
	drifted := cover(nodeCatalog(aws.Registration()))
	w := on(t, g, c, d, policy, d.writes(t, func() []string { return awsMutations(g) }), drifted)
	w.quiet(ctx)
	for _, batch := range batches(nodeRows(c, c.Workers(ctx, "general"), slices.Concat(nodePatched, nodeReplaced))) {
		w.play(ctx, batch, w.held)
	}
	drifted.check(t, nodePlayed)

	w.mode(ctx, "enforce")
	for i := range nodeReplaced {
		before := c.Workers(ctx, "general")
		w.approved(ctx, c, &nodeReplaced[i], before[0])
		onlyGone(ctx, t, c, "general", before, len(before), before[0])
		if err := asRegistered(ctx, c, c.Workers(ctx, "general")); err != nil {
			t.Error(err)
		}
	}
	if calls := w.mutations(); len(calls) > 0 {
		t.Errorf("the daemon called %v: machines are replaced through Cluster API", calls)
	}
}

// approved has a Machine replaced for what was done to its Node.
func (w *world) approved(ctx context.Context, c *management.Cluster, x *nodeTamper, old *clusterv1.Machine) {
	w.t.Helper()
	w.t.Log(x.name)
	if _, _, err := x.on(c, old).do(ctx); err != nil {
		w.t.Fatal(err)
	}
	w.sweep(ctx)
	drifts(ctx, c, old, metav1.ConditionTrue)
	w.approve(ctx, old)
	c.WaitReplaced(ctx, old)
	w.eventually(ctx, "so that the replacement has succeeded", func(ctx context.Context) error {
		return replacedBy(w.records(ctx), old)
	})
	w.quiet(ctx)
}

// replacedBy says what is missing for a Machine to have been replaced.
func replacedBy(records []driftv1.Remediation, old *clusterv1.Machine) error {
	var says []string
	for i := range records { // there are those that became needless, too
		r := &records[i]
		if r.Spec.Machine == nil || r.Spec.Machine.UID != old.UID {
			continue
		}
		if r.Status.Phase == driftv1.PhaseSucceeded && r.Spec.Action == "replace" {
			return nil
		}
		says = append(says, fmt.Sprintf("%s is %s (%s): %s", r.Name, r.Status.Phase, r.Status.Reason, r.Status.Message))
	}
	return fmt.Errorf("no record has: %s", strings.Join(says, "; "))
}

// nodeCatalog are the rows that a provider's catalog has of Nodes.
func nodeCatalog(r providers.Registration) []providers.CatalogRow {
	return slices.DeleteFunc(slices.Clone(node.Extend(r).Catalog), func(row providers.CatalogRow) bool { return row.Kind != providers.KindNode })
}
