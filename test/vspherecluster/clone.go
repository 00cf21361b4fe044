package vspherecluster

import (
	"context"
	"fmt"
	"path"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// clone makes the virtual machine of machine number i in CAPV's steps: clone,
// reconfigure, power on, group, tags; and plays the guest that reports an
// address.
func (b *builder) clone(ctx context.Context, i int) error {
	vsvm := b.env.VSphereVMs[i]
	vm, err := b.cloneVM(ctx, vsvm)
	if err != nil {
		return err
	}
	if err := b.adjust(ctx, vm, vsvm); err != nil {
		return err
	}
	if err := b.guest(ctx, vm, vsvm, i); err != nil {
		return err
	}
	task, err := vm.PowerOn(ctx)
	if err := wait(ctx, task, err, "power on"); err != nil {
		return err
	}
	for _, id := range vsvm.Spec.TagIDs {
		if err := b.Tags.AttachTag(ctx, id, vm.Reference()); err != nil {
			return fmt.Errorf("attach tag %s: %w", id, err)
		}
	}
	if err := b.joinGroup(ctx, vm, b.env.Machines[i]); err != nil {
		return err
	}
	return b.record(ctx, vm, i)
}

func (b *builder) cloneVM(ctx context.Context, vsvm *infrav1.VSphereVM) (*object.VirtualMachine, error) {
	spec := &vsvm.Spec.VirtualMachineCloneSpec
	template, err := b.Finder.VirtualMachine(ctx, spec.Template)
	if err != nil {
		return nil, err
	}
	folder, err := b.Finder.FolderOrDefault(ctx, spec.Folder)
	if err != nil {
		return nil, err
	}
	pool, err := b.Finder.ResourcePool(ctx, spec.ResourcePool)
	if err != nil {
		return nil, err
	}
	location := types.VirtualMachineRelocateSpec{Pool: types.NewReference(pool.Reference())}
	if spec.Datastore != "" {
		ds, err := b.Finder.Datastore(ctx, spec.Datastore)
		if err != nil {
			return nil, err
		}
		location.Datastore = types.NewReference(ds.Reference())
	}
	host, err := b.hostOf(ctx, pool)
	if err != nil {
		return nil, err
	}
	location.Host = host
	changes, err := b.deviceChanges(ctx, template, vsvm)
	if err != nil {
		return nil, err
	}
	task, err := template.Clone(ctx, folder, vsvm.Name, types.VirtualMachineCloneSpec{
		Location: location,
		Config: &types.VirtualMachineConfigSpec{
			// CAPV gives its clones the VSphereVM's UID as instance UUID.
			InstanceUuid: string(vsvm.UID),
			NumCPUs:      spec.NumCPUs,
			MemoryMB:     spec.MemoryMiB,
			DeviceChange: changes,
		},
	})
	if err := wait(ctx, task, err, "clone"); err != nil {
		return nil, err
	}
	return b.Finder.VirtualMachine(ctx, folder.InventoryPath+"/"+vsvm.Name)
}

// hostOf gives a host of the pool's cluster: the simulator has no DRS.
func (b *builder) hostOf(ctx context.Context, pool *object.ResourcePool) (*types.ManagedObjectReference, error) {
	owner, err := pool.Owner(ctx)
	if err != nil {
		return nil, err
	}
	hosts, err := object.NewComputeResource(b.Client.Client, owner.Reference()).Hosts(ctx)
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("pool %s has no host", pool.InventoryPath)
	}
	return types.NewReference(hosts[0].Reference()), nil
}

