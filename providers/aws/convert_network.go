package aws

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// cidr sets a canonical prefix. What EC2 reports and is no prefix is kept as
// it is: it equals nothing that a spec can want.
func (c converter) cidr(r *providers.Resource, path string, s *string) {
	if deref(s) != "" {
		word(c, r, path, canonicalCIDR(*s))
	}
}

func canonicalCIDR(s string) string {
	if canon, err := canonical.CIDR(s); err == nil {
		return canon
	}
	return s
}

// vpc converts one VPC (EC2, Vpc). Its DNS attributes are read apart.
func (c converter) vpc(in *ec2types.Vpc) *providers.Resource {
	r := c.resource(providers.KindVPC, in.VpcId, 12)
	c.tags(r, in.Tags)
	c.cidr(r, "/cidrBlock", in.CidrBlock)
	var blocks []string
	for i := range in.CidrBlockAssociationSet {
		a := &in.CidrBlockAssociationSet[i]
		if a.CidrBlockState == nil || holds(string(a.CidrBlockState.State)) {
			blocks = append(blocks, canonicalCIDR(deref(a.CidrBlock)))
		}
	}
	for i := range in.Ipv6CidrBlockAssociationSet {
		a := &in.Ipv6CidrBlockAssociationSet[i]
		if deref(a.Ipv6CidrBlock) != "" && (a.Ipv6CidrBlockState == nil || holds(string(a.Ipv6CidrBlockState.State))) {
			blocks = append(blocks, canonicalCIDR(*a.Ipv6CidrBlock))
		}
	}
	if len(blocks) == 0 && deref(in.CidrBlock) != "" {
		blocks = []string{canonicalCIDR(*in.CidrBlock)}
	}
	c.set(r, "/cidrBlocks", blocks)
	return r
}

// holds reports whether a block in this state of its association is there: a
// state that nobody knows yet is not absence (EC2, VpcCidrBlockState and
// SubnetCidrBlockState).
func holds(state string) bool {
	switch ec2types.SubnetCidrBlockStateCode(state) {
	case ec2types.SubnetCidrBlockStateCodeDisassociating, ec2types.SubnetCidrBlockStateCodeDisassociated,
		ec2types.SubnetCidrBlockStateCodeFailing, ec2types.SubnetCidrBlockStateCodeFailed:
		return false
	default:
		return true
	}
}

// subnet converts one subnet (EC2, Subnet). Its route table and network ACL
// come from the reads of those.
func (c converter) subnet(in *ec2types.Subnet) *providers.Resource {
	r := c.resource(providers.KindSubnet, in.SubnetId, 14)
	r.Closed = []string{"/tags", "/ipv6CidrBlock"}
	c.tags(r, in.Tags)
	c.text(r, "/vpcId", in.VpcId)
	c.cidr(r, "/cidrBlock", in.CidrBlock)
	for i := range in.Ipv6CidrBlockAssociationSet {
		a := &in.Ipv6CidrBlockAssociationSet[i]
		if a.Ipv6CidrBlockState == nil || holds(string(a.Ipv6CidrBlockState.State)) {
			c.cidr(r, "/ipv6CidrBlock", a.Ipv6CidrBlock)
			break
		}
	}
	c.text(r, "/availabilityZone", in.AvailabilityZone)
	c.truth(r, "/mapPublicIpOnLaunch", in.MapPublicIpOnLaunch)
	return r
}

// internetGateway converts either kind of internet gateway (EC2,
// InternetGateway and EgressOnlyInternetGateway).
func (c converter) internetGateway(id *string, egressOnly bool, attachments []ec2types.InternetGatewayAttachment, tags []ec2types.Tag) *providers.Resource {
	r := c.resource(providers.KindInternetGateway, id, 8)
	r.Closed = []string{"/tags", "/vpcId"}
	c.tags(r, tags)
	c.truth(r, "/egressOnly", &egressOnly)
	for i := range attachments {
		// Internet gateways say "available", the others "attached".
		switch attachments[i].State {
		case ec2types.AttachmentStatusAttached, ec2types.AttachmentStatusAttaching, "available":
			c.text(r, "/vpcId", attachments[i].VpcId)
		}
	}
	return r
}

// natGateway converts one NAT gateway (EC2, NatGateway). A deleted one shows
// for about an hour.
func (c converter) natGateway(in *ec2types.NatGateway) *providers.Resource {
	r := c.resource(providers.KindNATGateway, in.NatGatewayId, 12)
	word(c, r, "/state", in.State)
	switch in.State {
	case ec2types.NatGatewayStateDeleted, ec2types.NatGatewayStateFailed:
		r.Gone = string(in.State)
		if code := deref(in.FailureCode); code != "" {
			r.Gone += ": " + code
		}
		r.Closed = nil
		return r
	}
	c.tags(r, in.Tags)
	c.text(r, "/vpcId", in.VpcId)
	c.text(r, "/subnetId", in.SubnetId)
	var allocations, addresses []string
	for i := range in.NatGatewayAddresses {
		a := &in.NatGatewayAddresses[i]
		if deref(a.AllocationId) != "" {
			allocations = append(allocations, *a.AllocationId)
		}
		if deref(a.PublicIp) != "" {
			addresses = append(addresses, *a.PublicIp)
		}
	}
	c.set(r, "/allocationIds", allocations)
	c.set(r, "/publicIps", addresses)
	return r
}

