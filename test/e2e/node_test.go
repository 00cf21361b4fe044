package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/management"
)

// nodeLabel is one that kubelet registers each worker's Node with: declared in
// the KubeadmConfig, and looked after by nobody.
const (
	nodeLabel      = "example.com/storage"
	nodeLabelValue = "ssd"
)

// forNodes answers a lost label as it is told to.
func forNodes(mode, action string) string {
	return strings.NewReplacer("MODE", mode, "ACTION", action).Replace(`apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: nodes}
spec:
  mode: MODE
  safety: {maxDriftRatio: 100%, minHealthy: 1}
  rules:
  - {id: lost-label, target: {kind: Node, statuses: [Drifted]}, paths: [/metadata/labels/*], action: ACTION, grace: {for: 0s, observations: 1}}
`)
}

// labelled declares the label in the workers' KubeadmConfigTemplates.
func labelled(m *awscluster.Manifest) {
	for _, t := range m.ConfigTemplates {
		args := &t.Spec.Template.Spec.JoinConfiguration.NodeRegistration.KubeletExtraArgs
		value := nodeLabel + "=" + nodeLabelValue
		*args = append(*args, bootstrapv1.Arg{Name: "node-labels", Value: &value})
	}
}

// labelOf is the label of a Machine's Node.
func labelOf(ctx context.Context, c *management.Cluster, m *clusterv1.Machine) string {
	return c.Nodes(ctx)[m.Status.NodeRef.Name].Labels[nodeLabel]
}

// found waits until the daemon's metrics count one finding of a Node.
func foundNode(ctx context.Context, c *management.Cluster, d *daemon, status string, want float64) {
	c.Eventually(ctx, fmt.Sprintf("so that %v Nodes are counted as %s", want, status), func(context.Context) error {
		n, err := d.sum("holdfast_findings", map[string]string{"kind": "Node", "status": status})
		if err == nil && n != want {
			err = fmt.Errorf("it is %v", n)
		}
		return err
	})
}

// A label that somebody takes off a worker's Node is seen and told, in observe
// mode without a write; and put back where the policy says patch.
func TestRemovedNodeLabelIsPutBack(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2, Edit: labelled})
	c.WaitReady(ctx)
	d := start(t, g, forNodes("observe", "patch"))
	workers := c.Workers(ctx, "general")
	m := workers[0]
	for _, w := range workers {
		drifts(ctx, c, w, metav1.ConditionFalse)
		if got := labelOf(ctx, c, w); got != nodeLabelValue {
			t.Fatalf("the Node of %s registered with %q", w.Name, got)
		}
	}

	c.LabelNode(ctx, m.Status.NodeRef.Name, nodeLabel, "")
	sweepNow(ctx, t, g, c)
	drifts(ctx, c, m, metav1.ConditionTrue)
	drifts(ctx, c, workers[1], metav1.ConditionFalse)
	foundNode(ctx, c, d, "Drifted", 1)
	if told := events(ctx, t, g, m); !slices.Contains(told, "DriftDetected") {
		t.Errorf("the events are %v", told)
	}
	for range 2 {
		sweepNow(ctx, t, g, c)
		time.Sleep(time.Second) // whoever acts would do so by then
	}
	if got := labelOf(ctx, c, m); got != "" {
		t.Errorf("in observe mode the label is back: %q", got)
	}
	if list := records(ctx, t, g); len(list) > 0 {
		t.Errorf("in observe mode there are %d records", len(list))
	}

	d.follow(t, forNodes("enforce", "patch"))
	sweepNow(ctx, t, g, c)
	succeeded(ctx, t, g, c, m, "patch")
	drifts(ctx, c, m, metav1.ConditionFalse)
	foundNode(ctx, c, d, "Drifted", 0)
	if got := labelOf(ctx, c, m); got != nodeLabelValue {
		t.Errorf("the label is %q", got)
	}
	if told := events(ctx, t, g, m); !slices.Contains(told, "DriftResolved") {
		t.Errorf("the events are %v", told)
	}
	onlyGone(ctx, t, c, "general", workers, 2)
	if calls := g.AWS().Mutations(); len(calls) > 0 {
		t.Errorf("the daemon called %s: a Node is no cloud's", calls[0].Action)
	}
}

// The same label, where the policy says replace, ends in that machine replaced,
// whose successor has it.
func TestMachineWhoseNodeLostItsLabelIsReplaced(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2, Edit: labelled})
	c.WaitReady(ctx)
	start(t, g, forNodes("enforce", "replace"))
	before := c.Workers(ctx, "general")
	for _, w := range before {
		drifts(ctx, c, w, metav1.ConditionFalse)
	}
	least := watchPool(ctx, t, c, "general")
	c.LabelNode(ctx, before[0].Status.NodeRef.Name, nodeLabel, "")
	sweepNow(ctx, t, g, c)
	c.WaitReplaced(ctx, before[0])
	succeeded(ctx, t, g, c, before[0], "replace")
	if n := least(); n < 1 {
		t.Errorf("the pool of 2 was down to %d", n)
	}
	onlyGone(ctx, t, c, "general", before, 2, before[0])
	for _, m := range c.Workers(ctx, "general") {
		if got := labelOf(ctx, c, m); got != nodeLabelValue {
			t.Errorf("the Node of %s has the label %q", m.Name, got)
		}
	}
	if calls := g.AWS().Mutations(); len(calls) > 0 {
		t.Errorf("the daemon called %s: machines are replaced through Cluster API", calls[0].Action)
	}
}

// A Node that somebody deletes while its machine runs is missing, which Cluster
// API says of the Machine's health and does nothing about.
func TestDeletedNodeIsMissing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2})
	c.WaitReady(ctx)
	d := start(t, g, forNodes("observe", "patch"))
	workers := c.Workers(ctx, "general")
	for _, w := range workers {
		drifts(ctx, c, w, metav1.ConditionFalse)
	}
	m := workers[0]
	c.DeleteNode(ctx, m.Status.NodeRef.Name)
	sweepNow(ctx, t, g, c)
	drifts(ctx, c, m, metav1.ConditionTrue)
	foundNode(ctx, c, d, "Missing", 1)
	c.Eventually(ctx, "so that the condition names the Node", func(ctx context.Context) error {
		for _, now := range c.Workers(ctx, "general") {
			if have := meta.FindStatusCondition(now.Status.Conditions, driftv1.ConditionDriftDetected); now.UID == m.UID && have != nil {
				if have.Reason == "Missing" && strings.Contains(have.Message, "Node") {
					return nil
				}
				return fmt.Errorf("it is %s: %s", have.Reason, have.Message)
			}
		}
		return errors.New("there is none")
	})
	drifts(ctx, c, workers[1], metav1.ConditionFalse)
	if _, there := c.Nodes(ctx)[m.Status.NodeRef.Name]; there {
		t.Error("the Node is back")
	}
	if list := records(ctx, t, g); len(list) > 0 {
		t.Errorf("in observe mode there are %d records", len(list))
	}
	onlyGone(ctx, t, c, "general", workers, 2)
	if calls := g.AWS().Mutations(); len(calls) > 0 {
		t.Errorf("the daemon called %s", calls[0].Action)
	}
}
