package vspherecluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/ptr"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	opAdd    = types.VirtualDeviceConfigSpecOperationAdd
	opEdit   = types.VirtualDeviceConfigSpecOperationEdit
	opRemove = types.VirtualDeviceConfigSpecOperationRemove
	create   = types.VirtualDeviceConfigSpecFileOperationCreate
)

func diskTampers() []Tamper {
	const row = "diskGiB, additional and data disks"
	return []Tamper{
		on("", "data disk detached", row, func(ctx context.Context, m *machine) (*Damage, error) {
			disks, err := m.disks(ctx)
			if err != nil {
				return nil, err
			}
			etcd := disks[1]
			return found(func(ctx context.Context) error { return m.device(ctx, opAdd, "", etcd) },
				m.drift(removed("/disks/etcd/sizeGiB", "20"))), m.device(ctx, opRemove, "", etcd)
		}),
		on("", "data disk replaced by a smaller one", row, func(ctx context.Context, m *machine) (*Damage, error) {
			disks, err := m.disks(ctx)
			if err != nil {
				return nil, err
			}
			old := *disks[1]
			if err := m.device(ctx, opRemove, "", &old); err != nil {
				return nil, err
			}
			small := m.newDisk("small", *old.UnitNumber, old.ControllerKey, 10)
			if err := m.device(ctx, opAdd, create, small); err != nil {
				return nil, err
			}
			if disks, err = m.disks(ctx); err != nil {
				return nil, err
			}
			replaced := disks[1]
			return found(func(ctx context.Context) error {
				if err := m.device(ctx, opRemove, "", replaced); err != nil {
					return err
				}
				return m.device(ctx, opAdd, "", &old)
			}, m.drift(changed(providers.Pointer("disks", strconv.Itoa(int(replaced.Key)), "sizeGiB"), "20", "10"))), nil
		}),
		on("general", "disk grown", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return found(nil), m.grow(ctx, 80)
		}).playing("CSIGrowth"),
		on("general", "CSI volume grown in place", row, func(ctx context.Context, m *machine) (*Damage, error) {
			disks, err := m.disks(ctx)
			if err != nil {
				return nil, err
			}
			volume := m.newDisk("pvc-grown", 1, disks[0].ControllerKey, 5)
			volume.VDiskId = &types.ID{Id: "0a4a5b6c-1111-2222-3333-444455557777"}
			if err := m.device(ctx, opAdd, create, volume); err != nil {
				return nil, err
			}
			if disks, err = m.disks(ctx); err != nil {
				return nil, err
			}
			grown := disks[len(disks)-1]
			resize(grown, 500)
			return found(func(ctx context.Context) error { return m.device(ctx, opRemove, "", grown) }), m.device(ctx, opEdit, "", grown)
		}).playing("CSIGrowth"),
		on("", "CSI volume in the place of a lost data disk", row, func(ctx context.Context, m *machine) (*Damage, error) {
			disks, err := m.disks(ctx)
			if err != nil {
				return nil, err
			}
			etcd := *disks[1]
			if err := m.device(ctx, opRemove, "", &etcd); err != nil {
				return nil, err
			}
			volume := m.newDisk("pvc-squatter", *etcd.UnitNumber, etcd.ControllerKey, 100)
			volume.VDiskId = &types.ID{Id: "0a4a5b6c-1111-2222-3333-444455558888"}
			if err := m.device(ctx, opAdd, create, volume); err != nil {
				return nil, err
			}
			if disks, err = m.disks(ctx); err != nil {
				return nil, err
			}
			squatter := disks[1]
			return found(func(ctx context.Context) error {
				if err := m.device(ctx, opRemove, "", squatter); err != nil {
					return err
				}
				return m.device(ctx, opAdd, "", &etcd)
			}, m.drift(removed("/disks/etcd/sizeGiB", "20"))), nil
		}).playing("CSIGrowth"),
		on("general", "disk made independent", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return m.diskMode(ctx, types.VirtualDiskModeIndependent_persistent)
		}).playing("DiskModes"),
		on("general", "disk that discards its writes", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return m.diskMode(ctx, types.VirtualDiskModeIndependent_nonpersistent, m.warned())
		}).playing("DiskModes"),
		on("general", "CSI volume attached", row, func(ctx context.Context, m *machine) (*Damage, error) {
			disks, err := m.disks(ctx)
			if err != nil {
				return nil, err
			}
			volume := m.newDisk("pvc", 1, disks[0].ControllerKey, 5)
			volume.VDiskId = &types.ID{Id: "0a4a5b6c-1111-2222-3333-444455556666"}
			return found(func(ctx context.Context) error { return m.device(ctx, opRemove, "", volume) }), m.device(ctx, opAdd, create, volume)
		}),
		on("general", "scratch disk attached", row, func(ctx context.Context, m *machine) (*Damage, error) {
			disks, err := m.disks(ctx)
			if err != nil {
				return nil, err
			}
			scratch := m.newDisk("scratch", 2, disks[0].ControllerKey, 1)
			return found(func(ctx context.Context) error { return m.device(ctx, opRemove, "", scratch) }), m.device(ctx, opAdd, create, scratch)
		}),
	}
}

