package vspherecluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/capi"
)

// Player plays CAPV for the objects of one cluster that live in an API server,
// one object at a time, where [Build] makes all of a cluster's objects itself.
// Its methods may be called by several goroutines; virtual machines are made
// one after the other.
type Player struct {
	mu sync.Mutex
	b  *builder
}

// guestAddresses are how many addresses the player has to give.
const guestAddresses = 150

// NewPlayer makes the player of one cluster's objects. It makes no call.
func NewPlayer(v *VCenter, cluster *clusterv1.Cluster) *Player {
	return &Player{b: &builder{
		VCenter: v, Maker: capi.NewMaker(cluster, time.Now()), env: &Environment{VCenter: v, Cluster: cluster},
	}}
}

// VirtualMachine gives the VSphereVM that CAPV makes for a VSphereMachine, with
// name, labels and spec. Zones and failure domains are all that there are.
func (p *Player) VirtualMachine(c *infrav1.VSphereCluster, m *clusterv1.Machine, vsm *infrav1.VSphereMachine, zones []*infrav1.VSphereDeploymentZone, domains []*infrav1.VSphereFailureDomain) *infrav1.VSphereVM {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.env.VSphereCluster, p.b.env.Zones, p.b.env.FailureDomains = c, zones, domains
	vm := p.b.virtualMachine(m, vsm)
	vm.Name, vm.Namespace, vm.Finalizers = vsm.Name, vsm.Namespace, nil
	return vm
}

// Clone makes a VSphereVM's virtual machine and writes what CAPV learns from it
// into the VSphereVM and its VSphereMachine. It is not idempotent.
func (p *Player) Clone(ctx context.Context, m *clusterv1.Machine, vsm *infrav1.VSphereMachine, vm *infrav1.VSphereVM) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.env.Machines = []*clusterv1.Machine{m.DeepCopy()}
	p.b.env.VSphereMachines = []*infrav1.VSphereMachine{vsm}
	p.b.env.VSphereVMs = []*infrav1.VSphereVM{vm}
	p.b.firstGuest = (p.b.firstGuest + 1) % guestAddresses
	if err := p.b.clone(ctx, 0); err != nil {
		return fmt.Errorf("clone virtual machine %s: %w", vm.Name, err)
	}
	return nil
}

// Destroy ends the virtual machine of a BIOS UUID as CAPV does for a deleted
// VSphereVM. One that is gone is no error.
func (v *VCenter) Destroy(ctx context.Context, uuid string) error {
	vm, err := v.byUUID(ctx, uuid)
	if err != nil || vm == nil {
		return err
	}
	state, err := vm.PowerState(ctx)
	if err != nil {
		return fmt.Errorf("power state of %s: %w", uuid, err)
	}
	if state != types.VirtualMachinePowerStatePoweredOff {
		task, err := vm.PowerOff(ctx)
		if err := wait(ctx, task, err, "power off "+uuid); err != nil {
			return err
		}
	}
	task, err := vm.Destroy(ctx)
	return wait(ctx, task, err, "destroy "+uuid)
}

// Power switches the virtual machine of a BIOS UUID on or off.
func (v *VCenter) Power(ctx context.Context, uuid string, on bool) error {
	vm, err := v.byUUID(ctx, uuid)
	if err != nil {
		return err
	}
	if vm == nil {
		return fmt.Errorf("power of %s: no such virtual machine", uuid)
	}
	if on {
		task, err := vm.PowerOn(ctx)
		return wait(ctx, task, err, "power on "+uuid)
	}
	task, err := vm.PowerOff(ctx)
	return wait(ctx, task, err, "power off "+uuid)
}

// VirtualMachine gives the virtual machine of a BIOS UUID, nil if there is
// none, for the administrator to tamper with.
func (v *VCenter) VirtualMachine(ctx context.Context, uuid string) (*object.VirtualMachine, error) {
	return v.byUUID(ctx, uuid)
}

func (v *VCenter) byUUID(ctx context.Context, uuid string) (*object.VirtualMachine, error) {
	ref, err := object.NewSearchIndex(v.Client.Client).FindByUuid(ctx, nil, uuid, true, ptr.To(false))
	if err != nil {
		return nil, fmt.Errorf("find virtual machine %s: %w", uuid, err)
	}
	if ref == nil {
		return nil, nil
	}
	return object.NewVirtualMachine(v.Client.Client, ref.Reference()), nil
}

// PowerStates gives the power state of every virtual machine by BIOS UUID. Those
// of which vCenter does not know it are left out.
func (v *VCenter) PowerStates(ctx context.Context) (map[string]types.VirtualMachinePowerState, error) {
	all, err := view.NewManager(v.Client.Client).CreateContainerView(ctx, v.Client.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	if err != nil {
		return nil, fmt.Errorf("list virtual machines: %w", err)
	}
	defer func() { _ = all.Destroy(context.WithoutCancel(ctx)) }() // it ends with the session at the latest
	var vms []mo.VirtualMachine
	if err := all.Retrieve(ctx, []string{"VirtualMachine"}, []string{"config.uuid", "runtime.powerState"}, &vms); err != nil {
		return nil, fmt.Errorf("list virtual machines: %w", err)
	}
	states := map[string]types.VirtualMachinePowerState{}
	for _, vm := range vms {
		if vm.Config != nil && vm.Config.Uuid != "" {
			states[vm.Config.Uuid] = vm.Runtime.PowerState
		}
	}
	return states, nil
}

// Place moves a manifest to another namespace and to a vCenter. What is not in
// any namespace gets the namespace's name behind its own.
func (m *Manifest) Place(namespace string, v *VCenter) error {
	b := &builder{VCenter: v}
	if err := b.adopt(m); err != nil {
		return err
	}
	for _, d := range m.Deployments {
		for _, z := range m.Zones {
			if d.Spec.Template.Spec.FailureDomain == z.Name {
				d.Spec.Template.Spec.FailureDomain = z.Name + "-" + namespace
				break
			}
		}
	}
	for _, z := range m.Zones {
		z.Name += "-" + namespace
		z.Spec.FailureDomain += "-" + namespace
	}
	for _, d := range m.FailureDomains {
		d.Name += "-" + namespace
	}
	for _, o := range m.Objects() {
		if o.GetNamespace() != "" {
			o.SetNamespace(namespace)
		}
	}
	return nil
}

// Objects are what kubectl apply would create, in an order in which each
// refers to earlier ones, the Cluster last.
func (m *Manifest) Objects() []client.Object {
	out := capi.Append(nil, m.Secrets)
	out = capi.Append(out, m.FailureDomains)
	out = capi.Append(out, m.Zones)
	out = capi.Append(out, m.MachineTemplates)
	out = capi.Append(out, m.ConfigTemplates)
	out = append(out, m.VSphereCluster, m.ControlPlane)
	out = capi.Append(out, m.Deployments)
	return append(out, m.Cluster)
}
