package awscluster

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// defaultRoute6 is the path of the IPv6 route to everywhere.
var defaultRoute6 = providers.Pointer("routes", anyIPv6)

func ipv6Tampers() []Tamper {
	return []Tamper{
		{
			Name: "private subnet opened to the internet by IPv6", Row: "a private subnet with an internet-gateway route", Variant: variantIPv6,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				vpc, table := &e.AWSCluster.Spec.NetworkSpec.VPC, *e.subnet("-private-b").RouteTableID
				to := func(ctx context.Context, in *ec2.ReplaceRouteInput) error {
					in.RouteTableId, in.DestinationIpv6CidrBlock = aws.String(table), aws.String(anyIPv6)
					_, err := e.EC2.ReplaceRoute(ctx, in)
					return err
				}
				if err := to(ctx, &ec2.ReplaceRouteInput{GatewayId: vpc.InternetGatewayID}); err != nil {
					return nil, fmt.Errorf("replace IPv6 route of %s: %w", table, err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindRouteTable, table, changed(defaultRoute6, *vpc.IPv6.EgressOnlyInternetGatewayID, *vpc.InternetGatewayID))},
					Undo: func(ctx context.Context) error {
						return to(ctx, &ec2.ReplaceRouteInput{EgressOnlyInternetGatewayId: vpc.IPv6.EgressOnlyInternetGatewayID})
					},
				}, nil
			},
		},
		{
			Name: "IPv6 route of a public subnet deleted", Row: "route tables", Variant: variantIPv6,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				gateway, table := *e.AWSCluster.Spec.NetworkSpec.VPC.InternetGatewayID, *e.subnet("-public-a").RouteTableID
				if _, err := e.EC2.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: aws.String(table), DestinationIpv6CidrBlock: aws.String(anyIPv6)}); err != nil {
					return nil, fmt.Errorf("delete IPv6 route of %s: %w", table, err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindRouteTable, table, removed(defaultRoute6, gateway))},
					Undo: func(ctx context.Context) error {
						_, err := e.EC2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: aws.String(table), DestinationIpv6CidrBlock: aws.String(anyIPv6), GatewayId: aws.String(gateway)})
						return err
					},
				}, nil
			},
		},
		{
			Name: "node ports shut to IPv6, SSH opened", Row: "a rule", Variant: variantIPv6,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				group := e.group(infrav1.SecurityGroupNode)
				allowAgain, err := e.deny(ctx, group, tcpFromIP6(30000, 32767, "Node Port Services"))
				if err != nil {
					return nil, err
				}
				denyAgain, err := e.allow(ctx, group, tcpFromIP6(22, 22, ""))
				return damage(both(denyAgain, allowAgain), err, e.clusterDrift(providers.KindSecurityGroup, group,
					added(ingressPath, "tcp 22-22 from ::/0"), removed(ingressPath, "tcp 30000-32767 from ::/0")))
			},
		},
		{
			Name: "IPv6 denied by the default network ACL", Row: "network ACLs", Variant: variantIPv6,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				acl, err := e.defaultACL(ctx)
				if err != nil {
					return nil, err
				}
				if _, err := e.EC2.DeleteNetworkAclEntry(ctx, &ec2.DeleteNetworkAclEntryInput{NetworkAclId: aws.String(acl), RuleNumber: aws.Int32(101), Egress: aws.Bool(false)}); err != nil {
					return nil, fmt.Errorf("delete entry of network ACL %s: %w", acl, err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindNetworkACL, acl, removed(ingressPath, "101 allow all from ::/0"))},
					Undo: func(ctx context.Context) error {
						_, err := e.EC2.CreateNetworkAclEntry(ctx, &ec2.CreateNetworkAclEntryInput{
							NetworkAclId: aws.String(acl), RuleNumber: aws.Int32(101), Protocol: aws.String("-1"), RuleAction: types.RuleActionAllow,
							Egress: aws.Bool(false), Ipv6CidrBlock: aws.String(anyIPv6),
						})
						return err
					},
				}, nil
			},
		},
		{
			Name: "IPv6 block of a subnet taken away", Row: "subnets", Variant: variantIPv6,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				sn := e.subnet("-public-c")
				out, err := e.EC2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{sn.ResourceID}})
				if err != nil {
					return nil, fmt.Errorf("describe subnet %s: %w", sn.ResourceID, err)
				}
				if _, err := e.EC2.DisassociateSubnetCidrBlock(ctx, &ec2.DisassociateSubnetCidrBlockInput{AssociationId: out.Subnets[0].Ipv6CidrBlockAssociationSet[0].AssociationId}); err != nil {
					return nil, fmt.Errorf("disassociate IPv6 block of subnet %s: %w", sn.ResourceID, err)
				}
				return &Damage{
					Findings: []Finding{e.clusterDrift(providers.KindSubnet, sn.ResourceID, removed("/ipv6CidrBlock", sn.IPv6CidrBlock))},
					Undo: func(ctx context.Context) error {
						_, err := e.EC2.AssociateSubnetCidrBlock(ctx, &ec2.AssociateSubnetCidrBlockInput{SubnetId: aws.String(sn.ResourceID), Ipv6CidrBlock: aws.String(sn.IPv6CidrBlock)})
						return err
					},
				}, nil
			},
		},
		{
			Name: "egress-only internet gateway deleted", Row: "internet gateway, egress-only gateway", Variant: variantIPv6,
			Do: func(ctx context.Context, e *Environment) (*Damage, error) {
				network := &e.AWSCluster.Spec.NetworkSpec
				gateway := *network.VPC.IPv6.EgressOnlyInternetGatewayID
				if _, err := e.EC2.DeleteEgressOnlyInternetGateway(ctx, &ec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: aws.String(gateway)}); err != nil {
					return nil, fmt.Errorf("delete egress-only internet gateway %s: %w", gateway, err)
				}
				findings := []Finding{e.clusterGone(providers.KindInternetGateway, gateway, "present", "")}
				if !e.OnMoto { // moto's routes never become black holes
					for _, sn := range network.Subnets.FilterPrivate() {
						findings = append(findings, e.clusterDrift(providers.KindRouteTable, *sn.RouteTableID, changed(defaultRoute6, gateway, "blackhole "+gateway)))
					}
				}
				return &Damage{Findings: findings}, nil
			},
		},
	}
}

func tcpFromIP6(from, to int32, text string) types.IpPermission {
	r := types.Ipv6Range{CidrIpv6: aws.String(anyIPv6)}
	if text != "" {
		r.Description = aws.String(text)
	}
	return types.IpPermission{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(from), ToPort: aws.Int32(to), Ipv6Ranges: []types.Ipv6Range{r}}
}