// routeTable converts one route table (EC2, RouteTable). /associations are the
// subnets that name it; those that merely inherit a main table do not.
func (c converter) routeTable(in *ec2types.RouteTable) *providers.Resource {
	r := c.resource(providers.KindRouteTable, in.RouteTableId, 14)
	r.Closed = []string{"/tags", "/routes"}
	c.tags(r, in.Tags)
	c.text(r, "/vpcId", in.VpcId)
	var main bool
	var subnets []string
	for i := range in.Associations {
		a := &in.Associations[i]
		if s := a.AssociationState; s != nil && (s.State == ec2types.RouteTableAssociationStateCodeDisassociated || s.State == ec2types.RouteTableAssociationStateCodeFailed) {
			continue
		}
		main = main || deref(a.Main)
		if deref(a.SubnetId) != "" {
			subnets = append(subnets, *a.SubnetId)
		}
	}
	c.truth(r, "/main", &main)
	c.set(r, "/associations", subnets)
	for i := range in.Routes {
		if destination, target := route(&in.Routes[i]); destination != "" {
			word(c, r, c.names.text(providers.Pointer("routes", destination)), target)
		}
	}
	return r
}

// route gives a route's destination and target. A route whose target is gone
// stays in the table as a black hole, with the target's id.
func route(in *ec2types.Route) (destination, target string) {
	switch {
	case deref(in.DestinationCidrBlock) != "":
		destination = canonicalCIDR(*in.DestinationCidrBlock)
	case deref(in.DestinationIpv6CidrBlock) != "":
		destination = canonicalCIDR(*in.DestinationIpv6CidrBlock)
	default:
		destination = deref(in.DestinationPrefixListId)
	}
	// An instance's route also names its interface; the instance says more.
	for _, id := range []*string{
		in.GatewayId, in.NatGatewayId, in.EgressOnlyInternetGatewayId, in.InstanceId, in.NetworkInterfaceId,
		in.TransitGatewayId, in.VpcPeeringConnectionId, in.LocalGatewayId, in.CarrierGatewayId, in.CoreNetworkArn, in.OdbNetworkArn,
	} {
		if deref(id) != "" {
			target = *id
			break
		}
	}
	if in.State == ec2types.RouteStateBlackhole {
		target = strings.TrimSpace(blackhole + target)
	}
	return destination, target
}

// networkACL converts one network ACL (EC2, NetworkAcl).
func (c converter) networkACL(in *ec2types.NetworkAcl) *providers.Resource {
	r := c.resource(providers.KindNetworkACL, in.NetworkAclId, 10)
	c.tags(r, in.Tags)
	c.text(r, "/vpcId", in.VpcId)
	c.truth(r, "/default", in.IsDefault)
	var subnets, ingress, egress []string
	for i := range in.Associations {
		if deref(in.Associations[i].SubnetId) != "" {
			subnets = append(subnets, *in.Associations[i].SubnetId)
		}
	}
	for i := range in.Entries {
		e := &in.Entries[i]
		words, err := aclEntry(e)
		if err != nil {
			r.Unknown = fmt.Sprintf("entry that EC2 reports cannot be read: %v", err)
			continue
		}
		if deref(e.Egress) {
			egress = append(egress, words)
		} else {
			ingress = append(ingress, words)
		}
	}
	c.set(r, "/associations", subnets)
	c.set(r, "/ingress", ingress)
	c.set(r, "/egress", egress)
	return r
}

// aclEntry gives an entry's words: number, action and rule. The number is part
// of its identity, because it decides which entry comes first.
func aclEntry(e *ec2types.NetworkAclEntry) (string, error) {
	direction := canonical.Ingress
	if deref(e.Egress) {
		direction = canonical.Egress
	}
	from, to := canonical.NoPort, canonical.NoPort
	if p := e.PortRange; p != nil {
		from, to = portOf(p.From), portOf(p.To)
	}
	if t := e.IcmpTypeCode; t != nil {
		from, to = portOf(t.Type), portOf(t.Code)
	}
	cidr := deref(e.CidrBlock)
	if cidr == "" {
		cidr = deref(e.Ipv6CidrBlock)
	}
	words, _, err := canonical.Rule(direction, deref(e.Protocol), from, to, cidr)
	if err != nil {
		return "", err
	}
	return strconv.Itoa(int(deref(e.RuleNumber))) + " " + string(e.RuleAction) + " " + words, nil
}

// joinRouteTables gives each subnet its route table: the one that names it, or
// the main table of its VPC (VPC guide, "Subnet route tables").
func joinRouteTables(subnets, tables []*providers.Resource) {
	byName, main := map[string]string{}, map[string]string{}
	for _, t := range tables {
		for _, subnet := range t.Fields.Get("/associations").Value.Elements() {
			byName[subnet] = t.ID.Name
		}
		if t.Fields.Get("/main").Value.Equal(providers.Bool(true)) {
			main[t.Fields.Get("/vpcId").Value.Text()] = t.ID.Name
		}
	}
	for _, s := range subnets {
		table, ok := byName[s.ID.Name]
		if !ok {
			table, ok = main[s.Fields.Get("/vpcId").Value.Text()]
		}
		if ok {
			s.Fields.Set("/routeTableId", providers.Field{Value: providers.String(table)})
		}
	}
}

// joinNetworkACLs gives each subnet the network ACL that names it; every
// subnet has exactly one.
func joinNetworkACLs(subnets, acls []*providers.Resource) {
	bySubnet := map[string]string{}
	for _, acl := range acls {
		for _, subnet := range acl.Fields.Get("/associations").Value.Elements() {
			bySubnet[subnet] = acl.ID.Name
		}
	}
	for _, s := range subnets {
		if acl, ok := bySubnet[s.ID.Name]; ok {
			s.Fields.Set("/networkAclId", providers.Field{Value: providers.String(acl)})
		}
	}
}

// sorted gives the map's keys in order, so that calls and output are the same
// from run to run.
func sorted[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
