package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

const anyIPv4 = "0.0.0.0/0"

// network makes VPC, subnets, gateways and route tables, in CAPA's order, and
// records them in the AWSCluster as CAPA does.
func (b *builder) network(ctx context.Context) error {
	steps := []func(context.Context) error{
		b.vpc, b.subnets, b.internetGateway, b.egressOnlyGateway, b.natGateways, b.routeTables,
	}
	if b.brought() {
		steps = []func(context.Context) error{b.adoptNetwork}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) vpc(ctx context.Context) error {
	vpc := &b.env.AWSCluster.Spec.NetworkSpec.VPC
	if vpc.CidrBlock == "" {
		vpc.CidrBlock = "10.0.0.0/16"
	}
	tags := b.clusterTags(b.Name+"-vpc", infrav1.CommonRoleTagValue, nil)
	out, err := b.EC2.CreateVpc(ctx, &ec2.CreateVpcInput{
		CidrBlock:                   aws.String(vpc.CidrBlock),
		AmazonProvidedIpv6CidrBlock: aws.Bool(vpc.IsIPv6Enabled()),
		TagSpecifications:           tagSpec(types.ResourceTypeVpc, tags),
	})
	if err != nil {
		return fmt.Errorf("create VPC %s: %w", vpc.CidrBlock, err)
	}
	vpc.ID, vpc.Tags = aws.ToString(out.Vpc.VpcId), tags
	if err := ec2.NewVpcAvailableWaiter(b.EC2, func(o *ec2.VpcAvailableWaiterOptions) {
		o.MinDelay, o.MaxDelay = b.poll, b.poll
	}).Wait(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{vpc.ID}}, b.patience); err != nil {
		return fmt.Errorf("wait for VPC %s: %w", vpc.ID, err)
	}
	// EC2 takes one attribute a call.
	for _, in := range []*ec2.ModifyVpcAttributeInput{
		{VpcId: &vpc.ID, EnableDnsHostnames: &types.AttributeBooleanValue{Value: aws.Bool(true)}},
		{VpcId: &vpc.ID, EnableDnsSupport: &types.AttributeBooleanValue{Value: aws.Bool(true)}},
	} {
		if _, err := b.EC2.ModifyVpcAttribute(ctx, in); err != nil {
			return fmt.Errorf("set DNS attributes of VPC %s: %w", vpc.ID, err)
		}
	}
	return b.vpcBlock6(ctx)
}

func (b *builder) subnets(ctx context.Context) error {
	network := &b.env.AWSCluster.Spec.NetworkSpec
	if err := b.subnetBlocks6(); err != nil {
		return err
	}
	for i := range network.Subnets {
		if err := b.subnet(ctx, network.VPC.ID, &network.Subnets[i]); err != nil {
			return fmt.Errorf("create subnet %s: %w", network.Subnets[i].ID, err)
		}
	}
	return nil
}

func (b *builder) subnet(ctx context.Context, vpcID string, sn *infrav1.SubnetSpec) error {
	// In a manifest the id is the name that the subnet is to have.
	sn.Tags = infrav1.Tags{"Name": sn.ID}
	role, elbTag := infrav1.PrivateRoleTagValue, tagInternalELB
	if sn.IsPublic {
		role, elbTag = infrav1.PublicRoleTagValue, tagExternalELB
	}
	extra := b.cloudProviderOwned()
	extra[elbTag] = "1"
	in := &ec2.CreateSubnetInput{
		VpcId:             aws.String(vpcID),
		CidrBlock:         aws.String(sn.CidrBlock),
		AvailabilityZone:  aws.String(sn.AvailabilityZone),
		TagSpecifications: tagSpec(types.ResourceTypeSubnet, b.clusterTags(sn.ID, role, extra)),
	}
	if sn.IsIPv6 {
		in.Ipv6CidrBlock = aws.String(sn.IPv6CidrBlock)
	}
	out, err := b.EC2.CreateSubnet(ctx, in)
	if err != nil {
		return err
	}
	sn.ResourceID = aws.ToString(out.Subnet.SubnetId)
	zone := infrav1.ZoneTypeAvailabilityZone
	sn.ZoneType = &zone
	if err := ec2.NewSubnetAvailableWaiter(b.EC2, func(o *ec2.SubnetAvailableWaiterOptions) {
		o.MinDelay, o.MaxDelay = b.poll, b.poll
	}).Wait(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{sn.ResourceID}}, b.patience); err != nil {
		return err
	}
	if sn.IsIPv6 {
		if _, err := b.EC2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{
			SubnetId:                    aws.String(sn.ResourceID),
			AssignIpv6AddressOnCreation: &types.AttributeBooleanValue{Value: aws.Bool(true)},
		}); err != nil {
			return err
		}
	}
	if !sn.IsPublic {
		return nil
	}
	_, err = b.EC2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{
		SubnetId:            aws.String(sn.ResourceID),
		MapPublicIpOnLaunch: &types.AttributeBooleanValue{Value: aws.Bool(true)},
	})
	return err
}

