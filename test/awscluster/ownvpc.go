package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// brought reports whether the user brought the VPC: the manifest names it, and
// it does not carry the cluster's ownership tag.
func (b *builder) brought() bool {
	vpc := &b.env.AWSCluster.Spec.NetworkSpec.VPC
	return vpc.ID != "" && vpc.IsUnmanaged(b.Name)
}

// bringNetwork makes the manifest's network as another tool of the user's
// would, with that tool's names and tags and one route table for each side and
// zone, and has the manifest name what it made.
func (b *builder) bringNetwork(ctx context.Context) error {
	network := &b.env.AWSCluster.Spec.NetworkSpec
	theirs := func(kind types.ResourceType, name string) []types.TagSpecification {
		return tagSpec(kind, map[string]string{"Name": name, "managed-by": "terraform"})
	}
	block := network.VPC.CidrBlock
	vpc, err := b.EC2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String(block), TagSpecifications: theirs(types.ResourceTypeVpc, "shared")})
	if err != nil {
		return fmt.Errorf("create VPC %s: %w", block, err)
	}
	network.VPC = infrav1.VPCSpec{ID: aws.ToString(vpc.Vpc.VpcId)}
	gateway, err := b.EC2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{TagSpecifications: theirs(types.ResourceTypeInternetGateway, "shared")})
	if err != nil {
		return fmt.Errorf("create internet gateway: %w", err)
	}
	if _, err := b.EC2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{
		InternetGatewayId: gateway.InternetGateway.InternetGatewayId, VpcId: vpc.Vpc.VpcId,
	}); err != nil {
		return fmt.Errorf("attach internet gateway: %w", err)
	}
	nats := map[string]*string{} // by zone
	made := make(infrav1.Subnets, len(network.Subnets))
	for _, public := range []bool{true, false} { // private ones lead to what stands in public ones
		for i := range network.Subnets {
			sn := &network.Subnets[i]
			if sn.IsPublic != public {
				continue
			}
			id, err := b.bringSubnet(ctx, sn, vpc.Vpc.VpcId, gateway.InternetGateway.InternetGatewayId, nats, theirs)
			if err != nil {
				return fmt.Errorf("subnet %s: %w", sn.CidrBlock, err)
			}
			made[i] = infrav1.SubnetSpec{ID: id} // all that such a user writes
		}
	}
	network.Subnets = made
	return nil
}

// bringSubnet makes one subnet with its way out, and gives its id.
func (b *builder) bringSubnet(ctx context.Context, sn *infrav1.SubnetSpec, vpc, gateway *string, nats map[string]*string, theirs func(types.ResourceType, string) []types.TagSpecification) (string, error) {
	name := sn.ID
	out, err := b.EC2.CreateSubnet(ctx, &ec2.CreateSubnetInput{
		VpcId: vpc, CidrBlock: aws.String(sn.CidrBlock), AvailabilityZone: aws.String(sn.AvailabilityZone),
		TagSpecifications: theirs(types.ResourceTypeSubnet, name),
	})
	if err != nil {
		return "", err
	}
	route := &ec2.CreateRouteInput{DestinationCidrBlock: aws.String(anyIPv4), GatewayId: gateway}
	if !sn.IsPublic {
		route.GatewayId, route.NatGatewayId = nil, nats[sn.AvailabilityZone]
	}
	table, err := b.EC2.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: vpc, TagSpecifications: theirs(types.ResourceTypeRouteTable, name)})
	if err != nil {
		return "", fmt.Errorf("create route table: %w", err)
	}
	route.RouteTableId = table.RouteTable.RouteTableId
	if _, err := b.EC2.CreateRoute(ctx, route); err != nil {
		return "", fmt.Errorf("add default route: %w", err)
	}
	if _, err := b.EC2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{RouteTableId: route.RouteTableId, SubnetId: out.Subnet.SubnetId}); err != nil {
		return "", fmt.Errorf("associate route table: %w", err)
	}
	if sn.IsPublic && nats[sn.AvailabilityZone] == nil {
		eip, err := b.EC2.AllocateAddress(ctx, &ec2.AllocateAddressInput{Domain: types.DomainTypeVpc})
		if err != nil {
			return "", fmt.Errorf("allocate address: %w", err)
		}
		nat, err := b.EC2.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{
			SubnetId: out.Subnet.SubnetId, AllocationId: eip.AllocationId, TagSpecifications: theirs(types.ResourceTypeNatgateway, name),
		})
		if err != nil {
			return "", fmt.Errorf("create NAT gateway: %w", err)
		}
		nats[sn.AvailabilityZone] = nat.NatGateway.NatGatewayId
		if err := ec2.NewNatGatewayAvailableWaiter(b.EC2, func(o *ec2.NatGatewayAvailableWaiterOptions) {
			o.MinDelay, o.MaxDelay = b.poll, b.poll
		}).Wait(ctx, &ec2.DescribeNatGatewaysInput{NatGatewayIds: []string{*nat.NatGateway.NatGatewayId}}, b.patience); err != nil {
			return "", fmt.Errorf("wait for NAT gateway: %w", err)
		}
	}
	return aws.ToString(out.Subnet.SubnetId), nil
}

