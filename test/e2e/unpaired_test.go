package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/management"
)

// everything answers whatever is found of anything.
const everything = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: everything}
spec:
  mode: MODE
  safety: {maxDriftRatio: 100%, maxUnhealthyZone: 100%, minHealthy: 0, controlPlane: enforce}
  rules:
  - {id: everything, target: {}, action: replace, grace: {for: 0s, observations: 1}}
`

// A Machine whose infrastructure object somebody took away, finalizer and all,
// and an infrastructure object that no Machine refers to: what they have in the
// cloud cannot be told any more, so that it is said of them and nothing is done,
// whatever the policy would have done.
func TestUnpairedObjectsAreTold(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2})
	c.WaitReady(ctx)
	workers := c.Workers(ctx, "general")
	d := start(t, g, strings.ReplaceAll(everything, "MODE", "observe"))
	for _, m := range workers {
		drifts(ctx, c, m, metav1.ConditionFalse)
	}
	m := workers[0]
	infra := &awsv1.AWSMachine{}
	c.Get(ctx, m.Spec.InfrastructureRef.Name, infra)
	spare := &awsv1.AWSMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: g.Namespace, Name: "spare", Labels: map[string]string{clusterv1.ClusterNameLabel: c.Name},
	}, Spec: *infra.Spec.DeepCopy()}
	spare.Spec.ProviderID, spare.Spec.InstanceID = nil, nil
	if err := g.Client.Create(ctx, spare); err != nil {
		t.Fatal(err)
	}
	if err := g.Client.Patch(ctx, infra, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := g.Client.Delete(ctx, infra); err != nil {
		t.Fatal(err)
	}
	w := on(t, g, c, d, everything, nil, nil)
	for _, mode := range []string{"observe", "dryRun", "enforce"} {
		if mode != "observe" { // which it began with
			w.mode(ctx, mode)
		}
		w.sweep(ctx)
		w.eventually(ctx, "so that the lone Machine and the spare AWSMachine are told in mode "+mode, func(ctx context.Context) error {
			return errors.Join(notChecked(ctx, c, m, "its infrastructure object AWSMachine "+infra.Name), notCounted(d, 2))
		})
		if list := records(ctx, t, g); len(list) > 0 {
			t.Errorf("in mode %s there are %d records", mode, len(list))
		}
	}
	drifts(ctx, c, workers[1], metav1.ConditionFalse)
	onlyGone(ctx, t, c, "general", workers, 2)
	if calls := g.AWS().Mutations(); len(calls) > 0 {
		t.Errorf("the daemon called %s", calls[0].Action)
	}
	if told := events(ctx, t, g, m); !slices.Contains(told, "DriftUnknown") {
		t.Errorf("the events are %v", told)
	}
}

// notChecked says what is missing for a Machine's condition to say why it was not
// compared.
func notChecked(ctx context.Context, c *management.Cluster, m *clusterv1.Machine, why string) error {
	for _, now := range c.Machines(ctx) {
		have := meta.FindStatusCondition(now.Status.Conditions, driftv1.ConditionDriftDetected)
		switch {
		case now.UID != m.UID:
		case have == nil || have.Status != metav1.ConditionUnknown || have.Reason != "NotChecked" || !strings.Contains(have.Message, why):
			return fmt.Errorf("the condition of %s is %+v", m.Name, have)
		default:
			return nil
		}
	}
	return fmt.Errorf("machine %s is gone", m.Name)
}

func notCounted(d *daemon, want float64) error {
	n, err := d.sum("holdfast_findings", map[string]string{"kind": "AWSMachine", "status": "NotChecked"})
	more, err2 := d.sum("holdfast_findings", map[string]string{"kind": "Machine", "status": "NotChecked"})
	if err = errors.Join(err, err2); err == nil && n+more != want {
		err = fmt.Errorf("%v are counted as not checked, not %v", n+more, want)
	}
	return err
}
