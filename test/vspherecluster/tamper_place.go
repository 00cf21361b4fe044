package vspherecluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/detector"
)

func placeTampers() []Tamper {
	const row = "folder, resource pool, datastore (cluster)"
	return []Tamper{
		on("general", "moved to another folder", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return found(func(ctx context.Context) error { return m.moveTo(ctx, "/fra1/vm/k8s/prod-fra") },
				m.drift(changed("/folder", "/fra1/vm/k8s/prod-fra", "/fra1/vm/attic"))), m.moveTo(ctx, "/fra1/vm/attic")
		}),
		on("", "moved to another resource pool", row, func(ctx context.Context, m *machine) (*Damage, error) {
			const mine, other = "/fra1/host/compute-a/Resources/k8s-prod", "/fra1/host/compute-a/Resources/other"
			return found(func(ctx context.Context) error { return m.toPool(ctx, mine) },
				m.drift(changed("/resourcePool", mine, other))), m.toPool(ctx, other)
		}),
		on("general", "moved out of the datastore cluster", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return found(func(ctx context.Context) error { return m.toDatastore(ctx, "nvme-1") }, m.drift(changed("/datastore",
				"/fra1/datastore/nvme/nvme-1, /fra1/datastore/nvme/nvme-2", "/fra1/datastore/sata-1"))), m.toDatastore(ctx, "sata-1")
		}),
		on("batch", "moved to another datastore", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return found(func(ctx context.Context) error { return m.toDatastore(ctx, "sata-1") },
				m.drift(changed("/datastore", "/fra1/datastore/sata-1", "/fra1/datastore/nvme/nvme-2"))), m.toDatastore(ctx, "nvme-2")
		}),
		on("general", "moved within the datastore cluster", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return found(func(ctx context.Context) error { return m.toDatastore(ctx, "nvme-1") }), m.toDatastore(ctx, "nvme-2")
		}).playing("C32"),
		on("general", "moved to another host", row, func(ctx context.Context, m *machine) (*Damage, error) {
			return found(func(ctx context.Context) error { return m.toHost(ctx, "DC0_C0_H0") }), m.toHost(ctx, "DC0_C0_H1")
		}).playing("C32"),
		on("batch", "taken out of its VM group", "PCI devices, storage policy, VM group", func(ctx context.Context, m *machine) (*Damage, error) {
			other, err := m.env.pool(ctx, "batch", 1)
			if err != nil {
				return nil, err
			}
			both := []types.ManagedObjectReference{m.vm.Reference(), other.vm.Reference()}
			return found(func(ctx context.Context) error {
				return m.env.editGroup(ctx, types.ArrayUpdateOperationEdit, both)
			}, m.drift(removed("/vmGroups", vmGroup))), m.env.editGroup(ctx, types.ArrayUpdateOperationEdit, both[1:])
		}),
		on("general", "renamed", "name", func(ctx context.Context, m *machine) (*Damage, error) {
			const name = "do-not-touch"
			f := m.drift(changed("/name", m.name, name))
			f.Name = name
			return found(func(ctx context.Context) error { return m.env.rename(ctx, m.vm.Reference(), m.name) }, f),
				m.env.rename(ctx, m.vm.Reference(), name)
		}),
	}
}

func (m *machine) moveTo(ctx context.Context, path string) error {
	folder, err := m.env.Finder.Folder(ctx, path)
	if err != nil {
		return err
	}
	task, err := folder.MoveInto(ctx, []types.ManagedObjectReference{m.vm.Reference()})
	return wait(ctx, task, err, "move to "+path)
}

func (m *machine) toPool(ctx context.Context, path string) error {
	pool, err := m.env.Finder.ResourcePool(ctx, path)
	if err != nil {
		return err
	}
	return m.relocate(ctx, types.VirtualMachineRelocateSpec{Pool: types.NewReference(pool.Reference())})
}

func (m *machine) toDatastore(ctx context.Context, name string) error {
	ds, err := m.env.Finder.Datastore(ctx, name)
	if err != nil {
		return err
	}
	return m.relocate(ctx, types.VirtualMachineRelocateSpec{Datastore: types.NewReference(ds.Reference())})
}

