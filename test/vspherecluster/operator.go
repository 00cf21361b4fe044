package vspherecluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// machine is one machine of the environment as an operator sees it.
type machine struct {
	env   *Environment
	index int
	name  string
	vm    *object.VirtualMachine
}

// pool gives machine number n of a pool: "" is the control plane's.
func (e *Environment) pool(ctx context.Context, pool string, n int) (*machine, error) {
	prefix := e.Cluster.Name + "-"
	if pool != "" {
		prefix += pool + "-"
	}
	for i, m := range e.Machines {
		rest, ok := strings.CutPrefix(m.Name, prefix)
		if !ok || pool == "" && strings.Contains(rest, "-") {
			continue
		}
		if n > 0 {
			n--
			continue
		}
		vm, err := e.Finder.VirtualMachine(ctx, "/fra1/vm/k8s/prod-fra/"+m.Name)
		if err != nil {
			return nil, err
		}
		return &machine{env: e, index: i, name: m.Name, vm: vm}, nil
	}
	return nil, fmt.Errorf("no such machine in pool %q", pool)
}

func (m *machine) reconfigure(ctx context.Context, spec types.VirtualMachineConfigSpec) error {
	task, err := m.vm.Reconfigure(ctx, spec)
	return wait(ctx, task, err, "reconfigure "+m.name)
}

func (m *machine) relocate(ctx context.Context, spec types.VirtualMachineRelocateSpec) error {
	task, err := m.vm.Relocate(ctx, spec, types.VirtualMachineMovePriorityDefaultPriority)
	return wait(ctx, task, err, "relocate "+m.name)
}

func (m *machine) powerOn(ctx context.Context) error {
	task, err := m.vm.PowerOn(ctx)
	return wait(ctx, task, err, "power on "+m.name)
}

func (m *machine) powerOff(ctx context.Context) error {
	task, err := m.vm.PowerOff(ctx)
	return wait(ctx, task, err, "power off "+m.name)
}

// poke changes a property inside the simulator: what no operator does, but
// hardware, storage and failovers do.
func (m *machine) poke(property string, value any) { m.env.Poke(m.vm.Reference(), property, value) }

// Poke changes a property of a machine inside the simulator, which no API does.
func (v *VCenter) Poke(vm types.ManagedObjectReference, property string, value any) {
	c := v.Model.Service.Context
	c.WithLock(vm, func() {
		c.Map.Update(c, c.Map.Get(vm).(*simulator.VirtualMachine), []types.PropertyChange{{Name: property, Val: value}})
	})
}

// Rewire puts the machine's adapter of that number on another network.
func Rewire(ctx context.Context, vm *object.VirtualMachine, index int, backing types.BaseVirtualDeviceBackingInfo) error {
	m := &machine{name: vm.Reference().Value, vm: vm}
	nics, err := m.nics(ctx)
	if err != nil {
		return err
	}
	nics[index].GetVirtualDevice().Backing = backing
	return m.device(ctx, opEdit, "", nics[index])
}

// disks gives the machine's disks in the order of their keys.
func (m *machine) disks(ctx context.Context) ([]*types.VirtualDisk, error) {
	devices, err := m.vm.Device(ctx)
	if err != nil {
		return nil, err
	}
	var out []*types.VirtualDisk
	for _, d := range sortByKey(devices.SelectByType((*types.VirtualDisk)(nil))) {
		out = append(out, d.(*types.VirtualDisk))
	}
	return out, nil
}

// nics gives the machine's adapters in the order of their keys.
func (m *machine) nics(ctx context.Context) (object.VirtualDeviceList, error) {
	devices, err := m.vm.Device(ctx)
	if err != nil {
		return nil, err
	}
	return sortByKey(devices.SelectByType((*types.VirtualEthernetCard)(nil))), nil
}

func (m *machine) device(ctx context.Context, op types.VirtualDeviceConfigSpecOperation, file types.VirtualDeviceConfigSpecFileOperation, d types.BaseVirtualDevice) error {
	return m.reconfigure(ctx, types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
		&types.VirtualDeviceConfigSpec{Operation: op, FileOperation: file, Device: d},
	}})
}

// drift is the finding of a drifted machine.
func (m *machine) drift(diffs ...Diff) Finding {
	return Finding{
		Owner: "VSphereMachine/" + m.name, Kind: providers.KindVirtualMachine, Name: m.name,
		Status: detector.Drifted, Diffs: diffs,
	}
}

// gone is the finding of a lost machine.
func (m *machine) gone() Finding {
	f := m.drift(Diff{Path: "/state", Type: detector.Removed, Want: "present"})
	f.Status = detector.Missing
	return f
}

// unknown is the finding of a machine of which nothing can be told.
func (m *machine) unknown() Finding {
	f := m.drift()
	f.Status = detector.Unknown
	return f
}

// notChecked is the finding of a machine of which a part was not compared.
func (m *machine) notChecked() Finding {
	f := m.drift()
	f.Status = detector.NotChecked
	return f
}

// warned is the finding of a machine in sync about which something is remarked.
func (m *machine) warned() Finding {
	f := m.drift()
	f.Status, f.Warnings = detector.InSync, 1
	return f
}

// found is the damage of one tamper with one finding.
func found(undo func(context.Context) error, findings ...Finding) *Damage {
	return &Damage{Findings: findings, Undo: undo}
}

func changed(path, want, have string) Diff {
	return Diff{Path: path, Type: detector.Changed, Want: want, Have: have}
}

func added(path, have string) Diff { return Diff{Path: path, Type: detector.Added, Have: have} }

func removed(path, want string) Diff { return Diff{Path: path, Type: detector.Removed, Want: want} }

// on makes a tamper of one machine: number 0 of a pool.
func on(pool, name, row string, do func(context.Context, *machine) (*Damage, error)) Tamper {
	return Tamper{Name: name, Row: row, Do: func(ctx context.Context, e *Environment) (*Damage, error) {
		m, err := e.pool(ctx, pool, 0)
		if err != nil {
			return nil, err
		}
		return do(ctx, m)
	}}
}

// playing names the cases that a tamper plays.
func (t Tamper) playing(cases ...string) Tamper {
	t.Cases = cases
	return t
}

// reconfigured makes a tamper of one reconfiguration and the one that undoes
// it.
func reconfigured(pool, name, row string, do, undo types.VirtualMachineConfigSpec, diffs ...Diff) Tamper {
	return on(pool, name, row, func(ctx context.Context, m *machine) (*Damage, error) {
		if err := m.reconfigure(ctx, do); err != nil {
			return nil, err
		}
		d := &Damage{Undo: func(ctx context.Context) error { return m.reconfigure(ctx, undo) }}
		if len(diffs) > 0 {
			d.Findings = []Finding{m.drift(diffs...)}
		}
		return d, nil
	})
}
