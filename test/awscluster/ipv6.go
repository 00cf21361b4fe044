package awscluster

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

const anyIPv6 = "::/0"

// vpcBlock6 records the block that Amazon has given the VPC. CAPA looks for it
// after the VPC is made, for the answer to CreateVpc does not have it yet.
func (b *builder) vpcBlock6(ctx context.Context) error {
	vpc := &b.env.AWSCluster.Spec.NetworkSpec.VPC
	if !vpc.IsIPv6Enabled() {
		return nil
	}
	out, err := b.EC2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{vpc.ID}})
	if err != nil {
		return fmt.Errorf("find IPv6 block of VPC %s: %w", vpc.ID, err)
	}
	for _, a := range out.Vpcs[0].Ipv6CidrBlockAssociationSet {
		if a.Ipv6CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated {
			vpc.IPv6 = &infrav1.IPv6{CidrBlock: aws.ToString(a.Ipv6CidrBlock), PoolID: aws.ToString(a.Ipv6Pool)}
			return b.acl6(ctx, vpc.ID)
		}
	}
	return fmt.Errorf("VPC %s has no IPv6 block", vpc.ID)
}

// acl6 adds the entries that EC2 itself adds to a VPC's default network ACL
// with an IPv6 block (VPC user guide, "Default network ACL"), and moto does
// not.
func (b *builder) acl6(ctx context.Context, vpcID string) error {
	if !b.env.OnMoto {
		return nil
	}
	acl, err := b.env.defaultACL(ctx)
	if err != nil {
		return err
	}
	for _, egress := range []bool{false, true} {
		for number, action := range map[int32]types.RuleAction{101: types.RuleActionAllow, 32768: types.RuleActionDeny} {
			if _, err := b.EC2.CreateNetworkAclEntry(ctx, &ec2.CreateNetworkAclEntryInput{
				NetworkAclId: aws.String(acl), RuleNumber: aws.Int32(number), Protocol: aws.String("-1"), RuleAction: action,
				Egress: aws.Bool(egress), Ipv6CidrBlock: aws.String(anyIPv6),
			}); err != nil {
				return fmt.Errorf("add IPv6 entries to network ACL of VPC %s: %w", vpcID, err)
			}
		}
	}
	return nil
}

// subnetBlocks6 gives each subnet that asks for one a /64 of the VPC's block.
func (b *builder) subnetBlocks6() error {
	network := &b.env.AWSCluster.Spec.NetworkSpec
	if !network.VPC.IsIPv6Enabled() {
		return nil
	}
	block, err := netip.ParsePrefix(network.VPC.IPv6.CidrBlock)
	if err != nil {
		return fmt.Errorf("IPv6 block of VPC %s: %w", network.VPC.ID, err)
	}
	const subnetBits = 64
	for i := range network.Subnets {
		if sn := &network.Subnets[i]; sn.IsIPv6 && sn.IPv6CidrBlock == "" {
			raw := block.Masked().Addr().As16()
			raw[subnetBits/8-1] += byte(i)
			sn.IPv6CidrBlock = netip.PrefixFrom(netip.AddrFrom16(raw), subnetBits).String()
		}
	}
	return nil
}

func (b *builder) egressOnlyGateway(ctx context.Context) error {
	vpc := &b.env.AWSCluster.Spec.NetworkSpec.VPC
	if !vpc.IsIPv6Enabled() {
		return nil
	}
	out, err := b.EC2.CreateEgressOnlyInternetGateway(ctx, &ec2.CreateEgressOnlyInternetGatewayInput{
		VpcId:             aws.String(vpc.ID),
		TagSpecifications: tagSpec(types.ResourceTypeEgressOnlyInternetGateway, b.clusterTags(b.Name+"-eigw", infrav1.CommonRoleTagValue, nil)),
	})
	if err != nil {
		return fmt.Errorf("create egress-only internet gateway: %w", err)
	}
	vpc.IPv6.EgressOnlyInternetGatewayID = out.EgressOnlyInternetGateway.EgressOnlyInternetGatewayId
	return nil
}

// defaultRoute6 leads out of a public subnet by the internet gateway, and out
// of a private one by the egress-only one.
func (b *builder) defaultRoute6(ctx context.Context, network *infrav1.NetworkSpec, sn *infrav1.SubnetSpec) error {
	if !sn.IsIPv6 {
		return nil
	}
	route := &ec2.CreateRouteInput{RouteTableId: sn.RouteTableID, DestinationIpv6CidrBlock: aws.String(anyIPv6)}
	if sn.IsPublic {
		route.GatewayId = network.VPC.InternetGatewayID
	} else {
		route.EgressOnlyInternetGatewayId = network.VPC.IPv6.EgressOnlyInternetGatewayID
	}
	if _, err := b.EC2.CreateRoute(ctx, route); err != nil {
		return fmt.Errorf("add default route for IPv6: %w", err)
	}
	return nil
}

// addressType is that of the load balancers of the cluster; empty is EC2's own
// default.
func (b *builder) addressType() elbv2types.IpAddressType {
	if b.env.AWSCluster.Spec.NetworkSpec.VPC.IsIPv6Enabled() {
		return elbv2types.IpAddressTypeDualstack
	}
	return ""
}

// targetAddressType is IPv6 where every private subnet has IPv6. CAPA then
// asks for a primary IPv6 address for the machines as well, which simulators
// do not know and nobody compares.
func (b *builder) targetAddressType() elbv2types.TargetGroupIpAddressTypeEnum {
	network := &b.env.AWSCluster.Spec.NetworkSpec
	if !network.VPC.IsIPv6Enabled() {
		return elbv2types.TargetGroupIpAddressTypeEnumIpv4
	}
	for _, sn := range network.Subnets.FilterPrivate() {
		if !sn.IsIPv6 {
			return elbv2types.TargetGroupIpAddressTypeEnumIpv4
		}
	}
	return elbv2types.TargetGroupIpAddressTypeEnumIpv6
}
