package vspherecluster

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/view"
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

// Named finds a virtual machine by its name, with its BIOS UUID; nil if there is none.
func (v *VCenter) Named(ctx context.Context, name string) (*types.ManagedObjectReference, string, error) {
	all, err := view.NewManager(v.Client.Client).CreateContainerView(ctx, v.Client.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	if err != nil {
		return nil, "", fmt.Errorf("list virtual machines: %w", err)
	}
	defer func() { _ = all.Destroy(context.WithoutCancel(ctx)) }() // it ends with the session at the latest
	var vms []mo.VirtualMachine
	if err := all.Retrieve(ctx, []string{"VirtualMachine"}, []string{"name", "config.uuid"}, &vms); err != nil {
		return nil, "", fmt.Errorf("list virtual machines: %w", err)
	}
	for i := range vms {
		if vms[i].Name == name && vms[i].Config != nil {
			return &vms[i].Self, vms[i].Config.Uuid, nil
		}
	}
	return nil, "", nil
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
