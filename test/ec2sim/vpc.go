package ec2sim

import (
	"net/netip"
)

var vpcActions = []*action{
	write("CreateVpc", (*call).createVPC),
	write("DeleteVpc", (*call).deleteVPC),
	read("DescribeVpcs", (*call).describeVPCs),
	write("ModifyVpcAttribute", (*call).modifyVPCAttribute),
	read("DescribeVpcAttribute", (*call).describeVPCAttribute),
	write("AssociateVpcCidrBlock", (*call).associateVPCCIDR),
	write("DisassociateVpcCidrBlock", (*call).disassociateVPCCIDR),
	read("DescribeDhcpOptions", (*call).describeDHCPOptions),
}

type vpc struct {
	meta
	VPCID                       string
	OwnerID                     string
	State                       string
	CIDRBlock                   string
	CIDRBlockAssociationSet     []cidrAssociation
	IPv6CIDRBlockAssociationSet []ipv6Association `wire:"ipv6CidrBlockAssociationSet"`
	DHCPOptionsID               string
	InstanceTenancy             string
	IsDefault                   bool

	attributes map[string]bool
}

type cidrAssociation struct {
	AssociationID  string
	CIDRBlock      string
	CIDRBlockState stateItem
}

type ipv6Association struct {
	AssociationID      string
	IPv6CIDRBlock      string    `wire:"ipv6CidrBlock"`
	IPv6CIDRBlockState stateItem `wire:"ipv6CidrBlockState"`
}

type stateItem struct{ State string }

type boolAttribute struct{ Value bool }

type createVPCIn struct {
	tagSpecs
	CIDRBlock                   string
	InstanceTenancy             string
	AmazonProvidedIPv6CIDRBlock bool
}

type vpcOut struct{ VPC *vpc }

// createVPC also makes what every VPC has: its main route table, its default
// network ACL and its default security group (VPC user guide).
func (c *call) createVPC(in *createVPCIn) (vpcOut, *apiError) {
	if in.CIDRBlock == "" {
		return vpcOut{}, missing("cidrBlock")
	}
	tags, err := in.tagsFor("vpc")
	if err != nil {
		return vpcOut{}, err
	}
	block, err := parseBlock("cidrBlock", in.CIDRBlock)
	if err != nil {
		return vpcOut{}, err
	}
	if block.Bits() < 16 || block.Bits() > 28 {
		return vpcOut{}, failf("InvalidVpc.Range", "The CIDR '%s' is invalid.", in.CIDRBlock)
	}
	tenancy := in.InstanceTenancy
	if tenancy == "" {
		tenancy = "default"
	}
	id := c.newID("vpc")
	v := &vpc{
		meta: c.newMeta(c.now, id, tags), VPCID: id, OwnerID: c.account.id, State: "available", CIDRBlock: block.String(),
		DHCPOptionsID: c.dhcpOptions, InstanceTenancy: tenancy,
		attributes: map[string]bool{"enableDnsSupport": true, "enableDnsHostnames": false, "enableNetworkAddressUsageMetrics": false},
	}
	v.CIDRBlockAssociationSet = []cidrAssociation{{c.newID("vpc-cidr-assoc"), v.CIDRBlock, stateItem{"associated"}}}
	if in.AmazonProvidedIPv6CIDRBlock {
		v.IPv6CIDRBlockAssociationSet = []ipv6Association{c.newIPv6Block()}
	}
	c.vpcs.add(v)
	c.addMainRouteTable(v)
	c.addDefaultACL(v)
	if in.AmazonProvidedIPv6CIDRBlock {
		c.openDefaultACL6(v)
	}
	c.addGroup(v, "default", "default VPC security group", nil)
	return vpcOut{v}, nil
}

func (c *call) newIPv6Block() ipv6Association {
	id := c.newID("vpc-cidr-assoc")
	raw := [16]byte{0x26, 0x00, 0x1f, 0x18, byte(c.seq >> 16), byte(c.seq >> 8), byte(c.seq)}
	return ipv6Association{id, netip.PrefixFrom(netip.AddrFrom16(raw), 56).String(), stateItem{"associated"}}
}

// parseBlock reads a CIDR and clears its host bits, as EC2 does.
func parseBlock(parameter, text string) (netip.Prefix, *apiError) {
	block, err := netip.ParsePrefix(text)
	if err != nil {
		return block, invalid(parameter, text, "This is not a valid CIDR block.")
	}
	return block.Masked(), nil
}

type deleteVPCIn struct{ VPCID string }

func (c *call) deleteVPC(in *deleteVPCIn) (done, *apiError) {
	v, err := c.vpcs.get(c, "vpcId", in.VPCID)
	if err != nil {
		return done{}, err
	}
	inUse := c.subnets.any(func(s *subnet) bool { return s.VPCID == v.id }) ||
		c.gateways.any(func(g *internetGateway) bool { return g.attachedTo() == v.id }) ||
		c.egressGateways.any(func(g *egressGateway) bool { return g.vpcID() == v.id }) ||
		c.groups.any(func(g *securityGroup) bool { return g.VPCID == v.id && g.GroupName != "default" }) ||
		c.routeTables.any(func(t *routeTable) bool { return t.VPCID == v.id && !t.isMain() }) ||
		c.acls.any(func(a *networkACL) bool { return a.VPCID == v.id && !a.Default })
	if inUse {
		return done{}, dependency("The vpc '%s' has dependencies and cannot be deleted.", v.id)
	}
	for _, g := range c.groups.where(func(g *securityGroup) bool { return g.VPCID == v.id }) {
		c.groups.remove(g.id)
	}
	for _, t := range c.routeTables.where(func(t *routeTable) bool { return t.VPCID == v.id }) {
		c.routeTables.remove(t.id)
	}
	for _, a := range c.acls.where(func(a *networkACL) bool { return a.VPCID == v.id }) {
		c.acls.remove(a.id)
	}
	c.vpcs.remove(v.id)
	return ok()
}

type describeVPCsIn struct {
	filterIns
	pageIn
	VPCID []string
}

type describeVPCsOut struct {
	VPCSet    []*vpc
	NextToken string
}

var vpcFilters = filters[*vpc]{
	"vpc-id": func(v *vpc) []string { return []string{v.id} },
	"cidr":   func(v *vpc) []string { return []string{v.CIDRBlock} },
	"cidr-block-association.cidr-block": func(v *vpc) []string {
		var blocks []string
		for _, a := range v.CIDRBlockAssociationSet {
			blocks = append(blocks, a.CIDRBlock)
		}
		return blocks
	},
	"state":           func(v *vpc) []string { return []string{v.State} },
	"is-default":      func(v *vpc) []string { return yesNo(v.IsDefault) },
	"owner-id":        func(v *vpc) []string { return []string{v.OwnerID} },
	"dhcp-options-id": func(v *vpc) []string { return []string{v.DHCPOptionsID} },
}

func (c *call) describeVPCs(in *describeVPCsIn) (out describeVPCsOut, err *apiError) {
	keep, err := condition(c, in.filterIns, vpcFilters)
	if err != nil {
		return out, err
	}
	out.VPCSet, out.NextToken, err = list(c, &c.vpcs, in.VPCID, keep, in.pageIn, usualLimits)
	return out, err
}
