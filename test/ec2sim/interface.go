package ec2sim

import (
	"fmt"
	"net/netip"
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
