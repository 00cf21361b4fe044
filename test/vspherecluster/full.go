package vspherecluster

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	fullVGPU     = "grid_t4-16q"
	fullMHz      = 4000
	fullLimitMHz = 8000
	fullMiB      = 16384
	fullLimitMiB = 32768
	fullShares   = 5000
)

// Full has the control plane's machines of the example declare whatever CAPV
// lets a machine declare, so that every row of the catalog can drift.
func Full(m *Manifest) {
	for _, t := range m.MachineTemplates {
		if t.Name != "prod-fra-control-plane" {
			continue
		}
		spec := &t.Spec.Template.Spec
		spec.NestedHV = ptr.To(true)
		spec.FtEncryptionMode = infrav1.FtEncryptionRequired
		spec.MigrateEncryption = infrav1.RequiredMigrateEncryption
		spec.PciDevices = []infrav1.PCIDeviceSpec{{VGPUProfile: fullVGPU}}
		spec.Resources = infrav1.VirtualMachineResources{
			Requests: infrav1.VirtualMachineResourceSpec{CPU: resource.MustParse(fmt.Sprint(fullMHz, "M")), Memory: resource.MustParse(fmt.Sprint(fullMiB, "Mi"))},
			Limits:   infrav1.VirtualMachineResourceSpec{CPU: resource.MustParse(fmt.Sprint(fullLimitMHz, "M")), Memory: resource.MustParse(fmt.Sprint(fullLimitMiB, "Mi"))},
			Shares:   infrav1.VirtualMachineResourceShares{CPU: fullShares, Memory: fullShares},
		}
	}
}

