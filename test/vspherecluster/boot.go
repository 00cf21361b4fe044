package vspherecluster

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Boot plays the operating system of a virtual machine: if it is on, its tools run
// and report an address. It is for machines that Holdfast has made; those of
// [Build] report theirs already.
func (v *VCenter) Boot(ctx context.Context, vm types.ManagedObjectReference, address string) error {
	machine := object.NewVirtualMachine(v.Client.Client, vm)
	var o mo.VirtualMachine
	if err := machine.Properties(ctx, vm, []string{"runtime.powerState", "guest"}, &o); err != nil {
		return fmt.Errorf("boot %s: %w", vm.Value, err)
	}
	if o.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn || o.Guest != nil && o.Guest.IpAddress == address {
		return nil
	}
	return setGuest(ctx, machine, address, types.VirtualMachineToolsRunningStatusGuestToolsRunning)
}

// WithoutDRS switches off what chooses hosts in a compute cluster, which the
// simulator does not have.
func (v *VCenter) WithoutDRS(ctx context.Context, cluster string) error {
	c, err := v.Finder.ClusterComputeResource(ctx, cluster)
	if err != nil {
		return err
	}
	no := false
	task, err := c.Reconfigure(ctx, &types.ClusterConfigSpecEx{DrsConfig: &types.ClusterDrsConfigInfo{Enabled: &no}}, true)
	return wait(ctx, task, err, "switch off DRS of "+cluster)
}