func (m *machine) newDisk(name string, unit, controller, gib int32) *types.VirtualDisk {
	d := &types.VirtualDisk{VirtualDevice: types.VirtualDevice{
		Key: -1, ControllerKey: controller, UnitNumber: &unit,
		Backing: &types.VirtualDiskFlatVer2BackingInfo{
			VirtualDeviceFileBackingInfo: types.VirtualDeviceFileBackingInfo{FileName: fmt.Sprintf("[nvme-1] %s/%s.vmdk", m.name, name)},
			DiskMode:                     string(types.VirtualDiskModePersistent), ThinProvisioned: ptr.To(true),
		},
	}}
	resize(d, gib)
	return d
}

func (m *machine) grow(ctx context.Context, gib int32) error {
	disks, err := m.disks(ctx)
	if err != nil {
		return err
	}
	resize(disks[0], gib)
	return m.device(ctx, opEdit, "", disks[0])
}

// diskMode puts the first disk in another mode, and back.
func (m *machine) diskMode(ctx context.Context, mode types.VirtualDiskMode, says ...Finding) (*Damage, error) {
	set := func(ctx context.Context, mode types.VirtualDiskMode) error {
		disks, err := m.disks(ctx)
		if err != nil {
			return err
		}
		disks[0].Backing.(*types.VirtualDiskFlatVer2BackingInfo).DiskMode = string(mode)
		return m.device(ctx, opEdit, "", disks[0])
	}
	return found(func(ctx context.Context) error { return set(ctx, types.VirtualDiskModePersistent) }, says...), set(ctx, mode)
}

func networkTampers() []Tamper {
	const row = "network devices"
	return []Tamper{
		on("general", "adapter on another distributed port group", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return m.rewire(ctx, 0, "dmz", changed("/networks/0/networkName", "k8s-nodes", "dmz"))
		}),
		on("general", "adapter on a standard network", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return m.rewire(ctx, 1, "VM Network", changed("/networks/1/networkName", "storage", "VM Network"))
		}),
		on("general", "adapter removed", row, func(ctx context.Context, m *machine) (*Damage, error) {
			nics, err := m.nics(ctx)
			if err != nil {
				return nil, err
			}
			return found(func(ctx context.Context) error { return m.device(ctx, opAdd, "", nics[1]) }, m.drift(
				changed("/networkCount", "2", "1"),
				removed("/networks/1/adapterType", "vmxnet3"),
				removed("/networks/1/networkName", "storage"),
			)), m.device(ctx, opRemove, "", nics[1])
		}),
		on("general", "adapter added", row, func(ctx context.Context, m *machine) (*Damage, error) {
			nic, err := m.newNIC(ctx, "e1000", "dmz")
			if err != nil {
				return nil, err
			}
			if err := m.device(ctx, opAdd, "", nic); err != nil {
				return nil, err
			}
			return found(func(ctx context.Context) error {
				nics, err := m.nics(ctx)
				if err != nil {
					return err
				}
				return m.device(ctx, opRemove, "", nics[len(nics)-1])
			}, m.drift(changed("/networkCount", "2", "3"))), nil
		}),
		on("batch", "adapter of another type", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return m.swap(ctx, "e1000e", "k8s-batch", changed("/networks/0/adapterType", "vmxnet3", "e1000e"))
		}),
		on("ingress", "MAC address changed", row, func(ctx context.Context, m *machine) (*Damage, error) {
			set := func(ctx context.Context, mac string) error {
				nics, err := m.nics(ctx)
				if err != nil {
					return err
				}
				nics[0].(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress = mac
				if err := m.device(ctx, opEdit, "", nics[0]); err != nil {
					return err
				}
				// The simulator's guest forgets its address on such an edit.
				return setGuest(ctx, m.vm, staticAddress, types.VirtualMachineToolsRunningStatusGuestToolsRunning)
			}
			return found(func(ctx context.Context) error { return set(ctx, "00:50:56:9a:10:32") },
				m.drift(changed("/networks/0/macAddress", "00:50:56:9a:10:32", "00:50:56:9a:ff:01"))), set(ctx, "00:50:56:9a:ff:01")
		}),
	}
}