// FullTampers drift what only [Full] declares, and what people can spoil and a
// write can mend: the disk of a machine that was restored from an old backup,
// an adapter of another type with the address of the one that it stands for.
func FullTampers() []Tamper {
	out := []Tamper{
		reconfigured("", "nested virtualisation switched off", "hardware",
			types.VirtualMachineConfigSpec{NestedHVEnabled: ptr.To(false)}, types.VirtualMachineConfigSpec{NestedHVEnabled: ptr.To(true)},
			changed("/nestedHV", "true", "false")),
		reconfigured("", "fault tolerance in the clear", "hardware",
			types.VirtualMachineConfigSpec{FtEncryptionMode: "ftEncryptionDisabled"}, types.VirtualMachineConfigSpec{FtEncryptionMode: "ftEncryptionRequired"},
			changed("/ftEncryptionMode", "ftEncryptionRequired", "ftEncryptionDisabled")),
		reconfigured("", "vMotion in the clear", "hardware",
			types.VirtualMachineConfigSpec{MigrateEncryption: "disabled"}, types.VirtualMachineConfigSpec{MigrateEncryption: "required"},
			changed("/migrateEncryption", "required", "disabled")),
		on("", "vGPU taken away", "PCI devices, storage policy, VM group", func(ctx context.Context, m *machine) (*Damage, error) {
			devices, err := m.vm.Device(ctx)
			if err != nil {
				return nil, err
			}
			gpu := devices.SelectByType((*types.VirtualPCIPassthrough)(nil))[0]
			return found(func(ctx context.Context) error { return m.device(ctx, opAdd, "", vgpu(fullVGPU)) },
				m.drift(removed("/pciDevices", "vgpu "+fullVGPU))), m.device(ctx, opRemove, "", gpu)
		}),
		on("general", "disk restored from an old backup", "diskGiB, additional and data disks", func(ctx context.Context, m *machine) (*Damage, error) {
			disks, err := m.disks(ctx)
			if err != nil {
				return nil, err
			}
			set := func(gib int32) error {
				return m.swapDevice(ctx, disks[0], func() types.BaseVirtualDevice {
					small := *disks[0]
					resize(&small, gib)
					return &small
				})
			}
			return found(func(context.Context) error { return set(60) },
				m.drift(changed(providers.Pointer("disks", fmt.Sprint(disks[0].Key), "sizeGiB"), "60", "30"))), set(30)
		}),
		on("batch", "adapter of another type in its place", "network devices", func(ctx context.Context, m *machine) (*Damage, error) {
			nics, err := m.nics(ctx)
			if err != nil {
				return nil, err
			}
			card := *nics[0].(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
			set := func(d types.BaseVirtualDevice) error {
				return m.swapDevice(ctx, nics[0], func() types.BaseVirtualDevice { return d })
			}
			return found(func(context.Context) error {
				return set(&types.VirtualVmxnet3{VirtualVmxnet: types.VirtualVmxnet{VirtualEthernetCard: card}})
			},
				m.drift(changed("/networks/0/adapterType", "vmxnet3", "e1000e"))), set(&types.VirtualE1000e{VirtualEthernetCard: card})
		}),
	}
	return append(out, shareTampers()...)
}

// shareTampers change one of reservation, limit and shares each, and leave the
// others as they are, so that they can be played together.
func shareTampers() (out []Tamper) {
	reserve := func(n int64) func(*types.ResourceAllocationInfo) {
		return func(a *types.ResourceAllocationInfo) { a.Reservation = &n }
	}
	limit := func(n int64) func(*types.ResourceAllocationInfo) {
		return func(a *types.ResourceAllocationInfo) { a.Limit = &n }
	}
	share := func(n int64) func(*types.ResourceAllocationInfo) {
		return func(a *types.ResourceAllocationInfo) {
			a.Shares = &types.SharesInfo{Level: types.SharesLevelCustom, Shares: int32(n)}
		}
	}
	const lowered = 1000
	for _, s := range []struct {
		name, path string
		memory     bool
		want       int64
		set        func(int64) func(*types.ResourceAllocationInfo)
	}{
		{"CPU reservation lowered", "/resources/requests/cpu", false, fullMHz, reserve},
		{"CPU limit lowered", "/resources/limits/cpu", false, fullLimitMHz, limit},
		{"CPU shares lowered", "/resources/shares/cpu", false, fullShares, share},
		{"memory reservation lowered", "/resources/requests/memory", true, fullMiB, reserve},
		{"memory limit lowered", "/resources/limits/memory", true, fullLimitMiB, limit},
		{"memory shares lowered", "/resources/shares/memory", true, fullShares, share},
	} {
		out = append(out, on("", s.name, "resources", func(ctx context.Context, m *machine) (*Damage, error) {
			return found(func(ctx context.Context) error { return m.allocate(ctx, s.memory, s.set(s.want)) },
				m.drift(changed(s.path, fmt.Sprint(s.want), fmt.Sprint(lowered)))), m.allocate(ctx, s.memory, s.set(lowered))
		}))
	}
	return out
}

// allocate changes a part of what the machine has of processors or memory. All
// of it is sent: the simulator drops what is left out, which vCenter keeps.
func (m *machine) allocate(ctx context.Context, memory bool, change func(*types.ResourceAllocationInfo)) error {
	var vm mo.VirtualMachine
	if err := m.vm.Properties(ctx, m.vm.Reference(), []string{"config.cpuAllocation", "config.memoryAllocation"}, &vm); err != nil {
		return fmt.Errorf("allocation of %s: %w", m.name, err)
	}
	spec, now := types.VirtualMachineConfigSpec{}, vm.Config.CpuAllocation
	if memory {
		now = vm.Config.MemoryAllocation
	}
	change(now)
	if memory {
		spec.MemoryAllocation = now
	} else {
		spec.CpuAllocation = now
	}
	return m.reconfigure(ctx, spec)
}

// swapDevice puts a device in the place of one with the same key, which no API
// call does in one step.
func (m *machine) swapDevice(ctx context.Context, old types.BaseVirtualDevice, with func() types.BaseVirtualDevice) error {
	devices, err := m.vm.Device(ctx)
	if err != nil {
		return err
	}
	for i := range devices {
		if devices[i].GetVirtualDevice().Key == old.GetVirtualDevice().Key {
			devices[i] = with()
		}
	}
	m.poke("config.hardware.device", []types.BaseVirtualDevice(devices))
	return nil
}
