package ec2sim

import (
	"net/netip"
	"slices"
	"strconv"
)

var subnetActions = []*action{
	write("CreateSubnet", (*call).createSubnet),
	write("DeleteSubnet", (*call).deleteSubnet),
	read("DescribeSubnets", (*call).describeSubnets),
	write("ModifySubnetAttribute", (*call).modifySubnetAttribute),
	write("AssociateSubnetCidrBlock", (*call).associateSubnetCIDR),
	write("DisassociateSubnetCidrBlock", (*call).disassociateSubnetCIDR),
}

type subnet struct {
	meta
	SubnetID                      string
	SubnetARN                     string
	OwnerID                       string
	State                         string
	VPCID                         string
	CIDRBlock                     string
	IPv6CIDRBlockAssociationSet   []ipv6Association `wire:"ipv6CidrBlockAssociationSet"`
	AvailableIPAddressCount       int
	AvailabilityZone              string
	AvailabilityZoneID            string
	DefaultForAz                  bool
	MapPublicIPOnLaunch           bool
	AssignIPv6AddressOnCreation   bool `wire:"assignIpv6AddressOnCreation"`
	EnableDNS64                   bool `wire:"enableDns64"`
	IPv6Native                    bool `wire:"ipv6Native"`
	PrivateDNSNameOptionsOnLaunch hostnameOptions

	block netip.Prefix
	next  uint32
	freed []netip.Addr
	taken map[netip.Addr]bool // only those that were asked for by address
}

type hostnameOptions struct {
	HostnameType                    string
	EnableResourceNameDNSARecord    bool `wire:"enableResourceNameDnsARecord"`
	EnableResourceNameDNSAAAARecord bool `wire:"enableResourceNameDnsAAAARecord"`
}

// reserved addresses of each subnet: the first four and the last (VPC user
// guide, "Subnet sizing").
const reserved = 5

type createSubnetIn struct {
	tagSpecs
	VPCID              string
	CIDRBlock          string
	IPv6CIDRBlock      string
	AvailabilityZone   string
	AvailabilityZoneID string
}

type subnetOut struct{ Subnet *subnet }

func (c *call) createSubnet(in *createSubnetIn) (out subnetOut, err *apiError) {
	tags, err := in.tagsFor("subnet")
	if err != nil {
		return out, err
	}
	v, err := c.vpcs.get(c, "vpcId", in.VPCID)
	if err != nil {
		return out, err
	}
	block, err := parseBlock("cidrBlock", in.CIDRBlock)
	if err != nil {
		return out, err
	}
	if !slices.ContainsFunc(v.CIDRBlockAssociationSet, func(a cidrAssociation) bool {
		outer := netip.MustParsePrefix(a.CIDRBlock)
		return outer.Contains(block.Addr()) && outer.Bits() <= block.Bits()
	}) || block.Bits() > 28 {
		return out, failf("InvalidSubnet.Range", "The CIDR '%s' is invalid.", in.CIDRBlock)
	}
	if c.subnets.any(func(s *subnet) bool { return s.VPCID == v.id && s.block.Overlaps(block) }) {
		return out, failf("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", in.CIDRBlock)
	}
	zone, err := c.zone(in.AvailabilityZone, in.AvailabilityZoneID)
	if err != nil {
		return out, err
	}
	id := c.newID("subnet")
	s := &subnet{
		meta: c.newMeta(c.now, id, tags), SubnetID: id, SubnetARN: c.arn("ec2", "subnet/"+id), OwnerID: c.account.id,
		State: "available", VPCID: v.id, CIDRBlock: block.String(), AvailabilityZone: zone, AvailabilityZoneID: c.zoneID(zone),
		AvailableIPAddressCount: 1<<(32-block.Bits()) - reserved, block: block, next: 4,
		PrivateDNSNameOptionsOnLaunch: hostnameOptions{HostnameType: "ip-name"},
	}
	if in.IPv6CIDRBlock != "" {
		s.IPv6CIDRBlockAssociationSet = []ipv6Association{{c.newID("subnet-cidr-assoc"), in.IPv6CIDRBlock, stateItem{"associated"}}}
	}
	c.subnets.add(s)
	c.associateDefaultACL(s)
	return subnetOut{s}, nil
}

// zone checks a zone's name or id; neither means the first zone.
func (c *call) zone(name, id string) (string, *apiError) {
	for _, zone := range c.zones() {
		if (name == "" && id == "") || zone == name || (id != "" && c.zoneID(zone) == id) {
			return zone, nil
		}
	}
	return "", invalid("availabilityZone", name+id, "Subnets can currently only be created in the following availability zones: "+quoted(c.zones()))
}