// adoptNetwork writes into the AWSCluster what CAPA learns of a network that it
// does not keep: blocks, zones, which side a subnet is on by its route, and the
// NAT gateways with their addresses. It tags none of it.
func (b *builder) adoptNetwork(ctx context.Context) error {
	network := &b.env.AWSCluster.Spec.NetworkSpec
	vpcs, err := b.EC2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{network.VPC.ID}})
	if err != nil {
		return fmt.Errorf("find VPC %s: %w", network.VPC.ID, err)
	}
	network.VPC.CidrBlock = aws.ToString(vpcs.Vpcs[0].CidrBlock)
	inVPC := []types.Filter{{Name: aws.String("vpc-id"), Values: []string{network.VPC.ID}}}
	tables, err := b.EC2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: inVPC})
	if err != nil {
		return fmt.Errorf("find route tables of VPC %s: %w", network.VPC.ID, err)
	}
	nats, err := b.EC2.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{Filter: inVPC})
	if err != nil {
		return fmt.Errorf("find NAT gateways of VPC %s: %w", network.VPC.ID, err)
	}
	for i := range network.Subnets {
		sn := &network.Subnets[i]
		out, err := b.EC2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{sn.ID}})
		if err != nil {
			return fmt.Errorf("find subnet %s: %w", sn.ID, err)
		}
		zone := infrav1.ZoneTypeAvailabilityZone
		sn.ResourceID, sn.ZoneType = sn.ID, &zone
		sn.CidrBlock, sn.AvailabilityZone = aws.ToString(out.Subnets[0].CidrBlock), aws.ToString(out.Subnets[0].AvailabilityZone)
		for t := range tables.RouteTables {
			adoptTable(sn, &tables.RouteTables[t])
		}
	}
	for i := range nats.NatGateways {
		nat := &nats.NatGateways[i]
		if sn := network.Subnets.FindByID(aws.ToString(nat.SubnetId)); sn != nil {
			sn.NatGatewayID = nat.NatGatewayId
		}
		status := &b.env.AWSCluster.Status.Network
		status.NatGatewaysIPs = append(status.NatGatewaysIPs, aws.ToString(nat.NatGatewayAddresses[0].PublicIp))
	}
	return nil
}

// adoptTable learns from a route table that a subnet uses.
func adoptTable(sn *infrav1.SubnetSpec, table *types.RouteTable) {
	for _, a := range table.Associations {
		if aws.ToString(a.SubnetId) != sn.ResourceID {
			continue
		}
		sn.RouteTableID = table.RouteTableId
		for _, r := range table.Routes {
			if id := aws.ToString(r.GatewayId); len(id) > 4 && id[:4] == "igw-" {
				sn.IsPublic = true
			}
		}
	}
}
