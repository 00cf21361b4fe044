package ec2sim

import (
	"regexp"
	"strconv"
	"strings"
)

var runActions = []*action{create("RunInstances", (*call).runInstances)}

var instanceTypeName = regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9-]+$`)

// runInstances makes all instances or none. The checks that need no state
// change come first, so that a refused launch leaves nothing behind.
func (c *call) runInstances(in *runIn) (runOut, *apiError) {
	plan, err := c.planLaunch(in)
	if err != nil {
		return runOut{}, err
	}
	reservation := &reservation{id: c.newID("r")}
	out := runOut{reservation: reservation}
	for n := range in.MaxCount {
		i, err := c.launch(in, plan, reservation, n)
		if err != nil {
			return runOut{}, err
		}
		out.launched = append(out.launched, i)
	}
	return out.shown(c), nil
}

// launchPlan is what all instances of a launch share.
type launchPlan struct {
	image   *image
	subnet  *subnet
	groups  []*securityGroup
	profile *instanceProfile
	devices []*volume // templates
	nics    []nicIn
	options metadataOptions
	cpu     cpuOptions
	tags    map[string][]Tag
}

func (c *call) planLaunch(in *runIn) (*launchPlan, *apiError) {
	p := &launchPlan{tags: map[string][]Tag{}}
	kinds := []string{"instance", "volume", "network-interface", "spot-instances-request"}
	var err *apiError
	for _, kind := range kinds {
		if p.tags[kind], err = in.tagsFor(kind, kinds...); err != nil {
			return nil, err
		}
	}
	if in.InstanceType == "" {
		in.InstanceType = "m1.small"
	}
	switch {
	case in.MinCount < 1 || in.MaxCount < in.MinCount:
		return nil, invalid("minCount", strconv.Itoa(in.MinCount), "Expecting 1 to maxCount")
	case in.MaxCount > 1000:
		return nil, failf("InstanceLimitExceeded", "You have requested more instances (%d) than your current limit of 1000", in.MaxCount)
	case !instanceTypeName.MatchString(in.InstanceType):
		return nil, failf("InvalidParameterValue", "Invalid value '%s' for InstanceType.", in.InstanceType)
	case in.KeyName != "" && c.keys[in.KeyName] == nil:
		return nil, failf("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", in.KeyName)
	case in.Placement.GroupName != "" && c.placementGroups[in.Placement.GroupName] == nil:
		return nil, failf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", in.Placement.GroupName)
	case len(in.UserData) > 16384*4/3+4:
		return nil, failf("InvalidParameterValue", "User data is limited to 16384 bytes")
	}
	if p.image, err = c.images.get(c, "imageId", in.ImageID); err != nil {
		return nil, err
	}
	if err := c.planNetwork(in, p); err != nil {
		return nil, err
	}
	if in.IAMInstanceProfile != (profileIn{}) {
		if p.profile, err = c.findProfile(in.IAMInstanceProfile); err != nil {
			return nil, err
		}
	}
	if p.options, err = defaultMetadata.with(in.MetadataOptions); err != nil {
		return nil, err
	}
	p.cpu = cpuOf(in.InstanceType)
	if in.CPUOptions != nil {
		p.cpu = *in.CPUOptions
	}
	p.devices, err = c.planDevices(p.image, in.BlockDeviceMapping)
	return p, err
}

// planNetwork finds the subnet and groups, which the request has either at
// its top or in its primary network interface.
func (c *call) planNetwork(in *runIn, p *launchPlan) *apiError {
	if len(in.NetworkInterface) > 0 && (in.SubnetID != "" || len(in.SecurityGroupID) > 0) {
		return failf("InvalidParameterCombination", "Network interfaces and an instance-level subnet ID or security groups may not be specified on the same request")
	}
	p.nics = in.NetworkInterface
	if len(p.nics) == 0 {
		p.nics = []nicIn{{SubnetID: in.SubnetID, SecurityGroupID: in.SecurityGroupID, PrivateIPAddress: in.PrivateIPAddress}}
	}
	primary := p.nics[0]
	if primary.DeviceIndex != 0 {
		return failf("InvalidParameterValue", "The first network interface must have device index 0")
	}
	subnetID := primary.SubnetID
	if primary.NetworkInterfaceID != "" {
		nic, err := c.interfaces.get(c, "networkInterfaceId", primary.NetworkInterfaceID)
		if err != nil {
			return err
		}
		if nic.Status == "in-use" || in.MaxCount > 1 {
			return failf("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", nic.id)
		}
		subnetID = nic.SubnetID
	}
	if subnetID == "" {
		return failf("VPCIdNotSpecified", "No default VPC for this user. GroupName is only supported for EC2-Classic and default VPC.")
	}
	var err *apiError
	if p.subnet, err = c.subnets.get(c, "subnetId", subnetID); err != nil {
		return err
	}
	if zone := in.Placement.AvailabilityZone; zone != "" && zone != p.subnet.AvailabilityZone {
		return invalid("availabilityZone", zone, "The subnet is in "+p.subnet.AvailabilityZone)
	}
	if p.subnet.AvailableIPAddressCount < in.MaxCount*len(p.nics) {
		return failf("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", p.subnet.id)
	}
	for _, nic := range p.nics {
		if p.groups, err = c.groupsIn(p.subnet.VPCID, nic.SecurityGroupID); err != nil {
			return err
		}
	}
	p.groups, err = c.groupsIn(p.subnet.VPCID, primary.SecurityGroupID)
	return err
}

// launch makes one instance of a plan.
func (c *call) launch(in *runIn, p *launchPlan, r *reservation, n int) (*instance, *apiError) {
	id := c.newID("i")
	i := &instance{
		meta: c.newMeta(c.now, id, p.tags["instance"]), reservation: r, index: n, image: p.image, kind: in.InstanceType,
		keyName: in.KeyName, clientToken: in.ClientToken, subnet: p.subnet, zone: p.subnet.AvailabilityZone, vpcID: p.subnet.VPCID,
		metadata: p.options, cpu: p.cpu, userData: in.UserData, monitoring: in.Monitoring.Enabled, ebsOptimized: in.EBSOptimized,
		keepRunning: in.DisableAPITermination, keepStarted: in.DisableAPIStop, shutdownBehavior: in.InstanceInitiatedShutdownBehavior,
		capacityReservation: in.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationID,
		capacityPreference:  "open", hostname: hostnameOptions{HostnameType: "ip-name"},
	}
	i.placement = placement{
		AvailabilityZone: i.zone, AvailabilityZoneID: c.zoneID(i.zone), GroupName: in.Placement.GroupName,
		Tenancy: "default", HostID: in.Placement.HostID, PartitionNumber: in.Placement.PartitionNumber,
	}
	if g := c.placementGroups[in.Placement.GroupName]; g != nil {
		i.placement.GroupID = g.GroupID
	}
	if in.Placement.Tenancy != "" {
		i.placement.Tenancy = in.Placement.Tenancy
	}
	if preference := in.CapacityReservationSpecification.CapacityReservationPreference; preference != "" {
		i.capacityPreference = preference
	}
	if in.InstanceMarketOptions.MarketType == "spot" {
		i.spotRequest = "sir-" + strings.TrimPrefix(c.newID("sir"), "sir-0")[:8]
	}
	if in.PrivateDNSNameOptions != nil {
		i.hostname = hostnameOptions(*in.PrivateDNSNameOptions)
	}
	if err := c.plugInterfaces(i, p); err != nil {
		return nil, err
	}
	for _, template := range p.devices {
		c.attachNew(i, template, p.tags["volume"])
	}
	if p.profile != nil {
		i.profile = &profileAssociation{id: c.newID("iip-assoc"), instance: i, profile: p.profile, state: "associated", since: c.now}
	}
	c.instances.add(i)
	c.start(i, c.now)
	return i, nil
}

// plugInterfaces makes and attaches the interfaces of a plan.
func (c *call) plugInterfaces(i *instance, p *launchPlan) *apiError {
	for _, wanted := range p.nics {
		nic, given := c.interfaces.byID[wanted.NetworkInterfaceID]
		if !given {
			groups, err := c.groupsIn(p.subnet.VPCID, wanted.SecurityGroupID)
			if err != nil {
				return err
			}
			if nic, err = c.newInterface(p.subnet, groups, wanted.Description, wanted.PrivateIPAddress); err != nil {
				return err
			}
			nic.TagSet.set(p.tags["network-interface"], c.now, c.srv.options.Consistency.TagsFor)
		}
		deleted := !given
		if wanted.DeleteOnTermination != nil {
			deleted = *wanted.DeleteOnTermination
		}
		c.attach(nic, i, wanted.DeviceIndex, deleted)
		if wanted.DeviceIndex == 0 {
			i.wantsPublicIP = wanted.AssociatePublicIPAddress
		}
	}
	return nil
}

// runOut is the reservation of a launch.
type runOut struct {
	ReservationID string
	OwnerID       string
	GroupSet      []groupRef
	InstancesSet  []*instanceView

	reservation *reservation
	launched    []*instance
}

func (out runOut) shown(c *call) runOut {
	out.ReservationID, out.OwnerID = out.reservation.id, c.account.id
	out.InstancesSet = nil
	for _, i := range out.launched {
		out.InstancesSet = append(out.InstancesSet, i.view())
	}
	return out
}

// replay shows the instances as they are now; one that was terminated since
// is the error IdempotentInstanceTerminated.
func (out runOut) replay(c *call) (any, *apiError) {
	for _, i := range out.launched {
		if i.state == "terminated" || i.state == "shutting-down" {
			return nil, failf("IdempotentInstanceTerminated", "The request uses the same client token as a previous request "+
				"whose instance '%s' has been terminated", i.id)
		}
	}
	return out.shown(c), nil
}
