package vspherecluster

import (
	"context"
	"fmt"

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
	for _, a := range []struct {
		name, path string
		want       int
		do, undo   types.VirtualMachineConfigSpec
	}{
		{"CPU reservation lowered", "/resources/requests/cpu", fullMHz, cpuOf(1000, fullLimitMHz, fullShares), cpuOf(fullMHz, fullLimitMHz, fullShares)},
		{"CPU limit lowered", "/resources/limits/cpu", fullLimitMHz, cpuOf(fullMHz, 1000, fullShares), cpuOf(fullMHz, fullLimitMHz, fullShares)},
		{"CPU shares lowered", "/resources/shares/cpu", fullShares, cpuOf(fullMHz, fullLimitMHz, 1000), cpuOf(fullMHz, fullLimitMHz, fullShares)},
		{"memory reservation lowered", "/resources/requests/memory", fullMiB, memoryOf(1000, fullLimitMiB, fullShares), memoryOf(fullMiB, fullLimitMiB, fullShares)},
		{"memory limit lowered", "/resources/limits/memory", fullLimitMiB, memoryOf(fullMiB, 1000, fullShares), memoryOf(fullMiB, fullLimitMiB, fullShares)},
		{"memory shares lowered", "/resources/shares/memory", fullShares, memoryOf(fullMiB, fullLimitMiB, 1000), memoryOf(fullMiB, fullLimitMiB, fullShares)},
	} {
		out = append(out, reconfigured("", a.name, "resources", a.do, a.undo, changed(a.path, fmt.Sprint(a.want), "1000")))
	}
	return out
}

func shareOut(reservation, limit int64, shares int32) *types.ResourceAllocationInfo {
	return &types.ResourceAllocationInfo{
		Reservation: &reservation, Limit: &limit, Shares: &types.SharesInfo{Level: types.SharesLevelCustom, Shares: shares},
	}
}

func cpuOf(reservation, limit int64, shares int32) types.VirtualMachineConfigSpec {
	return types.VirtualMachineConfigSpec{CpuAllocation: shareOut(reservation, limit, shares)}
}

func memoryOf(reservation, limit int64, shares int32) types.VirtualMachineConfigSpec {
	return types.VirtualMachineConfigSpec{MemoryAllocation: shareOut(reservation, limit, shares)}
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
