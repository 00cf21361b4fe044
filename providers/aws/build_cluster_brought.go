package aws

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers/canonical"
)

// settleBrought records what a VPC and subnets that the user brought are like.
// A VPC that carries an ownership tag and is not recorded as this cluster's is
// brought too: it may be that of another cluster of the name.
func (b *building) settleBrought(ctx context.Context, a *infrav1.AWSCluster) error {
	network := &a.Spec.NetworkSpec
	if len(network.Subnets) == 0 {
		return unsupported("spec.network.subnets is empty: name the subnets of %s that the cluster is to use, by their ids", network.VPC.ID)
	}
	if settled(network) {
		return nil
	}
	found, err := b.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{network.VPC.ID}})
	switch {
	case isNotFound(err) || err == nil && len(found.Vpcs) == 0:
		return refused("spec.network.vpc.id: %s does not exist in %s", network.VPC.ID, b.region)
	case err != nil:
		return buildError(err, "read "+network.VPC.ID)
	}
	if tags := ec2TagMap(found.Vpcs[0].Tags); tags[ownerTag] == b.uid() {
		network.VPC.Tags = tags
		return b.settleManaged(ctx, a)
	}
	network.VPC.CidrBlock = deref(found.Vpcs[0].CidrBlock)
	facts, err := b.readBrought(ctx, network.VPC.ID)
	if err != nil {
		return err
	}
	for i := range network.Subnets {
		s := &network.Subnets[i]
		if why := facts.fill(s); why != "" {
			return refused("spec.network.subnets[%d]: %s", i, why)
		}
	}
	a.Status.Network.NatGatewaysIPs = facts.addresses(network.Subnets)
	return b.settleZones(ctx, network.Subnets)
}

func settled(network *infrav1.NetworkSpec) bool {
	for i := range network.Subnets {
		s := &network.Subnets[i]
		if s.ResourceID == "" || s.AvailabilityZone == "" || s.ZoneType == nil {
			return false
		}
	}
	return network.VPC.CidrBlock != ""
}

// broughtFacts is what a brought VPC has.
type broughtFacts struct {
	vpc     string
	subnets []ec2types.Subnet
	tables  []ec2types.RouteTable
	nats    []ec2types.NatGateway
}

func (b *building) readBrought(ctx context.Context, vpc string) (*broughtFacts, error) {
	out := &broughtFacts{vpc: vpc}
	in := where("vpc-id", vpc)
	err := pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := b.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: in, MaxResults: ptr(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		out.subnets = append(out.subnets, page.Subnets...)
		return page.NextToken, nil
	})
	if err != nil {
		return nil, buildError(err, "read the subnets of "+vpc)
	}
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := b.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: in, MaxResults: ptr(routeTablePage), NextToken: token})
		if err != nil {
			return nil, err
		}
		out.tables = append(out.tables, page.RouteTables...)
		return page.NextToken, nil
	})
	if err != nil {
		return nil, buildError(err, "read the route tables of "+vpc)
	}
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := b.ec2.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{Filter: in, MaxResults: ptr(pageSize), NextToken: token})
		if err != nil {
			return nil, err
		}
		out.nats = append(out.nats, page.NatGateways...)
		return page.NextToken, nil
	})
	if err != nil {
		return nil, buildError(err, "read the NAT gateways of "+vpc)
	}
	return out, nil
}

// fill records what a subnet is like: which side it is on is told by its role
// tag or by a route to an internet gateway.
func (f *broughtFacts) fill(s *infrav1.SubnetSpec) (why string) {
	subnet := f.subnet(s)
	if subnet == nil {
		return "no subnet of " + f.vpc + " has the id or the block of " + first(s.GetResourceID(), s.CidrBlock)
	}
	s.ResourceID = deref(subnet.SubnetId)
	s.AvailabilityZone = deref(subnet.AvailabilityZone)
	s.CidrBlock = deref(subnet.CidrBlock)
	for i := range subnet.Ipv6CidrBlockAssociationSet {
		x := &subnet.Ipv6CidrBlockAssociationSet[i]
		if x.Ipv6CidrBlockState == nil || holds(string(x.Ipv6CidrBlockState.State)) {
			s.IPv6CidrBlock, s.IsIPv6 = deref(x.Ipv6CidrBlock), true
		}
	}
	s.IsPublic = ec2TagMap(subnet.Tags)[infrav1.NameAWSClusterAPIRole] == infrav1.PublicRoleTagValue
	if table, own := f.tableOf(s.ResourceID); table != nil {
		if own {
			s.RouteTableID = table.RouteTableId
		}
		for i := range table.Routes {
			s.IsPublic = s.IsPublic || strings.HasPrefix(deref(table.Routes[i].GatewayId), "igw-") || deref(table.Routes[i].CarrierGatewayId) != ""
		}
	}
	for i := range f.nats {
		if n := &f.nats[i]; deref(n.SubnetId) == s.ResourceID && n.State == ec2types.NatGatewayStateAvailable {
			s.NatGatewayID = n.NatGatewayId
		}
	}
	return ""
}

func (f *broughtFacts) subnet(s *infrav1.SubnetSpec) *ec2types.Subnet {
	for i := range f.subnets {
		if id := s.GetResourceID(); isSubnetID(id) && deref(f.subnets[i].SubnetId) == id {
			return &f.subnets[i]
		}
	}
	block, err := canonical.CIDR(s.CidrBlock)
	for i := range f.subnets {
		if err == nil && !isSubnetID(s.GetResourceID()) && canonicalCIDR(deref(f.subnets[i].CidrBlock)) == block {
			return &f.subnets[i]
		}
	}
	return nil
}

// tableOf gives the table that a subnet names, or the main one, which it then
// inherits.
func (f *broughtFacts) tableOf(subnet string) (table *ec2types.RouteTable, own bool) {
	for i := range f.tables {
		for j := range f.tables[i].Associations {
			a := &f.tables[i].Associations[j]
			if deref(a.SubnetId) == subnet {
				return &f.tables[i], true
			}
			if deref(a.Main) {
				table = &f.tables[i]
			}
		}
	}
	return table, false
}

// addresses are those of the NAT gateways that the cluster's machines go
// through.
func (f *broughtFacts) addresses(subnets infrav1.Subnets) (out []string) {
	for i := range subnets {
		for j := range f.nats {
			n := &f.nats[j]
			if subnets[i].NatGatewayID == nil || deref(n.NatGatewayId) != *subnets[i].NatGatewayID {
				continue
			}
			for k := range n.NatGatewayAddresses {
				if ip := deref(n.NatGatewayAddresses[k].PublicIp); ip != "" {
					out = append(out, ip)
					break
				}
			}
		}
	}
	return out
}
