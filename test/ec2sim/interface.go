package ec2sim

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// networkInterface is an elastic network interface. Instances show the same
// groups, because they show their interfaces' own.
type networkInterface struct {
	meta
	NetworkInterfaceID    string
	InterfaceType         string
	SubnetID              string
	VPCID                 string
	AvailabilityZone      string
	Description           string
	OwnerID               string
	RequesterID           string
	RequesterManaged      bool
	Status                string
	MACAddress            string
	PrivateIPAddress      string
	PrivateDNSName        string
	SourceDestCheck       bool
	GroupSet              []groupRef
	Attachment            *interfaceAttachment
	Association           *publicAddress
	PrivateIPAddressesSet []privateAddress
	IPv6AddressesSet      []empty

	subnet *subnet
}

type interfaceAttachment struct {
	AttachmentID        string
	InstanceID          string
	InstanceOwnerID     string
	DeviceIndex         int
	NetworkCardIndex    int
	Status              string
	AttachTime          time.Time
	DeleteOnTermination bool
}

type publicAddress struct {
	PublicIP      string
	PublicDNSName string
	IPOwnerID     string
	AllocationID  string
	AssociationID string
}

type privateAddress struct {
	PrivateIPAddress string
	PrivateDNSName   string
	Primary          bool
	Association      *publicAddress
}

func (r *region) privateDNSName(ip string) string {
	dashed := "ip-" + strings.ReplaceAll(ip, ".", "-")
	if r.name == "us-east-1" {
		return dashed + ".ec2.internal"
	}
	return dashed + "." + r.name + ".compute.internal"
}

func (r *region) publicDNSName(ip string) string {
	dashed := "ec2-" + strings.ReplaceAll(ip, ".", "-")
	if r.name == "us-east-1" {
		return dashed + ".compute-1.amazonaws.com"
	}
	return dashed + "." + r.name + ".compute.amazonaws.com"
}

// newPublicIP counts upwards from a block that is never routed (RFC 2544).
func (r *region) newPublicIP() string {
	r.srv.publicIPs++
	n := 198<<24 + 18<<16 + r.srv.publicIPs
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}).String()
}

// newInterface makes an unattached one; without groups it gets the VPC's
// default group (CreateNetworkInterface reference).
func (c *call) newInterface(s *subnet, groups []*securityGroup, description, ip string) (*networkInterface, *apiError) {
	if len(groups) == 0 {
		g, _ := c.groups.first(func(g *securityGroup) bool { return g.VPCID == s.VPCID && g.GroupName == "default" })
		groups = []*securityGroup{g}
	}
	addr, err := s.takeAddress(ip)
	if err != nil {
		return nil, err
	}
	id := c.newID("eni")
	i := &networkInterface{
		meta: c.newMeta(c.now, id, nil), NetworkInterfaceID: id, InterfaceType: "interface", SubnetID: s.id, VPCID: s.VPCID,
		AvailabilityZone: s.AvailabilityZone, Description: description, OwnerID: c.account.id, RequesterID: c.account.id,
		Status: "available", PrivateIPAddress: addr.String(), SourceDestCheck: true, GroupSet: refs(groups), subnet: s,
	}
	n := c.srv.ids
	i.MACAddress = fmt.Sprintf("06:%02x:%02x:%02x:%02x:%02x", byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	i.PrivateDNSName = c.privateDNSName(i.PrivateIPAddress)
	c.interfaces.add(i)
	return i, nil
}

// dropInterface deletes one and frees its addresses.
func (r *region) dropInterface(i *networkInterface) {
	for _, a := range r.addresses.where(func(a *address) bool { return a.NetworkInterfaceID == i.id }) {
		r.unbindAddress(a)
	}
	i.Attachment, i.Association = nil, nil
	i.subnet.releaseAddress(netip.MustParseAddr(i.PrivateIPAddress))
	r.interfaces.remove(i.id)
}

var interfaceActions = []*action{
	create("CreateNetworkInterface", (*call).createInterface),
	write("DeleteNetworkInterface", (*call).deleteInterface),
	read("DescribeNetworkInterfaces", (*call).describeInterfaces),
	write("AttachNetworkInterface", (*call).attachInterface),
	write("DetachNetworkInterface", (*call).detachInterface),
	write("ModifyNetworkInterfaceAttribute", (*call).modifyInterface),
}

type createInterfaceIn struct {
	tagSpecs
	SubnetID         string
	SecurityGroupID  []string
	Description      string
	PrivateIPAddress string
	InterfaceType    string
	ClientToken      string
}

type interfaceOut struct {
	NetworkInterface *networkInterface
	ClientToken      string
}

func (c *call) createInterface(in *createInterfaceIn) (out interfaceOut, err *apiError) {
	tags, err := in.tagsFor("network-interface")
	if err != nil {
		return out, err
	}
	s, err := c.subnets.get(c, "subnetId", in.SubnetID)
	if err != nil {
		return out, err
	}
	groups, err := c.groupsIn(s.VPCID, in.SecurityGroupID)
	if err != nil {
		return out, err
	}
	i, err := c.newInterface(s, groups, in.Description, in.PrivateIPAddress)
	if err != nil {
		return out, err
	}
	if in.InterfaceType != "" {
		i.InterfaceType = in.InterfaceType
	}
	i.TagSet.set(tags, c.now, c.srv.options.Consistency.TagsFor)
	return interfaceOut{i.shown(), in.ClientToken}, nil
}

// groupsIn finds groups that must all be of one VPC.
func (c *call) groupsIn(vpcID string, groupIDs []string) ([]*securityGroup, *apiError) {
	groups, err := c.groups.pick(c, groupIDs)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if g.VPCID != vpcID {
			return nil, failf("InvalidParameter", "Security group %s and subnet belong to different networks.", g.id)
		}
	}
	return groups, nil
}

