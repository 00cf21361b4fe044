package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/management"
)

// renewing replaces machines whose instance is gone, or has lost a tag.
const renewing = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: renewing}
spec:
  mode: enforce
  safety: {maxDriftRatio: 100%, maxUnhealthyZone: 100%, minHealthy: 60%, controlPlane: enforce}
  budgets:
  - {scope: cluster, actions: [replace], max: 5}
  - {scope: pool, actions: [replace], max: 5}
  rules:
  - {id: aws-instance-missing, action: replace, grace: {for: 0s, observations: 1}}
  - {id: lost-tag, target: {provider: aws, kind: Instance, statuses: [Drifted]}, paths: [/tags/CostCenter], action: replace, grace: {for: 0s, observations: 1}}
`

// lostTag is the one for which renewing replaces a machine.
const lostTag = "CostCenter"

// watchUp counts the machines that are up, by a watch that misses no state the
// API server had, until the returned function gives the least that there were.
// One that is being deleted is not up.
func watchUp(ctx context.Context, t *testing.T, g *management.Ground, size int, keep func(*clusterv1.Machine) bool) func() int {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	w, err := g.Client.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(g.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	least := make(chan int, 1)
	go func() {
		up, whole, low := map[types.UID]bool{}, false, size
		for e := range w.ResultChan() {
			m, ok := e.Object.(*clusterv1.Machine)
			if !ok || !keep(m) {
				continue
			}
			delete(up, m.UID)
			if e.Type != "DELETED" && m.DeletionTimestamp.IsZero() && meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineNodeHealthyCondition) {
				up[m.UID] = true
			}
			if whole = whole || len(up) == size; whole {
				low = min(low, len(up))
			}
		}
		if ctx.Err() == nil {
			t.Error("the watch of machines ended before the test")
		}
		if !whole {
			t.Errorf("the watch never saw %d machines up", size)
		}
		least <- low
	}()
	return func() int {
		cancel()
		w.Stop()
		return <-least
	}
}

// Two instances of a pool are terminated at once, and a third machine drifts so
// that it is to be replaced as well: it has to wait for its pool.
func TestPoolStaysHealthy(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 5})
	c.WaitReady(ctx)
	start(t, g, renewing)
	before := c.Workers(ctx, "general")
	for _, m := range before {
		drifts(ctx, c, m, metav1.ConditionFalse)
	}
	least := watchUp(ctx, t, g, len(before), func(m *clusterv1.Machine) bool { return !util.IsControlPlaneMachine(m) })
	c.Terminate(ctx, before[0])
	c.Terminate(ctx, before[1])
	if err := g.AWS().Tag(ctx, management.Instance(before[2]), lostTag, ""); err != nil {
		t.Fatal(err)
	}
	sweepNow(ctx, t, g, c)
	for _, m := range before[:3] {
		c.WaitReplaced(ctx, m)
		succeeded(ctx, t, g, c, m, "replace")
	}
	// 60% of 5, which is what is left when two are terminated: no other may go
	// before one of them is back.
	if n := least(); n != 3 {
		t.Errorf("the pool of 5 was down to %d, and 60%% is 3", n)
	}
	onlyGone(ctx, t, c, "general", before, 5, before[:3]...)
}

// A control plane of three loses one while another is to be replaced: one goes
// after the other. While a member is unhealthy for reasons of its own, nothing is
// touched.
func TestControlPlaneIsNeverDownByTwo(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{ControlPlanes: 3})
	c.WaitReady(ctx)
	start(t, g, renewing)
	before := c.ControlPlanes(ctx)
	for _, m := range before {
		drifts(ctx, c, m, metav1.ConditionFalse)
	}
	least := watchUp(ctx, t, g, len(before), util.IsControlPlaneMachine)
	c.Terminate(ctx, before[0])
	if err := g.AWS().Tag(ctx, management.Instance(before[1]), lostTag, ""); err != nil {
		t.Fatal(err)
	}
	sweepNow(ctx, t, g, c)
	for _, m := range before[:2] {
		c.WaitReplaced(ctx, m)
		succeeded(ctx, t, g, c, m, "replace")
	}

	now := c.ControlPlanes(ctx)
	if !slices.ContainsFunc(now, sameAs(before[2])) {
		t.Errorf("machine %s was replaced as well", before[2].Name)
	}
	ill, drifted := now[0], now[1]
	for _, m := range now {
		drifts(ctx, c, m, metav1.ConditionFalse)
	}
	c.CutOff(ill, true)
	c.WaitNode(ctx, ill, "Unknown")
	if err := g.AWS().Tag(ctx, management.Instance(drifted), lostTag, ""); err != nil {
		t.Fatal(err)
	}
	sweepNow(ctx, t, g, c)
	blocked(ctx, g, c, drifted, "ControlPlane")
	for range 3 {
		swept(ctx, t, g, c)
	}
	blocked(ctx, g, c, drifted, "ControlPlane")
	if n := least(); n != 2 {
		t.Errorf("the control plane of 3 was down to %d", n)
	}
	if len(c.ControlPlanes(ctx)) != 3 || slices.ContainsFunc(now, func(m *clusterv1.Machine) bool {
		return !slices.ContainsFunc(c.ControlPlanes(ctx), sameAs(m))
	}) {
		t.Error("a machine was replaced while another was unhealthy")
	}
	if calls := g.AWS().Mutations(); len(calls) > 0 {
		t.Errorf("the daemon called %s: machines are replaced through Cluster API", calls[0].Action)
	}
}

// A label that somebody takes off a worker, as a tag of its instance, ends in
// that machine replaced where the policy says replace. [TestRemovedTagIsPutBack]
// has the same with patch.
func TestMachineThatLostItsTagIsReplaced(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2})
	c.WaitReady(ctx)
	start(t, g, strings.Replace(renewing, "minHealthy: 60%", "minHealthy: 1", 1))
	before := c.Workers(ctx, "general")
	drifts(ctx, c, before[0], metav1.ConditionFalse)
	drifts(ctx, c, before[1], metav1.ConditionFalse)
	if err := g.AWS().Tag(ctx, management.Instance(before[0]), lostTag, ""); err != nil {
		t.Fatal(err)
	}
	sweepNow(ctx, t, g, c)
	c.WaitReplaced(ctx, before[0])
	succeeded(ctx, t, g, c, before[0], "replace")
	onlyGone(ctx, t, c, "general", before, 2, before[0])
	for _, m := range c.Workers(ctx, "general") {
		i, err := g.AWS().Instance(ctx, management.Instance(m))
		if err != nil {
			t.Fatal(err)
		}
		has := false
		for _, tag := range i.Tags {
			has = has || aws.ToString(tag.Key) == lostTag
		}
		if !has {
			t.Errorf("the instance of %s has no tag %s", m.Name, lostTag)
		}
	}
	if calls := g.AWS().Mutations(); len(calls) > 0 {
		t.Errorf("the daemon called %s: machines are replaced through Cluster API", calls[0].Action)
	}
}
