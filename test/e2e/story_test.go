package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/management"
)

// sweepNow asks for a sweep of a cluster, as a person does with kubectl.
func sweepNow(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster) {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	c.Get(ctx, c.Name, cluster)
	base := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, driftv1.AnnotationSweepNow, time.Now().Format(time.RFC3339Nano))
	if err := g.Client.Patch(ctx, cluster, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

// drifts waits until a Machine's condition says whether it drifts.
func drifts(ctx context.Context, c *management.Cluster, m *clusterv1.Machine, want metav1.ConditionStatus) {
	c.Eventually(ctx, fmt.Sprintf("so that %s has DriftDetected=%s", m.Name, want), func(ctx context.Context) error {
		for _, now := range c.Machines(ctx) {
			if now.UID != m.UID {
				continue
			}
			have := meta.FindStatusCondition(now.Status.Conditions, driftv1.ConditionDriftDetected)
			if have == nil || have.Status != want {
				return fmt.Errorf("it is %+v", have)
			}
			return nil
		}
		return errors.New("the machine is gone")
	})
}

// events are the reasons of the events about a Machine.
func events(ctx context.Context, t *testing.T, g *management.Ground, m *clusterv1.Machine) []string {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.Regarding.UID == m.UID {
			out = append(out, e.Reason)
		}
	}
	return out
}

// succeeded waits for the one record about a Machine to have succeeded.
func succeeded(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine, action driftv1.WriteAction) {
	t.Helper()
	c.Eventually(ctx, fmt.Sprintf("so that %s of %s has succeeded", action, m.Name), func(ctx context.Context) error {
		list := &driftv1.RemediationList{}
		if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
			return err
		}
		var of []driftv1.Remediation
		for _, r := range list.Items {
			if r.Spec.Machine != nil && r.Spec.Machine.UID == m.UID {
				of = append(of, r)
			}
		}
		if len(of) != 1 {
			return fmt.Errorf("there are %d records", len(of))
		}
		r := of[0]
		if r.Spec.Action != action || r.Status.Phase != driftv1.PhaseSucceeded {
			return fmt.Errorf("%s is %s (%s): %s", r.Spec.Action, r.Status.Phase, r.Status.Reason, r.Status.Message)
		}
		return nil
	})
}

// watchPool counts the ready Nodes of a pool's machines until the returned
// function gives the least that there were.
func watchPool(ctx context.Context, t *testing.T, c *management.Cluster, pool string) func() int {
	t.Helper()
	stop := make(chan struct{}) // a look that has begun is not broken off
	least, done := 1<<30, sync.WaitGroup{}
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			n := 0
			nodes := c.Nodes(ctx)
			for _, m := range c.Workers(ctx, pool) {
				node := nodes[m.Status.NodeRef.Name]
				if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "Ready" && c.Status == "True" }) {
					n++
				}
			}
			least = min(least, n)
			time.Sleep(100 * time.Millisecond)
		}
	})
	return func() int {
		close(stop)
		done.Wait()
		return least
	}
}

func sameAs(m *clusterv1.Machine) func(*clusterv1.Machine) bool {
	return func(other *clusterv1.Machine) bool { return other.UID == m.UID }
}