func (b *builder) internetGateway(ctx context.Context) error {
	vpc := &b.env.AWSCluster.Spec.NetworkSpec.VPC
	out, err := b.EC2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{
		TagSpecifications: tagSpec(types.ResourceTypeInternetGateway, b.clusterTags(b.Name+"-igw", infrav1.CommonRoleTagValue, nil)),
	})
	if err != nil {
		return fmt.Errorf("create internet gateway: %w", err)
	}
	vpc.InternetGatewayID = out.InternetGateway.InternetGatewayId
	if _, err := b.EC2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{
		InternetGatewayId: vpc.InternetGatewayID, VpcId: aws.String(vpc.ID),
	}); err != nil {
		return fmt.Errorf("attach internet gateway %s: %w", *vpc.InternetGatewayID, err)
	}
	return nil
}

// natGateways makes one in the first public subnet of each zone that has
// private subnets.
func (b *builder) natGateways(ctx context.Context) error {
	network := &b.env.AWSCluster.Spec.NetworkSpec
	needed := map[string]bool{}
	for _, sn := range network.Subnets.FilterPrivate() {
		needed[sn.AvailabilityZone] = true
	}
	for i := range network.Subnets {
		sn := &network.Subnets[i]
		if !sn.IsPublic || !needed[sn.AvailabilityZone] {
			continue
		}
		needed[sn.AvailabilityZone] = false
		address, err := b.natGateway(ctx, sn)
		if err != nil {
			return fmt.Errorf("create NAT gateway in subnet %s: %w", sn.ID, err)
		}
		status := &b.env.AWSCluster.Status.Network
		status.NatGatewaysIPs = append(status.NatGatewaysIPs, address)
	}
	return nil
}

func (b *builder) natGateway(ctx context.Context, sn *infrav1.SubnetSpec) (address string, err error) {
	eip, err := b.EC2.AllocateAddress(ctx, &ec2.AllocateAddressInput{
		Domain: types.DomainTypeVpc,
		TagSpecifications: tagSpec(types.ResourceTypeElasticIp,
			b.clusterTags(b.Name+"-eip-"+infrav1.CommonRoleTagValue, infrav1.CommonRoleTagValue, nil)),
	})
	if err != nil {
		return "", fmt.Errorf("allocate address: %w", err)
	}
	out, err := b.EC2.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{
		SubnetId:          aws.String(sn.ResourceID),
		AllocationId:      eip.AllocationId,
		TagSpecifications: tagSpec(types.ResourceTypeNatgateway, b.clusterTags(b.Name+"-nat", infrav1.CommonRoleTagValue, nil)),
	})
	if err != nil {
		return "", err
	}
	sn.NatGatewayID = out.NatGateway.NatGatewayId
	err = ec2.NewNatGatewayAvailableWaiter(b.EC2, func(o *ec2.NatGatewayAvailableWaiterOptions) {
		o.MinDelay, o.MaxDelay = b.poll, b.poll
	}).Wait(ctx, &ec2.DescribeNatGatewaysInput{NatGatewayIds: []string{*sn.NatGatewayID}}, b.patience)
	return aws.ToString(eip.PublicIp), err
}

// routeTables makes one for each subnet: public ones lead to the internet
// gateway, private ones to their zone's NAT gateway.
func (b *builder) routeTables(ctx context.Context) error {
	network := &b.env.AWSCluster.Spec.NetworkSpec
	for i := range network.Subnets {
		if err := b.routeTable(ctx, network, &network.Subnets[i]); err != nil {
			return fmt.Errorf("create route table of subnet %s: %w", network.Subnets[i].ID, err)
		}
	}
	return nil
}

func (b *builder) routeTable(ctx context.Context, network *infrav1.NetworkSpec, sn *infrav1.SubnetSpec) error {
	route := &ec2.CreateRouteInput{DestinationCidrBlock: aws.String(anyIPv4)}
	side := "private"
	if sn.IsPublic {
		side = "public"
		route.GatewayId = network.VPC.InternetGatewayID
	} else {
		for _, public := range network.Subnets.FilterPublic().FilterByZone(sn.AvailabilityZone) {
			if public.NatGatewayID != nil {
				route.NatGatewayId = public.NatGatewayID
				break
			}
		}
		if route.NatGatewayId == nil {
			return fmt.Errorf("zone %s has no NAT gateway: it needs a public subnet", sn.AvailabilityZone)
		}
	}
	name := fmt.Sprintf("%s-rt-%s-%s", b.Name, side, sn.AvailabilityZone)
	out, err := b.EC2.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{
		VpcId:             aws.String(network.VPC.ID),
		TagSpecifications: tagSpec(types.ResourceTypeRouteTable, b.clusterTags(name, infrav1.CommonRoleTagValue, b.cloudProviderOwned())),
	})
	if err != nil {
		return err
	}
	sn.RouteTableID = out.RouteTable.RouteTableId
	route.RouteTableId = sn.RouteTableID
	if _, err := b.EC2.CreateRoute(ctx, route); err != nil {
		return fmt.Errorf("add default route: %w", err)
	}
	if err := b.defaultRoute6(ctx, network, sn); err != nil {
		return err
	}
	_, err = b.EC2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{
		RouteTableId: sn.RouteTableID, SubnetId: aws.String(sn.ResourceID),
	})
	return err
}
