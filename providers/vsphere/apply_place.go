package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strings"

	vimobject "github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// renameStep gives the machine its name (ManagedEntity.Rename_Task).
func (w *writer) renameStep(_ context.Context, m *machine) (*step, error) {
	f := w.leftAt(m, namePath)
	if f == nil {
		return nil, nil
	}
	return &step{name: "rename it", do: func(ctx context.Context) error {
		res, err := methods.Rename_Task(ctx, w.live.vim, &types.Rename_Task{This: m.ref, NewName: f.Want.Text()})
		if err != nil {
			return err
		}
		return w.finish(ctx, res.Returnval)
	}}, nil
}

// folderStep moves the machine into its folder (Folder.MoveIntoFolder_Task).
func (w *writer) folderStep(_ context.Context, m *machine) (*step, error) {
	f := w.leftAt(m, folderPath)
	if f == nil {
		return nil, nil
	}
	folder, err := w.placeOf(m, f, kindFolder)
	if err != nil {
		return nil, err
	}
	return &step{name: "move it to folder " + folder.path, do: func(ctx context.Context) error {
		res, err := methods.MoveIntoFolder_Task(ctx, w.live.vim, &types.MoveIntoFolder_Task{
			This: folder.ref, List: []types.ManagedObjectReference{m.ref},
		})
		if err != nil {
			return err
		}
		return w.finish(ctx, res.Returnval)
	}}, nil
}

// relocateStep moves the machine to its resource pool and its datastore, at
// once where both are asked for (VirtualMachine.RelocateVM_Task). The host is
// left to DRS.
func (w *writer) relocateStep(ctx context.Context, m *machine) (*step, error) {
	pool, store := w.leftAt(m, poolPath), w.leftAt(m, datastorePath)
	if pool == nil && store == nil || w.done["relocate it"] {
		return nil, nil
	}
	var spec types.VirtualMachineRelocateSpec
	if pool != nil {
		to, err := w.placeOf(m, pool, kindResourcePool)
		if err != nil {
			return nil, err
		}
		spec.Pool = &to.ref
	}
	if store != nil {
		to, err := w.datastoreOf(ctx, m, store)
		if err != nil {
			return nil, err
		}
		spec.Datastore = &to.ref
		spec.Disk = w.disksThatStay(m)
	}
	return &step{name: "relocate it", do: func(ctx context.Context) error {
		res, err := methods.RelocateVM_Task(ctx, w.live.vim, &types.RelocateVM_Task{
			This: m.ref, Spec: spec, Priority: types.VirtualMachineMovePriorityDefaultPriority,
		})
		if err != nil {
			return err
		}
		return w.finish(ctx, res.Returnval)
	}}, nil
}

// disksThatStay pins the disks that do not move with the machine: those of the
// CSI driver, and those that lie elsewhere than the machine itself and that the
// spec does not name. Without a locator each disk follows the machine
// (VirtualMachineRelocateSpec.disk).
func (w *writer) disksThatStay(m *machine) []types.VirtualMachineRelocateSpecDiskLocator {
	home := w.inv.datastoreNamed(m.now.Fields.Get("/datacenter").Value.Text(), m.str("config.files.vmPathName"))
	var out []types.VirtualMachineRelocateSpecDiskLocator
	for _, device := range m.hw.Device {
		d, ok := device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		backing, ok := d.Backing.(types.BaseVirtualDeviceFileBackingInfo)
		if !ok || backing.GetVirtualDeviceFileBackingInfo().Datastore == nil {
			continue
		}
		at := *backing.GetVirtualDeviceFileBackingInfo().Datastore
		foreign := diskOwner(d, backing.GetVirtualDeviceFileBackingInfo().FileName) != ""
		elsewhere := home != nil && home.ref != at
		if foreign || elsewhere && !w.names(d.Key) {
			out = append(out, types.VirtualMachineRelocateSpecDiskLocator{DiskId: d.Key, Datastore: at})
		}
	}
	return out
}

// names reports whether the owner's spec gives a size for a disk.
func (w *writer) names(key int32) bool {
	_, ok := w.change.Want.Fields.Lookup(disk{key: key}.path("sizeGiB"))
	return ok
}

// placeOf gives the inventory object that a field wants the machine in: the
// first by path where several would do.
func (w *writer) placeOf(m *machine, f *providers.FieldChange, kind string) (*entity, error) {
	found := w.placesOf(m, f, kind)
	if len(found) == 0 {
		return nil, refusal(providers.ReasonRefused, "%s: the inventory has no %s", f.Path, f.Want.Text())
	}
	return found[0], nil
}

// placesOf gives what a field's wanted paths name. Machines are not moved
// between datacenters: their networks would not come along.
func (w *writer) placesOf(m *machine, f *providers.FieldChange, kind string) []*entity {
	dc := m.now.Fields.Get("/datacenter").Value.Text()
	var out []*entity
	for _, e := range w.inv.entities {
		if inventoryKinds[e.ref.Type] == kind && e.datacenter == dc && slices.Contains(f.Want.Elements(), e.path) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *entity) int { return strings.Compare(a.path, b.path) })
	return out
}

