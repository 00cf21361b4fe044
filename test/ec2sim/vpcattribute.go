package ec2sim

import (
	"net/netip"
	"slices"
)

type modifyVPCAttributeIn struct {
	VPCID                            string
	EnableDNSSupport                 *boolAttribute
	EnableDNSHostnames               *boolAttribute
	EnableNetworkAddressUsageMetrics *boolAttribute
}

// modifyVPCAttribute takes one attribute a call; DNS hostnames need DNS
// support (ModifyVpcAttribute reference).
func (c *call) modifyVPCAttribute(in *modifyVPCAttributeIn) (done, *apiError) {
	v, err := c.vpcs.get(c, "vpcId", in.VPCID)
	if err != nil {
		return done{}, err
	}
	given := map[string]*boolAttribute{
		"enableDnsSupport": in.EnableDNSSupport, "enableDnsHostnames": in.EnableDNSHostnames,
		"enableNetworkAddressUsageMetrics": in.EnableNetworkAddressUsageMetrics,
	}
	n := 0
	for _, value := range given {
		if value != nil {
			n++
		}
	}
	if n != 1 {
		return done{}, failf("InvalidParameterCombination", "Exactly one attribute must be specified")
	}
	if in.EnableDNSHostnames != nil && in.EnableDNSHostnames.Value && !v.attributes["enableDnsSupport"] {
		return done{}, failf("InvalidParameterCombination", "DNS hostnames need DNS support")
	}
	for name, value := range given {
		if value != nil {
			v.attributes[name] = value.Value
		}
	}
	return ok()
}

type describeVPCAttributeIn struct {
	VPCID     string
	Attribute string
}

type describeVPCAttributeOut struct {
	VPCID                            string
	EnableDNSSupport                 *boolAttribute
	EnableDNSHostnames               *boolAttribute
	EnableNetworkAddressUsageMetrics *boolAttribute
}

func (c *call) describeVPCAttribute(in *describeVPCAttributeIn) (out describeVPCAttributeOut, err *apiError) {
	v, err := c.vpcs.get(c, "vpcId", in.VPCID)
	if err != nil {
		return out, err
	}
	out.VPCID = v.id
	value := &boolAttribute{v.attributes[in.Attribute]}
	switch in.Attribute {
	case "enableDnsSupport":
		out.EnableDNSSupport = value
	case "enableDnsHostnames":
		out.EnableDNSHostnames = value
	case "enableNetworkAddressUsageMetrics":
		out.EnableNetworkAddressUsageMetrics = value
	default:
		return out, invalid("attribute", in.Attribute, "Unknown attribute.")
	}
	return out, nil
}

type associateVPCCIDRIn struct {
	VPCID                       string
	CIDRBlock                   string
	AmazonProvidedIPv6CIDRBlock bool
}

type associateVPCCIDROut struct {
	VPCID                    string
	CIDRBlockAssociation     *cidrAssociation
	IPv6CIDRBlockAssociation *ipv6Association `wire:"ipv6CidrBlockAssociation"`
}

func (c *call) associateVPCCIDR(in *associateVPCCIDRIn) (out associateVPCCIDROut, err *apiError) {
	v, err := c.vpcs.get(c, "vpcId", in.VPCID)
	if err != nil {
		return out, err
	}
	out.VPCID = v.id
	if in.AmazonProvidedIPv6CIDRBlock {
		added := c.newIPv6Block()
		v.IPv6CIDRBlockAssociationSet = append(v.IPv6CIDRBlockAssociationSet, added)
		out.IPv6CIDRBlockAssociation = &added
		c.openDefaultACL6(v)
		return out, nil
	}
	block, err := parseBlock("cidrBlock", in.CIDRBlock)
	if err != nil {
		return out, err
	}
	for _, a := range v.CIDRBlockAssociationSet {
		if netip.MustParsePrefix(a.CIDRBlock).Overlaps(block) {
			return out, failf("InvalidVpc.Range", "The CIDR '%s' conflicts with another CIDR of the VPC.", in.CIDRBlock)
		}
	}
	added := cidrAssociation{c.newID("vpc-cidr-assoc"), block.String(), stateItem{"associated"}}
	v.CIDRBlockAssociationSet = append(v.CIDRBlockAssociationSet, added)
	out.CIDRBlockAssociation = &added
	return out, nil
}

type associationIn struct{ AssociationID string }

func (c *call) disassociateVPCCIDR(in *associationIn) (out associateVPCCIDROut, err *apiError) {
	for _, v := range c.vpcs.order {
		at := slices.IndexFunc(v.CIDRBlockAssociationSet, func(a cidrAssociation) bool { return a.AssociationID == in.AssociationID })
		if at == 0 {
			return out, failf("OperationNotPermitted", "The primary CIDR block of a VPC cannot be disassociated")
		}
		if at > 0 {
			removed := v.CIDRBlockAssociationSet[at]
			v.CIDRBlockAssociationSet = slices.Delete(v.CIDRBlockAssociationSet, at, at+1)
			return associateVPCCIDROut{VPCID: v.id, CIDRBlockAssociation: &removed}, nil
		}
	}
	return out, failf("InvalidVpcCidrBlockAssociationID.NotFound", "The vpc CIDR block association ID '%s' does not exist", in.AssociationID)
}

type describeDHCPOptionsIn struct {
	filterIns
	pageIn
	DHCPOptionsID []string
}

type describeDHCPOptionsOut struct {
	DHCPOptionsSet []dhcpOptions
}

type dhcpOptions struct {
	DHCPOptionsID        string
	OwnerID              string
	DHCPConfigurationSet []dhcpConfiguration
}

type dhcpConfiguration struct {
	Key      string
	ValueSet []textValue
}

type textValue struct{ Value string }

// describeDHCPOptions knows the region's default set only.
func (c *call) describeDHCPOptions(in *describeDHCPOptionsIn) (out describeDHCPOptionsOut, err *apiError) {
	for _, id := range in.DHCPOptionsID {
		if id != c.dhcpOptions {
			return out, failf("InvalidDhcpOptionID.NotFound", "The dhcpOption ID '%s' does not exist", id)
		}
	}
	domain := c.name + ".compute.internal"
	if c.name == "us-east-1" {
		domain = "ec2.internal"
	}
	out.DHCPOptionsSet = []dhcpOptions{{c.dhcpOptions, c.account.id, []dhcpConfiguration{
		{"domain-name", []textValue{{domain}}}, {"domain-name-servers", []textValue{{"AmazonProvidedDNS"}}},
	}}}
	return out, nil
}