// takeAddress gives the wanted private address or the next free one.
func (s *subnet) takeAddress(wanted string) (netip.Addr, *apiError) {
	if s.AvailableIPAddressCount == 0 {
		return netip.Addr{}, failf("InsufficientFreeAddressesInSubnet", "The specified subnet does not have enough free addresses to satisfy the request.")
	}
	if wanted != "" {
		addr, err := netip.ParseAddr(wanted)
		if err != nil || !s.block.Contains(addr) {
			return addr, invalid("privateIpAddress", wanted, "Address does not fall within the subnet's address range")
		}
		if s.taken[addr] || s.addressNumber(addr) < s.next && !slices.Contains(s.freed, addr) {
			return addr, failf("InvalidIPAddress.InUse", "Address %s is in use.", wanted)
		}
		s.freed = slices.DeleteFunc(s.freed, func(a netip.Addr) bool { return a == addr })
		if s.taken == nil {
			s.taken = map[netip.Addr]bool{}
		}
		s.taken[addr] = true
		s.AvailableIPAddressCount--
		return addr, nil
	}
	s.AvailableIPAddressCount--
	// Addresses that were given back come last, the oldest first, as it is
	// likely with the many of a real subnet: what goes by a machine's address or
	// the name that follows from it, as Nodes do, would hit its successor.
	for s.next <= s.last() {
		addr := s.numbered(s.next)
		s.next++
		if !s.taken[addr] {
			return addr, nil
		}
	}
	addr := s.freed[0]
	s.freed = s.freed[1:]
	return addr, nil
}

// last is the number of the last address that is given: EC2 keeps the one
// behind it.
func (s *subnet) last() uint32 { return 1<<(32-s.block.Bits()) - 2 }

func (s *subnet) releaseAddress(addr netip.Addr) {
	s.AvailableIPAddressCount++
	if s.taken[addr] {
		delete(s.taken, addr)
		if s.addressNumber(addr) >= s.next {
			return // the counter comes to it again
		}
	}
	s.freed = append(s.freed, addr)
}