func (m *machine) toHost(ctx context.Context, name string) error {
	host, err := m.env.Finder.HostSystem(ctx, name)
	if err != nil {
		return err
	}
	return m.relocate(ctx, types.VirtualMachineRelocateSpec{Host: types.NewReference(host.Reference())})
}

func templateTampers() []Tamper {
	return []Tamper{{
		Name: "template renamed", Row: "template / clone mode", Cases: []string{"C41"},
		Do: func(ctx context.Context, e *Environment) (*Damage, error) {
			tpl, err := e.Finder.VirtualMachine(ctx, templateFolder+"/"+Template)
			if err != nil {
				return nil, err
			}
			d := found(func(ctx context.Context) error { return e.rename(ctx, tpl.Reference(), Template) })
			for _, m := range e.Machines {
				f := (&machine{env: e, name: m.Name}).drift()
				f.Status, f.Warnings = detector.InSync, 1
				d.Findings = append(d.Findings, f)
			}
			return d, e.rename(ctx, tpl.Reference(), Template+"-old")
		},
	}}
}

func tagTampers() []Tamper {
	const row = "tags"
	env, platform := exampleTags[0].id, exampleTags[1].id
	return []Tamper{
		tagged("", "tag removed", row, nil, []string{platform}, removed("/tags/team:platform", "attached")),
		tagged("general", "tag of the same name in another category", row, []string{"cost:prod"}, []string{env},
			removed("/tags/env:prod", "attached")).playing("C40"),
		tagged("general", "tag added", row, []string{"cost:prod"}, nil),
		{
			Name: "tag deleted", Row: row,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				id, err := e.tagID(platform)
				if err != nil {
					return nil, err
				}
				tag, err := e.Tags.GetTag(ctx, id)
				if err != nil {
					return nil, err
				}
				d := &Damage{}
				for i, m := range e.Machines {
					if slices.Contains(e.VSphereMachines[i].Spec.TagIDs, id) {
						d.Findings = append(d.Findings, (&machine{env: e, name: m.Name}).drift(removed("/tags/"+id, "attached")))
					}
				}
				return d, e.Tags.DeleteTag(ctx, tag)
			},
		},
	}
}

// tagged makes a tamper that attaches and detaches tags.
func tagged(pool, name, row string, attach, detach []string, diffs ...Diff) Tamper {
	return on(pool, name, row, func(ctx context.Context, m *machine) (*Damage, error) {
		edit := func(ctx context.Context, attach, detach []string) error {
			for _, step := range []struct {
				ids []string
				do  func(context.Context, string, object.Reference) error
			}{
				{attach, func(ctx context.Context, id string, r object.Reference) error {
					return m.env.Tags.AttachTag(ctx, id, r)
				}},
				{detach, func(ctx context.Context, id string, r object.Reference) error {
					return m.env.Tags.DetachTag(ctx, id, r)
				}},
			} {
				for _, id := range step.ids {
					own, err := m.env.tagID(id)
					if err != nil {
						return err
					}
					if err := step.do(ctx, own, m.vm); err != nil {
						return fmt.Errorf("tag %s: %w", id, err)
					}
				}
			}
			return nil
		}
		d := &Damage{Undo: func(ctx context.Context) error { return edit(ctx, detach, attach) }}
		if len(diffs) > 0 {
			d.Findings = []Finding{m.drift(diffs...)}
		}
		return d, edit(ctx, attach, detach)
	})
}

func configTampers() []Tamper {
	const row = "custom VMX keys (extraConfig)"
	option := func(key, value string) types.VirtualMachineConfigSpec {
		return types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: key, Value: value}}}
	}
	return []Tamper{
		reconfigured("", "VMX key changed", row,
			option("sched.cpu.latencySensitivity", "low"), option("sched.cpu.latencySensitivity", "high"),
			changed("/extraConfig/sched.cpu.latencySensitivity", "high", "low")),
		reconfigured("", "VMX key removed", row,
			option("disk.enableUUID", ""), option("disk.enableUUID", "TRUE"),
			removed("/extraConfig/disk.enableUUID", "TRUE")),
		reconfigured("", "VMX key added", row, option("isolation.tools.copy.disable", "TRUE"), option("isolation.tools.copy.disable", "")),
		reconfigured("general", "user data changed", row, option("guestinfo.userdata", "bmV3Cg=="), option("guestinfo.userdata", "b2xkCg==")).playing("C24"),
	}
}
