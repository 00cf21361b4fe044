package aws

import "github.com/holdfast-io/holdfast/providers"

var instanceRow = row(providers.KindInstance)

// catalogInstance are the fields of a machine's instance. The bastion shares
// those that its AWSCluster sets.
var catalogInstance = []providers.CatalogRow{
	instanceRow("/state", "existence of the AWSMachine", inPlace, "running; a terminated instance is gone, whatever else it shows", "EC2 API: InstanceState, StateReason"),
	instanceRow("/instanceType", "AWSMachine spec.instanceType", disruptive, "exactly", "EC2 API: ModifyInstanceAttribute"),
	instanceRow("/imageId", "AWSMachine spec.ami.id", immutable, "exactly; an image found by lookup is compared with nothing", "EC2 API: RunInstances, ImageId"),
	instanceRow("/tags/KEY", "AWSMachine and AWSCluster spec.additionalTags; ownership, role and name", inPlace, "case-sensitive, only wanted keys; aws: keys and other clusters' ownership are foreign", "EC2 API: CreateTags; CAPA: api/v1beta2 Build"),
	instanceRow("/securityGroups", "AWSMachine spec.additionalSecurityGroups, spec.securityGroupOverrides; the cluster's groups of the machine's roles", inPlace, "set of ids on the primary interface; names and filters resolved within the VPC", "EC2 API: ModifyInstanceAttribute, Groups; CAPA: GetCoreSecurityGroups"),
	instanceRow("/iamInstanceProfile", "AWSMachine spec.iamInstanceProfile, a name", inPlace, "last path segment of the ARN, any partition", "EC2 API: ReplaceIamInstanceProfileAssociation"),
	instanceRow("/iamInstanceProfileArn", "AWSMachine spec.iamInstanceProfile, a full ARN", inPlace, "exactly", "EC2 API: ReplaceIamInstanceProfileAssociation"),
	instanceRow("/subnetId", "AWSMachine spec.subnet", immutable, "an id exactly; filters that match several are a membership test", "EC2 API: RunInstances, SubnetId; CAPA: findSubnet"),
	instanceRow("/availabilityZone", "Machine spec.failureDomain", immutable, "exactly", "EC2 API: Placement"),
	instanceRow("/publicIp", "AWSMachine spec.publicIP", immutable, "whether there is a public address, while the instance runs", "EC2 API: InstanceNetworkInterfaceSpecification"),
	instanceRow("/metadataOptions/httpTokens", "AWSMachine spec.instanceMetadataOptions.httpTokens", inPlace, "exactly", "EC2 API: ModifyInstanceMetadataOptions"),
	instanceRow("/metadataOptions/httpEndpoint", "AWSMachine spec.instanceMetadataOptions.httpEndpoint", inPlace, "exactly", "EC2 API: ModifyInstanceMetadataOptions"),
	instanceRow("/metadataOptions/httpPutResponseHopLimit", "AWSMachine spec.instanceMetadataOptions.httpPutResponseHopLimit", inPlace, "number", "EC2 API: ModifyInstanceMetadataOptions"),
	instanceRow("/metadataOptions/instanceMetadataTags", "AWSMachine spec.instanceMetadataOptions.instanceMetadataTags", inPlace, "exactly", "EC2 API: ModifyInstanceMetadataOptions"),
	instanceRow("/rootVolume/size", "AWSMachine spec.rootVolume.size", inPlace, "GiB, by the instance's own root device; EC2 can grow a volume and not shrink it", "EC2 API: ModifyVolume"),
	instanceRow("/rootVolume/type", "AWSMachine spec.rootVolume.type", inPlace, "exactly", "EC2 API: ModifyVolume"),
	instanceRow("/rootVolume/iops", "AWSMachine spec.rootVolume.iops", inPlace, "number, for types whose IOPS can be set", "EC2 API: CreateVolume, Iops"),
	instanceRow("/rootVolume/throughput", "AWSMachine spec.rootVolume.throughput", inPlace, "MiB/s, for gp3", "EC2 API: CreateVolume, Throughput"),
	instanceRow("/rootVolume/encrypted", "AWSMachine spec.rootVolume.encrypted or encryptionKey", immutable, "only where wanted: encryption by default overrides false", "EC2 API: CreateVolume, Encrypted"),
	instanceRow("/rootVolume/kmsKeyId", "AWSMachine spec.rootVolume.encryptionKey", immutable, "key id, without the ARN before it; of an alias, the key that it points at now", "EC2 API: CreateVolume, KmsKeyId"),
	instanceRow("/nonRootVolumes/DEVICE/size", "AWSMachine spec.nonRootVolumes[].size", inPlace, "GiB, by device name; volumes that are not listed are foreign", "EC2 API: ModifyVolume"),
	instanceRow("/nonRootVolumes/DEVICE/type", "AWSMachine spec.nonRootVolumes[].type", inPlace, "exactly", "EC2 API: ModifyVolume"),
	instanceRow("/nonRootVolumes/DEVICE/iops", "AWSMachine spec.nonRootVolumes[].iops", inPlace, "number, for types whose IOPS can be set", "EC2 API: CreateVolume, Iops"),
	instanceRow("/nonRootVolumes/DEVICE/throughput", "AWSMachine spec.nonRootVolumes[].throughput", inPlace, "MiB/s, for gp3", "EC2 API: CreateVolume, Throughput"),
	instanceRow("/nonRootVolumes/DEVICE/encrypted", "AWSMachine spec.nonRootVolumes[].encrypted or encryptionKey", immutable, "only where wanted", "EC2 API: CreateVolume, Encrypted"),
	instanceRow("/nonRootVolumes/DEVICE/kmsKeyId", "AWSMachine spec.nonRootVolumes[].encryptionKey", immutable, "key id, without the ARN before it; of an alias, the key that it points at now", "EC2 API: CreateVolume, KmsKeyId"),
	instanceRow("/keyName", "AWSMachine spec.sshKeyName", immutable, "exactly; the cluster's default is not held against machines", "EC2 API: RunInstances, KeyName"),
	instanceRow("/spot", "AWSMachine spec.marketType, spec.spotMarketOptions", immutable, "whether the instance is a spot instance", "EC2 API: Instance, InstanceLifecycle"),
	instanceRow("/tenancy", "AWSMachine spec.tenancy; host where a dedicated host is named", immutable, "exactly", "EC2 API: Placement"),
	instanceRow("/hostId", "AWSMachine spec.hostID, or status.dedicatedHost.id of a host that CAPA allocated", immutable, "exactly, where the affinity is host", "EC2 API: Placement"),
	instanceRow("/placementGroup", "AWSMachine spec.placementGroupName", immutable, "exactly", "EC2 API: Placement"),
	instanceRow("/placementGroupPartition", "AWSMachine spec.placementGroupPartition", immutable, "number", "EC2 API: Placement"),
	instanceRow("/capacityReservationId", "AWSMachine spec.capacityReservationId", immutable, "exactly", "EC2 API: Instance, CapacityReservationId"),
	instanceRow("/cpuOptions/amdSevSnp", "AWSMachine spec.cpuOptions.confidentialCompute", immutable, "enabled; disabled only where the instance shows it", "EC2 API: CpuOptions"),
	instanceRow("/cpuOptions/nestedVirtualization", "AWSMachine spec.cpuOptions.nestedVirtualization", immutable, "enabled; disabled only where the instance shows it", "EC2 API: CpuOptions"),
	instanceRow("/userData", "the Machine's bootstrap Secret", immutable, "informational after boot: the token in it is renewed, so it is not compared", "EC2 API: ModifyInstanceAttribute, UserData"),
	instanceRow("/scheduledEvents", "nothing: any event is news", readOnly, "event id; completed ones are left out", "EC2 API: InstanceStatusEvent"),
	instanceRow("/loadBalancers/NAME", "AWSCluster spec.controlPlaneLoadBalancer, spec.secondaryControlPlaneLoadBalancer", inPlace, "registered in each on its own port, for control-plane machines that run", "ELB API: RegisterInstancesWithLoadBalancer; ELBv2 API: RegisterTargets"),
}

var (
	interfaceRow = row(providers.KindNetworkInterface)

	// catalogAttached are the fields of what a machine's spec attaches.
	catalogAttached = []providers.CatalogRow{
		interfaceRow("/state", "AWSMachine spec.networkInterfaces", immutable, compareExists, "EC2 API: DescribeNetworkInterfaces"),
		interfaceRow("/instanceId", "AWSMachine spec.networkInterfaces", disruptive, "exactly", "EC2 API: AttachNetworkInterface"),
		interfaceRow("/deviceIndex", "AWSMachine spec.networkInterfaces, the place in the list", disruptive, "number", "EC2 API: AttachNetworkInterface"),
	}
)
