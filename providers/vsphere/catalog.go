package vsphere

import "github.com/holdfast-io/holdfast/providers"

// Where the rules come from: the vSphere Web Services API, by object and
// property, and CAPV's API, by type.
const (
	sourcePower     = "vSphere API, VirtualMachineRuntimeInfo.powerState"
	sourceHardware  = "vSphere API, VirtualHardware; CAPV, VirtualMachineCloneSpec"
	sourceConfig    = "vSphere API, VirtualMachineConfigInfo; CAPV, VirtualMachineCloneSpec"
	sourceDisk      = "vSphere API, VirtualDisk.capacityInBytes; CAPV, VirtualMachineCloneSpec and VSphereDisk"
	sourceNetwork   = "vSphere API, VirtualEthernetCard; CAPV, NetworkDeviceSpec"
	sourceGuest     = "vSphere API, GuestInfo.net and toolsRunningStatus; CAPV, NetworkDeviceSpec.ipAddrs"
	sourcePlace     = "vSphere API, ManagedEntity.parent and VirtualMachine; CAPV, VirtualMachineCloneSpec and VSphereFailureDomain"
	sourceTag       = "vSphere Automation API, tagging, list-attached-tags-on-objects; CAPV, VirtualMachineCloneSpec.tagIDs"
	sourcePolicy    = "Storage Policy API, PbmQueryAssociatedProfiles; CAPV, VirtualMachineCloneSpec.storagePolicyName"
	sourceGroup     = "vSphere API, ClusterVmGroup; CAPV, FailureDomainHosts.vmGroupName"
	sourceSnapshot  = "vSphere API, VirtualMachineSnapshotInfo"
	sourceResources = "vSphere API, ResourceAllocationInfo; CAPV, VirtualMachineResources"
)

// Catalog gives every field that this provider compares.
func Catalog() []providers.CatalogRow {
	row := func(path, from string, m providers.Mutability, compare, source string) providers.CatalogRow {
		return providers.CatalogRow{
			Kind: providers.KindVirtualMachine, Path: path, From: from, Mutability: m, Compare: compare, Source: source,
		}
	}
	const machine = "VSphereMachine spec."
	return []providers.CatalogRow{
		row("/powerState", "always poweredOn: CAPV powers on what is off", providers.InPlace, "equal; suspended is not poweredOn", sourcePower),
		row("/numCPUs", machine+"numCPUs", providers.InPlaceDisruptive, "equal; 0 is no opinion", sourceHardware),
		row("/coresPerSocket", machine+"numCoresPerSocket", providers.InPlaceDisruptive, "equal; 0 is no opinion", sourceHardware),
		row("/memoryMiB", machine+"memoryMiB", providers.InPlaceDisruptive, "equal, in MiB; 0 is no opinion", sourceHardware),
		row("/hardwareVersion", machine+"hardwareVersion", providers.InPlaceDisruptive, "not lower", sourceConfig),
		row("/nestedHV", machine+"nestedHV", providers.InPlaceDisruptive, "equal", sourceConfig),
		row("/ftEncryptionMode", machine+"ftEncryptionMode", providers.InPlaceDisruptive, "equal", sourceConfig),
		row("/migrateEncryption", machine+"migrateEncryption", providers.InPlace, "equal", sourceConfig),
		row("/resources/requests/cpu", machine+"resources.requests.cpu", providers.InPlace, "equal, in MHz rounded up", sourceResources),
		row("/resources/requests/memory", machine+"resources.requests.memory", providers.InPlace, "equal, in MiB rounded up", sourceResources),
		row("/resources/limits/cpu", machine+"resources.limits.cpu", providers.InPlace, "equal, in MHz rounded up", sourceResources),
		row("/resources/limits/memory", machine+"resources.limits.memory", providers.InPlace, "equal, in MiB rounded up", sourceResources),
		row("/resources/shares/cpu", machine+"resources.shares.cpu", providers.InPlace, "equal", sourceResources),
		row("/resources/shares/memory", machine+"resources.shares.memory", providers.InPlace, "equal", sourceResources),
		row("/disks/KEY/sizeGiB", machine+"diskGiB, additionalDisksGiB, dataDisks", providers.InPlace,
			"not smaller; by device key, a missing disk by the spec's name; other disks are somebody else's", sourceDisk),
		row("/pciDevices", machine+"pciDevices", providers.InPlaceDisruptive, "each wanted device is there, by vendor and device id or vGPU profile", sourceHardware),
		row("/networkCount", machine+"network.devices", providers.InPlace, "as many adapters as devices", sourceNetwork),
		row("/networks/INDEX/networkName", machine+"network.devices[].networkName, VSphereFailureDomain spec.topology.networks", providers.InPlace,
			"the network that name, path, id or glob means", sourceNetwork),
		row("/networks/INDEX/adapterType", "always vmxnet3: CAPV makes no other", providers.InPlaceDisruptive, "equal", sourceNetwork),
		row("/networks/INDEX/macAddress", machine+"network.devices[].macAddr", providers.InPlaceDisruptive, "equal, any spelling; unset is no opinion", sourceNetwork),
		row("/addresses", machine+"network.devices[].ipAddrs", providers.ReadOnly, "each declared address is reported while the tools run; others do not matter", sourceGuest),
		row("/datacenter", machine+"datacenter, VSphereFailureDomain spec.topology.datacenter", providers.Immutable, "equal inventory paths", sourcePlace),
		row("/folder", machine+"folder, VSphereDeploymentZone spec.placementConstraint.folder", providers.InPlace, "equal inventory paths", sourcePlace),
		row("/resourcePool", machine+"resourcePool, VSphereDeploymentZone spec.placementConstraint.resourcePool", providers.InPlace, "equal inventory paths; hosts do not matter", sourcePlace),
		row("/datastore", machine+"datastore, VSphereFailureDomain spec.topology.datastore", providers.InPlace,
			"equal inventory paths, or another datastore of the same datastore cluster", sourcePlace),
		row("/storagePolicy", machine+"storagePolicyName", providers.InPlace, "equal name of the home's policy", sourcePolicy),
		row("/vmGroups", "VSphereFailureDomain spec.topology.hosts.vmGroupName", providers.InPlace, "a member of the group", sourceGroup),
		row("/name", "VSphereVM metadata.name", providers.InPlace, "equal", sourceConfig),
		row("/tags/TAG", machine+"tagIDs", providers.InPlace, "attached, by id; shown as CATEGORY:NAME", sourceTag),
		row("/extraConfig/KEY", machine+"customVMXKeys", providers.InPlace, "equal; what may be secret as digests; other keys do not matter", sourceConfig),
		row("/snapshots", "always none", providers.InPlace, "no snapshot", sourceSnapshot),
	}
}
