package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/management"
)

// place is a cluster in a management cluster, as whoever asks its API server,
// past the front, sees it.
type place struct {
	client             client.Client
	namespace, cluster string
}

func placeOf(g *management.Ground, c *management.Cluster) place {
	return place{client: g.Client, namespace: g.Namespace, cluster: c.Name}
}

// sweepNow asks for a sweep.
func (p place) sweepNow(ctx context.Context, t *testing.T) {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.cluster}, cluster); err != nil {
		t.Fatal(err)
	}
	base := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, v1alpha1.AnnotationSweepNow, time.Now().Format(time.RFC3339Nano))
	if err := p.client.Patch(ctx, cluster, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

func (p place) records(ctx context.Context, t *testing.T) []v1alpha1.Remediation {
	t.Helper()
	list := &v1alpha1.RemediationList{}
	if err := p.client.List(ctx, list, client.InNamespace(p.namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (p place) machines(ctx context.Context, t *testing.T) []clusterv1.Machine {
	t.Helper()
	list := &clusterv1.MachineList{}
	if err := p.client.List(ctx, list, client.InNamespace(p.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: p.cluster}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// forget takes all records away: the next drift is a first one.
func (p place) forget(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := p.client.DeleteAllOf(ctx, &v1alpha1.Remediation{}, client.InNamespace(p.namespace)); err != nil {
		t.Fatal(err)
	}
}

// repaired says why there is not exactly one record, that has succeeded, of a
// Machine, and no drift any more.
func (p place) repaired(ctx context.Context, t *testing.T, m *clusterv1.Machine) error {
	t.Helper()
	rs := p.records(ctx, t)
	switch {
	case len(rs) != 1:
		return fmt.Errorf("there are %d records", len(rs))
	case rs[0].Spec.Machine == nil || rs[0].Spec.Machine.UID != m.UID:
		return fmt.Errorf("the record is about %+v", rs[0].Spec.Machine)
	case rs[0].Status.Phase != v1alpha1.PhaseSucceeded:
		return fmt.Errorf("the record is %s (%s): %s", rs[0].Status.Phase, rs[0].Status.Reason, rs[0].Status.Message)
	}
	return p.inSync(ctx, t)
}

// inSync says which machine drifts, or is not known not to.
func (p place) inSync(ctx context.Context, t *testing.T) error {
	t.Helper()
	for _, now := range p.machines(ctx, t) {
		if have := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionDriftDetected); have == nil || have.Status != metav1.ConditionFalse {
			return fmt.Errorf("%s has %+v", now.Name, have)
		}
	}
	return nil
}

// missing finds whoever says that something is missing.
func (p place) missing(ctx context.Context, t *testing.T) []string {
	t.Helper()
	var out []string
	says := func(who, text string) {
		if strings.Contains(text, "Missing") || strings.Contains(text, "is missing") {
			out = append(out, who+" says "+text)
		}
	}
	for _, m := range p.machines(ctx, t) {
		for _, k := range m.Status.Conditions {
			if k.Type == v1alpha1.ConditionDriftDetected || k.Type == v1alpha1.ConditionInfrastructureDrifted {
				says(m.Name, k.Reason+": "+k.Message)
			}
		}
	}
	for _, r := range p.records(ctx, t) {
		if r.Spec.Action != "patch" {
			out = append(out, fmt.Sprintf("record %s wants to %s", r.Name, r.Spec.Action))
		}
	}
	list := &eventsv1.EventList{}
	if err := p.client.List(ctx, list, client.InNamespace(p.namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.ReportingController == v1alpha1.FieldManager {
			says("an event", e.Reason+": "+e.Note)
		}
	}
	return out
}

// notMissing sees for a time that nothing is called missing.
func (p place) notMissing(ctx context.Context, t *testing.T, d time.Duration) {
	t.Helper()
	for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		if said := p.missing(ctx, t); len(said) > 0 {
			t.Fatalf("during the fault: %v", said)
		}
	}
}

// eventually waits until a condition holds, which says what is missing yet.
func (p place) eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := condition()
		if err == nil {
			return
		}
		if time.Since(begun) > management.Patience {
			t.Fatalf("not %s after %s: %v", what, management.Patience, err)
		}
	}
}

// repaired is that of a ground's cluster.
func repaired(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine) error {
	t.Helper()
	return placeOf(g, c).repaired(ctx, t, m)
}