func number(addr netip.Addr) uint32 {
	b := addr.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func (s *subnet) addressNumber(addr netip.Addr) uint32 { return number(addr) - number(s.block.Addr()) }

func (s *subnet) numbered(n uint32) netip.Addr {
	n += number(s.block.Addr())
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

type subnetIn struct{ SubnetID string }

func (c *call) deleteSubnet(in *subnetIn) (done, *apiError) {
	s, err := c.subnets.get(c, "subnetId", in.SubnetID)
	if err != nil {
		return done{}, err
	}
	if c.interfaces.any(func(i *networkInterface) bool { return i.SubnetID == s.id }) ||
		c.nats.any(func(n *natGateway) bool { return n.SubnetID == s.id && n.State != "deleted" }) || c.balancerUses(s.id) {
		return done{}, dependency("The subnet '%s' has dependencies and cannot be deleted.", s.id)
	}
	for _, t := range c.routeTables.order {
		t.AssociationSet = slices.DeleteFunc(t.AssociationSet, func(a routeAssociation) bool { return a.SubnetID == s.id })
	}
	for _, a := range c.acls.order {
		a.AssociationSet = slices.DeleteFunc(a.AssociationSet, func(a aclAssociation) bool { return a.SubnetID == s.id })
	}
	c.subnets.remove(s.id)
	return ok()
}

type describeSubnetsIn struct {
	filterIns
	pageIn
	SubnetID []string
}

type describeSubnetsOut struct {
	SubnetSet []*subnet
	NextToken string
}

var subnetFilters = filters[*subnet]{
	"subnet-id":               func(s *subnet) []string { return []string{s.id} },
	"vpc-id":                  func(s *subnet) []string { return []string{s.VPCID} },
	"cidr-block":              func(s *subnet) []string { return []string{s.CIDRBlock} },
	"cidrBlock":               func(s *subnet) []string { return []string{s.CIDRBlock} },
	"cidr":                    func(s *subnet) []string { return []string{s.CIDRBlock} },
	"availability-zone":       func(s *subnet) []string { return []string{s.AvailabilityZone} },
	"availabilityZone":        func(s *subnet) []string { return []string{s.AvailabilityZone} },
	"availability-zone-id":    func(s *subnet) []string { return []string{s.AvailabilityZoneID} },
	"state":                   func(s *subnet) []string { return []string{s.State} },
	"owner-id":                func(s *subnet) []string { return []string{s.OwnerID} },
	"map-public-ip-on-launch": func(s *subnet) []string { return yesNo(s.MapPublicIPOnLaunch) },
	"default-for-az":          func(s *subnet) []string { return yesNo(s.DefaultForAz) },
	"available-ip-address-count": func(s *subnet) []string {
		return []string{strconv.Itoa(s.AvailableIPAddressCount)}
	},
}

func (c *call) describeSubnets(in *describeSubnetsIn) (out describeSubnetsOut, err *apiError) {
	keep, err := condition(c, in.filterIns, subnetFilters)
	if err != nil {
		return out, err
	}
	out.SubnetSet, out.NextToken, err = list(c, &c.subnets, in.SubnetID, keep, in.pageIn, usualLimits)
	return out, err
}

type modifySubnetAttributeIn struct {
	SubnetID                    string
	MapPublicIPOnLaunch         *boolAttribute
	AssignIPv6AddressOnCreation *boolAttribute
	// PrivateDNSHostnameTypeOnLaunch is ip-name or resource-name.
	PrivateDNSHostnameTypeOnLaunch string
}

// modifySubnetAttribute takes one attribute with each call (its reference).
func (c *call) modifySubnetAttribute(in *modifySubnetAttributeIn) (done, *apiError) {
	s, err := c.subnets.get(c, "subnetId", in.SubnetID)
	if err != nil {
		return done{}, err
	}
	given := 0
	for _, is := range []bool{in.MapPublicIPOnLaunch != nil, in.AssignIPv6AddressOnCreation != nil, in.PrivateDNSHostnameTypeOnLaunch != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return done{}, failf("InvalidParameterCombination", "Exactly one attribute must be specified")
	case in.PrivateDNSHostnameTypeOnLaunch != "":
		if kind := in.PrivateDNSHostnameTypeOnLaunch; kind != "ip-name" && kind != "resource-name" {
			return done{}, invalid("privateDnsHostnameTypeOnLaunch", kind, "Expecting ip-name or resource-name")
		}
		s.PrivateDNSNameOptionsOnLaunch.HostnameType = in.PrivateDNSHostnameTypeOnLaunch
	case in.MapPublicIPOnLaunch != nil:
		s.MapPublicIPOnLaunch = in.MapPublicIPOnLaunch.Value
	default:
		s.AssignIPv6AddressOnCreation = in.AssignIPv6AddressOnCreation.Value
	}
	return ok()
}

type associateSubnetCIDRIn struct{ SubnetID, IPv6CIDRBlock string }

type associateSubnetCIDROut struct {
	SubnetID                 string
	IPv6CIDRBlockAssociation ipv6Association `wire:"ipv6CidrBlockAssociation"`
}

func (c *call) associateSubnetCIDR(in *associateSubnetCIDRIn) (out associateSubnetCIDROut, err *apiError) {
	s, err := c.subnets.get(c, "subnetId", in.SubnetID)
	if err != nil {
		return out, err
	}
	block, err := parseBlock("ipv6CidrBlock", in.IPv6CIDRBlock)
	if err != nil {
		return out, err
	}
	added := ipv6Association{c.newID("subnet-cidr-assoc"), block.String(), stateItem{"associated"}}
	s.IPv6CIDRBlockAssociationSet = append(s.IPv6CIDRBlockAssociationSet, added)
	return associateSubnetCIDROut{s.id, added}, nil
}

type disassociateSubnetCIDRIn struct{ AssociationID string }

func (c *call) disassociateSubnetCIDR(in *disassociateSubnetCIDRIn) (out associateSubnetCIDROut, err *apiError) {
	is := func(a ipv6Association) bool { return a.AssociationID == in.AssociationID }
	s, found := c.subnets.first(func(s *subnet) bool { return slices.ContainsFunc(s.IPv6CIDRBlockAssociationSet, is) })
	if !found {
		return out, failf("InvalidSubnetCidrBlockAssociationID.NotFound", "The association ID '%s' does not exist", in.AssociationID)
	}
	at := slices.IndexFunc(s.IPv6CIDRBlockAssociationSet, is)
	gone := s.IPv6CIDRBlockAssociationSet[at]
	gone.IPv6CIDRBlockState.State = "disassociating"
	s.IPv6CIDRBlockAssociationSet = slices.Delete(s.IPv6CIDRBlockAssociationSet, at, at+1)
	return associateSubnetCIDROut{s.id, gone}, nil
}
