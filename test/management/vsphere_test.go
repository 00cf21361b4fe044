package management_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-io/holdfast/test/management"
)

// The same ground on vSphere.
func TestVSphere(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.VSphereCluster(ctx, management.VSphere{ControlPlanes: 1, Workers: 2, Batch: 1})
	c.WaitReady(ctx)

	workers := c.Workers(ctx, "general")
	deleted, destroyed := workers[0], workers[1]
	before := c.Instances(ctx)

	t.Log("a Machine is deleted by the API")
	if err := g.Client.Delete(ctx, deleted); err != nil {
		t.Fatal(err)
	}
	c.WaitReplaced(ctx, deleted)
	made := 0
	for name := range c.Instances(ctx) {
		if before[name] == "" {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d machines were made for one that was deleted", made)
	}
	if vm, err := g.VSphere().VirtualMachine(ctx, management.Instance(deleted)); vm != nil || err != nil {
		t.Errorf("the deleted machine's virtual machine is %v, %v: want it gone", vm, err)
	}

	t.Log("a virtual machine is powered off, and on again")
	c.Stop(ctx, destroyed)
	c.WaitNode(ctx, destroyed, corev1.ConditionUnknown)
	c.Restart(ctx, destroyed)
	c.WaitNode(ctx, destroyed, corev1.ConditionTrue)

	t.Log("one is destroyed behind everybody's back")
	c.Terminate(ctx, destroyed)
	c.WaitNode(ctx, destroyed, corev1.ConditionUnknown)

	if calls := g.VSphere().Log.Calls(); len(calls) > 0 {
		t.Errorf("the ground's own calls are in the log of the program under test: %v", calls[0].Method)
	}
}
