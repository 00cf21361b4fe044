package vsphere

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmware/govmomi/find"
	vimobject "github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// Hardware of a machine whose spec does not say (CAPV, VirtualMachineCloneSpec:
// numCPUs and memoryMiB).
const (
	leastCPUs     = 2
	defaultMemory = 2048
)

// source reads the template, or the machine, that is cloned: an instance UUID, a
// name, a path or a managed object (CAPV, package template).
func (m *maker) source(ctx context.Context, at *place) (*object, error) {
	ref, err := m.sourceRef(ctx, at)
	if err != nil {
		return nil, err
	}
	objects, err := retrieveRefs(ctx, m.live.vim, []types.ManagedObjectReference{ref}, []types.PropertySpec{{
		Type: "VirtualMachine", PathSet: []string{"name", "config.hardware", "config.template", "snapshot", "recentTask"},
	}})
	if err != nil {
		return nil, fmt.Errorf("read template %q: %w", m.w.spec.Template, err)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("vCenter tells nothing about template %q", m.w.spec.Template)
	}
	if _, ok := objects[0].props["config.hardware"].(types.VirtualHardware); !ok {
		return nil, refusal(providers.ReasonRefused, "the devices of template %q cannot be read: %s", m.w.spec.Template, objects[0].missing["config.hardware"])
	}
	return &objects[0], nil
}

func (m *maker) sourceRef(ctx context.Context, at *place) (types.ManagedObjectReference, error) {
	name := m.w.spec.Template
	var none types.ManagedObjectReference
	if uuid, err := canonical.UUID(name); err == nil {
		instance := true
		found, err := vimobject.NewSearchIndex(m.live.vim).FindAllByUuid(ctx, nil, uuid, true, &instance)
		if err != nil && !notFound(err) {
			return none, fmt.Errorf("look for template %s: %w", uuid, err)
		}
		if len(found) == 1 {
			return found[0].Reference(), nil
		}
	}
	finder := find.NewFinder(m.live.vim, false)
	dc := vimobject.NewDatacenter(m.live.vim, at.dc.ref)
	dc.InventoryPath = at.dc.path
	vm, err := finder.SetDatacenter(dc).VirtualMachine(ctx, name)
	var missing *find.NotFoundError
	var several *find.MultipleFoundError
	switch {
	case errors.As(err, &missing):
		return none, refusal(providers.ReasonRefused, "datacenter %s has no template %q: upload it, or correct spec.template", at.dc.path, name)
	case errors.As(err, &several):
		return none, refusal(providers.ReasonRefused, "datacenter %s has several templates %q: name one by its path in spec.template", at.dc.path, name)
	case err != nil:
		return none, fmt.Errorf("look for template %q: %w", name, err)
	}
	return vm.Reference(), nil
}

// linkedTo gives the snapshot that a linked clone hangs on, nil where the clone
// is a full one: the template's current one unless the spec names another, and a
// full clone where the template has none, as in CAPV (VirtualMachineCloneSpec,
// cloneMode and snapshot).
func (m *maker) linkedTo(source *object) (*types.ManagedObjectReference, error) {
	spec := &m.w.spec
	if spec.CloneMode == infrav1.FullClone {
		return nil, nil
	}
	info, _ := source.props["snapshot"].(types.VirtualMachineSnapshotInfo)
	if spec.Snapshot == "" {
		return info.CurrentSnapshot, nil
	}
	var found []types.ManagedObjectReference
	pending := slices.Clone(info.RootSnapshotList)
	for len(pending) > 0 {
		tree := pending[len(pending)-1]
		pending = append(pending[:len(pending)-1], tree.ChildSnapshotList...)
		if tree.Name == spec.Snapshot || tree.Snapshot.Value == spec.Snapshot {
			found = append(found, tree.Snapshot)
		}
	}
	if len(found) != 1 {
		return nil, refusal(providers.ReasonRefused, "template %q has %d snapshots %q: correct spec.snapshot, or set spec.cloneMode to fullClone", spec.Template, len(found), spec.Snapshot)
	}
	return &found[0], nil
}

