package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/sqssim"
)

// TestControllerReadsEvents: the program reads the queue that it is told of. No
// schedule falls into the test and nobody asks, so that nothing but an event can
// tell of the change, and of who made it.
func TestControllerReadsEvents(t *testing.T) {
	queue := sqssim.New(sqssim.Options{})
	t.Cleanup(queue.Close)
	queue.Create("holdfast-events", time.Hour)
	w := newAWSWorldOf(t, awscluster.DefaultExample, func(o *ec2sim.Options) {
		o.OnEvent = func(e ec2sim.Event) { queue.Send("holdfast-events", e.Body) }
	})
	t.Setenv("AWS_ENDPOINT_URL_SQS", queue.URL())
	m := newManagement(t, w.env.Objects()...)
	seldom := write(t, "policy.yaml", `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: seldom}
spec: {schedule: {cron: "0 0 1 1 *"}}
`)
	startDaemon(t, m.kubeconfig, "--policy", seldom, "--aws-event-queue", "holdfast-events")
	worker := client.ObjectKeyFromObject(w.env.Machines[len(w.env.Machines)-1])
	eventually(t, "in sync", func() error { return m.condition(t.Context(), worker, metav1.ConditionFalse) })
	eventually(t, "the queue is read", func() error {
		if n := queue.Left("holdfast-events"); n > 0 {
			return fmt.Errorf("%d messages are left", n)
		}
		return nil
	})
	machine := w.tamperMachine(t, "tag changed")
	eventually(t, "drift on the Machine", func() error { return m.condition(t.Context(), machine, metav1.ConditionTrue) })
	eventually(t, "an event that says who", func() error {
		list := &eventsv1.EventList{}
		if err := m.client.List(t.Context(), list, client.InNamespace(machine.Namespace)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "DriftDetected" && e.Regarding.Name == machine.Name && strings.Contains(e.Note, "; changed by arn:aws:iam::123456789012:user/") {
				return nil
			}
		}
		return fmt.Errorf("none of %d events", len(list.Items))
	})
}
