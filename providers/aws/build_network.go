package aws

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// lowest gives the first of some ids, so that everybody chooses the same one of
// several; empty if there are none.
func lowest(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return slices.Min(ids)
}

// createVPC tells what an earlier call made by its owner tag.
func (b *building) createVPC(ctx context.Context, c *providers.Creation) (string, error) {
	block := c.Want.Fields.Get(pathCIDR).Value.Text()
	return b.makeOnce(ctx, func() (string, error) {
		found, err := b.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: where("tag:"+ownerTag, b.uid())})
		if err != nil {
			return "", buildError(err, "look for the VPC")
		}
		var ids []string
		for i := range found.Vpcs {
			ids = append(ids, deref(found.Vpcs[i].VpcId))
		}
		return lowest(ids), nil
	}, func() (string, error) {
		out, err := b.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{
			CidrBlock: &block, TagSpecifications: tagSpec(ec2types.ResourceTypeVpc, b.tagsOfWant(c.Want)),
		}, once)
		if err != nil {
			return "", buildError(err, "make the VPC "+block)
		}
		return deref(out.Vpc.VpcId), nil
	})
}

// createSubnet finds what an earlier call made by its block: blocks of a VPC do
// not overlap.
func (b *building) createSubnet(ctx context.Context, c *providers.Creation) (string, error) {
	vpc, block := c.Want.Fields.Get(pathVPCID).Value.Text(), c.Want.Fields.Get(pathCIDR).Value.Text()
	subnet, err := b.subnetWith(ctx, vpc, block)
	if err != nil {
		return "", err
	}
	if subnet == nil {
		out, err := b.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: &vpc, CidrBlock: &block, AvailabilityZone: ptr(c.Want.Fields.Get(pathZone).Value.Text()),
			TagSpecifications: tagSpec(ec2types.ResourceTypeSubnet, b.tagsOfWant(c.Want)),
		})
		switch {
		case err == nil:
			subnet = out.Subnet
		case apiCode(err) != "InvalidSubnet.Conflict":
			return "", buildError(err, "make "+c.Want.Name+" "+block)
		default: // perhaps with itself
			var again error
			if subnet, again = b.subnetWith(ctx, vpc, block); again != nil || subnet == nil {
				return "", cmp.Or(again, buildError(err, "make "+c.Want.Name+" "+block))
			}
		}
	}
	id := deref(subnet.SubnetId)
	kind := ec2types.HostnameType(deref(b.view().vpc().PrivateDNSHostnameTypeOnLaunch))
	if now := subnet.PrivateDnsNameOptionsOnLaunch; kind == "" || now != nil && now.HostnameType == kind {
		return id, nil
	}
	_, err = b.ec2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{SubnetId: &id, PrivateDnsHostnameTypeOnLaunch: kind})
	if err != nil {
		return "", buildError(err, "set the type of host names of "+id)
	}
	return id, nil
}

// subnetWith gives the subnet of a VPC with a block, nil if there is none;
// another cluster's is refused.
func (b *building) subnetWith(ctx context.Context, vpc, block string) (*ec2types.Subnet, error) {
	found, err := b.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: where("vpc-id", vpc, "cidr-block", block)})
	if err != nil {
		return nil, buildError(err, "look for the subnet "+block)
	}
	if len(found.Subnets) == 0 {
		return nil, nil //nolint:nilnil // none is no error
	}
	s := &found.Subnets[0]
	tags := ec2TagMap(s.Tags)
	mine, err := b.mineInVPC(ctx, tags, vpc)
	if err != nil {
		return nil, err
	}
	if !mine {
		return nil, foreign("%s has the block %s in %s, and it belongs to %s: choose another one in spec.network.subnets[].cidrBlock", deref(s.SubnetId), block, vpc, whose(tags))
	}
	return s, nil
}

// createGateway makes an internet gateway, which is attached when its fields
// are set. An egress-only one is made in its VPC.
func (b *building) createGateway(ctx context.Context, c *providers.Creation) (string, error) {
	vpc := c.Want.Fields.Get(pathVPCID).Value.Text()
	if c.Want.Fields.Get(pathEgressOnly).Value.Equal(providers.Bool(true)) {
		return b.createEgressOnly(ctx, c, vpc)
	}
	return b.makeOnce(ctx, func() (string, error) { return b.gateway(ctx, vpc) }, func() (string, error) {
		out, err := b.ec2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{
			TagSpecifications: tagSpec(ec2types.ResourceTypeInternetGateway, b.tagsOfWant(c.Want)),
		}, once)
		if err != nil {
			return "", buildError(err, "make the internet gateway")
		}
		return deref(out.InternetGateway.InternetGatewayId), nil
	})
}

// gateway gives the VPC's internet gateway, or the one that is to be attached to
// it; empty if there is none.
func (b *building) gateway(ctx context.Context, vpc string) (string, error) {
	for _, filters := range [][]ec2types.Filter{where("attachment.vpc-id", vpc), where("tag:"+ownerTag, b.uid())} {
		found, err := b.ec2.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{Filters: filters})
		if err != nil {
			return "", buildError(err, "look for the internet gateway")
		}
		var ids []string
		for i := range found.InternetGateways {
			ids = append(ids, deref(found.InternetGateways[i].InternetGatewayId))
		}
		if len(ids) > 0 {
			return lowest(ids), nil
		}
	}
	return "", nil
}

