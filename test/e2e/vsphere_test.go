package e2e

import (
	"testing"

	"github.com/vmware/govmomi/vim25/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/test/management"
)

const atOnceVSphere = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: at-once}
spec:
  mode: enforce
  safety: {maxDriftRatio: 100%, minHealthy: 50%}
  rules:
  - {id: vsphere-vm-power, action: patch, grace: {for: 0s, observations: 1}}
  - {id: vsphere-vm-cpu, action: replace, grace: {for: 0s, observations: 1}}
  - {id: vsphere-vm-missing, action: replace, grace: {for: 0s, observations: 1}}
`

// Three ways to lose a virtual machine behind a MachineDeployment: off, gone,
// and too small.
func TestVirtualMachinesComeBack(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.VSphereCluster(ctx, management.VSphere{Workers: 3})
	c.WaitReady(ctx)
	start(t, g, atOnceVSphere)
	workers := c.Workers(ctx, "general")
	off, gone, small := workers[0], workers[1], workers[2]
	drifts(ctx, c, off, metav1.ConditionFalse)
	if calls := g.VSphere().Log.Mutating(); len(calls) > 0 {
		t.Fatalf("%d mutating calls before there was any drift, the first %s", len(calls), calls[0])
	}
	least := watchPool(ctx, t, c, "general")

	t.Log("one is powered off")
	c.Stop(ctx, off)
	sweepNow(ctx, t, g, c)
	drifts(ctx, c, off, metav1.ConditionTrue)
	succeeded(ctx, t, g, c, off, "patch")
	c.WaitReady(ctx)

	t.Log("one is destroyed")
	c.Terminate(ctx, gone)
	sweepNow(ctx, t, g, c)
	c.WaitReplaced(ctx, gone)
	succeeded(ctx, t, g, c, gone, "replace")

	t.Log("one has lost half of its CPUs")
	vm, err := g.VSphere().VirtualMachine(ctx, management.Instance(small))
	if err != nil || vm == nil {
		t.Fatalf("virtual machine of %s: %v, %v", small.Name, vm, err)
	}
	task, err := vm.Reconfigure(ctx, types.VirtualMachineConfigSpec{NumCPUs: 4})
	if err == nil {
		err = task.WaitEx(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	sweepNow(ctx, t, g, c)
	c.WaitReplaced(ctx, small)
	succeeded(ctx, t, g, c, small, "replace")

	if n := least(); n < 2 {
		t.Errorf("the pool of 3 was down to %d, and lost one at a time", n)
	}
}
