package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/test/management"
)

// atOnce acts on what is seen, as soon as it is seen.
const atOnce = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: at-once}
spec:
  mode: enforce
  safety: {maxDriftRatio: 100%, minHealthy: 50%}
  rules:
  - {id: aws-instance-tags, action: patch, grace: {for: 0s, observations: 1}}
  - {id: aws-instance-missing, action: replace, grace: {for: 0s, observations: 1}}
`

// A tag that somebody takes off an instance is seen, told, and put back.
func TestRemovedTagIsPutBack(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 1})
	c.WaitReady(ctx)
	start(t, g, atOnce)
	m := c.Workers(ctx, "general")[0]
	drifts(ctx, c, m, metav1.ConditionFalse)
	if calls := g.AWS().Mutations(); len(calls) > 0 {
		t.Fatalf("%d mutating calls before there was any drift, the first %s", len(calls), calls[0].Action)
	}

	if err := g.AWS().Tag(ctx, management.Instance(m), "Pool", ""); err != nil {
		t.Fatal(err)
	}
	sweepNow(ctx, t, g, c)
	drifts(ctx, c, m, metav1.ConditionTrue)
	succeeded(ctx, t, g, c, m, "patch")
	drifts(ctx, c, m, metav1.ConditionFalse)

	i, err := g.AWS().Instance(ctx, management.Instance(m))
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]string{}
	for _, tag := range i.Tags {
		tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	if tags["Pool"] != "general" {
		t.Errorf("the instance's tags are %v", tags)
	}
	for _, call := range g.AWS().Mutations() {
		if call.Action != "CreateTags" {
			t.Errorf("the daemon called %s", call.Action)
		}
	}
	told := events(ctx, t, g, m)
	for _, reason := range []string{"DriftDetected", "DriftResolved"} {
		if !slices.Contains(told, reason) {
			t.Errorf("no event %s among %v", reason, told)
		}
	}
}

// An instance that somebody terminates is replaced by its MachineDeployment,
// and nothing else is.
func TestTerminatedInstanceIsReplaced(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 3})
	c.WaitReady(ctx)
	start(t, g, atOnce)
	before := c.Workers(ctx, "general")
	m := before[0]
	drifts(ctx, c, m, metav1.ConditionFalse)

	least := watchPool(ctx, t, c, "general")
	c.Terminate(ctx, m)
	sweepNow(ctx, t, g, c)
	drifts(ctx, c, m, metav1.ConditionTrue)
	c.WaitReplaced(ctx, m)
	succeeded(ctx, t, g, c, m, "replace")
	if n := least(); n < 2 {
		t.Errorf("the pool of 3 was down to %d, and lost only one", n)
	}
	after := c.Workers(ctx, "general")
	for _, old := range before[1:] {
		if !slices.ContainsFunc(after, sameAs(old)) {
			t.Errorf("machine %s was replaced as well", old.Name)
		}
	}
	if calls := g.AWS().Mutations(); len(calls) > 0 {
		t.Errorf("the daemon called %s: machines are replaced through Cluster API", calls[0].Action)
	}
}

// Whoever only wants to know is told the same and nothing is written to the
// cloud or recorded.
func TestNothingIsDoneUnasked(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2})
	c.WaitReady(ctx)
	workers := c.Workers(ctx, "general")
	if err := g.AWS().Tag(ctx, management.Instance(workers[0]), "Pool", ""); err != nil {
		t.Fatal(err)
	}
	c.Terminate(ctx, workers[1])
	// Nobody else describes instances once all of them run.
	const describe = "ec2:DescribeInstances"
	for _, mode := range []string{"observe", "dryRun"} {
		t.Run(mode, func(t *testing.T) {
			d := start(t, g, strings.Replace(atOnce, "mode: enforce", "mode: "+mode, 1))
			for _, m := range workers {
				drifts(ctx, c, m, metav1.ConditionTrue)
			}
			// A second sweep is one that might act on what the first has seen, and
			// by the time that a third reads the second has been decided on.
			for range 3 {
				reads := g.AWS().Server.CallCounts()[describe]
				sweepNow(ctx, t, g, c)
				c.Eventually(ctx, "swept again", func(context.Context) error {
					if g.AWS().Server.CallCounts()[describe] == reads {
						return errors.New("no instance has been read")
					}
					return nil
				})
			}
			d.stop(t)
			if calls := g.AWS().Mutations(); len(calls) > 0 {
				t.Errorf("the daemon called %s", calls[0].Action)
			}
			for _, m := range workers {
				if !slices.ContainsFunc(c.Workers(ctx, "general"), sameAs(m)) {
					t.Errorf("machine %s was replaced", m.Name)
				}
			}
		})
	}
}