func (b *building) createEgressOnly(ctx context.Context, c *providers.Creation, vpc string) (string, error) {
	out, err := b.ec2.CreateEgressOnlyInternetGateway(ctx, &ec2.CreateEgressOnlyInternetGatewayInput{
		VpcId: &vpc, ClientToken: &c.Token,
		TagSpecifications: tagSpec(ec2types.ResourceTypeEgressOnlyInternetGateway, b.tagsOfWant(c.Want)),
	})
	if err != nil {
		return "", buildError(err, "make the egress-only internet gateway")
	}
	return deref(out.EgressOnlyInternetGateway.EgressOnlyInternetGatewayId), nil
}

// createNAT makes a NAT gateway with an Elastic IP of its own.
func (b *building) createNAT(ctx context.Context, c *providers.Creation) (string, error) {
	subnet, what := c.Want.Fields.Get(pathSubnetID).Value.Text(), "make the NAT gateway in "+c.Want.Fields.Get(pathSubnetID).Value.Text()
	found, err := b.ec2.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{Filter: where("subnet-id", subnet)})
	if err != nil {
		return "", buildError(err, "look for the NAT gateway in "+subnet)
	}
	var living []string
	failed := 0
	for i := range found.NatGateways {
		n := &found.NatGateways[i]
		mine, err := b.mineInVPC(ctx, ec2TagMap(n.Tags), deref(n.VpcId))
		if err != nil {
			return "", err
		}
		switch {
		case !mine:
		case n.State == ec2types.NatGatewayStatePending || n.State == ec2types.NatGatewayStateAvailable:
			living = append(living, deref(n.NatGatewayId))
		case n.State == ec2types.NatGatewayStateFailed:
			failed++
		}
	}
	if len(living) > 0 {
		return lowest(living), nil
	}
	address, err := b.address(ctx, c)
	if err != nil {
		return "", err
	}
	// EC2 gives the gateway of a token again, also one that has failed.
	token := c.Token
	if failed > 0 {
		token += "-" + strconv.FormatInt(int64(failed), 16)
	}
	out, err := b.ec2.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{
		SubnetId: &subnet, AllocationId: &address, ClientToken: &token,
		TagSpecifications: tagSpec(ec2types.ResourceTypeNatgateway, b.tagsOfWant(c.Want)),
	})
	if err != nil {
		return "", buildError(err, what)
	}
	return deref(out.NatGateway.NatGatewayId), nil
}

// createTable makes a route table. Routes and associations are set after it.
func (b *building) createTable(ctx context.Context, c *providers.Creation) (string, error) {
	vpc := c.Want.Fields.Get(pathVPCID).Value.Text()
	tags := b.tagsOfWant(c.Want)
	tags[madeForTag] = c.Token
	found, err := b.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: where("vpc-id", vpc, "tag:"+madeForTag, c.Token)})
	if err != nil {
		return "", buildError(err, "look for the route table")
	}
	var ids []string
	for i := range found.RouteTables {
		ids = append(ids, deref(found.RouteTables[i].RouteTableId))
	}
	if len(ids) > 0 {
		return lowest(ids), nil
	}
	out, err := b.ec2.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{
		VpcId: &vpc, ClientToken: &c.Token, TagSpecifications: tagSpec(ec2types.ResourceTypeRouteTable, tags),
	})
	if err != nil {
		return "", buildError(err, "make "+c.Want.Name)
	}
	return deref(out.RouteTable.RouteTableId), nil
}

// createGroup makes a security group as it is born: its rules are set after it.
func (b *building) createGroup(ctx context.Context, c *providers.Creation) (string, error) {
	vpc, name := c.Want.Fields.Get(pathVPCID).Value.Text(), c.Want.Name
	id, err := b.groupNamed(ctx, vpc, name)
	if err != nil || id != "" {
		return id, err
	}
	out, err := b.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		VpcId: &vpc, GroupName: &name,
		Description:       ptr("Kubernetes cluster " + b.owner.Cluster.Name + ": " + roleOf(b.owner, c.Want.ID)),
		TagSpecifications: tagSpec(ec2types.ResourceTypeSecurityGroup, b.tagsOfWant(c.Want)),
	})
	if apiCode(err) == "InvalidGroup.Duplicate" {
		if id, again := b.groupNamed(ctx, vpc, name); again != nil || id != "" {
			return id, again
		}
	}
	if err != nil {
		return "", buildError(err, "make the security group "+name)
	}
	return deref(out.GroupId), nil
}

// groupNamed gives the group of a VPC with a name, which no other has; another
// cluster's is refused.
func (b *building) groupNamed(ctx context.Context, vpc, name string) (string, error) {
	found, err := b.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: where("vpc-id", vpc, "group-name", name)})
	if err != nil {
		return "", buildError(err, "look for the security group "+name)
	}
	if len(found.SecurityGroups) == 0 {
		return "", nil
	}
	id, tags := deref(found.SecurityGroups[0].GroupId), ec2TagMap(found.SecurityGroups[0].Tags)
	mine, err := b.mineInVPC(ctx, tags, vpc)
	if err != nil {
		return "", err
	}
	if !mine {
		return "", foreign("the security group %s of %s is %s, which belongs to %s: give this cluster another name, or groups of its own in spec.network.securityGroupOverrides", name, vpc, id, whose(tags))
	}
	return id, nil
}