// cloneSpec is all that the clone gets at once. What a server leaves out of it
// Create or Apply set afterwards.
func (m *maker) cloneSpec(ctx context.Context, source *object, at *place) (*types.VirtualMachineCloneSpec, error) {
	snapshot, err := m.linkedTo(source)
	if err != nil {
		return nil, err
	}
	config, err := m.config(ctx, source, at)
	if err != nil {
		return nil, err
	}
	move := types.VirtualMachineRelocateDiskMoveOptionsMoveAllDiskBackingsAndDisallowSharing
	if snapshot != nil {
		move = types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking
	}
	spec := &types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{
			Folder: &at.folder.ref, Pool: &at.pool.ref, Datastore: &at.store.ref, Host: at.host, DiskMoveType: string(move),
		},
		Config: config, Snapshot: snapshot,
	}
	if at.policy != "" {
		spec.Location.Profile = []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: at.policy}}
	}
	return spec, nil
}

func (m *maker) config(ctx context.Context, source *object, at *place) (*types.VirtualMachineConfigSpec, error) {
	spec := &m.w.spec
	yes := true
	config := &types.VirtualMachineConfigSpec{
		InstanceUuid: m.instance,
		// CSI drivers and the guest know disks by their UUIDs.
		Flags:   &types.VirtualMachineFlagInfo{DiskUuidEnabled: &yes},
		NumCPUs: max(spec.NumCPUs, leastCPUs), NumCoresPerSocket: spec.NumCoresPerSocket, MemoryMB: spec.MemoryMiB,
		// With a vApp's properties cloud-init would take them for its source of
		// data instead of guestinfo.
		VAppConfigRemoved: &yes,
		NestedHVEnabled:   spec.NestedHV,
		FtEncryptionMode:  string(spec.FtEncryptionMode),
		MigrateEncryption: string(spec.MigrateEncryption),
		CpuAllocation:     m.allocated("cpu"),
		MemoryAllocation:  m.allocated("memory"),
		ExtraConfig:       slices.Clone(m.guest),
	}
	if spec.NumCPUs > 0 {
		config.NumCPUs = spec.NumCPUs
	}
	if config.MemoryMB == 0 {
		config.MemoryMB = defaultMemory
	}
	if len(spec.PciDevices) > 0 {
		// Passed-through devices reach all of the memory (VirtualPCIPassthrough).
		config.MemoryReservationLockedToMax = &yes
	}
	for _, key := range slices.Sorted(maps.Keys(spec.CustomVMXKeys)) {
		config.ExtraConfig = append(config.ExtraConfig, &types.OptionValue{Key: key, Value: spec.CustomVMXKeys[key]})
	}
	var err error
	config.DeviceChange, err = m.devices(ctx, source, at)
	return config, err
}

// allocated gives what the plan wants reserved, limited and shared.
func (m *maker) allocated(what string) *types.ResourceAllocationInfo {
	a, any := &types.ResourceAllocationInfo{}, false
	for _, part := range []struct {
		name string
		set  func(int64)
	}{
		{"requests", func(n int64) { a.Reservation = &n }},
		{"limits", func(n int64) { a.Limit = &n }},
		{"shares", func(n int64) {
			a.Shares = &types.SharesInfo{Level: types.SharesLevelCustom, Shares: int32(n)} //nolint:gosec // an int32 in the spec
		}},
	} {
		if n, ok := m.want(shareoutPrefix + part.name + "/" + what).Number(); ok {
			part.set(n)
			any = true
		}
	}
	if !any {
		return nil
	}
	return a
}

// unreported says of a field that the clone was given that vCenter tells nothing
// about it, so that no comparison would find it missing.
func unreported(have *providers.Resource, path string) bool {
	_, told := have.Fields.Lookup(path)
	return !told && !have.Closes(path) && (path == migratePath || strings.HasPrefix(path, shareoutPrefix))
}