// deviceChanges grows the template's disk, adds data disks, and replaces the
// template's adapters.
func (b *builder) deviceChanges(ctx context.Context, template *object.VirtualMachine, vsvm *infrav1.VSphereVM) ([]types.BaseVirtualDeviceConfigSpec, error) {
	spec := &vsvm.Spec.VirtualMachineCloneSpec
	devices, err := template.Device(ctx)
	if err != nil {
		return nil, err
	}
	var changes []types.BaseVirtualDeviceConfigSpec
	add := func(op types.VirtualDeviceConfigSpecOperation, file types.VirtualDeviceConfigSpecFileOperation, d types.BaseVirtualDevice) {
		changes = append(changes, &types.VirtualDeviceConfigSpec{Operation: op, FileOperation: file, Device: d})
	}
	disks := devices.SelectByType((*types.VirtualDisk)(nil))
	if len(disks) != 1 {
		return nil, fmt.Errorf("template has %d disks", len(disks))
	}
	primary := disks[0].(*types.VirtualDisk)
	for i, d := range spec.DataDisks {
		unit := int32(i) + 1
		backing := &types.VirtualDiskFlatVer2BackingInfo{DiskMode: string(types.VirtualDiskModePersistent), ThinProvisioned: ptr.To(true)}
		backing.FileName = fmt.Sprintf("[%s] %s/%s_%d.vmdk", path.Base(spec.Datastore), vsvm.Name, vsvm.Name, unit)
		add(types.VirtualDeviceConfigSpecOperationAdd, types.VirtualDeviceConfigSpecFileOperationCreate, &types.VirtualDisk{
			VirtualDevice: types.VirtualDevice{
				Key: -unit, ControllerKey: primary.ControllerKey, UnitNumber: &unit,
				Backing: backing,
			},
			CapacityInKB: int64(d.SizeGiB) << 20,
		})
	}
	for _, nic := range devices.SelectByType((*types.VirtualEthernetCard)(nil)) {
		add(types.VirtualDeviceConfigSpecOperationRemove, "", nic)
	}
	for i := range spec.Network.Devices {
		nic, err := b.adapter(ctx, &spec.Network.Devices[i], int32(-100-i))
		if err != nil {
			return nil, err
		}
		add(types.VirtualDeviceConfigSpecOperationAdd, "", nic)
	}
	return changes, nil
}

func (b *builder) adapter(ctx context.Context, dev *infrav1.NetworkDeviceSpec, key int32) (types.BaseVirtualDevice, error) {
	network, err := b.Finder.Network(ctx, dev.NetworkName)
	if err != nil {
		return nil, err
	}
	backing, err := network.EthernetCardBackingInfo(ctx)
	if err != nil {
		return nil, err
	}
	nic, err := object.EthernetCardTypes().CreateEthernetCard("vmxnet3", backing)
	if err != nil {
		return nil, err
	}
	card := nic.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	card.Key = key
	if dev.MACAddr != "" {
		card.MacAddress, card.AddressType = dev.MACAddr, string(types.VirtualEthernetCardMacTypeManual)
	}
	return nic, nil
}

// adjust sets what the simulator's clone leaves out of its config.
func (b *builder) adjust(ctx context.Context, vm *object.VirtualMachine, vsvm *infrav1.VSphereVM) error {
	spec := &vsvm.Spec.VirtualMachineCloneSpec
	config := types.VirtualMachineConfigSpec{
		NumCoresPerSocket: spec.NumCoresPerSocket, NestedHVEnabled: spec.NestedHV,
		FtEncryptionMode: string(spec.FtEncryptionMode), MigrateEncryption: string(spec.MigrateEncryption),
	}
	allocate(&config, &spec.Resources)
	for i := range spec.PciDevices {
		config.DeviceChange = append(config.DeviceChange, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: vgpu(spec.PciDevices[i].VGPUProfile),
		})
	}
	for key, value := range spec.CustomVMXKeys {
		config.ExtraConfig = append(config.ExtraConfig, &types.OptionValue{Key: key, Value: value})
	}
	config.ExtraConfig = append(config.ExtraConfig,
		&types.OptionValue{Key: "guestinfo.userdata", Value: "I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogaHVudGVyMgo="},
		&types.OptionValue{Key: "guestinfo.userdata.encoding", Value: "base64"},
		&types.OptionValue{Key: "guestinfo.metadata", Value: "aW5zdGFuY2UtaWQ6IHgK"},
	)
	if spec.DiskGiB > 0 {
		devices, err := vm.Device(ctx)
		if err != nil {
			return err
		}
		disk := devices.SelectByType((*types.VirtualDisk)(nil))[0].(*types.VirtualDisk)
		resize(disk, spec.DiskGiB)
		config.DeviceChange = append(config.DeviceChange, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: disk,
		})
	}
	task, err := vm.Reconfigure(ctx, config)
	return wait(ctx, task, err, "reconfigure")
}

func vgpu(profile string) *types.VirtualPCIPassthrough {
	d := &types.VirtualPCIPassthrough{}
	d.Key, d.Backing = -1, &types.VirtualPCIPassthroughVmiopBackingInfo{Vgpu: profile}
	return d
}

