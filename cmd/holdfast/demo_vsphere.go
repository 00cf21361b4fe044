//go:build !nodemo

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	vsphereexamples "github.com/holdfast-io/holdfast/examples/vsphere"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// demoVSphere is the example cluster on the vCenter simulator.
type demoVSphere struct {
	vcenter *vspherecluster.VCenter
	env     *vspherecluster.Environment
}

func startDemoVSphere(ctx context.Context, created time.Time) (cloud, error) {
	manifest, err := vspherecluster.Load(vsphereexamples.Files, vspherecluster.DefaultExample)
	if err != nil {
		return nil, err
	}
	vcenter, err := vspherecluster.StartVCenter(ctx)
	if err != nil {
		return nil, err
	}
	d := &demoVSphere{vcenter: vcenter}
	d.env, err = vspherecluster.Build(ctx, vcenter, vspherecluster.Options{Manifest: manifest, Created: created})
	return d, err
}

// mutations counts the report's alone: the story's people are the simulator's
// administrator, whom its log leaves out.
func (d *demoVSphere) mutations() int         { return len(d.vcenter.Log.Mutating()) }
func (d *demoVSphere) write(dir string) error { return d.env.Write(dir + "/prod-fra") }
func (d *demoVSphere) close()                 { d.vcenter.Close() }

// machine finds the VM of the nth machine of a MachineDeployment whose name
// ends so; "" is the control plane.
func (d *demoVSphere) machine(ctx context.Context, suffix string, n int) (*object.VirtualMachine, error) {
	for i, m := range d.env.Machines {
		deployment := m.Labels[clusterv1.MachineDeploymentNameLabel]
		if deployment != "" && suffix == "" || !strings.HasSuffix(deployment, suffix) {
			continue
		}
		if n > 0 {
			n--
			continue
		}
		ref, err := object.NewSearchIndex(d.vcenter.Client.Client).FindByUuid(ctx, nil, d.env.VSphereVMs[i].Spec.BiosUUID, true, nil)
		if err != nil {
			return nil, err
		}
		if ref == nil {
			return nil, fmt.Errorf("virtual machine of %s not found", m.Name)
		}
		return object.NewVirtualMachine(d.vcenter.Client.Client, ref.Reference()), nil
	}
	return nil, fmt.Errorf("no machine in %s", suffix)
}

// task is what govmomi's changing methods return.
type task interface{ Wait(context.Context) error }

// on makes a mishap of something that is done to one VM.
func (d *demoVSphere) on(suffix string, n int, who, what string, do func(context.Context, *object.VirtualMachine) (task, error)) mishap {
	return mishap{who: who, what: what, do: func(ctx context.Context) error {
		vm, err := d.machine(ctx, suffix, n)
		if err != nil {
			return err
		}
		t, err := do(ctx, vm)
		if err != nil || t == nil {
			return err
		}
		return t.Wait(ctx)
	}}
}

func (d *demoVSphere) mishaps() []mishap {
	return []mishap{
		d.on("-general", 0, "A vSphere admin", "halves a worker's memory, to make room", func(ctx context.Context, vm *object.VirtualMachine) (task, error) {
			return reconfigure(ctx, vm, types.VirtualMachineConfigSpec{MemoryMB: 8192})
		}),
		d.on("-general", 1, "The same admin", "powers a worker off, since it does not answer ping", func(ctx context.Context, vm *object.VirtualMachine) (task, error) {
			return vm.PowerOff(ctx)
		}),
		d.on("-general", 2, "A network admin", "moves a worker's network card to another port group", d.rewire),
		d.on("", 0, "A backup product", "leaves a snapshot on a control-plane machine", func(ctx context.Context, vm *object.VirtualMachine) (task, error) {
			return vm.CreateSnapshot(ctx, "veeam-temporary", "left behind", false, false)
		}),
		d.on("-batch", 0, "Somebody", "deletes a VM from the disk", func(ctx context.Context, vm *object.VirtualMachine) (task, error) {
			off, err := vm.PowerOff(ctx)
			if err != nil {
				return nil, err
			}
			if err := off.Wait(ctx); err != nil {
				return nil, err
			}
			return vm.Destroy(ctx)
		}),
		d.on("", 1, "A tag clean-up", "detaches a tag that firewall rules go by", func(ctx context.Context, vm *object.VirtualMachine) (task, error) {
			attached, err := d.vcenter.Tags.ListAttachedTags(ctx, vm.Reference())
			if err != nil || len(attached) == 0 {
				return nil, err
			}
			return nil, d.vcenter.Tags.DetachTag(ctx, attached[0], vm.Reference())
		}),
	}
}

func reconfigure(ctx context.Context, vm *object.VirtualMachine, spec types.VirtualMachineConfigSpec) (task, error) {
	return vm.Reconfigure(ctx, spec)
}

func (d *demoVSphere) rewire(ctx context.Context, vm *object.VirtualMachine) (task, error) {
	network, err := d.vcenter.Finder.Network(ctx, "dmz")
	if err != nil {
		return nil, err
	}
	backing, err := network.EthernetCardBackingInfo(ctx)
	if err != nil {
		return nil, err
	}
	devices, err := vm.Device(ctx)
	if err != nil {
		return nil, err
	}
	card := devices.SelectByType((*types.VirtualEthernetCard)(nil))[0]
	card.GetVirtualDevice().Backing = backing
	return reconfigure(ctx, vm, types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
		&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: card},
	}})
}