// staticAddress is the example's.
const staticAddress = "10.30.0.50"

func (m *machine) newNIC(ctx context.Context, kind, network string) (types.BaseVirtualDevice, error) {
	n, err := m.env.Finder.Network(ctx, network)
	if err != nil {
		return nil, err
	}
	backing, err := n.EthernetCardBackingInfo(ctx)
	if err != nil {
		return nil, err
	}
	return object.EthernetCardTypes().CreateEthernetCard(kind, backing)
}

// rewire puts an adapter on another network, and back.
func (m *machine) rewire(ctx context.Context, index int, network string, diff Diff) (*Damage, error) {
	nics, err := m.nics(ctx)
	if err != nil {
		return nil, err
	}
	old := nics[index].GetVirtualDevice().Backing
	set := func(ctx context.Context, backing types.BaseVirtualDeviceBackingInfo) error {
		return Rewire(ctx, m.vm, index, backing)
	}
	n, err := m.env.Finder.Network(ctx, network)
	if err != nil {
		return nil, err
	}
	backing, err := n.EthernetCardBackingInfo(ctx)
	if err != nil {
		return nil, err
	}
	return found(func(ctx context.Context) error { return set(ctx, old) }, m.drift(diff)), set(ctx, backing)
}

// swap replaces the one adapter by one of another type, and back.
func (m *machine) swap(ctx context.Context, kind, network string, diff Diff) (*Damage, error) {
	set := func(ctx context.Context, kind string) error {
		nics, err := m.nics(ctx)
		if err != nil {
			return err
		}
		if err := m.device(ctx, opRemove, "", nics[0]); err != nil {
			return err
		}
		nic, err := m.newNIC(ctx, kind, network)
		if err != nil {
			return err
		}
		return m.device(ctx, opAdd, "", nic)
	}
	return found(func(ctx context.Context) error { return set(ctx, "vmxnet3") }, m.drift(diff)), set(ctx, kind)
}

// sortByKey orders devices as vCenter lists them; the simulator puts an edited
// one last.
func sortByKey(devices object.VirtualDeviceList) object.VirtualDeviceList {
	slices.SortFunc(devices, func(a, b types.BaseVirtualDevice) int {
		return cmp.Compare(a.GetVirtualDevice().Key, b.GetVirtualDevice().Key)
	})
	return devices
}

func addressTampers() []Tamper {
	const row = "addresses"
	running := types.VirtualMachineToolsRunningStatusGuestToolsRunning
	guest := func(pool, name, address string, tools types.VirtualMachineToolsRunningStatus, back string, says func(*machine) []Finding) Tamper {
		return on(pool, name, row, func(ctx context.Context, m *machine) (*Damage, error) {
			return found(func(ctx context.Context) error { return setGuest(ctx, m.vm, back, running) }, says(m)...),
				setGuest(ctx, m.vm, address, tools)
		})
	}
	nothing := func(*machine) []Finding { return nil }
	return []Tamper{
		guest("ingress", "static address missing", "10.30.0.99", running, staticAddress, func(m *machine) []Finding {
			return []Finding{m.drift(removed("/addresses", staticAddress))}
		}).playing("C39"),
		guest("ingress", "tools not running", "10.30.0.99", types.VirtualMachineToolsRunningStatusGuestToolsNotRunning, staticAddress,
			func(m *machine) []Finding { return []Finding{m.notChecked()} }).playing("C39"),
		guest("general", "another address from DHCP", "10.20.0.200", running, "10.20.0.103", nothing).playing("C39"),
		guest("general", "a container bridge's address only", "172.17.0.1", running, "10.20.0.103", nothing).playing("C39"),
	}
}