// allocate sets what the spec asks for of reservations, limits and shares.
func allocate(config *types.VirtualMachineConfigSpec, r *infrav1.VirtualMachineResources) {
	info := func(request, limit resource.Quantity, shares int32, unit int64) *types.ResourceAllocationInfo {
		a := &types.ResourceAllocationInfo{}
		if !request.IsZero() {
			a.Reservation = ptr.To(request.Value() / unit)
		}
		if !limit.IsZero() {
			a.Limit = ptr.To(limit.Value() / unit)
		}
		if shares > 0 {
			a.Shares = &types.SharesInfo{Level: types.SharesLevelCustom, Shares: shares}
		}
		if *a == (types.ResourceAllocationInfo{}) {
			return nil
		}
		return a
	}
	const mega, mebi = 1_000_000, 1 << 20
	config.CpuAllocation = info(r.Requests.CPU, r.Limits.CPU, r.Shares.CPU, mega)
	config.MemoryAllocation = info(r.Requests.Memory, r.Limits.Memory, r.Shares.Memory, mebi)
}

func resize(disk *types.VirtualDisk, gib int32) {
	disk.CapacityInKB, disk.CapacityInBytes = int64(gib)<<20, int64(gib)<<30
}

// guest has the guest's tools report an address: the static one, or one as
// from DHCP. The simulator takes them from keys in the configuration.
func (b *builder) guest(ctx context.Context, vm *object.VirtualMachine, vsvm *infrav1.VSphereVM, i int) error {
	n := 100 + b.firstGuest + i
	address := fmt.Sprintf("10.20.%d.%d", n/250, n%250)
	for _, d := range vsvm.Spec.Network.Devices {
		for _, a := range d.IPAddrs {
			address = addressOf(a)
		}
	}
	return setGuest(ctx, vm, address, types.VirtualMachineToolsRunningStatusGuestToolsRunning)
}

func addressOf(cidr string) string {
	for i := range cidr {
		if cidr[i] == '/' {
			return cidr[:i]
		}
	}
	return cidr
}

func setGuest(ctx context.Context, vm *object.VirtualMachine, address string, tools types.VirtualMachineToolsRunningStatus) error {
	task, err := vm.Reconfigure(ctx, types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{
		&types.OptionValue{Key: "SET.guest.toolsRunningStatus", Value: string(tools)},
		&types.OptionValue{Key: "SET.guest.ipAddress", Value: address},
	}})
	return wait(ctx, task, err, "set guest address")
}

// joinGroup puts a machine of a host-group failure domain into its group.
func (b *builder) joinGroup(ctx context.Context, vm *object.VirtualMachine, m *clusterv1.Machine) error {
	if m.Spec.FailureDomain == "" {
		return nil
	}
	b.grouped = append(b.grouped, vm.Reference())
	return b.editGroup(ctx, types.ArrayUpdateOperationEdit, b.grouped)
}

// record writes what CAPV and CAPI learn from a running machine into its
// objects.
func (b *builder) record(ctx context.Context, vm *object.VirtualMachine, i int) error {
	var o mo.VirtualMachine
	if err := vm.Properties(ctx, vm.Reference(), []string{"config.uuid", "guest.ipAddress", "runtime.host"}, &o); err != nil {
		return err
	}
	m, vsm, vsvm := b.env.Machines[i], b.env.VSphereMachines[i], b.env.VSphereVMs[i]
	vsvm.Spec.BiosUUID = o.Config.Uuid
	vsvm.Status.CloneMode = infrav1.FullClone
	vsvm.Status.VMRef = vm.Reference().String()
	vsvm.Status.Ready = ptr.To(true)
	vsm.Spec.ProviderID = "vsphere://" + o.Config.Uuid
	vsm.Status.Initialization.Provisioned = ptr.To(true)
	m.Spec.ProviderID = vsm.Spec.ProviderID
	m.Status.Phase = string(clusterv1.MachinePhaseRunning)
	m.Status.NodeRef.Name = m.Name
	m.Status.Initialization = clusterv1.MachineInitializationStatus{
		InfrastructureProvisioned: ptr.To(true), BootstrapDataSecretCreated: ptr.To(true),
	}
	if o.Guest != nil && o.Guest.IpAddress != "" {
		vsvm.Status.Addresses = []string{o.Guest.IpAddress}
		vsm.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineExternalIP, Address: o.Guest.IpAddress}}
		m.Status.Addresses = vsm.Status.Addresses
	}
	return nil
}
