package aws

import (
	"slices"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// seenInstance is an instance with what later joins need of it.
type seenInstance struct {
	*providers.Resource
	// root is the instance's own name for its root device; never a constant,
	// because images differ.
	root string
	// ebsRoot is false for instances whose root is an instance store.
	ebsRoot bool
	devices []device
	disks   seenDisks
}

// seenDisks says which of an instance's disks were seen in full.
type seenDisks int

const (
	someDisks seenDisks = iota
	furtherDisks
	allDisks
)

type device struct{ name, volume string }

// instanceFields is what an instance of CAPA's has, tags and volumes included,
// for the room that is made for them.
const instanceFields = 36

// closedInstance says that absence of these in an answer is absence in EC2.
// The joins with volumes, events and load balancers add theirs.
var closedInstance = []string{
	"/tags", "/iamInstanceProfile", "/iamInstanceProfileArn", "/securityGroups", "/keyName",
	"/placementGroup", "/placementGroupPartition", "/capacityReservationId", "/hostId",
}

// instance converts one instance (EC2, Instance). What is gone keeps its
// identity, state and reason only: the rest of its attributes are blank or
// stale (StateReason).
func (c converter) instance(in *ec2types.Instance) seenInstance {
	r := c.resource(providers.KindInstance, in.InstanceId, instanceFields)
	s := seenInstance{Resource: r}
	var state ec2types.InstanceStateName
	if in.State != nil {
		state = in.State.Name
	}
	reason := stateReason(in)
	word(c, r, "/state", state)
	word(c, r, "/stateReason", reason)
	switch state {
	case ec2types.InstanceStateNameTerminated, ec2types.InstanceStateNameShuttingDown:
		return c.goneInstance(in, s, reason)
	case "":
		r.Unknown = "EC2 gave no state for the instance"
		return s
	}
	r.Closed = closedInstance
	if words := addressWords(in); words != "" {
		r.Fields.Set(pathAddresses, providers.Field{Value: providers.String(words)})
	}
	c.tags(r, in.Tags)
	c.instanceSpec(r, in)
	c.metadata(r, in.MetadataOptions)
	c.placement(r, in)
	s.root = canonical.DeviceName(deref(in.RootDeviceName))
	s.ebsRoot = in.RootDeviceType != ec2types.DeviceTypeInstanceStore
	for i := range in.BlockDeviceMappings {
		m := &in.BlockDeviceMappings[i]
		if m.Ebs != nil {
			s.devices = append(s.devices, device{c.names.text(canonical.DeviceName(deref(m.DeviceName))), deref(m.Ebs.VolumeId)})
		}
	}
	return s
}

func (c converter) goneInstance(in *ec2types.Instance, s seenInstance, reason string) seenInstance {
	s.Gone = "terminated"
	if reason != "" {
		s.Gone += ": " + reason
	}
	s.Closed = nil
	for i := range in.Tags {
		if deref(in.Tags[i].Key) == "Name" {
			s.Name = deref(in.Tags[i].Value)
		}
	}
	return s
}

// stateReason gives the code of the last state change. StateReason is absent
// for most running instances.
func stateReason(in *ec2types.Instance) string {
	if in.StateReason == nil {
		return ""
	}
	return deref(in.StateReason.Code)
}

func (c converter) instanceSpec(r *providers.Resource, in *ec2types.Instance) {
	word(c, r, "/instanceType", in.InstanceType)
	c.text(r, "/imageId", in.ImageId)
	c.set(r, "/securityGroups", primaryGroups(in))
	if in.IamInstanceProfile != nil {
		word(c, r, "/iamInstanceProfile", canonical.InstanceProfile(deref(in.IamInstanceProfile.Arn)))
		c.text(r, "/iamInstanceProfileArn", in.IamInstanceProfile.Arn)
	}
	c.text(r, "/subnetId", in.SubnetId)
	c.text(r, "/vpcId", in.VpcId)
	public := deref(in.PublicIpAddress) != ""
	c.truth(r, "/publicIp", &public)
	word(c, r, "/rootDeviceName", canonical.DeviceName(deref(in.RootDeviceName)))
	c.text(r, "/keyName", in.KeyName)
	spot := in.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot
	c.truth(r, "/spot", &spot)
	c.text(r, "/capacityReservationId", in.CapacityReservationId)
	if in.LaunchTime != nil {
		r.Fields.Set("/launchTime", providers.Field{Value: providers.String(in.LaunchTime.UTC().Format(time.RFC3339))})
	}
}

// primaryGroups gives the groups of the interface at index 0 of card 0, which
// are what the spec declares; those of a CNI's further interfaces are not. The
// instance's own list has all of those and may have more. Where it has fewer,
// the interface still shows a group that was detached, as moto's do; where it
// or the interface is left out, the other stands alone.
func primaryGroups(in *ec2types.Instance) []string {
	whole := groupIDs(in.SecurityGroups)
	for i := range in.NetworkInterfaces {
		eni := &in.NetworkInterfaces[i]
		a := eni.Attachment
		if a == nil || deref(a.DeviceIndex) != 0 || deref(a.NetworkCardIndex) != 0 {
			continue
		}
		groups := groupIDs(eni.Groups)
		if len(whole) == 0 {
			return groups
		}
		return slices.DeleteFunc(groups, func(id string) bool { return !slices.Contains(whole, id) })
	}
	return whole
}

func (c converter) metadata(r *providers.Resource, o *ec2types.InstanceMetadataOptionsResponse) {
	if o == nil {
		return
	}
	word(c, r, "/metadataOptions/httpTokens", o.HttpTokens)
	word(c, r, "/metadataOptions/httpEndpoint", o.HttpEndpoint)
	word(c, r, "/metadataOptions/instanceMetadataTags", o.InstanceMetadataTags)
	c.number(r, "/metadataOptions/httpPutResponseHopLimit", o.HttpPutResponseHopLimit)
}

func (c converter) placement(r *providers.Resource, in *ec2types.Instance) {
	if p := in.Placement; p != nil {
		c.text(r, "/availabilityZone", p.AvailabilityZone)
		word(c, r, "/tenancy", p.Tenancy)
		word(c, r, "/placementGroup", deref(p.GroupName))
		if deref(p.PartitionNumber) > 0 {
			c.number(r, "/placementGroupPartition", p.PartitionNumber)
		}
		word(c, r, "/hostId", deref(p.HostId))
	}
	if o := in.CpuOptions; o != nil {
		word(c, r, "/cpuOptions/amdSevSnp", o.AmdSevSnp)
		word(c, r, "/cpuOptions/nestedVirtualization", o.NestedVirtualization)
	}
}

// scheduledEvents gives "code id" for each event that is still to come. EC2
// keeps completed and cancelled ones for a week and says so at the start of
// their description only (EC2, InstanceStatusEvent).
func scheduledEvents(events []ec2types.InstanceStatusEvent) []string {
	var out []string
	for i := range events {
		e := &events[i]
		description := deref(e.Description)
		if strings.HasPrefix(description, "[Completed]") || strings.HasPrefix(description, "[Canceled]") {
			continue
		}
		out = append(out, strings.TrimSpace(string(e.Code)+" "+deref(e.InstanceEventId)))
	}
	slices.Sort(out)
	return out
}

// addressWords gives an instance's addresses in the order in which CAPA lists
// them, interface by interface, as "InternalDNS=NAME InternalIP=ADDRESS". They
// are one field, as nothing is compared with them.
func addressWords(in *ec2types.Instance) string {
	var words []string
	add := func(kind clusterv1beta1.MachineAddressType, address *string) {
		if a := deref(address); a != "" && !strings.ContainsAny(a, " =") {
			words = append(words, string(kind)+"="+a)
		}
	}
	for i := range in.NetworkInterfaces {
		eni := &in.NetworkInterfaces[i]
		add(clusterv1beta1.MachineInternalDNS, eni.PrivateDnsName)
		add(clusterv1beta1.MachineInternalIP, eni.PrivateIpAddress)
		if a := eni.Association; a != nil {
			add(clusterv1beta1.MachineExternalDNS, a.PublicDnsName)
			add(clusterv1beta1.MachineExternalIP, a.PublicIp)
		}
		for j := range eni.Ipv6Addresses {
			add(clusterv1beta1.MachineInternalIP, eni.Ipv6Addresses[j].Ipv6Address)
		}
	}
	return strings.Join(words, " ")
}