// datastoreOf gives the datastore to move to: of several, as in a datastore
// cluster, the accessible one with the most free space.
func (w *writer) datastoreOf(ctx context.Context, m *machine, f *providers.FieldChange) (*entity, error) {
	found := w.placesOf(m, f, kindDatastore)
	if len(found) == 0 {
		return nil, refusal(providers.ReasonRefused, "%s: the inventory has no datastore %s", f.Path, f.Want.Text())
	}
	best, err := w.mostFree(ctx, found)
	if err == nil && best == nil {
		err = refusal(providers.ReasonRefused, "%s: none of %s is accessible", f.Path, f.Want.Text())
	}
	return best, err
}

// mostFree gives the accessible datastore with the most free space, nil if none
// is.
func (w *writer) mostFree(ctx context.Context, found []*entity) (*entity, error) {
	refs := make([]types.ManagedObjectReference, len(found))
	for i, e := range found {
		refs[i] = e.ref
	}
	objects, err := retrieveRefs(ctx, w.live.vim, refs, []types.PropertySpec{{Type: "Datastore", PathSet: []string{"summary"}}})
	if err != nil {
		return nil, fmt.Errorf("read datastores: %w", err)
	}
	var best *entity
	most := int64(-1)
	for i := range objects {
		s, ok := objects[i].props["summary"].(types.DatastoreSummary)
		usable := s.MaintenanceMode == "" || s.MaintenanceMode == string(types.DatastoreSummaryMaintenanceModeStateNormal)
		if ok && s.Accessible && usable && s.FreeSpace > most {
			best, most = w.inv.entities[objects[i].ref], s.FreeSpace
		}
	}
	return best, nil
}

// groupStep puts the machine into a DRS group of its cluster. The group's other
// members stay.
func (w *writer) groupStep(ctx context.Context, m *machine) (*step, error) {
	for _, f := range w.left(m, func(p string) bool { return p == groupsPath }) {
		for _, name := range f.Want.Elements() {
			what := "add it to VM group " + name
			if m.now.Fields.Get(groupsPath).Value.Has(name) || w.done[what] {
				continue
			}
			cluster, group, err := w.groupOf(ctx, m, name)
			if err != nil {
				return nil, err
			}
			return &step{name: what, do: func(ctx context.Context) error {
				group.Vm = append(group.Vm, m.ref)
				task, err := vimobject.NewClusterComputeResource(w.live.vim, cluster).Reconfigure(ctx, &types.ClusterConfigSpecEx{
					GroupSpec: []types.ClusterGroupSpec{{
						ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationEdit}, Info: group,
					}},
				}, true)
				if err != nil {
					return err
				}
				return w.finish(ctx, task.Reference())
			}}, nil
		}
	}
	return nil, nil
}

// groupOf finds a VM group in the cluster that the machine's host is in.
func (w *writer) groupOf(ctx context.Context, m *machine, name string) (types.ManagedObjectReference, *types.ClusterVmGroup, error) {
	var cluster types.ManagedObjectReference
	if host := w.inv.entities[m.refTo("runtime.host")]; host != nil {
		cluster = host.parent
	}
	if cluster.Type != "ClusterComputeResource" {
		return cluster, nil, refusal(providers.ReasonRefused, "%s: the machine is on no host of a cluster", groupsPath)
	}
	objects, err := retrieveRefs(ctx, w.live.vim, []types.ManagedObjectReference{cluster},
		[]types.PropertySpec{{Type: cluster.Type, PathSet: []string{"configurationEx"}}})
	if err != nil {
		return cluster, nil, fmt.Errorf("read the groups of its cluster: %w", err)
	}
	for i := range objects {
		config, ok := objects[i].props["configurationEx"].(types.ClusterConfigInfoEx)
		if !ok {
			continue
		}
		for _, g := range config.Group {
			if group, ok := g.(*types.ClusterVmGroup); ok && group.Name == name {
				return cluster, group, nil
			}
		}
	}
	return cluster, nil, refusal(providers.ReasonRefused, "its cluster has no VM group %q", name)
}

// snapshotStep removes one snapshot of a name that the change says; what was
// taken after it stays (VirtualMachineSnapshot.RemoveSnapshot_Task).
func (w *writer) snapshotStep(_ context.Context, m *machine) (*step, error) {
	for _, f := range w.left(m, func(p string) bool { return p == snapshotsPath }) {
		for _, ref := range snapshotsNamed(m, f) {
			what := "remove snapshot " + ref.Value
			if w.done[what] {
				continue
			}
			return &step{name: what, do: func(ctx context.Context) error {
				yes := true
				res, err := methods.RemoveSnapshot_Task(ctx, w.live.vim, &types.RemoveSnapshot_Task{This: ref, Consolidate: &yes})
				if err != nil {
					return err
				}
				return w.finish(ctx, res.Returnval)
			}}, nil
		}
	}
	return nil, nil
}

// snapshotsNamed gives the snapshots that a field change takes away: those with
// the element's name, or all that were seen where it wants the empty set.
func snapshotsNamed(m *machine, f *providers.FieldChange) []types.ManagedObjectReference {
	gone := f.Have
	if f.Element {
		gone = providers.Set(f.Have.Text())
	}
	info, _ := m.props["snapshot"].(types.VirtualMachineSnapshotInfo)
	var out []types.ManagedObjectReference
	pending := slices.Clone(info.RootSnapshotList)
	for len(pending) > 0 {
		tree := pending[len(pending)-1]
		pending = append(pending[:len(pending)-1], tree.ChildSnapshotList...)
		if gone.Has(tree.Name) {
			out = append(out, tree.Snapshot)
		}
	}
	return out
}