type interfaceIn struct {
	NetworkInterfaceID string
	InstanceID         string
	DeviceIndex        *int
	AttachmentID       string
	Force              bool
}

func (c *call) deleteInterface(in *interfaceIn) (done, *apiError) {
	i, err := c.interfaces.get(c, "networkInterfaceId", in.NetworkInterfaceID)
	if err != nil {
		return done{}, err
	}
	if i.Status == "in-use" {
		return done{}, failf("InvalidNetworkInterface.InUse", "Network interface '%s' is currently in use.", i.id)
	}
	c.dropInterface(i)
	return ok()
}

type attachInterfaceOut struct{ AttachmentID string }

func (c *call) attachInterface(in *interfaceIn) (out attachInterfaceOut, err *apiError) {
	i, err := c.interfaces.get(c, "networkInterfaceId", in.NetworkInterfaceID)
	if err != nil {
		return out, err
	}
	target, err := c.instances.get(c, "instanceId", in.InstanceID)
	if err != nil {
		return out, err
	}
	switch {
	case in.DeviceIndex == nil:
		return out, missing("deviceIndex")
	case i.Status == "in-use":
		return out, failf("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", i.id)
	case target.state != "running" && target.state != "stopped":
		return out, incorrectState(target)
	case slices.ContainsFunc(target.interfaces, func(other *networkInterface) bool {
		return other.Attachment.DeviceIndex == *in.DeviceIndex
	}):
		return out, failf("InvalidParameterValue", "Instance '%s' already has an interface attached at device index '%d'.", target.id, *in.DeviceIndex)
	case i.AvailabilityZone != target.zone:
		return out, failf("InvalidParameterCombination", "You may not attach a network interface to an instance if they are not in the same availability zone")
	}
	c.attach(i, target, *in.DeviceIndex, false)
	return attachInterfaceOut{i.Attachment.AttachmentID}, nil
}

func (c *call) attach(i *networkInterface, target *instance, index int, deleteOnTermination bool) {
	i.Status = "in-use"
	i.Attachment = &interfaceAttachment{
		AttachmentID: c.newID("eni-attach"), InstanceID: target.id, InstanceOwnerID: c.account.id, DeviceIndex: index,
		Status: "attached", AttachTime: c.now, DeleteOnTermination: deleteOnTermination,
	}
	target.interfaces = append(target.interfaces, i)
}

func (c *call) detachInterface(in *interfaceIn) (done, *apiError) {
	i, found := c.interfaces.first(func(i *networkInterface) bool {
		return i.Attachment != nil && i.Attachment.AttachmentID == in.AttachmentID && in.AttachmentID != ""
	})
	if !found {
		return done{}, failf("InvalidAttachmentID.NotFound", "The attachment ID '%s' does not exist", in.AttachmentID)
	}
	if i.Attachment.DeviceIndex == 0 {
		return done{}, failf("OperationNotPermitted", "The network interface at device index 0 cannot be detached.")
	}
	if target, ok := c.instances.byID[i.Attachment.InstanceID]; ok {
		target.interfaces = slices.DeleteFunc(target.interfaces, func(other *networkInterface) bool { return other == i })
	}
	i.Attachment, i.Status = nil, "available"
	return ok()
}

