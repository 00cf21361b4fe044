package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/management"
)

// runawayAttempts is how often the runaways' policy lets a thing be tried.
const runawayAttempts = 2

const runawayPolicy = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: runaway}
spec:
  mode: enforce
  safety: {maxDriftRatio: 100%, maxUnhealthyZone: 100%, minHealthy: 1}
  budgets: [{scope: cluster, actions: [replace], max: 3}]
  rules:
  - {id: aws-instance-tags, action: patch, grace: {for: 0s, observations: 1}, attempts: {max: 2, per: 24h}}
  - {id: pool-tag, target: {provider: aws, kind: Instance, statuses: [Drifted]}, paths: [/tags/Pool], action: replace, grace: {for: 0s, observations: 1}, attempts: {max: 2, per: 24h}}
  - {id: aws-instance-missing, action: replace, grace: {for: 0s, observations: 1}, attempts: {max: 2, per: 24h}}
`

// Three things that no repair can end: a template whose machines always drift,
// somebody who sets back what is repaired, and replacements that never come up.
// Each is tried a few times, told, and left alone.
func TestRunawaysAreLatched(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 3, Storage: 2})
	dead := g.AWSCluster(ctx, management.AWS{Name: "prod-b", Workers: 3})
	c.WaitReady(ctx)
	dead.WaitReady(ctx)
	d := start(t, g, runawayPolicy, "--ready-within", "10s")
	general, storage, lost := c.Workers(ctx, "general"), c.Workers(ctx, "storage"), dead.Workers(ctx, "general")
	for _, m := range slices.Concat(general, storage) {
		drifts(ctx, c, m, metav1.ConditionFalse)
	}
	for _, m := range lost {
		drifts(ctx, dead, m, metav1.ConditionFalse)
	}
	// Whoever makes them drift does so until the test ends, when it has been
	// left alone as well.
	ctx, cancel := context.WithCancel(ctx)
	var villains sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		villains.Wait()
	})
	villains.Go(func() { alwaysDrifting(ctx, t, g, c, general) })
	villains.Go(func() { alwaysReverting(ctx, t, g, c, storage[0]) })
	dead.HoldBoots(true)
	dead.Terminate(ctx, lost[0])
	sweepNow(ctx, t, g, dead)

	t.Log("a template whose machines always drift")
	phase(ctx, g, c, general[0], "replace", driftv1.PhaseLatched)
	t.Log("replacements that never become ready")
	phase(ctx, g, dead, lost[0], "replace", driftv1.PhaseFailed)
	t.Log("and what drifts meanwhile waits for a person")
	dead.Terminate(ctx, lost[1])
	sweepNow(ctx, t, g, dead)
	blocked(ctx, g, dead, lost[1], "Halted")
	t.Log("somebody who sets back each repair")
	phase(ctx, g, c, storage[0], "patch", driftv1.PhaseLatched)

	for metric, labels := range map[string]map[string]string{
		"latched replacement": {"cluster_name": c.Name, "action": "replace", "status": "Latched"},
		"latched patch":       {"cluster_name": c.Name, "action": "patch", "status": "Latched"},
		"failed replacement":  {"cluster_name": dead.Name, "action": "replace", "status": "Failed"},
	} {
		c.Eventually(ctx, "told by a metric: "+metric, func(context.Context) error {
			n, err := d.sum("holdfast_remediations", labels)
			if err == nil && n != 1 {
				err = fmt.Errorf("it is %v", n)
			}
			return err
		})
	}
	for range 2 {
		swept(ctx, t, g, c)
		swept(ctx, t, g, dead)
	}
	onlyGone(ctx, t, c, "general", general, 3, general[0])
	onlyGone(ctx, t, c, "storage", storage, 2)
	onlyGone(ctx, t, dead, "general", lost, 3, lost[0])
	repairs := 0
	for _, call := range g.AWS().Mutations() {
		if call.Action != "CreateTags" {
			t.Errorf("the daemon called %s", call.Action)
		}
		repairs++
	}
	if repairs != runawayAttempts {
		t.Errorf("the daemon set tags %d times, not %d", repairs, runawayAttempts)
	}
	for _, r := range records(ctx, t, g) {
		if n := len(r.Status.Attempts); n > runawayAttempts {
			t.Errorf("%s: %d attempts", r.Name, n)
		}
	}
}

// alwaysDrifting takes a tag off the first of a pool's machines, and off each
// one that comes later: what the template says cannot be had.
func alwaysDrifting(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, pool []*clusterv1.Machine) {
	done := map[string]bool{}
	for _, m := range pool[1:] {
		done[management.Instance(m)] = true
	}
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		list := &clusterv1.MachineList{}
		if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: c.Name + "-general"}); err != nil {
			continue
		}
		for i := range list.Items {
			m := &list.Items[i]
			id := management.Instance(m)
			if id == "" || done[id] {
				continue
			}
			if err := g.AWS().Tag(ctx, id, "Pool", ""); err == nil {
				done[id] = true
				sweepNow(context.WithoutCancel(ctx), t, g, c)
			}
		}
	}
}

// alwaysReverting takes a tag off a machine's instance whenever nobody is at
// work on it.
func alwaysReverting(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine) {
	for ; ctx.Err() == nil; time.Sleep(500 * time.Millisecond) {
		list := &driftv1.RemediationList{}
		if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
			continue
		}
		if slices.ContainsFunc(list.Items, func(r driftv1.Remediation) bool { return about(&r, m) && r.Status.Phase != driftv1.PhaseSucceeded }) {
			continue
		}
		if err := g.AWS().Tag(ctx, management.Instance(m), "CostCenter", ""); err == nil {
			time.Sleep(time.Second) // a read within a second of a record's end is not told from one before it
			sweepNow(context.WithoutCancel(ctx), t, g, c)
		}
	}
}

func about(r *driftv1.Remediation, m *clusterv1.Machine) bool {
	return r.Spec.Machine != nil && r.Spec.Machine.UID == m.UID
}

// records are all Remediations of the ground.
func records(ctx context.Context, t *testing.T, g *management.Ground) []driftv1.Remediation {
	t.Helper()
	list := &driftv1.RemediationList{}
	if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// recordOf waits until a Machine has a record that is as it should be.
func recordOf(ctx context.Context, g *management.Ground, c *management.Cluster, m *clusterv1.Machine, what string, missing func(*driftv1.Remediation) bool) {
	c.Eventually(ctx, "so that the record of "+m.Name+" is "+what, func(ctx context.Context) error {
		list := &driftv1.RemediationList{}
		if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
			return err
		}
		var have []string
		for i := range list.Items {
			r := &list.Items[i]
			if !about(r, m) {
				continue
			}
			if !missing(r) {
				return nil
			}
			have = append(have, fmt.Sprintf("%s is %s (%s): %s", r.Spec.Action, r.Status.Phase, r.Status.Reason, r.Status.Message))
		}
		return errors.New("there are " + strings.Join(have, "; "))
	})
}

func phase(ctx context.Context, g *management.Ground, c *management.Cluster, m *clusterv1.Machine, action driftv1.WriteAction, want driftv1.RemediationPhase) {
	recordOf(ctx, g, c, m, string(want), func(r *driftv1.Remediation) bool { return r.Spec.Action != action || r.Status.Phase != want })
}

func blocked(ctx context.Context, g *management.Ground, c *management.Cluster, m *clusterv1.Machine, gate string) {
	recordOf(ctx, g, c, m, "held back by "+gate, func(r *driftv1.Remediation) bool {
		return r.Status.Phase != driftv1.PhaseBlocked || !slices.ContainsFunc(r.Status.Blocked, func(b driftv1.GateBlock) bool { return b.By == gate })
	})
}

// swept asks for a sweep and waits for its call. Nobody else describes instances
// once all of them run.
func swept(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster) {
	t.Helper()
	reads := func() (n int) {
		for _, call := range g.AWS().Calls() {
			if call.Action == "DescribeInstances" {
				n++
			}
		}
		return n
	}
	before := reads()
	sweepNow(ctx, t, g, c)
	c.Eventually(ctx, "swept again", func(context.Context) error {
		if reads() == before {
			return errors.New("no instance has been read")
		}
		return nil
	})
}

// onlyGone says that of a pool's machines those that are named are not there any
// more, all the others are, and how many there are now.
func onlyGone(ctx context.Context, t *testing.T, c *management.Cluster, pool string, before []*clusterv1.Machine, size int, gone ...*clusterv1.Machine) {
	t.Helper()
	now := c.Workers(ctx, pool)
	for _, m := range before {
		there, should := slices.ContainsFunc(now, sameAs(m)), !slices.ContainsFunc(gone, sameAs(m))
		if there != should {
			t.Errorf("machine %s of %s: there=%v, should be %v", m.Name, pool, there, should)
		}
	}
	if len(now) != size {
		t.Errorf("pool %s has %d machines, not %d", pool, len(now), size)
	}
}
