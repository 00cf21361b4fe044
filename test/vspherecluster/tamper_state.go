package vspherecluster

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/ptr"
)

func existenceTampers() []Tamper {
	const row = "existence"
	return []Tamper{
		on("general", "destroyed", row, func(ctx context.Context, m *machine) (*Damage, error) {
			if err := m.powerOff(ctx); err != nil {
				return nil, err
			}
			task, err := m.vm.Destroy(ctx)
			return found(nil, m.gone()), wait(ctx, task, err, "destroy")
		}).playing("C36"),
		on("", "unregistered", row, func(ctx context.Context, m *machine) (*Damage, error) {
			if err := m.powerOff(ctx); err != nil {
				return nil, err
			}
			return found(nil, m.gone()), m.vm.Unregister(ctx)
		}),
		connection("inaccessible", types.VirtualMachineConnectionStateInaccessible),
		connection("orphaned", types.VirtualMachineConnectionStateOrphaned),
		connection("disconnected", types.VirtualMachineConnectionStateDisconnected),
		connection("invalid", types.VirtualMachineConnectionStateInvalid),
		on("general", "inaccessible without a UUID", row, func(_ context.Context, m *machine) (*Damage, error) {
			bios := m.env.VSphereVMs[m.index].Spec.BiosUUID
			instance := string(m.env.VSphereVMs[m.index].UID)
			m.poke("runtime.connectionState", types.VirtualMachineConnectionStateInaccessible)
			m.poke("config.uuid", "")
			m.poke("config.instanceUuid", "")
			return found(func(context.Context) error {
				m.poke("config.uuid", bios)
				m.poke("config.instanceUuid", instance)
				m.poke("runtime.connectionState", types.VirtualMachineConnectionStateConnected)
				return nil
			}, m.unknown()), nil
		}).playing("C35", "C36"),
		on("", "BIOS UUID changed", row, func(ctx context.Context, m *machine) (*Damage, error) {
			old := m.env.VSphereVMs[m.index].Spec.BiosUUID
			err := m.reconfigure(ctx, types.VirtualMachineConfigSpec{Uuid: "4c4c4544-0051-3610-8054-b4c04f4d5131"})
			return found(func(ctx context.Context) error {
				return m.reconfigure(ctx, types.VirtualMachineConfigSpec{Uuid: old})
			}, m.unknown()), err
		}).playing("C34"),
		on("general", "a clone with the same BIOS UUID", row, func(ctx context.Context, m *machine) (*Damage, error) {
			folder, err := m.env.Finder.Folder(ctx, "/fra1/vm/attic")
			if err != nil {
				return nil, err
			}
			task, err := m.vm.Clone(ctx, folder, m.name+"-copy", types.VirtualMachineCloneSpec{
				Config: &types.VirtualMachineConfigSpec{Uuid: m.env.VSphereVMs[m.index].Spec.BiosUUID},
			})
			if err := wait(ctx, task, err, "clone"); err != nil {
				return nil, err
			}
			return found(func(ctx context.Context) error {
				copied, err := m.env.Finder.VirtualMachine(ctx, "/fra1/vm/attic/"+m.name+"-copy")
				if err != nil {
					return err
				}
				task, err := copied.Destroy(ctx)
				return wait(ctx, task, err, "destroy copy")
			}, m.unknown()), nil
		}).playing("C34"),
	}
}

func connection(name string, state types.VirtualMachineConnectionState) Tamper {
	return on("general", name, "existence", func(_ context.Context, m *machine) (*Damage, error) {
		m.poke("runtime.connectionState", state)
		return found(func(context.Context) error {
			m.poke("runtime.connectionState", types.VirtualMachineConnectionStateConnected)
			return nil
		}, m.unknown()), nil
	}).playing("C36")
}

func powerTampers() []Tamper {
	const row = "power state"
	return []Tamper{
		on("general", "powered off", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return found(m.powerOn, m.drift(changed("/powerState", "poweredOn", "poweredOff"))), m.powerOff(ctx)
		}),
		on("", "suspended", row, func(ctx context.Context, m *machine) (*Damage, error) {
			task, err := m.vm.Suspend(ctx)
			return found(m.powerOn, m.drift(changed("/powerState", "poweredOn", "suspended"))), wait(ctx, task, err, "suspend")
		}),
	}
}

func hardwareTampers() []Tamper {
	return []Tamper{
		reconfigured("general", "fewer CPUs", "numCPUs, coresPerSocket",
			types.VirtualMachineConfigSpec{NumCPUs: 4}, types.VirtualMachineConfigSpec{NumCPUs: 8},
			changed("/numCPUs", "8", "4")),
		reconfigured("", "cores per socket", "numCPUs, coresPerSocket",
			types.VirtualMachineConfigSpec{NumCoresPerSocket: ptr.To[int32](4)}, types.VirtualMachineConfigSpec{NumCoresPerSocket: ptr.To[int32](2)},
			changed("/coresPerSocket", "2", "4")).playing("CoresPerSocket"),
		reconfigured("general", "cores per socket without an opinion", "numCPUs, coresPerSocket",
			types.VirtualMachineConfigSpec{NumCoresPerSocket: ptr.To[int32](4)}, types.VirtualMachineConfigSpec{NumCoresPerSocket: ptr.To[int32](1)}).playing("CoresPerSocket"),
		reconfigured("batch", "less memory", "memoryMiB",
			types.VirtualMachineConfigSpec{MemoryMB: 32768}, types.VirtualMachineConfigSpec{MemoryMB: 65536},
			changed("/memoryMiB", "65536", "32768")),
		on("", "memory reservation taken away", "resources", func(ctx context.Context, m *machine) (*Damage, error) {
			reserve := func(mib int64) func(*types.ResourceAllocationInfo) {
				return func(a *types.ResourceAllocationInfo) { a.Reservation = &mib }
			}
			return found(func(ctx context.Context) error { return m.allocate(ctx, true, reserve(16384)) },
				m.drift(changed("/resources/requests/memory", "16384", "0"))), m.allocate(ctx, true, reserve(0))
		}),
		on("", "older hardware version", "hardware version", func(_ context.Context, m *machine) (*Damage, error) {
			m.poke("config.version", "vmx-9")
			return found(func(context.Context) error {
				m.poke("config.version", "vmx-17")
				return nil
			}, m.drift(changed("/hardwareVersion", "17", "9"))), nil
		}),
		on("", "newer hardware version", "hardware version", func(_ context.Context, m *machine) (*Damage, error) {
			m.poke("config.version", "vmx-21")
			return found(func(context.Context) error {
				m.poke("config.version", "vmx-17")
				return nil
			}), nil
		}),
		on("general", "snapshot left behind", "snapshots left on a node", func(ctx context.Context, m *machine) (*Damage, error) {
			task, err := m.vm.CreateSnapshot(ctx, "before-upgrade", "to be removed on Friday", false, false)
			return found(func(ctx context.Context) error {
				task, err := m.vm.RemoveAllSnapshot(ctx, ptr.To(true))
				return wait(ctx, task, err, "remove snapshots")
			}, m.drift(added("/snapshots", "before-upgrade"))), wait(ctx, task, err, "create snapshot")
		}),
	}
}