type modifyInterfaceIn struct {
	NetworkInterfaceID string
	SecurityGroupID    []string
	Description        *textValue
	SourceDestCheck    *boolAttribute
	Attachment         *struct {
		AttachmentID        string
		DeleteOnTermination *bool
	}
}

func (c *call) modifyInterface(in *modifyInterfaceIn) (done, *apiError) {
	i, err := c.interfaces.get(c, "networkInterfaceId", in.NetworkInterfaceID)
	if err != nil {
		return done{}, err
	}
	if in.SecurityGroupID != nil {
		groups, err := c.groupsIn(i.VPCID, in.SecurityGroupID)
		if err != nil {
			return done{}, err
		}
		i.GroupSet = refs(groups)
	}
	if in.Description != nil {
		i.Description = in.Description.Value
	}
	if in.SourceDestCheck != nil {
		i.SourceDestCheck = in.SourceDestCheck.Value
	}
	if in.Attachment != nil {
		if i.Attachment == nil || i.Attachment.AttachmentID != in.Attachment.AttachmentID {
			return done{}, failf("InvalidAttachmentID.NotFound", "The attachment ID '%s' does not exist", in.Attachment.AttachmentID)
		}
		if in.Attachment.DeleteOnTermination != nil {
			i.Attachment.DeleteOnTermination = *in.Attachment.DeleteOnTermination
		}
	}
	return ok()
}

type describeInterfacesIn struct {
	filterIns
	pageIn
	NetworkInterfaceID []string
}

type describeInterfacesOut struct {
	NetworkInterfaceSet []*networkInterface
	NextToken           string
}

func attached(value func(*interfaceAttachment) string) func(*networkInterface) []string {
	return func(i *networkInterface) []string {
		if i.Attachment == nil {
			return nil
		}
		return one(value(i.Attachment))
	}
}

var interfaceFilters = filters[*networkInterface]{
	"network-interface-id":             func(i *networkInterface) []string { return []string{i.id} },
	"vpc-id":                           func(i *networkInterface) []string { return []string{i.VPCID} },
	"subnet-id":                        func(i *networkInterface) []string { return []string{i.SubnetID} },
	"group-id":                         func(i *networkInterface) []string { return ids(i.GroupSet) },
	"group-name":                       func(i *networkInterface) []string { return names(i.GroupSet) },
	"status":                           func(i *networkInterface) []string { return []string{i.Status} },
	"description":                      func(i *networkInterface) []string { return []string{i.Description} },
	"interface-type":                   func(i *networkInterface) []string { return []string{i.InterfaceType} },
	"availability-zone":                func(i *networkInterface) []string { return []string{i.AvailabilityZone} },
	"private-ip-address":               func(i *networkInterface) []string { return []string{i.PrivateIPAddress} },
	"mac-address":                      func(i *networkInterface) []string { return []string{i.MACAddress} },
	"requester-managed":                func(i *networkInterface) []string { return yesNo(i.RequesterManaged) },
	"owner-id":                         func(i *networkInterface) []string { return []string{i.OwnerID} },
	"attachment.instance-id":           attached(func(a *interfaceAttachment) string { return a.InstanceID }),
	"attachment.attachment-id":         attached(func(a *interfaceAttachment) string { return a.AttachmentID }),
	"attachment.status":                attached(func(a *interfaceAttachment) string { return a.Status }),
	"attachment.instance-owner-id":     attached(func(a *interfaceAttachment) string { return a.InstanceOwnerID }),
	"attachment.device-index":          attached(func(a *interfaceAttachment) string { return strconv.Itoa(a.DeviceIndex) }),
	"attachment.delete-on-termination": attached(func(a *interfaceAttachment) string { return yesNo(a.DeleteOnTermination)[0] }),
}

func (c *call) describeInterfaces(in *describeInterfacesIn) (out describeInterfacesOut, err *apiError) {
	keep, err := condition(c, in.filterIns, interfaceFilters)
	if err != nil {
		return out, err
	}
	found, next, err := list(c, &c.interfaces, in.NetworkInterfaceID, keep, in.pageIn, usualLimits)
	for _, i := range found {
		out.NetworkInterfaceSet = append(out.NetworkInterfaceSet, i.shown())
	}
	out.NextToken = next
	return out, err
}

// shown adds the list of private addresses, which is not stored.
func (i *networkInterface) shown() *networkInterface {
	view := *i
	view.PrivateIPAddressesSet = []privateAddress{{i.PrivateIPAddress, i.PrivateDNSName, true, i.Association}}
	return &view
}
